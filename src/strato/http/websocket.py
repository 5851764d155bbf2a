"""Either end of a WebSocket (RFC 6455) on an upgraded HTTP connection; wsproto parses and encodes the frames.

`WebSocket.receive` returns messages in the parts in which they arrive, so a frame that claims a huge length costs no
memory. While the reader is slow, the connection is not read; `WebSocket.send` waits while the other end is slow.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import logging
import select
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from strato.api.wire import Wire
from strato.errors import BadRequest

if TYPE_CHECKING:
    from wsproto.frame_protocol import Frame

_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_BUFFER_BYTES = 128 * 1024
"""Bytes received and not taken by `WebSocket.receive` from which on the connection is not read."""
_MOST_PARTS = 1024
"""The same limit for the number of parts, as parts may be empty."""
FRAMES_AT_ONCE = 256
"""Frames parsed in one turn of the event loop, about 2 ms."""
IDLE_SECONDS = 4 * 3600.0
"""How long a connection may be silent in both directions; the kubelet's limit for streams."""
_HANG_UP_SECONDS = 1.0
"""How often a connection that is not read is checked for whether its other end has closed it."""
_log = logging.getLogger(__name__)
_CLOSE_SECONDS = 5.0
"""How long `WebSocket.close` waits for the other end's close frame, and how long ``serve`` may still run after the
connection has ended."""


class Part(NamedTuple):
    """A piece of a message."""

    data: bytes
    is_first: bool
    is_last: bool


class TransportWire:
    """An asyncio transport as the `Wire` of a session."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self.close, self.abort = transport.close, transport.abort
        self.pause_reading, self.resume_reading = transport.pause_reading, transport.resume_reading
        self._poller = select.poll()
        self._poller.register(transport.get_extra_info("socket").fileno(), select.POLLRDHUP)

    def write(self, data: bytes) -> None:
        """Write, unless the transport is closing: asyncio would log a warning before it calls `connection_lost`."""
        if not self._transport.is_closing():
            self._transport.write(data)

    def has_hung_up(self) -> bool:
        """Return whether the other end has closed the connection, even if received bytes are still unread."""
        return bool(self._poller.poll(0))


class WebSocket:
    """One end of a WebSocket, as the `Session` that takes a connection over.

    Args:
        serve: Coroutine that uses the WebSocket; when it returns, the connection is closed.
        is_client: Whether this is the client's end.
    """

    def __init__(self, serve: Callable[[WebSocket], Coroutine[Any, Any, None]], *, is_client: bool = False) -> None:
        from wsproto import frame_protocol  # imported late: it takes 20 ms of a start

        self._serve = serve
        self._protocol = frame_protocol
        self._when_ended: list[Callable[[], None]] = []
        self._frames = frame_protocol.FrameProtocol(client=is_client, extensions=[])
        self._wire: Wire | None = None
        self._parts: deque[Part] = deque()
        self._size = 0
        self._ping: bytes | None = None
        self._in_message = False
        self._is_paused = False
        """Whether parsing waits until `receive` has taken enough of the parts."""
        self._is_reading = True
        """Whether the transport is reading."""
        self._has_more = False
        """Whether received bytes may hold frames that have not been parsed yet."""
        self._is_lost = False
        self._has_ended = False
        """Whether no further part will arrive."""
        self._has_closed = False
        """Whether our close frame was sent."""
        self._loop = asyncio.get_running_loop()
        self._waiting: asyncio.Future[None] | None = None
        self._writable = asyncio.Event()
        self._writable.set()
        self._task: asyncio.Task[None] | None = None
        self._active_at = self._loop.time()
        self._timer: asyncio.TimerHandle | None = None
        self.close_code = 0
        """The code of the other end's close frame; 0 before it has arrived."""

    # -- called by the connection --------------------------------------------------------------------------------------

    def begin(self, wire: Wire) -> None:
        """Start ``serve`` on a connection."""
        self._wire = wire
        self._task = self._loop.create_task(self._run())
        self._task.add_done_callback(lambda _: self._over())
        self._timer = self._loop.call_later(IDLE_SECONDS, self._look)

    def received(self, data: bytes) -> None:
        """Parse the frames in received bytes."""
        self._active_at = self._loop.time()
        if self._has_ended or self._is_lost:
            return
        self._frames.receive_bytes(data)
        if not self._has_more:
            self._read_frames()

    def written(self, is_writable: bool) -> None:
        """Note whether the other end reads fast enough; `send` waits while it does not."""
        if is_writable:
            self._active_at = self._loop.time()
            self._writable.set()
        else:
            self._writable.clear()

    def lost(self) -> None:
        """Note that the connection has ended; ``serve`` may still take the parts that arrived, for `_CLOSE_SECONDS`."""
        self._wire, self._is_lost = None, True
        if not self._has_more:
            self._end()
        self._writable.set()
        self._has_closed = True
        if self._timer is not None:
            self._timer.cancel()
        if self._task is not None:
            self._timer = self._loop.call_later(_CLOSE_SECONDS, self._task.cancel)
        else:
            self._over()

    def stop(self) -> None:
        """Close, because the server stops."""
        self._send_close(self._protocol.CloseReason.GOING_AWAY)
        if self._wire is not None:
            self._wire.close()

    def when_ended(self, call: Callable[[], None]) -> None:
        """Register a callback for the end of ``serve``."""
        self._when_ended.append(call)

    # -- called by ``serve`` -------------------------------------------------------------------------------------------

    async def receive(self) -> Part | None:
        """Wait for the next part of a message and return it; None after the last."""
        while not self._parts:
            if self._has_ended:
                return None
            self._waiting = self._loop.create_future()
            await self._waiting
        part = self._parts.popleft()
        self._size -= len(part.data)
        if self._is_paused and not self._is_full:
            self._is_paused = False
            self._go_on()
        return part

    async def send(self, message: bytes | str) -> None:
        """Send a binary or text message once the other end keeps up; does nothing if it is gone."""
        while not self._writable.is_set():
            await self._writable.wait()
        if self._is_gone():
            return
        if self._wire is not None and not self._has_closed:
            self._active_at = self._loop.time()
            self._wire.write(bytes(self._frames.send_data(message)))

    async def close(self, reason: str = "") -> None:
        """Send a close frame, and wait up to `_CLOSE_SECONDS` for the other end's."""
        self._send_close(self._protocol.CloseReason.NORMAL_CLOSURE, reason)
        with suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_SECONDS):
                while await self.receive() is not None:
                    pass

    # -- inside --------------------------------------------------------------------------------------------------------

    def _read_frames(self) -> None:
        """Parse up to `_FRAMES_AT_ONCE` received frames; the rest waits for the loop's next turn."""
        taken = 0
        try:
            for frame in islice(self._frames.received_frames(), FRAMES_AT_ONCE):
                self._take(frame)
                taken += 1
            self._answer_ping()
        except self._protocol.ParseFailed as error:
            taken = 0
            self._end()
            self._send_close(error.code)
        self._has_more = taken == FRAMES_AT_ONCE
        if self._is_full and not self._is_paused:
            self._is_paused = True
            self._loop.call_later(_HANG_UP_SECONDS, self._check_hang_up)
        self._go_on()

    def _go_on(self) -> None:
        """Parse more frames if the reader has room, and let the transport read once all are parsed."""
        if self._has_more and not self._is_paused:
            self._loop.call_soon(self._read_frames)
        elif self._is_lost and not self._has_more:
            self._end()
        wanted = not (self._has_more or self._is_paused)
        if self._wire is not None and wanted is not self._is_reading:
            self._is_reading = wanted
            (self._wire.resume_reading if wanted else self._wire.pause_reading)()

    @property
    def _is_full(self) -> bool:
        return self._size >= _BUFFER_BYTES or len(self._parts) >= _MOST_PARTS

    def _is_gone(self) -> bool:
        """Return whether the other end has closed the connection while we were not reading it; if so, abort it."""
        if not self._is_paused or self._wire is None or not self._wire.has_hung_up():
            return False
        self._wire.abort()
        return True

    def _check_hang_up(self) -> None:
        if self._is_paused and self._wire is not None and not self._is_gone():
            self._loop.call_later(_HANG_UP_SECONDS, self._check_hang_up)

    async def _run(self) -> None:
        try:
            await self._serve(self)
            self._send_close(self._protocol.CloseReason.NORMAL_CLOSURE)
        except Exception:
            _log.exception("a stream broke")
            self._send_close(self._protocol.CloseReason.INTERNAL_ERROR)
        finally:
            self._end()
            if self._wire is not None:
                self._wire.close()

    def _over(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        for call in self._when_ended:
            call()
        self._when_ended.clear()

    def _take(self, frame: Frame) -> None:
        if self._has_ended:
            return
        opcodes = self._protocol.Opcode
        if frame.opcode in (opcodes.BINARY, opcodes.TEXT):
            data = frame.payload.encode() if isinstance(frame.payload, str) else frame.payload
            assert isinstance(data, bytes)
            if data or frame.message_finished:
                self._parts.append(Part(data, not self._in_message, frame.message_finished))
                self._in_message = not frame.message_finished
                self._size += len(data)
                self._wake()
        elif frame.opcode is opcodes.PING and isinstance(frame.payload, bytes):
            self._ping = frame.payload
        elif frame.opcode is opcodes.CLOSE:
            self.close_code = int(frame.payload[0])
            self._end()
            self._send_close(self._protocol.CloseReason.NORMAL_CLOSURE)

    def _answer_ping(self) -> None:
        """Answer only the last of several pings that arrived together, and none while the other end does not read."""
        ping, self._ping = self._ping, None
        if ping is not None and self._wire is not None and self._writable.is_set() and not self._has_closed:
            self._wire.write(bytes(self._frames.pong(ping)))

    def _send_close(self, code: int, reason: str = "") -> None:
        if not self._has_closed and self._wire is not None:
            self._has_closed = True
            self._wire.write(bytes(self._frames.close(code, reason)))

    def _end(self) -> None:
        self._has_ended = True
        self._wake()

    def _wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    def _look(self) -> None:
        left = self._active_at + IDLE_SECONDS - self._loop.time()
        if left > 0:
            self._timer = self._loop.call_later(left, self._look)
        elif self._wire is not None:
            self._wire.abort()


def accept(headers: Mapping[str, str], protocols: Sequence[str]) -> tuple[dict[str, str], str]:
    """Return the headers that accept a WebSocket, and the subprotocol: the first of the client's that we know.

    Args:
        headers: The request's.
        protocols: Subprotocols that we know; with an empty one among them a request may name none.

    Raises:
        BadRequest: The request is not for a WebSocket, or names no known subprotocol.
    """
    wanted = {word.strip().lower() for word in headers.get("connection", "").split(",")}
    if headers.get("upgrade", "").strip().lower() != "websocket" or "upgrade" not in wanted:
        raise BadRequest("Upgrade request required")
    if headers.get("sec-websocket-version") != "13":
        raise BadRequest("the WebSocket must be of version 13")
    key = headers.get("sec-websocket-key", "").strip()
    try:
        is_key = len(base64.b64decode(key, validate=True)) == 16
    except (binascii.Error, ValueError):
        is_key = False
    if not is_key:
        raise BadRequest("the header Sec-WebSocket-Key must be 16 bytes in base64")
    offered = [word.strip() for word in headers.get("sec-websocket-protocol", "").split(",") if word.strip()]
    chosen = next((protocol for protocol in offered if protocol in protocols), "")
    if not chosen and (offered or "" not in protocols):
        known = [protocol for protocol in protocols if protocol]
        raise BadRequest(f"unable to negotiate protocol: client supports {offered}, server accepts {known}")
    lines = {"upgrade": "websocket", "connection": "Upgrade", "sec-websocket-accept": accept_key(key)}
    return {**lines, **({"sec-websocket-protocol": chosen} if chosen else {})}, chosen


def accept_key(key: str) -> str:
    """Return the Sec-WebSocket-Accept that answers a client's Sec-WebSocket-Key."""
    return base64.b64encode(hashlib.sha1(key.encode() + _GUID, usedforsecurity=False).digest()).decode()


async def first_of(*works: Awaitable[None]) -> None:
    """Run several awaitables until one has ended, and cancel the others.

    Raises:
        Exception: What the first one to end raised.
    """
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
