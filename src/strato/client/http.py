"""`HttpCluster`: a `Cluster` over HTTP(S).

Connections are pooled and kept alive (`strato.http.pool`); watches stream. The client resends a request only if the
server has certainly not carried it out: reads on a connection that turned out dead, requests refused for load (429
with Retry-After), and, once and with fresh credentials, requests answered with 401.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import TypeVar
from urllib.parse import quote, urlencode, urlsplit

from strato import __version__
from strato.api.wire import Request, Response
from strato.client.calls import WireCluster, error_of, retry_after_seconds
from strato.client.config import Certificate, ClusterConfig, is_server_url
from strato.client.credentials import Credential, credentials_of
from strato.clock import Clock
from strato.errors import Unavailable, UsageError, one_line
from strato.http.client import Answer, Connection, Disconnected, Origin, header
from strato.http.pool import ConnectionPool
from strato.http.tls import client_context
from strato.http.upgrade import UpgradeRefused, over_websocket, websocket_headers
from strato.http.websocket import WebSocket
from strato.lru import LruCache

T = TypeVar("T")

_MAX_CONNECTIONS = 192
"""More than a component's concurrent writes and its watches together, so that none of them waits for a connection."""
OVERLOAD_RETRIES = 8
_WRITE_TIMEOUT_SECONDS = 30.0
"""`HttpCluster`'s ``idle_seconds`` for writes; shorter, as a worker that waits for an answer holds up other writes."""
_STREAM_SLACK_SECONDS = 30.0
_COLLECT_SECONDS = 0.02
"""How long the events of a busy watch collect. An API server sends each of them by itself."""
_PLAIN_PATH = re.compile(r"[A-Za-z0-9/._~-]*", re.ASCII).fullmatch
"""Matches a path without characters to quote, as nearly all are; `quote` would cost more."""


class HttpCluster(WireCluster):
    """A `Cluster` over HTTP(S).

    Args:
        idle_seconds: How long the server may send nothing before the connection counts as broken.
        overload_retries: How often a request answered with 429 and Retry-After is sent again. 0 is for components that
            retry from a queue, so that their workers do not wait here.

    Raises:
        UsageError: The server's address is not an http(s) URL, or a name to impersonate cannot be sent in a header.
    """

    def __init__(
        self,
        config: ClusterConfig,
        clock: Clock,
        *,
        user_agent: str = f"strato/{__version__}",
        idle_seconds: float = 60.0,
        overload_retries: int = OVERLOAD_RETRIES,
    ) -> None:
        _check(config)
        self.config = config
        self._user_agent = user_agent
        self._clock = clock
        self._idle_seconds = idle_seconds
        self._overload_retries = overload_retries
        self._credentials = credentials_of(config, clock)
        self._place = urlsplit(config.server)
        self._pool: ConnectionPool | None = None
        self._pool_certificate: Certificate | None = None
        self._headers = ""
        self._lines: LruCache[tuple[tuple[str, str], ...], str] = LruCache(64 << 10, lambda _, lines: 2 * len(lines))
        """Encoded header lines by headers; most requests have the same ones."""
        self._headers_credential: Credential | None = None
        self._closed = False

    async def exchange(self, request: Request, *, stream: bool = False) -> Response:
        """Send a request over the network."""
        renewed = False
        overloads = 0
        while True:
            response = await self._send_safely(request, stream)
            if response.status == 401 and not renewed and self._credentials.invalidate():
                renewed = True
            elif response.status == 429 and overloads < self._overload_retries and "retry-after" in response.headers:
                overloads += 1
                await self._clock.sleep(retry_after_seconds(response.headers["retry-after"]))
            else:
                return response

    def with_own_connections(self) -> HttpCluster:
        """Return a client of the same cluster with its own pool, for requests that must not wait behind others."""
        return HttpCluster(
            self.config,
            self._clock,
            user_agent=self._user_agent,
            idle_seconds=self._idle_seconds,
            overload_retries=self._overload_retries,
        )

    async def over_websocket(
        self,
        path: str,
        query: Mapping[str, Sequence[str]],
        protocols: Sequence[str],
        work: Callable[[WebSocket, str], Awaitable[T]],
    ) -> T:
        """Open a WebSocket on a new connection and run ``work`` with it and the subprotocol that the server chose.

        Raises:
            ApiError: The server refused the upgrade, or cannot be reached.
        """
        headers = websocket_headers(protocols)
        credential = await self._credentials.current()
        message = self._message(Request("GET", path, query, headers), credential)
        try:
            return await over_websocket(self._origin(credential), message, headers, work)
        except UpgradeRefused as refused:
            answer = Response(refused.status, refused.body, refused.content_type)
            raise error_of(answer, refused.body) from refused
        except (OSError, UnicodeError) as error:
            raise self._unavailable(error) from error

    async def close(self) -> None:
        """Close all connections."""
        self._closed = True
        pool, self._pool = self._pool, None
        if pool is not None:
            await pool.close()

    async def _send_safely(self, request: Request, stream: bool) -> Response:
        try:
            try:
                return await self._send(request, stream)
            except Disconnected:
                if request.method != "GET":  # the server may have carried it out
                    raise
            return await self._send(request, stream, fresh=True)
        except (OSError, UnicodeError) as error:  # an invalid host name is a UnicodeError
            raise self._unavailable(error) from error

    async def _send(self, request: Request, stream: bool, *, fresh: bool = False) -> Response:
        credential = await self._credentials.current()
        pool = self._pool_for(credential)
        message = self._message(request, credential)
        connection = (None if fresh else pool.spare()) or await pool.take(fresh=fresh)
        try:
            answer = await connection.ask(message, self._idle_timeout_seconds(request, stream), stream=stream)
            streamed = stream and answer.status < 400
            body = b"" if streamed else answer.take() if answer.complete else await answer.whole()
        except BaseException:
            connection.abort()
            pool.release(connection)
            raise
        content_type = (answer.headers.raw_value(b"Content-Type") or b"application/json").decode("latin-1")
        if streamed:
            collect_seconds = _COLLECT_SECONDS if request.param("watch") else 0.0
            body_stream = self._chunks(pool, connection, answer, collect_seconds)
            return Response(answer.status, b"", content_type, answer.headers, body_stream)
        pool.release(connection)
        return Response(answer.status, body, content_type, answer.headers)

    async def _chunks(
        self, pool: ConnectionPool, connection: Connection, answer: Answer, collect_seconds: float
    ) -> AsyncIterator[bytes]:
        try:
            async for chunk in answer.chunks(collect_seconds):
                yield chunk
        except OSError as error:
            raise self._unavailable(error) from error
        finally:
            if not answer.complete:
                connection.abort()  # a stream left early cannot be reused
            pool.release(connection)

    def _idle_timeout_seconds(self, request: Request, stream: bool) -> float | None:
        """Return how long the server may be silent; of a watch, as long as it was asked to keep the watch open."""
        if not stream:
            reads = request.method == "GET"
            return self._idle_seconds if reads else min(self._idle_seconds, _WRITE_TIMEOUT_SECONDS)
        asked = request.param("timeoutSeconds")
        return float(asked) + _STREAM_SLACK_SECONDS if asked else None

    def _message(self, request: Request, credential: Credential) -> bytes:
        """Return a request's bytes.

        Raises:
            UsageError: The value of a header holds a line break.
        """
        if credential is not self._headers_credential:
            self._headers, self._headers_credential = self._fixed_headers(credential), credential
        path = request.path
        target = self._place.path + (path if _PLAIN_PATH(path) else quote(path, safe="/:@!$&'()*+,;=~"))
        if request.query:
            target += "?" + urlencode(request.query, doseq=True)
        head = f"{request.method} {target or '/'} HTTP/1.1\r\n{self._headers}"
        names = tuple(request.headers.items())
        head += self._lines.get(names) or self._lines.put(names, "".join(header(*name) for name in names))
        if request.body or request.method != "GET":
            head += f"content-length: {len(request.body)}\r\n"
        return f"{head}\r\n".encode() + request.body

    def _fixed_headers(self, credential: Credential) -> str:
        headers = [("host", self._place.netloc.rpartition("@")[2]), ("user-agent", self._user_agent)]
        headers.append(("accept-encoding", "identity"))
        if self.config.impersonate_user:
            headers.append(("impersonate-user", self.config.impersonate_user))
        headers += [("impersonate-group", group) for group in self.config.impersonate_groups]
        if credential.token:
            headers.append(("authorization", f"Bearer {credential.token}"))
        return "".join(header(name, value) for name, value in headers)

    def _pool_for(self, credential: Credential) -> ConnectionPool:
        if self._closed:
            raise Unavailable("this client is closed")
        if self._pool is not None and self._pool_certificate is credential.certificate:
            return self._pool
        if self._pool is not None:
            self._pool.retire()
        self._pool, self._pool_certificate = (
            ConnectionPool(self._origin(credential), _MAX_CONNECTIONS),
            credential.certificate,
        )
        return self._pool

    def _origin(self, credential: Credential) -> Origin:
        secure = self._place.scheme == "https"
        tls = tls_context(self.config, credential.certificate) if secure else None
        port = self._place.port or (443 if secure else 80)
        return Origin(self._place.hostname or "", port, tls, self.config.tls_server_name)

    def _unavailable(self, error: BaseException) -> Unavailable:
        reason = one_line(error)
        if isinstance(error, TimeoutError):
            reason = "it did not answer in time"
        return Unavailable(f"the server {self.config.server} cannot be reached: {reason}")


def _check(config: ClusterConfig) -> None:
    if not is_server_url(config.server):
        raise UsageError(f"the server {config.server!r} is no http:// or https:// URL with a host")
    for name in (config.impersonate_user, *config.impersonate_groups):
        if not name.isprintable():
            raise UsageError(f"cannot act as {name!r}: the name holds a control character")


def tls_context(config: ClusterConfig, certificate: Certificate | None) -> ssl.SSLContext:
    """Build the TLS settings of a configuration.

    Raises:
        UsageError: A certificate or key cannot be used; the message says which.
    """
    pair = (certificate.chain, certificate.key) if certificate is not None else None
    return client_context(config.server, ca=config.ca, insecure=config.insecure_skip_tls_verify, pair=pair)
