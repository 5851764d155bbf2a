"""What an API server and a node on another machine say to each other over a WebSocket: streams of processes and ports.

A message of a process's streams is one of `Channels`, as it is. A port's are what its connection carries; an empty one
is the end of what its sender has to say. Both ends are Strato's, so that nothing is translated on the way.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

from strato.http.websocket import WebSocket, first_of
from strato.server.streams import Channels

PROTOCOL = "v1.streams.strato.dev"
_PIECE_BYTES = 32 * 1024
_MESSAGE_BYTES = 1 << 20
"""The longest message that is taken; either end sends much shorter ones."""


class SocketChannels:
    """A process's streams at the other end of a WebSocket, as `Channels`."""

    def __init__(self, socket: WebSocket) -> None:
        self._socket = socket
        self.closed = asyncio.Event()
        self.send = socket.send

    async def receive(self) -> bytes:
        """Return the next message; empty at the end."""
        return await _message(self._socket) or b""

    def close(self) -> None:
        """Hang up."""
        self.closed.set()


async def carry_channels(channels: Channels, socket: WebSocket) -> None:
    """Carry the messages of a process's streams both ways until it has ended, or who asked is gone."""

    async def outward() -> None:
        while message := await channels.receive():
            await socket.send(message)
        await socket.close()

    async def inward() -> None:
        while message := await _message(socket):
            await channels.send(message)

    try:
        await first_of(inward(), outward())
    finally:
        channels.close()


async def carry_port(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, socket: WebSocket) -> None:
    """Carry bytes both ways between a connection and a WebSocket until both have said all."""

    async def outward() -> None:
        with suppress(OSError):
            while data := await reader.read(_PIECE_BYTES):
                await socket.send(data)
        await socket.send(b"")

    async def inward() -> None:
        with suppress(OSError):
            while message := await _message(socket):
                writer.write(message)
                await writer.drain()
            if message is None:
                writer.transport.abort()  # who asked is gone; nobody reads what may still come
            elif writer.can_write_eof():
                writer.write_eof()

    try:
        await asyncio.gather(outward(), inward())
        await socket.close()
    finally:
        writer.close()


async def _message(socket: WebSocket) -> bytes | None:
    """Return the next message; None at the end, or where it is too long."""
    message = bytearray()
    while (part := await socket.receive()) is not None and len(message) <= _MESSAGE_BYTES:
        message += part.data
        if part.is_last:
            return bytes(message)
    return None
