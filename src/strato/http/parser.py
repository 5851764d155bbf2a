"""Parse the requests of a connection.

httptools parses. A body is read as a whole, up to a limit, before the service sees its request. Clients often repeat a
head byte for byte, Content-Length included, so `RequestReader` keeps a few parsed heads by their bytes.
"""

from __future__ import annotations

import logging
import re
from collections import deque
from collections.abc import Callable
from typing import Protocol

import httptools

from strato.api.wire import Response, User
from strato.errors import ApiError, TooLarge, TooManyRequests
from strato.http.headers import NAMES, Head, read_target
from strato.http.limits import LARGE_BYTES, PIECE_BYTES, TLS_BUFFERS_BYTES

MAX_BODY_BYTES = 3 * 1024 * 1024
"""Largest request body, as in kube-apiserver."""
MAX_HEAD_BYTES = 1 << 20
"""Largest head of a request, as in Go's server."""
MAX_HEADERS = 1000
"""Most headers of a request beside the common ones (`NAMES`). Parsing stops at this number, because a header costs far
more memory and time than its bytes suggest."""
MAX_PIECES = 100_000
"""Most pieces of a body; more count as a body that is too large."""
_MOST_KNOWN = 8
"""Parsed heads kept for each connection."""
_KNOWN_BYTES = 4096
"""The largest head that is kept."""

_TOO_MUCH = "too much of your requests is being received and waits to be answered; send fewer at a time"
_HOST = re.compile(r"[-\w.~!$&'()*+,;=%:\[\]]*", re.ASCII).fullmatch
"""Matches the characters that Go allows in a Host header."""
_log = logging.getLogger(__name__)


class Answerer(Protocol):
    """The connection, as its exchanges see it: it sends answers."""

    def answered(self, exchange: Exchange, response: Response) -> None:
        """Send the answer of the exchange that is first in line."""


class Exchange:
    """A request with its body as far as it has arrived, and the state of its answer."""

    __slots__ = (
        "_answerer",
        "body",
        "complete",
        "expects",
        "head",
        "is_over",
        "keeps_alive",
        "refusal",
        "size",
        "user",
    )

    def __init__(self, answerer: Answerer, head: Head) -> None:
        self._answerer = answerer
        self.head = head
        self.body: list[bytes] = []
        self.size = 0
        self.complete = False
        """Whether the body has arrived in full."""
        self.expects, self.keeps_alive = head.expects, head.keeps_alive
        self.user: User | None = None
        """Who sent it; None until the service has admitted the request."""
        self.refusal: Response | None = None
        self.is_over = False
        """Whether the request has been answered; the rest of its body is then dropped."""

    @property
    def takes_gzip(self) -> bool:
        """Whether the client accepts compressed answers."""
        return "gzip" in self.head.headers.get("accept-encoding", "")

    def answered(self, response: Response) -> None:
        """Give the answer to the connection."""
        self._answerer.answered(self, response)


class RequestReader:
    """Reads the requests of one connection; httptools calls the methods that begin with ``on_``.

    Args:
        answerer: The connection, which sends the answers.
        waiting: Its exchanges in order of arrival; the reader appends one when a head is complete.
        refusal: Makes the answer that carries an error.
    """

    def __init__(self, answerer: Answerer, waiting: deque[Exchange], refusal: Callable[[ApiError], Response]) -> None:
        self.peer: bytes | None = None
        """The client's certificate, DER."""
        self.address = ""
        """The client's address."""
        self.is_encrypted = False
        """Whether the requests come over TLS."""
        self.buffers_bytes = 0
        """Memory that a large body has left in the buffers of TLS."""
        self.is_discarding = False
        """Whether further bytes are dropped, because the connection ends after the answers that are due."""
        self._answerer, self._waiting, self._refusal = answerer, waiting, refusal
        self._parser = httptools.HttpRequestParser(self)
        self._known: dict[bytes, Head] = {}
        self._url = b""
        self._head = Head(None)
        self._is_in_head = False
        self._head_bytes = 0
        self._hosts = 0
        self._begun = 0
        self._incoming: Exchange | None = None
        """The request whose body is arriving; None between requests and in a head."""

    @property
    def under_way(self) -> int:
        """The number of the request that has arrived in part; 0 between requests."""
        return self._begun if self._is_in_head or self._incoming is not None else 0

    @property
    def held_bytes(self) -> int:
        """Memory that the bodies and the unfinished head of unanswered requests take."""
        bodies = sum(one.size + PIECE_BYTES * len(one.body) for one in self._waiting)
        return self.buffers_bytes + bodies + (self._head_bytes if self._is_in_head else 0)

    def refuse_rest(self, *, ends: bool) -> None:
        """Answer the request that is still arriving with 429, and free its body; ``ends`` closes the connection."""
        exchange = self._incoming
        if exchange is None:
            self._refuse(429, b"Too much of too many requests is being received; try again later.")
        elif not exchange.is_over:
            exchange.body.clear()
            exchange.size = 0
            exchange.keeps_alive = exchange.keeps_alive and not ends
            exchange.refusal = self._refusal(TooManyRequests(_TOO_MUCH, retry_after_seconds=1))

    def feed(self, data: bytes) -> None:
        """Parse received bytes; a request whose head is known and whose body came with it skips the parser."""
        is_between = self._incoming is None and not self._is_in_head
        if is_between:
            cut = data.find(b"\r\n\r\n") + 4
            head = self._known.get(data[:cut])
            if head is not None and len(data) - cut == head.length:
                exchange = Exchange(self._answerer, head)
                exchange.body.append(data[cut:])
                exchange.complete = True
                self._waiting.append(exchange)
                return
        self._parse(data)
        if is_between and self._incoming is None and not (self._is_in_head or self.is_discarding):
            self._remember(data)

    def _parse(self, data: bytes) -> None:
        """Pass received bytes to the parser, and refuse what it cannot parse or what is too much."""
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            # The answer may hand the connection over to another protocol. If not, it is the last answer, because
            # the bytes that follow may belong to that protocol.
            self.is_discarding = True
            if self._waiting:
                self._waiting[-1].keeps_alive = False
                self._waiting[-1].complete = True
                if upgrade.args[0] < len(data) and self._waiting[-1].head.method == "GET":
                    why = b"nothing may follow a request for another protocol before its answer"
                    self._waiting[-1].refusal = Response(400, why, "text/plain; charset=utf-8")
        except httptools.HttpParserError as error:
            has_too_many = len(self._head.others) >= MAX_HEADERS
            if not (self.is_discarding or has_too_many):
                _log.debug("a client sent what is not HTTP: %s", error)
                self._refuse(400, b"Invalid HTTP request received.")
        if self._is_in_head and not self.is_discarding:
            self._head_bytes += len(data)
            if self._head_bytes > MAX_HEAD_BYTES or len(self._head.others) >= MAX_HEADERS:
                self._refuse(431, b"Request header fields too large.")

    def _refuse(self, status: int, why: bytes) -> None:
        """Answer a malformed or oversized request, after the requests before it, and close the connection."""
        exchange = self._incoming
        if exchange is None or exchange.is_over:
            exchange = Exchange(self._answerer, Head(self.peer, self.address))
            self._waiting.append(exchange)
        exchange.keeps_alive = False
        exchange.refusal = Response(status, why, "text/plain; charset=utf-8")
        exchange.complete = self.is_discarding = True

    def _remember(self, data: bytes) -> None:
        """Keep the parsed head of a request that came in one piece with nothing after it."""
        head = self._head
        cut = data.find(b"\r\n\r\n") + 4
        if 4 < cut <= _KNOWN_BYTES and data[0] not in b"\r\n" and not head.expects and len(data) - cut == head.length:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[data[:cut]] = head

    # -- called by the parser -----------------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        """Begin a request with an empty head."""
        self._head = Head(self.peer, self.address)
        self._url = b""
        self._head_bytes = self._hosts = 0
        self._is_in_head = True
        self._begun += 1

    def on_url(self, url: bytes) -> None:
        """Add a part of the target."""
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """Store a header; of two with one name the first counts, as in Go. A trailer only counts towards the size."""
        if not self._is_in_head:
            self._take_trailer(name, value)
            return
        known = NAMES.get(name)
        if known is None:
            lower = name.lower()
            known = lower.decode("latin-1")
            self._head.others.append((lower, value))
            if len(self._head.others) >= MAX_HEADERS:
                raise ValueError("too many headers")  # makes httptools stop; `_parse` answers 431
        if known == "host":
            self._hosts += 1
        headers = self._head.headers
        if known not in headers:
            headers[known] = value.decode("latin-1")

    def _take_trailer(self, name: bytes, value: bytes) -> None:
        """Add a trailer's length to the body's, and drop it."""
        exchange = self._incoming
        if exchange is not None:
            exchange.size += len(name) + len(value)
            if exchange.size > MAX_BODY_BYTES and exchange.user is not None and not exchange.is_over:
                exchange.refusal = self._refusal(too_large())

    def on_headers_complete(self) -> None:
        """Append the request to the exchanges that wait; its body may still be arriving."""
        if self.is_discarding:
            return
        head, headers, parser = self._head, self._head.headers, self._parser
        problem = self._problem(parser.get_http_version())
        if problem is not None:
            self._is_in_head = False
            self._refuse(*problem)
            return
        head.method = parser.get_method().decode("ascii")
        head.path, head.query = read_target(self._url)
        head.in_chunks = parser.get_http_version() != "1.0"
        head.keeps_alive = head.in_chunks and parser.should_keep_alive()
        head.expects = headers.get("expect", "").lower() == "100-continue"
        if "transfer-encoding" in headers:
            head.length = None
        elif "content-length" in headers:
            head.length = int(headers["content-length"])  # httptools has checked that this is a number
        self._is_in_head = False
        self._incoming = Exchange(self._answerer, head)
        self._waiting.append(self._incoming)

    def _problem(self, version: str) -> tuple[int, bytes] | None:
        """Return the status and text that refuse a head which a proxy in front could read in another way, else None."""
        headers = self._head.headers
        if version not in ("1.0", "1.1"):
            return 505, b"Only HTTP/1.0 and HTTP/1.1 are spoken here."
        if self._hosts != 1 and (self._hosts or version == "1.1"):
            return 400, b"too many Host headers" if self._hosts else b"missing required Host header"
        if self._hosts and not _HOST(headers["host"]):
            return 400, b"malformed Host header"
        if "transfer-encoding" in headers:
            if version == "1.0":
                return 400, b"HTTP/1.0 has no Transfer-Encoding"
            if headers["transfer-encoding"].strip().lower() != "chunked":
                return 501, b"Unsupported transfer encoding"
        if self._url == b"*":
            return 405, b"nothing is asked of the server as a whole"
        return None

    def on_body(self, body: bytes) -> None:
        """Keep a piece of the body; a body over the limit is dropped."""
        exchange = self._incoming
        if exchange is None or exchange.is_over or exchange.refusal is not None:
            return
        exchange.size += len(body)
        exchange.body.append(body)
        if exchange.size > LARGE_BYTES and self.is_encrypted:
            self.buffers_bytes = TLS_BUFFERS_BYTES
        if len(exchange.body) > MAX_PIECES:
            exchange.size = MAX_BODY_BYTES + 1
        if exchange.size > MAX_BODY_BYTES:
            exchange.body.clear()
            if exchange.user is not None:  # otherwise `Connection._begin` checks the size once it has admitted the user
                exchange.refusal = self._refusal(too_large())

    def on_message_complete(self) -> None:
        """Complete the request; if the connection ends after it, drop further bytes."""
        exchange, self._incoming = self._incoming, None
        if exchange is not None:
            exchange.complete = True
            if not exchange.keeps_alive:
                self.is_discarding = True


def cut_off() -> ApiError:
    """Return the error of a request whose body ends early, with Go's text."""
    return ApiError("unexpected EOF", reason="", code=500)


def too_large() -> TooLarge:
    """Return the error for a body over the limit."""
    return TooLarge(f"Request entity too large: limit is {MAX_BODY_BYTES}")
