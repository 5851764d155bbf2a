"""The client of a Kubernetes API over HTTP(S): a `Request` in and a `Response` out.

Connections are pooled and kept alive (`strato.client.pool`); watches stream. Only what the server has certainly not
done is sent again: reads on a connection that turned out dead, requests the server refused for load (429 with
Retry-After), and one attempt with fresh credentials after a 401.
"""

from __future__ import annotations

import re
import ssl
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, urlencode, urlsplit

from strato import __version__
from strato.api.wire import Request, Response
from strato.client.calls import WireCluster
from strato.client.config import Certificate, ClusterConfig
from strato.client.credentials import Credential, credentials_of
from strato.clock import Clock
from strato.errors import Unavailable, UsageError

if TYPE_CHECKING:
    from strato.client.connection import Connection
    from strato.client.pool import Pool

_MAX_CONNECTIONS = 128
_OVERLOAD_RETRIES = 8
_STREAM_SLACK_SECONDS = 30.0
_KNOWN_HEADERS = 64
"""Sets of header fields kept ready; a client sends a handful."""

_PLAIN_PATH: Final = re.compile(r"[A-Za-z0-9_.\-~/:@!$&'()*+,;=]*").fullmatch
_BAD_HEADER: Final = re.compile(r"[\x00-\x1f\x7f]").search


class HttpCluster(WireCluster):
    """A `Cluster` over HTTP(S).

    Args:
        config: Where, and who we are.
        clock: Waits of retries; ages of credentials.
        user_agent: What the server's logs show.
        idle_seconds: How long an answer may stand still before the connection counts as broken.

    Raises:
        UsageError: The server's address is no URL we can speak to.
    """

    def __init__(
        self,
        config: ClusterConfig,
        clock: Clock,
        *,
        user_agent: str = f"strato/{__version__}",
        idle_seconds: float = 60.0,
    ) -> None:
        self.config = config
        self._user_agent = user_agent
        self._clock = clock
        self._idle_seconds = idle_seconds
        self._credentials = credentials_of(config, clock)
        self._address = _Address(config.server)
        self._fixed = [("host", self._address.authority), ("user-agent", user_agent), ("accept-encoding", "identity")]
        if config.impersonate_user:
            self._fixed.append(("impersonate-user", config.impersonate_user))
        self._fixed += [("impersonate-group", group) for group in config.impersonate_groups]
        self._heads: dict[tuple[object, ...], bytes] = {}
        self._pool: Pool | None = None
        self._pool_certificate: Certificate | None = None
        self._closed = False

    async def exchange(self, request: Request, *, stream: bool = False) -> Response:
        """Send a request over the network."""
        renewed = False
        overloads = 0
        while True:
            response = await self._send_safely(request, stream)
            if response.status == 401 and not renewed and self._credentials.invalidate():
                renewed = True
            elif response.status == 429 and overloads < _OVERLOAD_RETRIES and "retry-after" in response.headers:
                overloads += 1
                await self._clock.sleep(_retry_after_seconds(response.headers["retry-after"]))
            else:
                return response

    def apart(self) -> HttpCluster:
        """Return a client of the same cluster with connections of its own, for what must not wait behind the rest."""
        return HttpCluster(self.config, self._clock, user_agent=self._user_agent, idle_seconds=self._idle_seconds)

    async def close(self) -> None:
        """Close all connections."""
        self._closed = True
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.close()

    async def _send_safely(self, request: Request, stream: bool) -> Response:
        from strato.client.connection import Broken, Unanswered

        again = request.method == "GET"  # anything else may have been carried out
        while True:
            try:
                return await self._send(request, stream)
            except Unanswered as error:
                if not again:
                    raise self._unavailable(error) from error
                again = False
            except (Broken, TimeoutError, OSError) as error:
                raise self._unavailable(error) from error

    async def _send(self, request: Request, stream: bool) -> Response:
        credential = await self._credentials.current()
        pool = self._pool_for(credential)
        message = self._message(request, credential)
        patience = self._patience(request, stream)
        connection = await pool.acquire()
        streams = False
        try:
            answer = await connection.ask(message, patience, stream=stream)
            streams = stream and answer.status < 400
        finally:
            if not streams:
                pool.release(connection)
        content_type = answer.headers.get("content-type", "application/json")
        if streams:
            body = self._chunks(pool, connection)
            return Response(answer.status, b"", content_type, answer.headers, body)
        return Response(answer.status, answer.body, content_type, answer.headers)

    async def _chunks(self, pool: Pool, connection: Connection) -> AsyncIterator[bytes]:
        from strato.client.connection import Broken

        try:
            async for chunk in connection.chunks():
                yield chunk
        except (Broken, TimeoutError, OSError) as error:
            raise self._unavailable(error) from error
        finally:
            pool.release(connection)  # which closes one that was left early

    def _patience(self, request: Request, stream: bool) -> float | None:
        if not stream:
            return self._idle_seconds
        watch_seconds = request.param("timeoutSeconds")
        return float(watch_seconds) + _STREAM_SLACK_SECONDS if watch_seconds else None

    def _message(self, request: Request, credential: Credential) -> bytes:
        """Write a request as it goes over the wire."""
        path = request.path
        target = self._address.prefix + (path if _PLAIN_PATH(path) else quote(path, safe="/:@!$&'()*+,;=~"))
        if request.query:
            target += "?" + urlencode(request.query, doseq=True)
        head = f"{request.method} {target} HTTP/1.1\r\n".encode()
        body = request.body
        if body or request.method not in ("GET", "HEAD", "DELETE"):
            return b"%b%bcontent-length: %d\r\n\r\n%b" % (head, self._fields(request, credential), len(body), body)
        return b"%b%b\r\n" % (head, self._fields(request, credential))

    def _fields(self, request: Request, credential: Credential) -> bytes:
        key = (credential.token, *request.headers.items())
        fields = self._heads.get(key)
        if fields is None:
            named = [*self._fixed, *request.headers.items()]
            if credential.token:
                named.append(("authorization", f"Bearer {credential.token}"))
            for name, value in named:
                if _BAD_HEADER(name + value):
                    raise UsageError(f"the request's header {name} holds a control character; it cannot be sent")
            if len(self._heads) >= _KNOWN_HEADERS:
                self._heads.clear()
            fields = self._heads[key] = "".join(f"{name}: {value}\r\n" for name, value in named).encode()
        return fields

    def _pool_for(self, credential: Credential) -> Pool:
        if self._closed:
            raise Unavailable("this client is closed")
        if self._pool is not None and self._pool_certificate is credential.certificate:
            return self._pool
        from strato.client.pool import Pool

        old, address = self._pool, self._address
        tls = tls_context(self.config, credential.certificate) if address.secure else None
        self._pool = Pool(address.host, address.port, tls, self.config.tls_server_name, _MAX_CONNECTIONS)
        self._pool_certificate = credential.certificate
        if old is not None:
            old.retire()
        return self._pool

    def _unavailable(self, error: BaseException) -> Unavailable:
        reason = str(error) or type(error).__name__
        if isinstance(error, TimeoutError):
            reason = "it did not answer in time"
        return Unavailable(f"the server {self.config.server} cannot be reached: {reason}")


class _Address:
    """Where a server's URL points.

    Raises:
        UsageError: It is not an http or https URL.
    """

    __slots__ = ("authority", "host", "port", "prefix", "secure")

    def __init__(self, server: str) -> None:
        try:
            parts = urlsplit(server)
            port = parts.port
        except ValueError as error:
            raise UsageError(f"the server {server!r} is no URL: {error}") from error
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise UsageError(f"the server {server!r} is no http:// or https:// URL with a host")
        self.secure = parts.scheme == "https"
        self.host = parts.hostname
        self.port = port or (443 if self.secure else 80)
        self.authority = parts.netloc.rpartition("@")[2]
        self.prefix = quote(parts.path.rstrip("/"), safe="/:@!$&'()*+,;=~%")


def tls_context(config: ClusterConfig, certificate: Certificate | None) -> ssl.SSLContext:
    """Build the TLS settings of a configuration.

    Raises:
        UsageError: A certificate or key cannot be used; the message says which.
    """
    try:
        context = ssl.create_default_context(cadata=config.ca.decode("ascii") if config.ca else None)
    except (ssl.SSLError, UnicodeDecodeError) as error:
        raise UsageError(f"the certificate authority of {config.server} is not PEM: {error}") from error
    # Python ≥ 3.13 asks more of a CA than Go and OpenSSL do, and many clusters' CAs do not have it.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if config.insecure_skip_tls_verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if certificate is not None:
        with tempfile.TemporaryDirectory(prefix="strato-") as directory:  # mode 0700; OpenSSL only reads files
            chain, key = Path(directory) / "chain.pem", Path(directory) / "key.pem"
            chain.write_bytes(certificate.chain)
            key.write_bytes(certificate.key)
            try:
                context.load_cert_chain(chain, key)
            except (ssl.SSLError, OSError) as error:
                raise UsageError(
                    f"the client certificate for {config.server} and its key cannot be used: {error}"
                ) from error
    return context


def _retry_after_seconds(text: str) -> float:
    try:
        return max(0.0, float(text))
    except ValueError:
        return 1.0
