"""A streamed answer on its way over a link."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable

from strato.errors import Unavailable

_SLICE_BYTES = 64 * 1024
"""Of a stream at a time, and the rest of its last line."""


class LinkStream:
    """See the module; read once.

    Args:
        forget: Called when no more is wanted, with whether it has ended.
    """

    def __init__(self, forget: Callable[[bool], None]) -> None:
        self._forget = forget
        self._chunks: deque[bytes] = deque()
        self._waiting: asyncio.Future[None] | None = None
        self._left_some = False
        self._ended = False
        self._error: Unavailable | None = None

    def feed(self, chunk: bytes) -> None:
        """Take what has arrived."""
        start = 0
        while (cut := chunk.find(b"\n", start + _SLICE_BYTES) + 1) > 0:
            self._chunks.append(chunk[start:cut])
            start = cut
        if start < len(chunk):
            self._chunks.append(chunk[start:] if start else chunk)
        self._wake()

    def end(self, error: Unavailable | None = None) -> None:
        """Take note that nothing more comes, for a reason unless it is None."""
        self._ended, self._error = True, error
        self._wake()

    def _wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    def __aiter__(self) -> AsyncIterator[bytes]:
        """Return itself."""
        return self

    async def __anext__(self) -> bytes:
        """Return the next lines.

        Of much that has arrived at once (all that one commit made visible, say) only some, and with a turn of the loop
        in between: the requests that the first ones give rise to are on their way while the others are looked at.
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
        """Tell the other end that no more is wanted."""
        self._forget(self._ended)
        self._ended = True
        self._chunks.clear()
