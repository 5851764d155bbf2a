"""An HTTP/1.1 connection that is kept alive: a request's bytes in, an `Answer` out.

httptools parses. This module adds only what a client of an API server needs: one request at a time on a connection;
bodies with a length, in chunks or up to the end of the connection; interim answers; streams that arrive no faster than
the caller reads, and that the caller may abandon. A general library does far more for each request: over TLS aiohttp
takes 224 µs of CPU where this takes 71, and a scheduler sends two requests for every pod.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any, NamedTuple, cast

import httptools

from strato.errors import UsageError
from strato.http.limits import PIECE_BYTES

_CONNECT_SECONDS = 30.0
_HEAD_BYTES = 1 << 20
"""Most bytes received since the request was sent, or since the last piece of body: a longer head or trailer fails."""

_BUFFER_BYTES = 1 << 20
"""Unread bytes of a stream from which on the connection is not read; a busy watch delivers many events per wake-up."""


class Disconnected(ConnectionError):
    """The connection ended before any answer came."""


class BadAnswer(ConnectionError):
    """The server sent something that is not an HTTP answer, or closed the connection in the middle of one."""


class Unsendable(UsageError, ValueError):
    """A request cannot be sent: the value of a header holds a line break, or the URL is invalid."""


class Headers(Mapping[str, str]):
    """The headers of an answer, by name in lower case; decoded when one is first read, as few answers need it."""

    __slots__ = ("_decoded", "_fields")

    def __init__(self, fields: Mapping[bytes, bytes]) -> None:
        self._fields = fields
        self._decoded: dict[str, str] | None = None

    def __getitem__(self, name: str) -> str:
        return self._all()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())

    def raw_value(self, canonical: bytes) -> bytes | None:
        """Return a header's value; cheap if the server wrote the name as ``canonical`` (``Content-Type``)."""
        value = self._fields.get(canonical)
        if value is None and (known := self.get(canonical.decode("latin-1").lower())) is not None:
            return known.encode("latin-1")
        return value

    def _all(self) -> dict[str, str]:
        if self._decoded is None:
            self._decoded = {n.decode("latin-1").lower(): v.decode("latin-1") for n, v in self._fields.items()}
        return self._decoded


_NO_HEADERS = Headers({})


class Answer:
    """The answer to a request: a head, then a body of which parts may not have arrived yet."""

    __slots__ = ("_waiter", "body", "complete", "connection", "error", "headers", "size", "status", "streamed")

    def __init__(self, connection: Connection, streamed: bool) -> None:
        self.connection = connection
        self.streamed = streamed
        self.status = 0
        """0 until the head has arrived."""
        self.headers = _NO_HEADERS
        self.body: list[bytes] = []
        self.size = 0
        self.complete = False
        self.error: OSError | None = None
        self._waiter: asyncio.Future[None] | None = None

    def notify(self) -> None:
        """Wake the caller that waits in `more`."""
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    async def more(self) -> None:
        """Wait until the connection calls `notify`.

        Raises:
            OSError: The connection has failed, and nothing more will arrive.
        """
        if self.error is not None:
            raise self.error
        self._waiter = self.connection.loop.create_future()
        await self._waiter

    def take(self) -> bytes:
        """Return the part of the body that has arrived since the last call."""
        taken = self.body[0] if len(self.body) == 1 else b"".join(self.body)
        self.body.clear()
        self.size = 0
        return taken

    async def whole(self) -> bytes:
        """Wait for the rest of the body and return it.

        Raises:
            OSError: The body ended early.
        """
        while not self.complete:
            await self.more()
        return self.take()

    async def chunks(self, collect_seconds: float = 0.0) -> AsyncIterator[bytes]:
        """Yield the body as it arrives.

        Args:
            collect_seconds: Of a body in many small parts, how long to let parts collect after each chunk while they
                follow one another in less than half of that. Decrypting, parsing and waking the reader cost as much for
                one part as for several. A part that comes alone is yielded at once.

        Raises:
            OSError: The body ended early.
        """
        connection, now = self.connection, self.connection.loop.time
        asked_at = now()
        while True:
            if self.body:
                is_busy = now() < asked_at + collect_seconds / 2
                yield self.take()
                if is_busy:
                    await connection.collect(collect_seconds)
                connection.go_on()
                asked_at = now()
            elif self.complete:
                return
            else:
                await self.more()


class Connection(asyncio.Protocol):
    """One connection. The event loop calls the methods of a protocol, and httptools those that begin with ``on_``."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.lost = asyncio.Event()
        self.idle_since = 0.0
        self._transport: asyncio.Transport | None = None
        self._fields: dict[bytes, bytes] = {}
        self.on_header = (
            self._fields.__setitem__
        )  # C code, so no Python call per header; of two headers with one name the last counts
        self._parser = httptools.HttpResponseParser(self)
        self._answer: Answer | None = None
        self._until_end = False  # the body has neither a length nor chunks
        self._usable = True
        self._head_bytes = 0
        self._idle_timeout_seconds: float | None = None
        self._last_data_at = 0.0
        self._timer: asyncio.TimerHandle | None = None

    @property
    def usable(self) -> bool:
        """Whether the connection can take another request."""
        return self._usable and self._transport is not None and not self._transport.is_closing()

    async def ask(self, request: bytes, idle_timeout_seconds: float | None, *, stream: bool) -> Answer:
        """Send a request and return the answer once it is complete, or of a stream once its head has arrived.

        Args:
            request: Head and body.
            idle_timeout_seconds: How long the server may send nothing; None is for ever.
            stream: Whether the caller reads the body as it arrives.

        Raises:
            OSError: There was no answer, and the connection was closed; `TimeoutError` if the server was silent.
        """
        assert self._transport is not None, "asked before it was connected"
        answer = self._answer = Answer(self, stream)
        self._idle_timeout_seconds, self._last_data_at, self._head_bytes = idle_timeout_seconds, self.loop.time(), 0
        self._listen()
        try:
            self._transport.write(request)
            while not (answer.complete or (stream and answer.status)):
                await answer.more()
        except BaseException:
            self.abort()  # the answer may still arrive, and would be taken for that of the next request
            raise
        return answer

    @property
    def certificate(self) -> bytes:
        """The certificate that the server showed, DER; empty without TLS."""
        tls = self._transport.get_extra_info("ssl_object") if self._transport is not None else None
        shown: bytes | None = tls.getpeercert(True) if tls is not None else None
        return shown or b""

    def abort(self) -> None:
        """Close the connection at once; a request under way fails."""
        self._usable = False
        if self._transport is not None:
            self._transport.abort()

    async def collect(self, seconds: float) -> None:
        """Leave what arrives in the socket for a while; `go_on` reads it."""
        self._pause()
        await asyncio.sleep(seconds)

    def go_on(self) -> None:
        """Resume reading from the socket, after `collect`, or after `data_received` because the reader was behind."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def _pause(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()

    def _listen(self) -> None:
        """Schedule a check for the idle timeout.

        One timer serves all answers until it fires, as a timer for each request would cost more than it is worth.
        """
        if self._idle_timeout_seconds is None:
            return
        at = self._last_data_at + self._idle_timeout_seconds
        if self._timer is not None:
            if self._timer.when() <= at:
                return
            self._timer.cancel()
        self._timer = self.loop.call_at(at, self._look)

    def _look(self) -> None:
        self._timer = None
        answer = self._answer
        if answer is None or answer.complete or self._idle_timeout_seconds is None:
            return
        if answer.size >= _BUFFER_BYTES:  # the silence is ours: reading is paused because the stream's reader is behind
            self._last_data_at = self.loop.time()
        if self.loop.time() >= self._last_data_at + self._idle_timeout_seconds:
            self._fail(TimeoutError("it did not answer in time"))
        else:
            self._listen()

    def _fail(self, error: OSError) -> None:
        answer = self._answer
        if answer is not None and not answer.complete and answer.error is None:
            answer.error = error
            answer.notify()
        self.abort()

    # -- called by the event loop --------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        """Parse what arrived, and wake the caller that waits for the answer."""
        answer = self._answer
        if answer is None or answer.complete:
            self.abort()  # no request is under way; a server that is about to close a connection may send a 408 first
            return
        self._last_data_at = self.loop.time()
        self._head_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._usable = False
            if not answer.complete:
                self._fail(BadAnswer(f"its answer is not HTTP: {error}"))
        if self._head_bytes > _HEAD_BYTES and not answer.complete:
            self._fail(BadAnswer(f"the head of its answer is longer than {_HEAD_BYTES} bytes"))
        if answer.complete or answer.streamed:
            answer.notify()
            if answer.size >= _BUFFER_BYTES and not answer.complete:
                self._pause()

    def connection_lost(self, exc: Exception | None) -> None:
        """End the answer under way: a body without length and chunks is complete now, any other has failed."""
        self._usable = False
        self.lost.set()
        if self._timer is not None:
            self._timer.cancel()
        answer = self._answer
        if answer is None or answer.complete:
            return
        if answer.status and self._until_end and exc is None:
            answer.complete = True
            answer.notify()
        elif answer.status:
            self._fail(BadAnswer("it closed the connection in the middle of an answer"))
        else:
            self._fail(Disconnected("it closed the connection"))

    # -- called by the parser ------------------------------------------------------------------------------------------

    def on_headers_complete(self) -> None:
        """Store the head in the answer, unless it is an interim one (1xx).

        Raises:
            BadAnswer: There is no request, or its answer has a head already.
        """
        status = self._parser.get_status_code()
        answer = self._answer
        if answer is None or answer.status:
            raise BadAnswer("an answer that nobody asked for")
        headers = Headers(self._fields.copy())
        self._fields.clear()
        if status < 200:
            return
        self._until_end = (
            headers.raw_value(b"Content-Length") is None and headers.raw_value(b"Transfer-Encoding") is None
        )
        answer.headers, answer.status = headers, status

    def on_body(self, body: bytes) -> None:
        """Add a piece to the answer's body."""
        self._head_bytes = 0
        if self._answer is not None:
            self._answer.body.append(body)
            self._answer.size += len(body) + PIECE_BYTES

    def on_message_complete(self) -> None:
        """Complete the answer, unless this was an interim one."""
        if self._answer is not None and self._answer.status:
            self._answer.complete = True
            self._usable = self._usable and self._parser.should_keep_alive()


class Origin(NamedTuple):
    """The server that connections lead to."""

    host: str
    port: int
    tls: ssl.SSLContext | None
    server_name: str = ""
    """Name to expect in the server's certificate; the host if empty."""


async def connect(origin: Origin, through: socket.socket | None = None) -> Connection:
    """Open a connection to a server, over the socket ``through`` if a proxy has made one.

    Raises:
        OSError: It cannot be opened, or not in time.
    """
    name = (origin.server_name or origin.host) if origin.tls is not None else None
    where: dict[str, Any] = {"host": origin.host, "port": origin.port} if through is None else {"sock": through}
    try:
        async with asyncio.timeout(_CONNECT_SECONDS):
            _, connection = await asyncio.get_running_loop().create_connection(
                Connection, ssl=origin.tls, server_hostname=name, **where
            )
    except TimeoutError as error:
        raise TimeoutError(f"no connection within {_CONNECT_SECONDS:g} s") from error
    return connection


async def over(sock: socket.socket, tls: ssl.SSLContext | None) -> Connection:
    """Return a connection over a connected socket; TLS, if any, does not check the name in the certificate.

    Raises:
        OSError: TLS fails, or not in time.
    """
    name = "" if tls is not None else None
    try:
        async with asyncio.timeout(_CONNECT_SECONDS):
            _, connection = await asyncio.get_running_loop().create_connection(
                Connection, sock=sock, ssl=tls, server_hostname=name
            )
    except TimeoutError as error:
        raise TimeoutError(f"no connection within {_CONNECT_SECONDS:g} s") from error
    return connection


def header(name: str, value: str) -> str:
    """Return a header line as it is sent.

    Raises:
        Unsendable: The value holds a line break, which would end the header early.
    """
    if "\r" in value or "\n" in value:
        raise Unsendable(f"the header {name} cannot be sent: its value holds the end of a line")
    return f"{name}: {value}\r\n"
