"""Kubernetes' remote command protocol, versions 4 and 5 and the first, between a WebSocket and a process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import msgspec

from strato.http.websocket import WebSocket, first_of
from strato.server.streams import CLOSE, RESIZE, STATUS, STDERR, STDIN, STDOUT, Channels, StreamOptions

PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io", "channel.k8s.io", "")
"""Subprotocols by preference; an empty one is for a client that names none, and means the first version."""
_DATA_BYTES = 32 * 1024
"""Longest piece of input that is passed to the process at a time."""
_SIZE_BYTES = 1024
"""Longest message with the size of a terminal."""


async def carry(
    channels: Channels, options: StreamOptions, socket: WebSocket, *, protocol: str, ends_well: bool
) -> None:
    """Copy messages in both directions until the process has ended or the client is gone.

    Args:
        channels: The process's streams.
        options: The streams that the client asked for.
        socket: The client's WebSocket.
        protocol: One of `PROTOCOLS`; with version 5 a client can end its input.
        ends_well: Whether a process that ends without a status has succeeded.
    """
    try:
        await socket.send(bytes((STDOUT if options.stdout else STDERR if options.stderr else STATUS,)))
        inward = _inward(channels, options, socket, can_close=protocol == PROTOCOLS[0])
        write_status = _status_text if protocol in PROTOCOLS[2:] else _status_json
        await first_of(inward, _outward(channels, socket, write_status, ends_well=ends_well))
    finally:
        channels.close()


async def _inward(channels: Channels, options: StreamOptions, socket: WebSocket, *, can_close: bool) -> None:
    """Pass the client's messages to the process until the client is gone."""
    channel, held = -1, b""
    while (part := await socket.receive()) is not None:
        data = part.data
        if part.is_first:
            channel, data, held = (data[0] if data else -1), data[1:], b""
        if channel == STDIN and options.stdin:
            for start in range(0, len(data), _DATA_BYTES):
                await channels.send(bytes((STDIN,)) + data[start : start + _DATA_BYTES])
        elif channel in (RESIZE, CLOSE):
            held = (held + data)[: _SIZE_BYTES + 1]
            if part.is_last and channel == CLOSE and can_close and options.stdin and held == bytes((STDIN,)):
                await channels.send(bytes((CLOSE, STDIN)))
            elif part.is_last and channel == RESIZE and options.tty and (size := _size(held)):
                await channels.send(bytes((RESIZE,)) + size)


async def _outward(
    channels: Channels, socket: WebSocket, write_status: Callable[[dict[str, Any]], bytes], *, ends_well: bool
) -> None:
    """Pass the process's output to the client until the process has ended, then send its status."""
    message = b""
    while (message := await channels.receive()) and message[0] != STATUS:
        await socket.send(message)
    ending = msgspec.json.decode(message[1:]) if message else {"error": "" if ends_well else "its node is gone"}
    await socket.send(bytes((STATUS,)) + write_status(_status(ending)))
    await socket.close()


def _status_json(status: dict[str, Any]) -> bytes:
    return msgspec.json.encode(status)


def _status_text(status: dict[str, Any]) -> bytes:
    """Return a status in the form of the first protocol version: the error's text, empty without an error."""
    return str(status.get("message", "")).encode()


def _status(ending: dict[str, Any]) -> dict[str, Any]:
    """Return the Status for how a command ended, as a kubelet makes it."""
    code = ending.get("exitCode", 0)
    error = ending.get("error", "")
    if error:
        message = f"error executing command in container: {error}"
        return {"metadata": {}, "status": "Failure", "message": message, "reason": "InternalError", "code": 500}
    if not code:
        return {"metadata": {}, "status": "Success"}
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"command terminated with non-zero exit code: exit status {code}",
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
    }


def _size(data: bytes) -> bytes:
    """Return a terminal's size in the form that `Channels` takes; empty if the message is malformed."""
    try:
        size = msgspec.json.decode(data, type=_Size)
    except msgspec.MsgspecError:
        return b""
    return msgspec.json.encode(size) if len(data) <= _SIZE_BYTES and size.width and size.height else b""


_Cells = Annotated[int, msgspec.Meta(ge=0, le=65535)]


class _Size(msgspec.Struct, rename={"width": "Width", "height": "Height"}):
    width: _Cells = 0
    height: _Cells = 0
