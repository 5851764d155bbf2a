"""`LinkStream`: a streamed answer that arrives over a link."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable

from strato.errors import Unavailable

_SLICE_BYTES = 64 * 1024
"""About how many bytes `LinkStream` returns at a time: chunks end at the first line end behind it."""


class LinkStream:
    """The receiving side of a stream, an iterator over chunks of whole lines.

    Args:
        forget: Called when the reader closes the stream, with whether it has ended.
    """

    def __init__(self, forget: Callable[[bool], None]) -> None:
        self._forget = forget
        self._chunks: deque[bytes] = deque()
        self._waiting: asyncio.Future[None] | None = None
        self._left_some = False
        self._ended = False
        self._error: Unavailable | None = None

    def feed(self, chunk: bytes) -> None:
        """Add a received chunk."""
        start = 0
        while (cut := chunk.find(b"\n", start + _SLICE_BYTES) + 1) > 0:
            self._chunks.append(chunk[start:cut])
            start = cut
        if start < len(chunk):
            self._chunks.append(chunk[start:] if start else chunk)
        self._wake()

    def end(self, error: Unavailable | None = None) -> None:
        """Note that the stream has ended, or was broken by an error."""
        self._ended, self._error = True, error
        self._wake()

    def _wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    def __aiter__(self) -> AsyncIterator[bytes]:
        """Return itself."""
        return self

    async def __anext__(self) -> bytes:
        """Return the next lines, about `_SLICE_BYTES` of them.

        If more has arrived (all that one commit made visible, say), the next call lets the loop run a turn first, so
        that the requests which the reader makes because of these lines are sent before it works on the others.
        """
        if self._left_some:
            await asyncio.sleep(0)
        while not self._chunks:
            if self._error is not None:
                raise self._error
            if self._ended:
                raise StopAsyncIteration
            self._waiting = asyncio.get_running_loop().create_future()
            try:
                await self._waiting
            finally:
                self._waiting = None
        taken = [self._chunks.popleft()]
        size = len(taken[0])
        while self._chunks and (size := size + len(self._chunks[0])) <= _SLICE_BYTES:
            taken.append(self._chunks.popleft())
        self._left_some = bool(self._chunks)
        return taken[0] if len(taken) == 1 else b"".join(taken)

    async def aclose(self) -> None:
        """Stop reading, and tell the other end unless the stream has ended."""
        self._forget(self._ended)
        self._ended = True
        self._chunks.clear()
