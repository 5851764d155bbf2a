"""The client of a Kubernetes API over HTTP(S): aiohttp beneath, a `Request` in and a `Response` out.

Connections are pooled and kept alive; watches stream. Only what the server has certainly not done is sent again:
reads on a connection that turned out dead, requests the server refused for load (429 with Retry-After), and one
attempt with fresh credentials after a 401.
"""

from __future__ import annotations

import ssl
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

from strato import __version__
from strato.api.wire import Request, Response
from strato.client.calls import WireCluster
from strato.client.config import Certificate, ClusterConfig, is_server_url
from strato.client.credentials import Credential, credentials_of
from strato.clock import Clock
from strato.errors import Unavailable, UsageError

if TYPE_CHECKING:
    import aiohttp
    import yarl

_READ_BUFFER_BYTES = 1 << 20
"""A large buffer lets a busy watch hand over many events per wake-up."""

_MAX_CONNECTIONS = 128
_OVERLOAD_RETRIES = 8
_CONNECT_SECONDS = 10.0
_STREAM_SLACK_SECONDS = 30.0


class HttpCluster(WireCluster):
    """A `Cluster` over HTTP(S).

    Args:
        config: Where, and who we are.
        clock: Waits of retries; ages of credentials.
        user_agent: What the server's logs show.
        idle_seconds: How long an answer may stand still before the connection counts as broken.

    Raises:
        UsageError: The server's address is no URL we can speak to, or a name to act as cannot be sent.
    """

    def __init__(
        self,
        config: ClusterConfig,
        clock: Clock,
        *,
        user_agent: str = f"strato/{__version__}",
        idle_seconds: float = 60.0,
    ) -> None:
        _check(config)
        self.config = config
        self._user_agent = user_agent
        self._clock = clock
        self._idle_seconds = idle_seconds
        self._credentials = credentials_of(config, clock)
        self._headers = {"user-agent": user_agent, "accept-encoding": "identity"}
        if config.impersonate_user:
            self._headers["impersonate-user"] = config.impersonate_user
        self._session: aiohttp.ClientSession | None = None
        self._session_certificate: Certificate | None = None
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
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def _send_safely(self, request: Request, stream: bool) -> Response:
        import aiohttp

        try:
            return await self._send(request, stream)
        except aiohttp.ServerDisconnectedError as error:
            if request.method != "GET":  # it may have been carried out
                raise self._unavailable(error) from error
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise self._unavailable(error) from error
        try:
            return await self._send(request, stream)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise self._unavailable(error) from error

    async def _send(self, request: Request, stream: bool) -> Response:
        credential = await self._credentials.current()
        session = await self._session_for(credential)
        headers = {**self._headers, **request.headers}
        if credential.token:
            headers["authorization"] = f"Bearer {credential.token}"
        response = await session.request(
            request.method,
            self._url(request),
            headers=_multi(headers, self.config.impersonate_groups),
            data=request.body or None,
            timeout=_timeout(request) if stream else session.timeout,
            server_hostname=self.config.tls_server_name or None,
            allow_redirects=False,
        )
        answered = response.headers  # finds a name in lower case, however it was written
        content_type = answered.get("content-type", "application/json")
        if stream and response.status < 400:
            return Response(response.status, b"", content_type, answered, self._chunks(response))
        async with response:
            return Response(response.status, await response.read(), content_type, answered)

    async def _chunks(self, response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
        import aiohttp

        try:
            async for chunk in response.content.iter_any():
                yield chunk
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise self._unavailable(error) from error
        finally:
            response.close()  # a stream left early cannot be reused

    def _url(self, request: Request) -> yarl.URL:
        import yarl

        url = self.config.server + quote(request.path, safe="/:@!$&'()*+,;=~")
        if request.query:
            url += "?" + urlencode(request.query, doseq=True)
        return yarl.URL(url, encoded=True)

    async def _session_for(self, credential: Credential) -> aiohttp.ClientSession:
        if self._closed:
            raise Unavailable("this client is closed")
        if self._session is not None and self._session_certificate is credential.certificate:
            return self._session
        import aiohttp

        old = self._session
        connector = aiohttp.TCPConnector(
            limit=_MAX_CONNECTIONS,
            ssl=tls_context(self.config, credential.certificate) if self.config.server.startswith("https") else True,
            keepalive_timeout=75.0,
        )
        self._session = aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            read_bufsize=_READ_BUFFER_BYTES,
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS, sock_read=self._idle_seconds),
        )
        self._session_certificate = credential.certificate
        if old is not None:
            await old.close()
        return self._session

    def _unavailable(self, error: BaseException) -> Unavailable:
        reason = str(error) or type(error).__name__
        if isinstance(error, TimeoutError):
            reason = "it did not answer in time"
        return Unavailable(f"the server {self.config.server} cannot be reached: {reason}")


def _timeout(request: Request) -> aiohttp.ClientTimeout:
    """Return how long a stream may be silent: for as long as the server was asked to keep it open."""
    import aiohttp

    asked = request.param("timeoutSeconds")
    silence = float(asked) + _STREAM_SLACK_SECONDS if asked else None
    return aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS, sock_read=silence)


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


def _multi(headers: dict[str, str], groups: tuple[str, ...]) -> dict[str, str] | list[tuple[str, str]]:
    if not groups:
        return headers
    return [*headers.items(), *(("impersonate-group", group) for group in groups)]
