"""Send one request to another service (a metrics system, an extender, a probed pod), on a connection of its own."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import NamedTuple
from urllib.parse import quote, unquote_to_bytes, urljoin, urlsplit

from strato import __version__
from strato.errors import one_line
from strato.http.client import Answer, BadAnswer, Origin, Unsendable, connect, header
from strato.http.proxies import Proxy, basic, tunnel
from strato.http.tls import client_context

_MOST_REDIRECTS = 5
_SAFE = "%/:@!$&'()*+,;=~?[]"
"""Characters that are not escaped in paths and queries."""

Headers = Sequence[tuple[str, str]]


class Fetched(NamedTuple):
    """A complete answer."""

    status: int
    body: bytes


async def fetch(
    url: str,
    method: str = "GET",
    *,
    headers: Headers = (),
    body: bytes = b"",
    tls: ssl.SSLContext | None = None,
    proxy: Proxy | None = None,
    limit_bytes: int,
    seconds: float | None = None,
) -> Fetched:
    """Send a request, follow redirects that repeat it, and return the answer, whatever its status.

    Raises:
        OSError: The answer is missing, incomplete, late (`TimeoutError`) or longer than ``limit_bytes``.
        Unsendable: The URL or a header cannot be sent.
    """
    try:
        async with (
            asyncio.timeout(seconds),
            follow(url, method, headers=headers, body=body, tls=lambda _: tls, proxy=lambda _: proxy) as (answer, _),
        ):
            return Fetched(answer.status, await limited(answer, limit_bytes))
    except TimeoutError as error:
        raise TimeoutError(str(error) or f"it did not end its answer within {seconds:g} s") from error


@asynccontextmanager
async def follow(
    url: str,
    method: str = "GET",
    *,
    headers: Headers = (),
    body: bytes = b"",
    tls: Callable[[str], ssl.SSLContext | None] = lambda _: None,
    proxy: Callable[[str], Proxy | None] = lambda _: None,
    idle_seconds: float | None = None,
) -> AsyncIterator[tuple[Answer, str]]:
    """Send a request as `exchange` does, follow redirects that repeat it, and yield the answer and its URL.

    Raises:
        OSError: There is no answer, or there are too many redirects.
        Unsendable: The URL or a header cannot be sent.
    """
    for _ in range(_MOST_REDIRECTS):
        ask = exchange(
            url, method, headers=headers, body=body, tls=tls(url), proxy=proxy(url), idle_seconds=idle_seconds
        )
        async with ask as answer:
            target = answer.headers.get("location")
            if not target or not _repeats(answer.status, method):
                yield answer, url
                return
        target = _redirected(url, target)
        if urlsplit(target)[:2] != urlsplit(url)[:2]:
            headers = [(name, value) for name, value in headers if name.lower() != "authorization"]
        url = target
    raise BadAnswer(f"it redirects more than {_MOST_REDIRECTS} times")


def _redirected(url: str, target: str) -> str:
    """Return the URL to which a redirect leads.

    Raises:
        BadAnswer: No request can be sent to it.
    """
    try:
        joined = urljoin(url, target)
        message(joined)
    except ValueError as error:
        raise BadAnswer(f"it redirects to {target[:200]!r}: {one_line(error)[:200]}") from error
    return joined


def _repeats(status: int, method: str) -> bool:
    """Return whether an answer is a redirect after which the client sends the same request again."""
    return status in (307, 308) or (status in (301, 302, 303) and method == "GET")


async def limited(answer: Answer, limit_bytes: int) -> bytes:
    """Return the body of an answer.

    Raises:
        OSError: The body ended early, or is longer than ``limit_bytes``.
    """
    pieces, size = [], 0
    async for piece in answer.chunks():
        pieces.append(piece)
        size += len(piece)
        if size > limit_bytes:
            raise BadAnswer(f"its answer is longer than {limit_bytes} bytes")
    return b"".join(pieces)


@asynccontextmanager
async def exchange(
    url: str,
    method: str = "GET",
    *,
    headers: Headers = (),
    body: bytes = b"",
    tls: ssl.SSLContext | None = None,
    proxy: Proxy | None = None,
    idle_seconds: float | None = None,
) -> AsyncIterator[Answer]:
    """Send a request and yield its answer once the head has arrived; the connection closes with the block.

    Raises:
        OSError: There is no answer.
        Unsendable: The URL or a header cannot be sent.
    """
    asked = message(url, method, headers=[("Connection", "close"), *headers], body=body, proxy=proxy)
    secure = asked.secure
    if secure and tls is None:
        tls = await asyncio.to_thread(client_context, asked.host)  # it reads files
    origin = Origin(asked.host, asked.port, tls if secure else None)
    through = None
    try:
        if proxy is not None and secure:
            through = await tunnel(proxy, origin.host, origin.port)
        elif proxy is not None:
            origin = Origin(proxy.host, proxy.port, None)
        connection = await connect(origin, through)
    except UnicodeError as error:  # the host is not a valid name
        raise Unsendable(f"{url!r}: {error}") from error
    try:
        yield await connection.ask(asked.data, idle_seconds, stream=True)
    finally:
        connection.abort()


class OutgoingRequest(NamedTuple):
    """A request's bytes, and the host and port to connect to."""

    host: str
    port: int
    secure: bool
    data: bytes


def message(
    url: str, method: str = "GET", *, headers: Headers = (), body: bytes = b"", proxy: Proxy | None = None
) -> OutgoingRequest:
    """Return a request with the usual headers, unless ``headers`` has others of their name.

    Raises:
        Unsendable: The URL or a header cannot be sent.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise Unsendable(f"{url!r} is no URL: {error}") from error
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise Unsendable(f"{url!r} is no http:// or https:// URL with a host")
    usual = {"Host": parts.netloc.rpartition("@")[2], "User-Agent": f"strato/{__version__}", "Accept": "*/*"}
    if parts.username:
        pair = unquote_to_bytes(parts.username) + b":" + unquote_to_bytes(parts.password or "")
        usual["Authorization"] = basic(pair)
    if body or method != "GET":
        usual["Content-Length"] = str(len(body))
    secure = parts.scheme == "https"
    target = quote((parts.path or "/") + (f"?{parts.query}" if parts.query else ""), safe=_SAFE)
    if proxy is not None and not secure:
        target = f"http://{usual['Host']}{target}"
        usual |= proxy.headers
    given = {name.lower() for name, _ in headers}
    lines = [*((name, value) for name, value in usual.items() if name.lower() not in given), *headers]
    head = f"{method} {target} HTTP/1.1\r\n{''.join(header(name, value) for name, value in lines)}\r\n"
    return OutgoingRequest(parts.hostname, port or (443 if secure else 80), secure, head.encode() + body)
