"""HTTP for the server's core: a raw ASGI application and a uvicorn runner.

No framework and no router: the core routes. What is done here is what only a transport can do: read the body up to
its limit, find out who asks, stream watches and free them when their reader vanishes, compress big lists.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import gzip
import io
import logging
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, MutableMapping
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import parse_qs

import msgspec
import uvicorn

from strato.api.status import to_status
from strato.api.wire import Handler, Request, Response, User
from strato.errors import ApiError, InvariantError, StratoError, TooLarge
from strato.metrics import CONTENT_TYPE, Registry

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

MAX_BODY_BYTES = 3 * 1024 * 1024
"""Largest request body, as in kube-apiserver."""
GZIP_FROM_BYTES = 128 * 1024
"""Smallest body worth compressing, as in kube-apiserver."""
_GZIP_LEVEL = 1
_HEALTH = frozenset(("/healthz", "/livez", "/readyz"))
_SHUTDOWN_SECONDS = 2
_AT_ONCE_BYTES = 64 * 1024
"""Larger bodies are written by themselves: copying one behind its head would cost more than a second write."""

_log = logging.getLogger(__name__)


class Authenticate(Protocol):
    """Finds out who asks."""

    def __call__(self, headers: Mapping[str, str], scope: Scope) -> User:
        """Return the user, anonymous without credentials.

        Raises:
            Unauthorized: There are credentials, and they are not valid.
        """
        ...


class Impersonate(Protocol):
    """Finds out as whom a request with ``Impersonate-…`` headers acts."""

    def __call__(self, user: User, headers: Iterable[tuple[bytes, bytes]]) -> User:
        """Return the user to go on with.

        Raises:
            Forbidden: The one who asks may not.
        """
        ...


class Ready(Protocol):
    """Names what is not ready yet."""

    def __call__(self) -> list[str]:
        """Return the names of failing checks; empty when ready."""
        ...


_NO_QUERY: dict[str, list[str]] = {}


class _Disconnected(Exception):
    """The client went away before its request was complete."""


def _error_response(error: ApiError) -> Response:
    headers = {"Retry-After": str(error.retry_after_seconds)} if error.retry_after_seconds is not None else {}
    return Response(error.code, msgspec.json.encode(to_status(error)), headers=headers)


class _OwnPaths:
    """Health and metrics, which are the transport's own."""

    def __init__(
        self,
        metrics: Registry | None,
        ready: Ready,
        authorize: Callable[[User, str, str], ApiError | None] | None,
        other_metrics: Callable[[], Awaitable[bytes]] | None,
    ) -> None:
        self._metrics = metrics
        self._other_metrics = other_metrics
        self._ready = ready
        self._authorize = authorize

    async def handle(self, request: Request) -> Response | None:
        path = request.path
        base = "/" + path.split("/", 2)[1]
        is_metrics = path == "/metrics" and self._metrics is not None
        if base not in _HEALTH and not is_metrics:
            return None
        if self._authorize is not None and request.user is not None:
            denied = self._authorize(request.user, request.method.lower(), path)
            if denied is not None:
                raise denied
        if is_metrics:
            assert self._metrics is not None
            others = await self._other_metrics() if self._other_metrics is not None else b""
            return Response(200, self._metrics.render() + others, CONTENT_TYPE)
        return self._health(request, base)

    def _health(self, request: Request, base: str) -> Response:
        failing = self._ready() if base == "/readyz" else []
        headers = {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-cache, private"}
        plain = "text/plain; charset=utf-8"
        if not failing and "verbose" not in request.query:
            return Response(200, b"ok", plain, headers)
        lines = [f"[-]{name} failed: not ready yet" for name in failing] or ["[+]ping ok"]
        name = base[1:]
        lines.append(f"{name} check {'failed' if failing else 'passed'}")
        return Response(500 if failing else 200, "\n".join(lines).encode() + b"\n", plain, headers)


class App:
    """The ASGI application; made by `create_app`."""

    def __init__(
        self, handler: Handler, authenticate: Authenticate, own_paths: _OwnPaths, impersonate: Impersonate | None
    ) -> None:
        self._handler = handler
        self._authenticate = authenticate
        self._impersonate = impersonate
        self._own_paths = own_paths
        self._streams: set[asyncio.Task[Any]] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            raise InvariantError(f"only HTTP is served, not {scope['type']}")
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        try:
            response = await self._answer(scope, headers, receive)
        except _Disconnected:
            return
        except ApiError as error:
            response = _error_response(error)
        except Exception:  # the last net: a bug of ours must not close the connection without a word
            _log.exception("%s %s failed", scope["method"], scope["path"])
            response = _error_response(ApiError("an error on the server has prevented the request from succeeding"))
        if response.stream is not None:
            await self._send_stream(response, response.stream, receive, send)
        else:
            await _send_whole(response, headers, scope, send)

    def end_streams(self) -> None:
        """End every watch and followed log now, as a server that goes away does."""
        for task in tuple(self._streams):
            task.cancel()

    async def _answer(self, scope: Scope, headers: Mapping[str, str], receive: Receive) -> Response:
        user = self._authenticate(headers, scope)
        if self._impersonate is not None and ("impersonate-user" in headers or "impersonate-group" in headers):
            user = self._impersonate(user, scope["headers"])
        body = await _read_body(headers, receive)
        query = scope["query_string"]
        request = Request(
            method=scope["method"],
            path=scope["path"],
            query=parse_qs(query.decode("latin-1"), keep_blank_values=True) if query else _NO_QUERY,
            headers=headers,
            body=body,
            user=user,
        )
        if not request.path.startswith("/api"):  # nearly all do
            response = await self._own_paths.handle(request)
            if response is not None:
                return response
        return await self._handler.handle(request)

    async def _send_stream(
        self, response: Response, stream: AsyncIterator[bytes], receive: Receive, send: Send
    ) -> None:
        """Send chunks as they come; a vanished reader closes the stream at once, even when nothing comes."""
        pump = asyncio.ensure_future(_pump(response, stream, send))
        reader = asyncio.ensure_future(_until_disconnect(receive))
        self._streams.add(pump)
        try:
            await asyncio.wait((pump, reader), return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._streams.discard(pump)
            is_reader_gone = reader.done()
            reader.cancel()
            pump.cancel()
            await asyncio.gather(pump, return_exceptions=True)
            close = getattr(stream, "aclose", None)
            if close is not None:
                await close()
            if not is_reader_gone:
                await send({"type": "http.response.body", "body": b""})


async def _pump(response: Response, stream: AsyncIterator[bytes], send: Send) -> None:
    await send({"type": "http.response.start", "status": response.status, "headers": _wire_headers(response)})
    await send({"type": "http.response.body", "body": b"", "more_body": True})  # headers leave before the first event
    async for chunk in stream:
        await send({"type": "http.response.body", "body": chunk, "more_body": True})


async def _until_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _wire_headers(response: Response) -> list[tuple[bytes, bytes]]:
    """Return the headers; a value with line breaks is one header per line (several ``Warning`` headers)."""
    out = [(b"content-type", response.content_type.encode("latin-1"))]
    for name, value in response.headers.items():
        out.extend((name.lower().encode("latin-1"), line.encode("latin-1", "replace")) for line in value.split("\n"))
    return out


def create_app(
    handler: Handler,
    authenticate: Authenticate,
    metrics: Registry | None = None,
    *,
    ready: Ready = list,
    authorize_path: Callable[[User, str, str], ApiError | None] | None = None,
    impersonate: Impersonate | None = None,
    other_metrics: Callable[[], Awaitable[bytes]] | None = None,
) -> App:
    """Return the ASGI application.

    Args:
        handler: The server's core.
        authenticate: Who asks; its `Unauthorized` becomes the answer.
        metrics: Rendered at ``/metrics``; without it that path goes to the core.
        ready: Checks behind ``/readyz``.
        authorize_path: Decides over ``/metrics`` and the health paths as (user, verb, path); None lets all pass.
        impersonate: Acts as somebody else where a request wants that; None ignores the wish.
        other_metrics: More of the text at ``/metrics``, of another process; names differ from those of ``metrics``.
    """
    return App(handler, authenticate, _OwnPaths(metrics, ready, authorize_path, other_metrics), impersonate)


async def _read_body(headers: Mapping[str, str], receive: Receive) -> bytes:
    """Return the whole body.

    Raises:
        TooLarge: It is longer than `MAX_BODY_BYTES`, announced or counted.
    """
    announced = headers.get("content-length")
    if announced is None and "transfer-encoding" not in headers:
        return b""
    if announced is not None and announced.isdigit() and int(announced) > MAX_BODY_BYTES:
        raise _too_large()
    message = await receive()
    chunks: list[bytes] = []
    size = 0
    while True:
        if message["type"] == "http.disconnect":
            raise _Disconnected
        chunk: bytes = message.get("body", b"")
        if not message.get("more_body"):
            if not chunks:
                body = chunk
                break
            chunks.append(chunk)
            body = b"".join(chunks)
            break
        size += len(chunk)
        if size > MAX_BODY_BYTES:
            raise _too_large()
        chunks.append(chunk)
        message = await receive()
    if len(body) > MAX_BODY_BYTES:
        raise _too_large()
    return _unpacked(body) if headers.get("content-encoding") == "gzip" else body


def _unpacked(body: bytes) -> bytes:
    with contextlib.suppress(OSError, EOFError), gzip.GzipFile(fileobj=io.BytesIO(body)) as stream:
        plain = stream.read(MAX_BODY_BYTES + 1)
        if len(plain) > MAX_BODY_BYTES:
            raise _too_large()
        return plain
    return body


def _too_large() -> TooLarge:
    return TooLarge(f"Request entity too large: limit is {MAX_BODY_BYTES}")


async def _send_whole(response: Response, headers: Mapping[str, str], scope: Scope, send: Send) -> None:
    body, method = response.body, scope["method"]
    out = _wire_headers(response)
    if len(body) >= GZIP_FROM_BYTES and "gzip" in headers.get("accept-encoding", ""):
        body = await asyncio.to_thread(gzip.compress, body, _GZIP_LEVEL, mtime=0)
        out += [(b"content-encoding", b"gzip"), (b"vary", b"Accept-Encoding")]
    out.append((b"content-length", str(len(body)).encode()))
    if method != "HEAD" and len(body) <= _AT_ONCE_BYTES and not response.headers:
        answer = scope.get("strato.answer")
        if answer is not None and answer(send, response.status, out, body):
            return
    await send({"type": "http.response.start", "status": response.status, "headers": out})
    await send({"type": "http.response.body", "body": b"" if method == "HEAD" else body})


class PortInUse(StratoError):
    """The address cannot be listened on."""


class HttpServer:
    """A running server; made by `serve`."""

    def __init__(self, app: App, server: uvicorn.Server, task: asyncio.Task[None], address: socket.socket) -> None:
        self._app = app
        self._server = server
        self._task = task
        self.port: int = address.getsockname()[1]
        """The bound port, also when 0 was asked for."""

    @property
    def failed(self) -> bool:
        """Whether serving ended without `stop`."""
        return self._task.done() and not self._server.should_exit

    async def wait(self) -> None:
        """Return when serving has ended."""
        await asyncio.shield(self._task)

    async def stop(self) -> None:
        """Stop listening, end watches within two seconds, and wait for it."""
        self._server.should_exit = True
        self._app.end_streams()
        await self._task


async def serve(
    app: App,
    host: str = "127.0.0.1",
    port: int = 0,
    *,
    certificate: Path | None = None,
    private_key: Path | None = None,
    client_ca: Path | None = None,
    listener: socket.socket | None = None,
) -> HttpServer:
    """Listen and serve in the running event loop; returns once connections are accepted.

    Args:
        app: From `create_app`.
        host: Address to listen on; a name is resolved.
        port: 0 picks a free one.
        certificate: PEM file of the server's certificate; plain HTTP without it.
        private_key: PEM file of its key.
        client_ca: CA of client certificates, which are then asked for, not required.
        listener: A bound socket to use instead of ``host`` and ``port``.

    Raises:
        PortInUse: The address is taken or not ours.
    """
    bound = listener if listener is not None else bind(host, port)
    config = uvicorn.Config(
        app,
        loop="none",
        http=_protocol(),
        ws="none",
        lifespan="off",
        access_log=False,
        proxy_headers=False,
        log_config=None,
        server_header=False,
        date_header=True,
        timeout_keep_alive=90,
        timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
        h11_max_incomplete_event_size=None,
        ssl_certfile=str(certificate) if certificate else None,
        ssl_keyfile=str(private_key) if private_key else None,
        ssl_ca_certs=str(client_ca) if client_ca else None,
        ssl_cert_reqs=1 if client_ca else 0,  # ssl.CERT_OPTIONAL, ssl.CERT_NONE
        backlog=2048,
    )
    server = _Server(config)
    task = asyncio.ensure_future(server.serve_on(bound))
    while not server.started:
        if task.done():
            task.result()
            raise PortInUse(f"the server on {host}:{port} ended while starting")
        await asyncio.sleep(0)
    return HttpServer(app, server, task, bound)


def bind(host: str, port: int) -> socket.socket:
    """Return a socket bound to an address.

    Raises:
        PortInUse: The address is taken or not ours.
    """
    bound = None
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        bound = socket.socket(family, socket.SOCK_STREAM)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        bound.bind(address)
    except OSError as error:
        if bound is not None:
            bound.close()
        other = "--port" if error.errno in (errno.EADDRINUSE, errno.EACCES) else "--host"
        raise PortInUse(f"cannot listen on {host}:{port}: {error.strerror}; choose another {other}") from error
    return bound


class _Server(uvicorn.Server):
    """Uvicorn without its signal handlers: those belong to the composition root."""

    async def serve_on(self, bound: socket.socket) -> None:
        """Serve until ``should_exit``."""
        await self._serve([bound])


def _protocol() -> Any:
    """Return uvicorn's httptools protocol, with the client's certificate put into the ASGI scope."""
    from uvicorn.protocols.http import httptools_impl
    from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

    status_lines: Mapping[int, bytes] = getattr(httptools_impl, "STATUS_LINE", {})

    class Protocol(HttpToolsProtocol):
        """Keeps the TLS peer's certificate; read once per connection, it cannot change."""

        _peer: bytes | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            tls = transport.get_extra_info("ssl_object")
            self._peer = tls.getpeercert(binary_form=True) if tls is not None else None

        def on_message_begin(self) -> None:
            super().on_message_begin()
            scope: dict[str, Any] = self.scope  # type: ignore[assignment]  # ASGI allows further keys
            scope["strato.answer"] = answer
            if self._peer is not None:
                scope["strato.peer_certificate"] = self._peer

    def answer(send: Any, status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> bool:
        """Write a whole answer at once; return False, with nothing done, where its connection has to be waited for.

        ASGI hands over head and body apart. Each write is a TLS record, a call of the system and a wake-up of the
        client, and costs more than what is done to find most answers. The headers are our own words, fit to be sent. A
        release of uvicorn that names its things otherwise gets them ASGI's way.
        """
        line = status_lines.get(status)
        try:
            cycle = send.__self__
            is_free = cycle.keep_alive and not (cycle.disconnected or cycle.response_started or cycle.flow.write_paused)
            tell = cycle.message_event.set, cycle.on_response
            own_headers, write = cycle.default_headers, cycle.transport.write
        except AttributeError:
            return False
        if not is_free or not line:
            return False
        lines = [b"%b: %b\r\n" % header for header in (*own_headers, *headers)]
        cycle.response_started = cycle.response_complete = True
        cycle.waiting_for_100_continue = False
        write(b"".join((line, *lines, b"\r\n", body)))
        for call in tell:
            call()
        return True

    return Protocol
