"""An HTTP/1.1 connection of a client: reads requests (`strato.http.parser`) and writes responses in the same order.

A response is one write, and a stream pauses while the client does not keep up. A request needs no task, event or future
unless the service returns an awaitable for its answer: of 100 µs that a small POST over TLS took behind a general ASGI
server, 40 went into those.
"""

from __future__ import annotations

import asyncio
import gzip
import socket
from collections import deque
from collections.abc import AsyncIterator, Awaitable
from contextlib import suppress
from typing import cast

from strato.api.wire import Pushed, Response, Session, User
from strato.clock import Clock
from strato.errors import ApiError, TooManyRequests
from strato.http.headers import ResponseHeaders, header_lines
from strato.http.limits import MOST_CONNECTIONS, ConnectionLimits
from strato.http.parser import MAX_BODY_BYTES, Exchange, RequestReader, cut_off, too_large
from strato.http.service import HttpService
from strato.http.streaming import GZIP_LEVEL, Pulling, Pushing, chunks_of, close_stream, gzipped
from strato.http.websocket import TransportWire

GZIP_FROM_BYTES = 128 * 1024
"""Smallest body worth compressing, as in kube-apiserver."""
KEEP_ALIVE_SECONDS = 90.0
"""How long a client may send nothing while no answer is due to it."""
REQUEST_SECONDS = 60.0
"""How long one request may take to arrive; time in which we do not read the connection does not count."""
HANDSHAKE_SECONDS = 10.0
"""How long a TLS handshake may take."""
_KEEP_ALIVE = {socket.TCP_KEEPIDLE: 30, socket.TCP_KEEPINTVL: 10, socket.TCP_KEEPCNT: 6}
"""TCP keep-alive of a session: seconds of silence before a probe, and between probes; unanswered probes that end it."""
_READ_BYTES = 256 * 1024
_COPIED_BYTES = 64 * 1024
"""Larger bodies are a write of their own: copying head and body into one would cost more than a second write."""
UNAUTHENTICATED_SECONDS = 30.0
"""How long a connection may exist before its client has authenticated."""
STALLED_SECONDS = 60.0
"""How long a client may leave what we sent it unread."""
LOOK_SECONDS = 15.0
"""How often `Connection._look` checks these limits."""
_TOO_MANY = 'user "{}" has too many connections; use fewer, or close those that are not needed'
_BUFFER_BYTES = 64 * 1024
"""Unsent bytes above which a client counts as not keeping up."""
CHUNK_BYTES = 256 * 1024
"""Larger bodies are written in chunks of this size, each when the client has read most of the one before."""
_GZIP_LINES = "content-encoding: gzip\r\nvary: Accept-Encoding\r\n"
_MOST_WAITING = 64
_WAITING_BYTES = 64 * 1024
"""Most pipelined requests, and most bytes of their bodies, that wait; with more we stop reading the connection."""


class Connections(ConnectionLimits["Connection"]):
    """The open connections of a server, with what they share: the service, the read buffer, the cached heads."""

    def __init__(self, service: HttpService, clock: Clock, *, most: int = MOST_CONNECTIONS) -> None:
        self.service = service
        super().__init__(most)
        self.buffer = memoryview(bytearray(_READ_BYTES))
        self._loop = asyncio.get_running_loop()
        self.response_headers = ResponseHeaders(clock, self._loop)

    def make(self) -> Connection:
        """Return the protocol of a new connection."""
        return Connection(self, self._loop)


class Connection(asyncio.BufferedProtocol):
    """One connection; the event loop calls the methods of `asyncio.BufferedProtocol`.

    All connections share one read buffer, because `buffer_updated` copies the bytes out at once. For a protocol without
    a buffer uvloop's TLS allocates 256 KiB for each read: three system calls and some page faults, a quarter of what a
    small request costs.
    """

    def __init__(self, server: Connections, loop: asyncio.AbstractEventLoop) -> None:
        self._server, self._service, self._loop = server, server.service, loop
        self._buffer = server.buffer
        self._transport: asyncio.Transport | None = None
        self._waiting: deque[Exchange] = deque()
        """Requests without a complete answer, in order of arrival; the first is answered first."""
        self._reader = RequestReader(self, self._waiting, server.service.refusal)
        self._is_busy = False
        """Whether the service is working on the first one, or its answer is being written."""
        self._is_advancing = False
        self._is_closing = False
        self._is_reading = True
        self.is_writable = True
        """Whether the client reads fast enough: at most `_BUFFER_BYTES` are unsent."""
        self._drained: asyncio.Future[None] | None = None
        self._stream: Pulling | Pushing | None = None
        self._session: Session | None = None
        """The session that has taken the connection over, as a WebSocket does."""
        self._came_early = False
        """Whether bytes of the other protocol arrived before the session began."""
        self._in_chunks = True
        """Whether the stream is sent with chunked transfer encoding."""
        self._last_data_at = self._begun_at = self._made_at = self._stalled_at = loop.time()
        self._under_way = 0
        self._timer: asyncio.TimerHandle | None = None
        self.owner = ""
        """Name of the user who has authenticated on it; empty before."""
        self.held = ("", 0)
        self._user: User | None = None
        """The user of the last request."""

    # -- called by the event loop --------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Note who the client is, and count the connection."""
        self._transport = cast(asyncio.Transport, transport)
        tls = transport.get_extra_info("ssl_object")
        self._reader.is_encrypted = tls is not None
        self._reader.peer = tls.getpeercert(binary_form=True) if tls is not None else None
        name = transport.get_extra_info("peername")
        self._reader.address = name[0].removeprefix("::ffff:") if isinstance(name, tuple) else ""
        with suppress(NotImplementedError):
            self._transport.set_write_buffer_limits(high=_BUFFER_BYTES)
        self._server.opened(self)
        self._timer = self._loop.call_later(LOOK_SECONDS, self._look)

    @property
    def is_idle(self) -> bool:
        """Whether no request waits for its answer."""
        return not (self._waiting or self._reader.under_way)

    @property
    def unread_bytes(self) -> int:
        """Bytes written for the client that the socket has not taken yet."""
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return the shared read buffer."""
        del sizehint
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Pass the received bytes to the parser, or to the session that has taken over."""
        self._last_data_at = self._loop.time()
        if not self._reader.is_discarding:
            self._reader.feed(bytes(self._buffer[:nbytes]))
            under_way = self._reader.under_way
            if under_way != self._under_way:
                self._under_way, self._begun_at = under_way, self._last_data_at
            self._advance()
            if under_way or self.held[1] or self._reader.buffers_bytes:
                self._hold()
        elif self._session is not None:
            self._session.received(bytes(self._buffer[:nbytes]))
        else:
            self._came_early = True

    def pause_writing(self) -> None:
        """Note that the client does not keep up."""
        self.is_writable = False
        self._stalled_at = self._loop.time()
        if self._session is not None:
            self._session.written(False)

    def resume_writing(self) -> None:
        """Continue with what waited for the client: the stream, the session, the next request."""
        self.is_writable = True
        self._notify_drained()
        if isinstance(self._stream, Pushing):
            self._stream.flush()
        if self._session is not None:
            self._session.written(True)
        self._advance()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the stream or session, and drop the requests that wait."""
        del exc
        self._reader.is_discarding = True
        self._transport = None
        first = self._waiting[0] if self._waiting and not self._is_busy else None
        if first is not None and first.user is not None:  # its body was cut off: for the audit log only
            self._service.refused(first.head, first.user, self._service.refusal(cut_off()))
        self._server.closed(self)
        if self._timer is not None:
            self._timer.cancel()
        self._notify_drained()
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.stop()
        if self._session is not None:
            self._session.lost()
        self._waiting.clear()

    # -- requests ------------------------------------------------------------------------------------------------------

    def _advance(self) -> None:
        """Begin the requests that can be answered, one after the other, and pause or resume reading."""
        if self._is_advancing:
            return
        self._is_advancing = True
        try:
            while self._waiting and not self._is_busy and self.is_writable and self._transport is not None:
                if not self._begin(self._waiting[0]):
                    break
        finally:
            self._is_advancing = False
        if not self._is_reading or len(self._waiting) > 1:
            self._read_or_not()

    def _hold(self) -> None:
        """Charge the user for requests and buffers; where that is too much, close idle connections, refuse requests."""
        server, reader = self._server, self._reader
        while not server.hold(self, reader.held_bytes):
            if not reader.under_way:
                if reader.buffers_bytes and not self._waiting:
                    self.close_gracefully()
                return
            if not server.close_idle_holder(self.owner):
                reader.refuse_rest(ends=reader.buffers_bytes > 0)
                self._advance()
                server.hold(self, reader.held_bytes)
                return

    def _read_or_not(self) -> None:
        waiting, transport = self._waiting, self._transport
        queued_bytes = sum(exchange.size for exchange in waiting) - (waiting[0].size if waiting else 0)
        wanted = len(waiting) <= _MOST_WAITING and queued_bytes <= _WAITING_BYTES
        if transport is None or wanted is self._is_reading or transport.is_closing():
            return
        self._is_reading = wanted
        if wanted:
            self._begun_at = self._loop.time()  # the time without reading was not the client's
            transport.resume_reading()
        else:
            transport.pause_reading()

    def _begin(self, exchange: Exchange) -> bool:
        """Admit a request and have the service answer it; return False if more of its body must arrive first."""
        head, transport = exchange.head, self._transport
        if exchange.user is None and (exchange.refusal is None or head.method):
            try:
                user = exchange.user = self._service.admit(head)
                if user is not self._user:
                    self._user = user
                    if user.name != self.owner and not self._server.admitted(self, user):
                        exchange.keeps_alive = False
                        raise TooManyRequests(_TOO_MANY.format(user.name), retry_after_seconds=1)
                if max(head.length or 0, exchange.size) > MAX_BODY_BYTES:
                    raise too_large()
            except ApiError as error:
                exchange.refusal = self._service.refusal(error)
                if exchange.expects:
                    exchange.keeps_alive = False  # the client may or may not send the body now
        if exchange.refusal is not None:
            self._is_busy = True
            refusal = exchange.refusal
            if exchange.user is not None:
                refusal = self._service.refused(head, exchange.user, refusal)
            self.answered(exchange, refusal)
            return True
        if not exchange.complete:
            if exchange.expects and not exchange.size and transport is not None:
                transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            exchange.expects = False
            return False
        assert exchange.user is not None
        parts = exchange.body
        body = parts[0] if len(parts) == 1 else b"".join(parts)
        parts.clear()
        self._is_busy = True
        later = self._service.answer(head, exchange.user, body, exchange.answered)
        if later is not None:
            self._server.spawn(self._await(exchange, later))
        return True

    async def _await(self, exchange: Exchange, later: Awaitable[Response]) -> None:
        self.answered(exchange, await later)

    # -- answers -------------------------------------------------------------------------------------------------------

    def answered(self, exchange: Exchange, response: Response) -> None:
        """Send the answer of the exchange that is first in line."""
        exchange.is_over = True
        body = response.body
        transport = self._transport
        if transport is None or transport.is_closing():
            if response.stream is not None:
                self._server.spawn(close_stream(response.stream))
            if response.session is not None:
                response.session.lost()
        elif response.session is not None:
            self._hand_over(response, response.session, transport)
        elif response.stream is not None:
            if response.is_text and exchange.takes_gzip:
                self._send_stream(exchange, response, gzipped(response.stream), _GZIP_LINES)
            else:
                self._send_stream(exchange, response, response.stream, "")
        elif len(body) >= GZIP_FROM_BYTES and exchange.takes_gzip:
            self._server.spawn(self._gzip(exchange, response))
        else:
            self._send(exchange, response, body, "")

    def _hand_over(self, response: Response, session: Session, transport: asyncio.Transport) -> None:
        """Hand the connection over to a session; the request that asked for it stays first in line to the end."""
        if self._came_early or len(self._waiting) > 1:  # HTTP's or the session's? a smuggling risk
            session.lost()
            transport.abort()
            return
        self._session, self._reader.is_discarding = session, True
        sock = transport.get_extra_info("socket")
        if sock is not None and sock.family != socket.AF_UNIX:  # finds clients that vanished without closing
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for option, value in _KEEP_ALIVE.items():
                sock.setsockopt(socket.IPPROTO_TCP, option, value)
        transport.write(f"HTTP/1.1 101 Switching Protocols\r\n{header_lines(response.headers)}\r\n".encode())
        session.begin(TransportWire(transport))

    async def _gzip(self, exchange: Exchange, response: Response) -> None:
        body = await asyncio.to_thread(gzip.compress, response.body, GZIP_LEVEL, mtime=0)
        self._send(exchange, response, body, _GZIP_LINES)

    def _send(self, exchange: Exchange, response: Response, body: bytes, more: str) -> None:
        """Write a whole answer, in one write if the body is not large: each write is a TLS record and a wake-up."""
        transport = self._transport
        if transport is None:
            return
        if response.headers:
            more += header_lines(response.headers)
        head = b"%bcontent-length: %d\r\n\r\n" % (self._first_lines(exchange, response, more), len(body))
        if exchange.head.method == "HEAD" or not body:
            transport.write(head)
        elif len(body) <= _COPIED_BYTES:
            transport.write(head + body)
        else:
            transport.write(head)
            if len(body) > CHUNK_BYTES:  # only a chunk at a time is copied into the transport's buffer
                self._in_chunks = False
                self._pull(chunks_of(body, CHUNK_BYTES), is_text=True)
                return
            transport.write(body)
        self._next(exchange)

    def _send_stream(self, exchange: Exchange, response: Response, stream: AsyncIterator[bytes], more: str) -> None:
        """Write the head of a stream at once, then its chunks as they are there."""
        assert self._transport is not None
        in_chunks = self._in_chunks = exchange.head.in_chunks  # without, the connection's end ends the stream
        more += header_lines(response.headers) + ("transfer-encoding: chunked\r\n" if in_chunks else "")
        self._transport.write(self._first_lines(exchange, response, more) + b"\r\n")
        if exchange.head.method == "HEAD":
            self._server.spawn(close_stream(stream))
            self._next(exchange)
        elif isinstance(stream, Pushed):
            self._stream = Pushing(self, stream, self._loop)
            self._stream.flush()
        else:
            self._pull(stream, is_text=response.is_text)

    def _pull(self, stream: AsyncIterator[bytes], *, is_text: bool) -> None:
        self._stream = Pulling(self, stream, is_text=is_text)
        self._stream.task = self._server.spawn(self._stream.run())

    def _first_lines(self, exchange: Exchange, response: Response, more: str) -> bytes:
        if self._is_closing or not exchange.keeps_alive:
            more += "connection: close\r\n"
        return self._server.response_headers.first_lines(
            response.status, response.content_type, exchange.head.answer_lines + more
        )

    def write(self, chunk: bytes) -> None:
        """Write a chunk of the stream."""
        if self._transport is None:
            return
        if self._in_chunks:
            self._transport.write(b"%x\r\n%b\r\n" % (len(chunk), chunk))
        else:
            self._transport.write(chunk)

    async def drained(self) -> None:
        """Wait until the client keeps up again or is gone."""
        while not self.is_writable and self._transport is not None:
            self._drained = self._loop.create_future()
            await self._drained

    def finish(self) -> None:
        """Write the end of the stream and go on with the next request."""
        self._stream = None
        if self._transport is not None:
            exchange = self._waiting[0]
            if self._in_chunks:
                self._transport.write(b"0\r\n\r\n")
            self._next(exchange)

    def _notify_drained(self) -> None:
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)

    def _next(self, exchange: Exchange) -> None:
        """Remove the request that has been answered; begin the next one, or close the connection."""
        self._waiting.popleft()
        self._is_busy = False
        if self.held[1]:
            self._hold()
        self._last_data_at = self._loop.time()
        if self._is_closing or not exchange.keeps_alive:
            self._reader.is_discarding = True
            self._waiting.clear()
            if self._transport is not None:
                self._transport.close()
        elif self._waiting or not self._is_reading:
            self._advance()

    # -- the end -------------------------------------------------------------------------------------------------------

    def close_gracefully(self) -> None:
        """Close after the answers that are due; a watch or another endless stream ends now."""
        self._is_closing = True
        stream = self._stream
        if self._session is not None:
            self._session.stop()
        elif stream is not None:
            if not stream.is_text:
                stream.stop()
                self.finish()
        elif not self._waiting and self._transport is not None:
            self._reader.is_discarding = True
            self._transport.close()

    def abort(self) -> None:
        """Close at once."""
        if self._transport is not None:
            self._transport.abort()

    def _look(self) -> None:
        """Close the connection if its client has been silent, or sent or read too slowly, for too long."""
        transport, now = self._transport, self._loop.time()
        if transport is None or self._session is not None:
            return
        if not self.is_writable and now - self._stalled_at >= STALLED_SECONDS:
            transport.abort()
            return
        awaits_client = not self._is_busy and self.is_writable
        has_timed_out = awaits_client and now - self._last_data_at >= KEEP_ALIVE_SECONDS
        is_unauthenticated = awaits_client and not self.owner and now - self._made_at >= UNAUTHENTICATED_SECONDS
        is_slow = self._under_way > 0 and self._is_reading and now - self._begun_at >= REQUEST_SECONDS
        if has_timed_out or is_unauthenticated or is_slow:
            self._reader.is_discarding = True
            transport.close()
            return
        self._timer = self._loop.call_later(LOOK_SECONDS, self._look)
