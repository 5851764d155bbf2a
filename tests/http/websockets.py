"""Two ends of WebSockets without a socket between them."""

from __future__ import annotations

import asyncio

from strato.http.websocket import WebSocket


class MemoryWire:
    """A connection whose bytes go to the other end's session in the next turn of the loop, or nowhere."""

    def __init__(self) -> None:
        self.other: WebSocket | None = None
        self.sent = bytearray()
        self.reads = True
        self.is_closed = self.is_hung_up = False

    def write(self, data: bytes) -> None:
        self.sent += data
        if self.other is not None and not self.is_closed:
            asyncio.get_running_loop().call_soon(self.other.received, bytes(data))

    def pause_reading(self) -> None:
        self.reads = False

    def resume_reading(self) -> None:
        self.reads = True

    def has_hung_up(self) -> bool:
        return self.is_hung_up

    def close(self) -> None:
        self.is_closed = True

    def abort(self) -> None:
        self.is_closed = True


def join(one: WebSocket, other: WebSocket) -> tuple[MemoryWire, MemoryWire]:
    """Connect two ends and begin both."""
    left, right = MemoryWire(), MemoryWire()
    left.other, right.other = other, one
    one.begin(left)
    other.begin(right)
    return left, right


async def message(socket: WebSocket) -> bytes | None:
    """Return the next whole message."""
    data = b""
    while (part := await socket.receive()) is not None:
        data += part.data
        if part.is_last:
            return data
    return None
