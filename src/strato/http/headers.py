"""The header sections of requests and of responses."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from email.utils import formatdate
from functools import lru_cache
from http import HTTPStatus
from urllib.parse import parse_qs, unquote

import httptools

from strato.api.wire import User
from strato.clock import Clock

_SHORT_BYTES = 2048
"""Targets up to this length are cached parsed, as clients send the same ones many times."""
_MOST_KNOWN = 256
"""Most cached heads of answers; all are dropped each second, because they hold the date."""


def host_port(host: str, port: int | str) -> str:
    """Return host and port as a URL or a Host header has them: an IPv6 address stands in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class Head:
    """A request up to its body: method, target and headers, and who sent it."""

    __slots__ = (
        "address",
        "annotations",
        "answer_lines",
        "expects",
        "headers",
        "impersonator",
        "in_chunks",
        "keeps_alive",
        "length",
        "method",
        "others",
        "path",
        "peer",
        "query",
    )

    def __init__(self, peer: bytes | None, address: str = "") -> None:
        self.address = address
        """Address of the client."""
        self.peer = peer
        """The client's certificate, DER; TLS has verified it."""
        self.method = self.path = ""
        self.answer_lines = ""
        """Headers for the answer that the service sets by user and request (flow control, for one), as whole lines."""
        self.query: Mapping[str, list[str]] = {}
        self.headers: dict[str, str] = {}
        """Values by name in lower case; of two headers with one name the first counts."""
        self.others: list[tuple[bytes, bytes]] = []
        """The headers that are not in `NAMES`: names in lower case, repeated headers as several pairs."""
        self.impersonator: User | None = None
        """The authenticated user, if the request impersonates another one."""
        self.annotations: dict[str, str] | None = None
        """Annotations of the request's audit event; None if none is written for it."""
        self.length: int | None = 0
        """Bytes of the body; None of one in chunks, whose length is not announced."""
        self.keeps_alive = True
        self.in_chunks = True
        """Whether the client understands chunked answers (HTTP/1.1)."""
        self.expects = False
        """Whether the client waits for ``100 Continue`` before it sends the body."""


class ResponseHeaders:
    """Makes the heads of answers, and caches those of the current second."""

    def __init__(self, clock: Clock, loop: asyncio.AbstractEventLoop) -> None:
        self._clock, self._loop = clock, loop
        self._dated_until = 0.0
        self._known: dict[tuple[int, str, str], bytes] = {}

    def first_lines(self, status: int, content_type: str, more: str) -> bytes:
        """Return an answer's head without the empty line that ends it, so that the caller can add headers.

        Args:
            status: HTTP status code.
            content_type: The body's.
            more: Further headers, whole lines.
        """
        now = self._loop.time()
        if now >= self._dated_until or len(self._known) > _MOST_KNOWN:
            self._known.clear()
            self._dated_until = now + 1
        key = (status, content_type, more)
        lines = self._known.get(key)
        if lines is None:
            date = formatdate(self._clock.now(), usegmt=True)
            text = f"{_STATUS_LINES[status]}date: {date}\r\ncontent-type: {content_type}\r\n{more}"
            lines = self._known[key] = text.encode("latin-1", "replace")
        return lines


def header_lines(headers: Mapping[str, str]) -> str:
    """Return header lines as they are sent; a value of several lines becomes a header for each, as for ``Warning``."""
    return "".join(f"{name.lower()}: {line}\r\n" for name, value in headers.items() for line in value.split("\n"))


def read_target(url: bytes) -> tuple[str, Mapping[str, list[str]]]:
    """Return the decoded path and the query of a request's target.

    Raises:
        ValueError: The target is malformed.
    """
    return _short_target(url) if len(url) <= _SHORT_BYTES else _target(url)


def _target(url: bytes) -> tuple[str, Mapping[str, list[str]]]:
    try:
        parsed = httptools.parse_url(url)
    except httptools.HttpParserInvalidURLError as error:
        raise ValueError(f"{url!r} is no URL") from error
    path = (parsed.path or b"/").decode("ascii")
    if not path.startswith("/"):
        raise ValueError(f"{path[:80]!r} is no path")
    if _BROKEN_ESCAPE.search(path):
        raise ValueError(f"{path[:80]!r} has an escape that is none")
    query: Mapping[str, list[str]] = {}
    if parsed.query:
        query = parse_qs(parsed.query.decode("latin-1"), keep_blank_values=True, max_num_fields=_MOST_PARAMETERS)
    return unquote(path) if "%" in path else path, query


_BROKEN_ESCAPE = re.compile("%(?![0-9A-Fa-f]{2})")
_MOST_PARAMETERS = 1000
_short_target = lru_cache(maxsize=1024)(_target)  # in C, as every request calls it; a few MiB at most


def _status_line(status: int) -> str:
    try:
        phrase = HTTPStatus(status).phrase
    except ValueError:
        phrase = ""
    return f"HTTP/1.1 {status} {phrase}\r\n"


STATUSES = range(200, 600)
"""Status codes that an answer may have."""
_STATUS_LINES: Mapping[int, str] = {status: _status_line(status) for status in STATUSES}
NAMES: Mapping[bytes, str] = {
    spelled.encode(): name
    for name in (
        "accept",
        "accept-encoding",
        "authorization",
        "connection",
        "content-encoding",
        "content-length",
        "content-type",
        "expect",
        "host",
        "transfer-encoding",
        "user-agent",
    )
    for spelled in (name, name.title())
}
"""The common headers in the two spellings that nearly all clients use, with the name in lower case."""
