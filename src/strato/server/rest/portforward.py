"""Forward connections to ports of a pod over one WebSocket, by either of two protocols.

`tunnel` is kubectl's: SPDY inside the WebSocket, with two streams for each connection, one for errors and one for data.
`forward` is the older one: the request names the ports, and each port has one connection, with a channel for data and
one for errors. In both, a connection whose pod does not read blocks the others of its WebSocket; nothing is buffered.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from strato.errors import ApiError, one_line
from strato.http.spdy import BadFrame, Data, Frame, Frames, GoAway, Ping, Reset, StreamOpened
from strato.http.websocket import FRAMES_AT_ONCE, WebSocket, first_of
from strato.server.streams import StreamSource

TUNNEL = "SPDY/3.1+portforward.k8s.io"
LEGACY = ("v4.channel.k8s.io", "")
"""Subprotocols of `forward`; an empty one is for a client that names none."""
MOST_CONNECTIONS = 64
"""Most concurrent connections of one tunnel."""
_READ_BYTES = 32 * 1024


class PodPort:
    """Connects to the ports of one pod."""

    def __init__(self, source: StreamSource, uid: str, name: str) -> None:
        self._source, self._uid, self._name = source, uid, name

    async def connect(self, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Return a connection, whose writer buffers nothing in this process, only in the kernel.

        Raises:
            ApiError: The port cannot be reached; the message says why.
        """
        sock = await self._source.connect(self._uid, port)
        try:
            reader, writer = await asyncio.open_connection(sock=sock, limit=_READ_BYTES)
        except OSError as error:
            raise ApiError(one_line(error)) from error
        writer.transport.set_write_buffer_limits(high=0)
        return reader, writer

    def failure(self, port: int, error: Exception) -> bytes:
        """Return the message to the client about a port that cannot be reached."""
        return f"error forwarding port {port} to pod {self._name}, uid {self._uid}: {one_line(error)}".encode()


async def forward(ports: PodPort, numbers: Sequence[int], socket: WebSocket) -> None:
    """Forward one connection to each port, data on channel 2n and errors on 2n + 1, until all have ended."""
    connections = await asyncio.gather(*(ports.connect(number) for number in numbers), return_exceptions=True)
    writers: dict[int, asyncio.StreamWriter] = {}
    reading = []
    try:
        for index, (number, found) in enumerate(zip(numbers, connections, strict=True)):
            for channel in (2 * index, 2 * index + 1):
                await socket.send(bytes((channel,)) + number.to_bytes(2, "little"))
            if isinstance(found, Exception):
                await socket.send(bytes((2 * index + 1,)) + ports.failure(number, found))
            elif not isinstance(found, BaseException):
                writers[2 * index] = found[1]
                reading.append(_copy_out(found[0], 2 * index, socket))

        async def outward() -> None:
            await asyncio.gather(*reading)
            await socket.close()

        await first_of(outward(), _copy_in(writers, socket))
    finally:
        for found in connections:
            if isinstance(found, tuple):
                found[1].transport.abort()


async def _copy_out(reader: asyncio.StreamReader, channel: int, socket: WebSocket) -> None:
    try:
        while data := await reader.read(_READ_BYTES):
            await socket.send(bytes((channel,)) + data)
    except OSError as error:
        await socket.send(bytes((channel + 1,)) + one_line(error).encode())


async def _copy_in(writers: dict[int, asyncio.StreamWriter], socket: WebSocket) -> None:
    channel = -1
    while (part := await socket.receive()) is not None:
        data = part.data
        if part.is_first:
            channel, data = (data[0] if data else -1), data[1:]
        writer = writers.get(channel)
        if writer is not None and data:
            await _write(writer, data)


async def _write(writer: asyncio.StreamWriter, data: bytes, *, is_last: bool = False) -> None:
    """Write to a pod; does nothing if the pod has closed the connection."""
    with suppress(OSError, RuntimeError):
        if data:
            writer.write(data)
            await writer.drain()
        if is_last and writer.can_write_eof():
            writer.write_eof()


@dataclass(slots=True)
class _Pair:
    """The error stream and the data stream of one connection."""

    port: int
    errors: int = 0
    data: int = 0
    connected: asyncio.Event = field(default_factory=asyncio.Event)
    writer: asyncio.StreamWriter | None = None
    task: asyncio.Task[None] | None = None


async def tunnel(ports: PodPort, socket: WebSocket) -> None:
    """Forward the connections that the client opens, until it closes the WebSocket."""
    await _Tunnel(ports, socket).run()


class _Tunnel:
    def __init__(self, ports: PodPort, socket: WebSocket) -> None:
        self._ports, self._socket = ports, socket
        self._frames = Frames()
        self._asked: dict[str, _Pair] = {}
        """Pairs by request id, of which only one stream has been opened so far."""
        self._pairs: dict[int, _Pair] = {}
        """Complete pairs, by the numbers of their streams."""

    async def run(self) -> None:
        try:
            while (part := await self._socket.receive()) is not None:
                for number, frame in enumerate(self._frames.feed(part.data), 1):
                    if not await self._serve(frame):
                        return
                    if number % FRAMES_AT_ONCE == 0:
                        await asyncio.sleep(0)  # lets the loop serve other requests
        except BadFrame as error:
            await self._socket.close(str(error))
        finally:
            for pair in list(self._pairs.values()):
                self._end(pair)

    async def _serve(self, frame: Frame) -> bool:
        """Handle a frame; return whether the client may send more."""
        if isinstance(frame, Data):
            pair = self._pairs.get(frame.stream)
            if pair is not None and frame.stream == pair.data:
                await pair.connected.wait()
                if pair.writer is not None:
                    await _write(pair.writer, frame.payload, is_last=frame.is_last)
        elif isinstance(frame, StreamOpened):
            await self._open(frame)
        elif isinstance(frame, Reset):
            pair = self._pairs.get(frame.stream)
            if pair is not None:
                self._end(pair)
        elif isinstance(frame, Ping):
            await self._socket.send(self._frames.pong(frame.number))
        return not isinstance(frame, GoAway)

    async def _open(self, frame: StreamOpened) -> None:
        kind, port = frame.headers.get("streamtype"), frame.headers.get("port", "")
        request = frame.headers.get("requestid", port)
        is_port = port.isascii() and port.isdigit() and len(port) < 6 and 0 < int(port) < 65536
        too_many = request not in self._asked and len(self._pairs) >= 2 * MOST_CONNECTIONS
        if kind not in ("error", "data") or not is_port or frame.stream in self._pairs or too_many:
            await self._socket.send(self._frames.refuse(frame.stream))
            return
        pair = self._asked.pop(request, None) or _Pair(int(port))
        if getattr(pair, "errors" if kind == "error" else "data"):  # a second stream of the same type
            self._asked[request] = pair
            await self._socket.send(self._frames.refuse(frame.stream))
            return
        if kind == "error":
            pair.errors = frame.stream
        else:
            pair.data = frame.stream
        self._pairs[frame.stream] = pair
        await self._socket.send(self._frames.accept(frame.stream))
        if pair.errors and pair.data:
            pair.task = asyncio.get_running_loop().create_task(self._forward(pair))
        else:
            self._asked[request] = pair

    async def _forward(self, pair: _Pair) -> None:
        """Copy a pod's data to the client until the pod closes, then end both streams, so the client closes too."""
        frames, socket, problem = self._frames, self._socket, b""
        try:
            reader, pair.writer = await self._ports.connect(pair.port)
            pair.connected.set()
            while data := await reader.read(_READ_BYTES):
                await socket.send(frames.data(pair.data, data))
        except (ApiError, OSError) as error:
            problem = self._ports.failure(pair.port, error)
        finally:
            pair.connected.set()
        await socket.send(frames.data(pair.errors, problem, is_last=True))
        await socket.send(frames.data(pair.data, b"", is_last=True))
        pair.task = None
        self._end(pair)

    def _end(self, pair: _Pair) -> None:
        for stream in (pair.errors, pair.data):
            self._pairs.pop(stream, None)
        self._asked = {request: asked for request, asked in self._asked.items() if asked is not pair}
        pair.connected.set()
        if pair.task is not None:
            pair.task.cancel()
        if pair.writer is not None:
            pair.writer.transport.abort()
