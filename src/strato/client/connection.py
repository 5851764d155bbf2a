"""One HTTP/1.1 connection of the client: one exchange at a time, parsed by httptools, nothing per byte in Python.

A scheduler writes two requests per pod, so what a request costs here is what a cluster pays for every pod. There
are no timers per read (the pool looks at all busy connections together), no header objects and no copies of bodies.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from typing import Final, cast

import httptools

_BUFFER_BYTES: Final = 4 << 20
"""A stream whose reader is this far behind is no longer read from the socket."""


class Broken(Exception):
    """The connection ended or was closed before the answer was complete."""


class Unanswered(Broken):
    """It ended before a byte of the answer came: a kept connection that the server had given up, most often."""


class Answer:
    """An answer whose head has arrived.

    Attributes:
        status: The HTTP status.
        headers: Header fields by lower-case name.
        body: The whole body, unless it is streamed.
    """

    __slots__ = ("body", "headers", "status")

    def __init__(self, status: int, headers: dict[str, str]) -> None:
        self.status = status
        self.headers = headers
        self.body = b""


class Connection(asyncio.Protocol):
    """A connection that is used for one exchange after the other.

    Args:
        lost: Called once, when the connection is gone.

    Attributes:
        idle_since: When it was last given back, on the loop's clock.
        heard_at: When something last arrived during this exchange, on the loop's clock.
        patience: How long silence may last during this exchange, in seconds; None is for ever.
    """

    def __init__(self, lost: Callable[[Connection], None]) -> None:
        self._lost = lost
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._answer: Answer | None = None
        self._headers: list[tuple[bytes, bytes]] = []
        self._waiting: asyncio.Future[Answer] | None = None
        self._streams = False
        self._reader: asyncio.Future[None] | None = None
        self._chunks: list[bytes] = []
        self._held = 0
        self._paused = False
        self._whole = False
        self._error: Exception | None = None
        self.idle_since = 0.0
        self.heard_at = 0.0
        self.patience: float | None = None

    @property
    def is_usable(self) -> bool:
        """Whether another exchange may follow."""
        return self._transport is not None and self._error is None and not self._transport.is_closing()

    # -- exchanges -----------------------------------------------------------------------------------------------------

    async def ask(self, request: bytes, patience: float | None, *, stream: bool) -> Answer:
        """Send a request and wait for its answer: whole, or its head when a success is to be streamed.

        Raises:
            Broken: The connection ended; `Unanswered` when nothing of an answer came.
            TimeoutError: The server was silent for longer than ``patience``.
        """
        if self._transport is None or self._error is not None:
            raise Unanswered("the connection is closed")
        self._answer, self._streams, self._whole = None, stream, False
        self._headers.clear()
        self._chunks.clear()
        self._held = 0
        self.patience, self.heard_at = patience, self._loop.time()
        self._waiting = self._loop.create_future()
        self._transport.write(request)
        try:
            return await self._waiting
        except asyncio.CancelledError:
            self.close()  # the answer to come would be taken for the next one's
            raise
        finally:
            self._waiting = None

    @property
    def is_answered(self) -> bool:
        """Whether the present answer has arrived as a whole."""
        return self._whole

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yield what has arrived of a streamed body, as much as there is, until its end.

        Raises:
            Broken: The connection ended before the body did.
            TimeoutError: The server was silent for too long.
        """
        while True:
            if self._chunks:
                chunk = self._chunks[0] if len(self._chunks) == 1 else b"".join(self._chunks)
                self._chunks.clear()
                self._held = 0
                if self._paused and self._transport is not None:
                    self._paused = False
                    self.heard_at = self._loop.time()
                    self._transport.resume_reading()
                yield chunk
            elif self._whole:
                return
            elif self._error is not None:
                raise self._error
            else:
                self._reader = self._loop.create_future()
                await self._reader

    def check(self, now: float) -> None:
        """Give the exchange up when the server has been silent for too long."""
        if self.patience is not None and not self._paused and now - self.heard_at > self.patience and not self._whole:
            self._end(TimeoutError())

    def close(self) -> None:
        """Close it; an exchange under way ends with `Broken`."""
        self._end(Broken("the connection was closed"))

    def _end(self, error: Exception) -> None:
        if self._error is None:
            self._error = error
        if self._transport is not None:
            self._transport.abort()
        self._wake(error)

    def _wake(self, error: Exception) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_exception(error)
        self._wake_reader()

    def _wake_reader(self) -> None:
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)

    # -- asyncio.Protocol ----------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Feed the parser."""
        self.heard_at = self._loop.time()
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._end(Broken(f"the answer is not HTTP: {error}"))

    def eof_received(self) -> None:
        """End a body that only the connection's end ends."""
        self._end_of_input()

    def connection_lost(self, exc: Exception | None) -> None:
        """End whatever is under way."""
        self._end_of_input()
        if self._error is None:
            self._error = _reason(exc, self._answer is None)
        self._transport = None
        self._wake(self._error)
        self._lost(self)

    def _end_of_input(self) -> None:
        answer = self._answer
        if answer is not None and not self._whole and self._error is None:
            headers = answer.headers
            if "content-length" not in headers and "chunked" not in headers.get("transfer-encoding", ""):
                self.on_message_complete()

    # -- httptools -----------------------------------------------------------------------------------------------------

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header field."""
        self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        """Take the head; the body follows."""
        status = self._parser.get_status_code()
        if status < 200:  # "100 Continue" and its like: the answer is still to come
            self._headers.clear()
            return
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in self._headers}
        answer = self._answer = Answer(status, headers)
        self._streams = self._streams and status < 400
        if self._streams and self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(answer)

    def on_body(self, body: bytes) -> None:
        """Take a piece of the body."""
        self._chunks.append(body)
        if self._streams:
            self._held += len(body)
            if self._held > _BUFFER_BYTES and not self._paused and self._transport is not None:
                self._paused = True
                self._transport.pause_reading()
            self._wake_reader()

    def on_message_complete(self) -> None:
        """Hand over the answer."""
        answer = self._answer
        if answer is None:
            return  # of an interim answer
        self._whole = True
        if not self._parser.should_keep_alive() and self._error is None:
            self._error = Broken("the server ends the connection after this answer")
        if self._streams:
            self._wake_reader()
        elif self._waiting is not None and not self._waiting.done():
            answer.body = self._chunks[0] if len(self._chunks) == 1 else b"".join(self._chunks)
            self._chunks.clear()
            self._waiting.set_result(answer)


def _reason(exc: Exception | None, unanswered: bool) -> Exception:
    if isinstance(exc, ssl.SSLError):
        return exc
    text = str(exc) if exc is not None and str(exc) else "the server closed the connection"
    return (Unanswered if unanswered else Broken)(text)
