"""Write streamed responses: no faster than their readers read, and with the events of a burst in one write."""

from __future__ import annotations

import asyncio
import logging
import zlib
from collections.abc import AsyncIterator, Callable
from typing import Protocol

from strato.api.wire import Pushed

FLUSH_INTERVAL_SECONDS = 0.01
"""A token bucket gains one token per interval; a chunk that finds a token is written without delay."""
AT_ONCE = 8
"""Capacity of the bucket: enough for the changes that one small job causes."""
COALESCE_SECONDS = 2 * FLUSH_INTERVAL_SECONDS
"""How long chunks are coalesced once the bucket is empty: a TLS record, a system call and a wake-up of the reader cost
ten times what one event does. With 20 ms these cost half of what they do with 10."""
GZIP_LEVEL = 1
FLUSH_BYTES = 256 * 1024
"""Most bytes of one stream that are written in a row, before other streams have their turn."""
LARGE_BYTES = 64 * 1024
"""A write this large is coalesced already, so it takes no token."""

_log = logging.getLogger(__name__)


class StreamWriter(Protocol):
    """The connection that a stream is written to."""

    is_writable: bool
    """Whether the reader reads fast enough."""

    def write(self, chunk: bytes) -> None:
        """Write a chunk; does nothing if the reader is gone."""

    async def drained(self) -> None:
        """Wait until the reader keeps up again or is gone."""

    def finish(self) -> None:
        """End the stream."""

    def abort(self) -> None:
        """End the connection."""


class Pushing:
    """Writes a `Pushed` stream, whose source calls back when it has data, so that no task needs to wait for it."""

    is_text = False

    def __init__(self, writer: StreamWriter, source: Pushed, loop: asyncio.AbstractEventLoop) -> None:
        self._writer, self._source, self._loop = writer, source, loop
        self._due: asyncio.Handle | None = None
        self._tokens = float(AT_ONCE)
        """Tokens left in the bucket after the last write."""
        self._price = 1
        """Tokens that the next write takes: two if it was coalesced."""
        self._written_at = loop.time()
        source.listen(self._ready)

    def flush(self) -> None:
        """Write the source's chunks while the reader keeps up; if the source raises, abort the connection."""
        self._due = None
        writer, source = self._writer, self._source
        has_written, written = False, 0
        try:
            while writer.is_writable and (chunk := source.take()):
                has_written = True
                writer.write(chunk)
                written += len(chunk)
                if written >= FLUSH_BYTES:  # other streams' turn
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
        """Schedule a flush; if the reader does not keep up, the connection calls `flush` once it does."""
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
    """Writes a stream that is an async iterator; a task waits for its chunks."""

    def __init__(self, writer: StreamWriter, stream: AsyncIterator[bytes], *, is_text: bool) -> None:
        self._writer, self._stream = writer, stream
        self.is_text = is_text
        """Whether the stream is one finite body, which is sent to its end also when the server stops."""
        self.task: asyncio.Task[None] | None = None
        """The task of `run`."""

    async def run(self) -> None:
        """Write chunks as they come; if the stream raises, abort the connection, so that its reader notices."""
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


class NotifyingStream(AsyncIterator[bytes]):
    """Wraps a stream, and calls a function once when it has ended, failed or was closed, also if it was never read."""

    def __init__(self, stream: AsyncIterator[bytes], on_end: Callable[[], None]) -> None:
        self._stream, self._on_end = stream, on_end
        self._is_notified = False

    async def __anext__(self) -> bytes:
        """Return the next chunk."""
        try:
            return await anext(self._stream)
        except BaseException:
            self._notify()
            raise

    async def aclose(self) -> None:
        """Close the stream."""
        self._notify()
        await close_stream(self._stream)

    def _notify(self) -> None:
        if not self._is_notified:
            self._is_notified = True
            self._on_end()


async def close_stream(stream: AsyncIterator[bytes]) -> None:
    """Free a stream's resources: close it if it is a generator; a plain iterator has none."""
    close = getattr(stream, "aclose", None)
    if close is not None:
        await close()


async def chunks_of(body: bytes, size: int) -> AsyncIterator[bytes]:
    """Yield a body piece by piece."""
    view = memoryview(body)
    for start in range(0, len(body), size):
        yield bytes(view[start : start + size])


async def gzipped(stream: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yield a stream compressed; threads do the compression."""
    compressor = zlib.compressobj(GZIP_LEVEL, wbits=zlib.MAX_WBITS | 16)
    try:
        async for chunk in stream:
            packed = await asyncio.to_thread(compressor.compress, chunk)
            if packed:
                yield packed
        yield await asyncio.to_thread(compressor.flush)
    finally:
        await close_stream(stream)
