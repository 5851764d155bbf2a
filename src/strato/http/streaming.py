"""How a streamed answer gets to its reader: at the reader's pace, and the events of a burst together."""

from __future__ import annotations

import asyncio
import logging
import zlib
from collections.abc import AsyncIterator
from typing import Protocol

from strato.api.wire import Pushed

PACE_SECONDS = 0.01
"""A reader that is told of changes no more often than this, on average, is told without delay."""
AT_ONCE = 8
"""How many may come faster than that, what one small job makes happen among them."""
GATHER_SECONDS = 2 * PACE_SECONDS
"""What comes faster still leaves together, so far apart: for one event alone a TLS record, a call of the system and a
wake-up of the reader cost ten times what is done for the event; with 20 ms that is half of what it is with 10."""
GZIP_LEVEL = 1
FLUSH_BYTES = 256 * 1024
"""How much of one stream is written before others have their turn."""
LARGE_BYTES = 64 * 1024
"""So much at once has been gathered already: it takes nothing of what may be written without delay."""

_log = logging.getLogger(__name__)


class Outlet(Protocol):
    """Where a stream goes: a connection."""

    is_writable: bool
    """Whether the reader keeps up."""

    def write(self, chunk: bytes) -> None:
        """Write a piece; nothing happens when the reader is gone."""
        ...

    async def drained(self) -> None:
        """Wait until more can be written, or the reader is gone."""
        ...

    def finish(self) -> None:
        """End the stream."""
        ...

    def abort(self) -> None:
        """End the connection."""
        ...


class Pushing:
    """A stream that says when there is something: no task waits for it."""

    is_text = False

    def __init__(self, outlet: Outlet, source: Pushed, loop: asyncio.AbstractEventLoop) -> None:
        self._outlet, self._source, self._loop = outlet, source, loop
        self._due: asyncio.Handle | None = None
        self._credit = float(AT_ONCE)
        """How often it may still write at once, as of the last time it wrote."""
        self._price = 1
        """What the next writing takes of that."""
        self._written_at = loop.time()
        source.listen(self._ready)

    def flush(self) -> None:
        """Write what there is, as far as the reader keeps up; a stream that breaks breaks the connection."""
        self._due = None
        outlet, source = self._outlet, self._source
        has_written, written = False, 0
        try:
            while outlet.is_writable and (chunk := source.take()):
                has_written = True
                outlet.write(chunk)
                written += len(chunk)
                if written >= FLUSH_BYTES:  # others are waiting for the loop
                    self._due = self._loop.call_soon(self.flush)
                    break
        except Exception:
            _log.exception("a stream broke")
            self.stop()
            outlet.abort()
            return
        if source.ended:
            self.stop()
            outlet.finish()
        elif has_written:
            self._credit = self._credit_now() - (self._price if written < LARGE_BYTES else 0)
            self._price = 1
            self._written_at = self._loop.time()

    def stop(self) -> None:
        """Free what is behind the stream."""
        if self._due is not None:
            self._due.cancel()
        self._source.close()

    def _ready(self) -> None:
        """Flush soon; with a reader that does not keep up, `flush` is called when it does."""
        if self._due is not None or not self._outlet.is_writable:
            return
        credit = self._credit_now()
        if credit >= 1:
            self._due = self._loop.call_soon(self.flush)
        else:
            self._price = 2
            self._due = self._loop.call_later(GATHER_SECONDS - credit * PACE_SECONDS, self.flush)

    def _credit_now(self) -> float:
        return min(AT_ONCE, self._credit + (self._loop.time() - self._written_at) / PACE_SECONDS)


class Pulling:
    """A stream that has to be waited for."""

    def __init__(self, outlet: Outlet, stream: AsyncIterator[bytes], *, is_text: bool) -> None:
        self._outlet, self._stream = outlet, stream
        self.is_text = is_text
        """Whether only all of it is of use."""
        self.task: asyncio.Task[None] | None = None
        """What runs `run`."""

    async def run(self) -> None:
        """Write chunks as they come; a stream that breaks breaks the connection, so that its reader knows."""
        try:
            async for chunk in self._stream:
                self._outlet.write(chunk)
                await self._outlet.drained()
        except Exception:
            _log.exception("a stream broke")
            self._outlet.abort()
            return
        finally:
            await close_stream(self._stream)
        self._outlet.finish()

    def stop(self) -> None:
        """Free what is behind the stream."""
        if self.task is not None:
            self.task.cancel()


async def close_stream(stream: AsyncIterator[bytes]) -> None:
    """Free what is behind a stream; a generator can be closed, a plain iterator need not."""
    close = getattr(stream, "aclose", None)
    if close is not None:
        await close()


async def pieces(body: bytes, size: int) -> AsyncIterator[bytes]:
    """Yield a body piece by piece."""
    view = memoryview(body)
    for start in range(0, len(body), size):
        yield bytes(view[start : start + size])


async def squeezed(stream: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yield a stream compressed; the work is done in threads."""
    compressor = zlib.compressobj(GZIP_LEVEL, wbits=zlib.MAX_WBITS | 16)
    try:
        async for chunk in stream:
            packed = await asyncio.to_thread(compressor.compress, chunk)
            if packed:
                yield packed
        yield await asyncio.to_thread(compressor.flush)
    finally:
        await close_stream(stream)
