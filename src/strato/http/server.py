"""An HTTP/1.1 connection of a client: requests in (`strato.http.parser`), responses out in the same order.

Responses are one write; streams stop while their reader does not keep up; pipelined requests are answered in order. A
request costs no task, event or future unless its answer has to be waited for: of 100 µs that a small POST over TLS took
behind a general ASGI server, 40 went into those.
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
from strato.http.parser import MAX_BODY_BYTES, Exchange, RequestReader, too_large
from strato.http.service import Service
from strato.http.streaming import GZIP_LEVEL, Pulling, Pushing, chunks_of, close_stream, gzipped
from strato.http.websocket import TransportWire

GZIP_FROM_BYTES = 128 * 1024
"""Smallest body worth compressing, as in kube-apiserver."""
KEEP_ALIVE_SECONDS = 90.0
"""How long a connection may be silent while it is the client's turn."""
REQUEST_SECONDS = 60.0
"""How long the parts of one request may take to come, as long as they are read."""
HANDSHAKE_SECONDS = 10.0
"""How long a TLS handshake may take."""
_KEEP_ALIVE = {socket.TCP_KEEPIDLE: 30, socket.TCP_KEEPINTVL: 10, socket.TCP_KEEPCNT: 6}
"""Seconds of silence after which a session's client is asked whether it is there, how often and how many times."""
_READ_BYTES = 256 * 1024
_COPIED_BYTES = 64 * 1024
"""Larger bodies are written by themselves: copying one behind its head would cost more than a second write."""
UNAUTHENTICATED_SECONDS = 30.0
"""How long that may take."""
STALLED_SECONDS = 60.0
"""How long a client may take nothing of what it has been sent."""
LOOK_SECONDS = 15.0
"""How often a connection is looked at for all of these."""
_TOO_MANY = 'user "{}" has too many connections; use fewer, or close those that are not needed'
_BUFFER_BYTES = 64 * 1024
"""Unsent bytes from which on a client counts as one that does not keep up."""
CHUNK_BYTES = 256 * 1024
"""What is written of a larger body before its reader has taken some of it."""
_GZIP_LINES = "content-encoding: gzip\r\nvary: Accept-Encoding\r\n"
_MOST_WAITING = 64
_WAITING_BYTES = 64 * 1024
"""Pipelined requests, and bytes of their bodies, after which reading stops."""


class Connections(ConnectionLimits["Connection"]):
    """What the connections of a server share."""

    def __init__(self, service: Service, clock: Clock, *, most: int = MOST_CONNECTIONS) -> None:
        self.service = service
        super().__init__(most)
        self.buffer = memoryview(bytearray(_READ_BYTES))
        self._loop = asyncio.get_running_loop()
        self.response_headers = ResponseHeaders(clock, self._loop)

    def make(self) -> Connection:
        """Return the protocol of a new connection."""
        return Connection(self, self._loop)


class Connection(asyncio.BufferedProtocol):
    """One connection; the loop calls the methods of a protocol.

    What arrives is read into one buffer that all connections share, as it is copied out of it at once. For a protocol
    without one uvloop's TLS makes 256 KiB of new memory for each read: three calls of the system and some page faults,
    a quarter of what a small request costs.
    """

    def __init__(self, server: Connections, loop: asyncio.AbstractEventLoop) -> None:
        self._server, self._service, self._loop = server, server.service, loop
        self._buffer = server.buffer
        self._transport: asyncio.Transport | None = None
        self._waiting: deque[Exchange] = deque()
        """Requests to be answered; the first is the one whose turn it is."""
        self._reader = RequestReader(self, self._waiting, server.service.refusal)
        self._is_busy = False
        """Whether the first one's answer is under way."""
        self._is_advancing = False
        self._is_closing = False
        self._is_reading = True
        self.is_writable = True
        """Whether the client keeps up."""
        self._drained: asyncio.Future[None] | None = None
        self._stream: Pulling | Pushing | None = None
        self._session: Session | None = None
        """What has taken the connection over."""
        self._came_early = False
        """Whether something came before it could."""
        self._in_chunks = True
        """Whether the stream is sent in chunks of HTTP; otherwise it is written as it is."""
        self._last_data_at = self._begun_at = self._made_at = self._stalled_at = loop.time()
        self._under_way = 0
        self._timer: asyncio.TimerHandle | None = None
        self.owner = ""
        """Name of the user whose it is; empty until that is known."""
        self.held = ("", 0)
        self._user: User | None = None
        """Who asked last."""

    # -- of the loop ---------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self._transport = cast(asyncio.Transport, transport)
        tls = transport.get_extra_info("ssl_object")
        self._reader.peer = tls.getpeercert(binary_form=True) if tls is not None else None
        name = transport.get_extra_info("peername")
        self._reader.address = name[0].removeprefix("::ffff:") if isinstance(name, tuple) else ""
        with suppress(NotImplementedError):
            self._transport.set_write_buffer_limits(high=_BUFFER_BYTES)
        self._server.opened(self)
        self._timer = self._loop.call_later(LOOK_SECONDS, self._look)

    @property
    def is_idle(self) -> bool:
        """Whether nothing is being answered."""
        return not self._waiting

    @property
    def unread_bytes(self) -> int:
        """What is held for the client until it reads on."""
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return where to put what arrives."""
        del sizehint
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Take what arrived."""
        self._last_data_at = self._loop.time()
        if not self._reader.is_discarding:
            self._reader.feed(bytes(self._buffer[:nbytes]))
            under_way = self._reader.under_way
            if under_way != self._under_way:
                self._under_way, self._begun_at = under_way, self._last_data_at
            self._advance()
            if under_way or self.held[1]:
                self._hold()
        elif self._session is not None:
            self._session.received(bytes(self._buffer[:nbytes]))
        else:
            self._came_early = True

    def pause_writing(self) -> None:
        """Stop: the client does not keep up."""
        self.is_writable = False
        self._stalled_at = self._loop.time()
        if self._session is not None:
            self._session.written(False)

    def resume_writing(self) -> None:
        """Go on."""
        self.is_writable = True
        self._notify_drained()
        if isinstance(self._stream, Pushing):
            self._stream.flush()
        if self._session is not None:
            self._session.written(True)
        self._advance()

    def connection_lost(self, exc: Exception | None) -> None:
        """End, and with it what is being sent."""
        del exc
        self._reader.is_discarding = True
        self._transport = None
        first = self._waiting[0] if self._waiting and not self._is_busy else None
        if first is not None and first.user is not None:  # its body ended early; nobody is there to be answered
            self._service.refused(first.head, first.user, self._service.refusal(_cut_off()))
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
        """Begin what can be begun, one request at a time, and read more where there is room for it."""
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
        """Count what is held of requests; of one that is still coming nothing is, where that is too much."""
        if not self._server.hold(self, self._reader.held_bytes) and self._reader.under_way:
            self._reader.refuse_rest()
            self._advance()
            self._server.hold(self, self._reader.held_bytes)

    def _read_or_not(self) -> None:
        waiting, transport = self._waiting, self._transport
        queued_bytes = sum(exchange.size for exchange in waiting) - (waiting[0].size if waiting else 0)
        wanted = len(waiting) <= _MOST_WAITING and queued_bytes <= _WAITING_BYTES
        if transport is None or wanted is self._is_reading or transport.is_closing():
            return
        self._is_reading = wanted
        if wanted:
            self._begun_at = self._loop.time()  # what came late was not the client's fault
            transport.resume_reading()
        else:
            transport.pause_reading()

    def _begin(self, exchange: Exchange) -> bool:
        """Have a request answered; return False where more of it has to come first."""
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
                    exchange.keeps_alive = False  # whether the body comes all the same is not known
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
        """Send the answer of the request whose turn it is."""
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
            if response.is_text and _takes_gzip(exchange):
                self._send_stream(exchange, response, gzipped(response.stream), _GZIP_LINES)
            else:
                self._send_stream(exchange, response, response.stream, "")
        elif len(body) >= GZIP_FROM_BYTES and _takes_gzip(exchange):
            self._server.spawn(self._gzip(exchange, response))
        else:
            self._send(exchange, response, body, "")

    def _hand_over(self, response: Response, session: Session, transport: asyncio.Transport) -> None:
        """Let another protocol have the connection; it stays busy with the request for it to the end."""
        if self._came_early or len(self._waiting) > 1:  # whose bytes those are would be a matter of opinion
            session.lost()
            transport.abort()
            return
        self._session, self._reader.is_discarding = session, True
        sock = transport.get_extra_info("socket")
        if sock is not None and sock.family != socket.AF_UNIX:  # finds clients that are gone without a word
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for option, value in _KEEP_ALIVE.items():
                sock.setsockopt(socket.IPPROTO_TCP, option, value)
        transport.write(f"HTTP/1.1 101 Switching Protocols\r\n{header_lines(response.headers)}\r\n".encode())
        session.begin(TransportWire(transport))

    async def _gzip(self, exchange: Exchange, response: Response) -> None:
        body = await asyncio.to_thread(gzip.compress, response.body, GZIP_LEVEL, mtime=0)
        self._send(exchange, response, body, _GZIP_LINES)

    def _send(self, exchange: Exchange, response: Response, body: bytes, more: str) -> None:
        """Write a whole answer, in one piece where that is worth it: each write is a TLS record and a wake-up."""
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
            if len(body) > CHUNK_BYTES:  # what the reader has not taken is not copied into its buffers
                self._in_chunks = False
                self._pull(chunks_of(body, CHUNK_BYTES), is_text=True)
                return
            transport.write(body)
        self._next(exchange)

    def _send_stream(self, exchange: Exchange, response: Response, stream: AsyncIterator[bytes], more: str) -> None:
        """Write the head of a stream at once, then what there is and what comes."""
        assert self._transport is not None
        in_chunks = self._in_chunks = exchange.head.in_chunks  # otherwise its end is the connection's
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
        """Write a piece of the stream."""
        if self._transport is None:
            return
        if self._in_chunks:
            self._transport.write(b"%x\r\n%b\r\n" % (len(chunk), chunk))
        else:
            self._transport.write(chunk)

    async def drained(self) -> None:
        """Wait until more can be written; with a client that is gone that is at once."""
        while not self.is_writable and self._transport is not None:
            self._drained = self._loop.create_future()
            await self._drained

    def finish(self) -> None:
        """End the stream."""
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
        """Go on after an answer."""
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
        """End as soon as what is under way has its answer; a stream that is no text ends now."""
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
        """End now."""
        if self._transport is not None:
            self._transport.abort()

    def _look(self) -> None:
        """End a connection whose client has been silent, slow to ask or slow to read for too long."""
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


def _takes_gzip(exchange: Exchange) -> bool:
    return "gzip" in exchange.head.headers.get("accept-encoding", "")


def _cut_off() -> ApiError:
    """Return the error of a request whose body ends early, in Go's words."""
    return ApiError("unexpected EOF", reason="", code=500)
