"""Run commands in containers by Kubernetes' remote command protocol, versions 5 and 4, on any API server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from strato.api import catalog
from strato.client.http import HttpCluster
from strato.errors import InternalError
from strato.http.websocket import WebSocket, first_of

_PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")
_STDIN, _STDOUT, _STDERR, _STATUS, _RESIZE, _CLOSE = 0, 1, 2, 3, 4, 255
_STATUS_BYTES = 1 << 20

Write = Callable[[bytes], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Streams:
    """The local ends of a command's standard streams."""

    stdin: AsyncIterator[bytes] | None = None
    stdout: Write
    stderr: Write
    tty: bool = False
    """Whether the command gets a terminal; its standard error is then part of its standard output."""
    sizes: AsyncIterator[tuple[int, int]] | None = None
    """Yields the terminal's columns and lines, now and at each change."""


class CommandFailed(InternalError):
    """The command could not be run."""


async def run_command(
    cluster: HttpCluster, namespace: str, pod: str, container: str, command: Sequence[str], streams: Streams
) -> int:
    """Run a command in a container and return its exit code.

    Raises:
        ApiError: The command could not be run, or the server cannot be reached.
    """
    query = {"container": [container], "command": list(command), "stdout": ["true"]}
    query |= {"stdin": ["true"]} if streams.stdin is not None else {}
    query |= {"tty": ["true"]} if streams.tty else {"stderr": ["true"]}
    path = catalog.POD.path(namespace, pod, "exec")
    return await cluster.over_websocket(
        path, {name: values for name, values in query.items() if values != [""]}, _PROTOCOLS, _Running(streams).run
    )


class _Running:
    """One running command and its streams."""

    def __init__(self, streams: Streams) -> None:
        self._streams = streams
        self._status = b""

    async def run(self, socket: WebSocket, protocol: str) -> int:
        streams = self._streams
        inward = [self._read(socket)]
        if streams.sizes is not None:
            inward.append(_resize(socket, streams.sizes))
        if streams.stdin is not None:
            inward.append(_send(socket, streams.stdin, can_close=protocol == _PROTOCOLS[0]))
        await first_of(*inward)
        return _exit_code(self._status)

    async def _read(self, socket: WebSocket) -> None:
        """Write the command's output to the local streams until it has ended."""
        channel = -1
        while (part := await socket.receive()) is not None:
            data = part.data
            if part.is_first:
                channel, data = (data[0] if data else -1), data[1:]
            if channel == _STDOUT and data:
                self._streams.stdout(data)
            elif channel == _STDERR and data:
                self._streams.stderr(data)
            elif channel == _STATUS and len(self._status) < _STATUS_BYTES:
                self._status += data


async def _send(socket: WebSocket, stdin: AsyncIterator[bytes], *, can_close: bool) -> None:
    async for chunk in stdin:
        await socket.send(bytes((_STDIN,)) + chunk)
    if can_close:
        await socket.send(bytes((_CLOSE, _STDIN)))
    await asyncio.Event().wait()  # for ever: `first_of` ends with the command, not with its input


async def _resize(socket: WebSocket, sizes: AsyncIterator[tuple[int, int]]) -> None:
    async for width, height in sizes:
        await socket.send(bytes((_RESIZE,)) + json.dumps({"Width": width, "Height": height}).encode())
    await asyncio.Event().wait()


def _exit_code(status: bytes) -> int:
    """Return the exit code in a Status."""
    if not status:
        raise CommandFailed("the connection ended before the command did")
    try:
        answer: dict[str, Any] = json.loads(status)
        if answer.get("status") == "Success":
            return 0
        causes = (answer.get("details") or {}).get("causes") or ()
        codes = [int(cause["message"]) for cause in causes if cause.get("reason") == "ExitCode"]
        message = str(answer.get("message") or answer.get("reason") or "no reason was given")
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise CommandFailed(f"the server's word on how the command ended cannot be read: {status[:200]!r}") from error
    if codes:
        return codes[0]
    raise CommandFailed(message)
