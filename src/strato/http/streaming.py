"""Write streamed responses: no faster than their readers take them, and the events of a burst in one write."""

from __future__ import annotations

import asyncio
import logging
import zlib
from collections.abc import AsyncIterator
from typing import Protocol

from strato.api.wire import Pushed

FLUSH_INTERVAL_SECONDS = 0.01
"""A stream with no more chunks than one per interval, on average, is written without delay (a token bucket)."""
AT_ONCE = 8
"""Capacity of that bucket: the changes that one small job causes fit in."""
COALESCE_SECONDS = 2 * FLUSH_INTERVAL_SECONDS
"""Faster chunks are coalesced for so long: a TLS record, a system call and a wake-up of the reader cost ten times what
one event does. With 20 ms they cost half of what they do with 10."""
GZIP_LEVEL = 1
FLUSH_BYTES = 256 * 1024
"""Bytes of one stream that are written before other streams are."""
LARGE_BYTES = 64 * 1024
"""A chunk this large has been coalesced already: it takes no token."""

_log = logging.getLogger(__name__)


class StreamWriter(Protocol):
    """Where a stream goes: a connection."""

    is_writable: bool
    """Whether the reader keeps up."""

    def write(self, chunk: bytes) -> None:
        """Write a piece; nothing happens when the reader is gone."""

    async def drained(self) -> None:
        """Wait until more can be written, or the reader is gone."""

    def finish(self) -> None:
        """End the stream."""

    def abort(self) -> None:
        """End the connection."""


class Pushing:
    """A stream that notifies its writer when there is something: no task waits for it."""

    is_text = False

    def __init__(self, writer: StreamWriter, source: Pushed, loop: asyncio.AbstractEventLoop) -> None:
        self._writer, self._source, self._loop = writer, source, loop
        self._due: asyncio.Handle | None = None
        self._tokens = float(AT_ONCE)
        """How often it may still write at once, as of the last time it wrote."""
        self._price = 1
        """What the next writing takes of that."""
        self._written_at = loop.time()
        source.listen(self._ready)

    def flush(self) -> None:
        """Write what there is, as far as the reader keeps up; a stream that breaks breaks the connection."""
        self._due = None
        writer, source = self._writer, self._source
        has_written, written = False, 0
        try:
            while writer.is_writable and (chunk := source.take()):
                has_written = True
                writer.write(chunk)
                written += len(chunk)
                if written >= FLUSH_BYTES:  # others are waiting for the loop
                    self._due = self._loop.call_soon(self.flush)
                    break
        except Exception:
            _log.exception("a stream broke")
            self.stop()
            writer.abort()
            return
        if source.ended:
            self.stop()
            writer.finish()
        elif has_written:
            self._tokens = self._tokens_now() - (self._price if written < LARGE_BYTES else 0)
            self._price = 1
            self._written_at = self._loop.time()

    def stop(self) -> None:
        """Free what is behind the stream."""
        if self._due is not None:
            self._due.cancel()
        self._source.close()

    def _ready(self) -> None:
        """Flush soon; with a reader that does not keep up, `flush` is called when it does."""
        if self._due is not None or not self._writer.is_writable:
            return
        tokens = self._tokens_now()
        if tokens >= 1:
            self._due = self._loop.call_soon(self.flush)
        else:
            self._price = 2
            self._due = self._loop.call_later(COALESCE_SECONDS - tokens * FLUSH_INTERVAL_SECONDS, self.flush)

    def _tokens_now(self) -> float:
        return min(AT_ONCE, self._tokens + (self._loop.time() - self._written_at) / FLUSH_INTERVAL_SECONDS)


class Pulling:
    """A stream that has to be waited for."""

    def __init__(self, writer: StreamWriter, stream: AsyncIterator[bytes], *, is_text: bool) -> None:
        self._writer, self._stream = writer, stream
        self.is_text = is_text
        """Whether only all of it is of use."""
        self.task: asyncio.Task[None] | None = None
        """What runs `run`."""

    async def run(self) -> None:
        """Write chunks as they come; a stream that breaks breaks the connection, so that its reader knows."""
        try:
            async for chunk in self._stream:
                self._writer.write(chunk)
                await self._writer.drained()
        except Exception:
            _log.exception("a stream broke")
            self._writer.abort()
            return
        finally:
            await close_stream(self._stream)
        self._writer.finish()

    def stop(self) -> None:
        """Free what is behind the stream."""
        if self.task is not None:
            self.task.cancel()


async def close_stream(stream: AsyncIterator[bytes]) -> None:
    """Free what is behind a stream; a generator can be closed, a plain iterator need not."""
    close = getattr(stream, "aclose", None)
    if close is not None:
        await close()


async def chunks_of(body: bytes, size: int) -> AsyncIterator[bytes]:
    """Yield a body piece by piece."""
    view = memoryview(body)
    for start in range(0, len(body), size):
        yield bytes(view[start : start + size])


async def gzipped(stream: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
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
