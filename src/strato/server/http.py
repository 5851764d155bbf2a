"""HTTP for the server's core: a raw ASGI application and a uvicorn runner.

No framework and no router: the core routes. What is done here is what only a transport can do: read the body up to
its limit, find out who asks, stream watches and free them when their reader vanishes, compress big lists.
"""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import logging
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, MutableMapping
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import parse_qs

import msgspec
import uvicorn

from strato.api.status import to_status
from strato.api.wire import Handler, Request, Response, User
from strato.errors import ApiError, StratoError, TooLarge
from strato.metrics import CONTENT_TYPE, Registry

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

MAX_BODY_BYTES = 3 * 1024 * 1024
"""Largest request body, as in kube-apiserver."""
GZIP_FROM_BYTES = 128 * 1024
"""Smallest body worth compressing, as in kube-apiserver."""
_GZIP_LEVEL = 1
_HEALTH = frozenset(("/healthz", "/livez", "/readyz"))
_SHUTDOWN_SECONDS = 2

_log = logging.getLogger(__name__)


class Authenticate(Protocol):
    """Finds out who asks."""

    def __call__(self, headers: Mapping[str, str], scope: Scope) -> User:
        """Return the user, anonymous without credentials.

        Raises:
            Unauthorized: There are credentials, and they are not valid.
        """
        ...


class Ready(Protocol):
    """Names what is not ready yet."""

    def __call__(self) -> list[str]:
        """Return the names of failing checks; empty when ready."""
        ...


def create_app(
    handler: Handler,
    authenticate: Authenticate,
    metrics: Registry | None = None,
    *,
    ready: Ready = list,
    authorize_path: Callable[[User, str, str], ApiError | None] | None = None,
) -> App:
    """Return the ASGI application.

    Args:
        handler: The server's core.
        authenticate: Who asks; its `Unauthorized` becomes the answer.
        metrics: Rendered at ``/metrics``; without it that path goes to the core.
        ready: Checks behind ``/readyz``.
        authorize_path: Decides over ``/metrics`` and the health paths as (user, verb, path); None lets all pass.
    """
    own_paths = _OwnPaths(metrics, ready, authorize_path)

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await _lifespan(receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1002})
            return
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        try:
            user = authenticate(headers, scope)
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
            response = own_paths.handle(request) or await handler.handle(request)
        except _Disconnected:
            return
        except ApiError as error:
            response = _error_response(error)
        except Exception:  # the last net: a bug of ours must not close the connection without a word
            _log.exception("%s %s failed", scope["method"], scope["path"])
            response = _error_response(ApiError("an error on the server has prevented the request from succeeding"))
        if response.stream is not None:
            await _send_stream(response, response.stream, receive, send)
        else:
            await _send_whole(response, headers, scope["method"], send)

    return app


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
    ) -> None:
        self._metrics = metrics
        self._ready = ready
        self._authorize = authorize

    def handle(self, request: Request) -> Response | None:
        path = request.path
        if path.startswith("/api"):  # nearly all
            return None
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
            return Response(200, self._metrics.render(), CONTENT_TYPE)
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
    with contextlib.suppress(OSError, EOFError), gzip.GzipFile(fileobj=_reader(body)) as stream:
        plain = stream.read(MAX_BODY_BYTES + 1)
        if len(plain) > MAX_BODY_BYTES:
            raise _too_large()
        return plain
    return body


def _reader(body: bytes) -> Any:
    import io

    return io.BytesIO(body)


def _too_large() -> TooLarge:
    return TooLarge(f"Request entity too large: limit is {MAX_BODY_BYTES}")


async def _send_whole(response: Response, headers: Mapping[str, str], method: str, send: Send) -> None:
    body = response.body
    out = [(b"content-type", response.content_type.encode("latin-1"))]
    for name, value in response.headers.items():
        out.extend((name.lower().encode("latin-1"), line.encode("latin-1", "replace")) for line in value.split("\n"))
    if len(body) >= GZIP_FROM_BYTES and "gzip" in headers.get("accept-encoding", ""):
        body = await asyncio.to_thread(gzip.compress, body, _GZIP_LEVEL, mtime=0)
        out += [(b"content-encoding", b"gzip"), (b"vary", b"Accept-Encoding")]
    out.append((b"content-length", str(len(body)).encode()))
    await send({"type": "http.response.start", "status": response.status, "headers": out})
    await send({"type": "http.response.body", "body": b"" if method == "HEAD" else body})


async def _send_stream(response: Response, stream: AsyncIterator[bytes], receive: Receive, send: Send) -> None:
    """Send chunks as they come; a vanished reader closes the stream at once, even when nothing comes."""
    out = [(b"content-type", response.content_type.encode("latin-1"))]
    for name, value in response.headers.items():
        out.append((name.lower().encode("latin-1"), value.encode("latin-1", "replace")))
    sending = asyncio.current_task()
    assert sending is not None
    gone = False

    async def watch_reader() -> None:
        nonlocal gone
        while (await receive())["type"] != "http.disconnect":
            pass
        gone = True
        sending.cancel()

    watcher = asyncio.ensure_future(watch_reader())
    try:
        await send({"type": "http.response.start", "status": response.status, "headers": out})
        async for chunk in stream:
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
        await send({"type": "http.response.body", "body": b""})
    except asyncio.CancelledError:
        if not gone:
            raise
        sending.uncancel()
    except OSError:
        pass  # the connection broke while we wrote: the same as a vanished reader
    finally:
        watcher.cancel()
        close = getattr(stream, "aclose", None)
        if close is not None:
            await close()


async def _lifespan(receive: Receive, send: Send) -> None:
    while True:
        kind = (await receive())["type"]
        await send({"type": f"{kind}.complete"})
        if kind == "lifespan.shutdown":
            return


class PortInUse(StratoError):
    """The address cannot be listened on."""


class HttpServer:
    """A running server; made by `serve`."""

    def __init__(self, server: uvicorn.Server, task: asyncio.Task[None], address: socket.socket) -> None:
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
        certificate, private_key: PEM files; plain HTTP without them.
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
    return HttpServer(server, task, bound)


def bind(host: str, port: int) -> socket.socket:
    """Return a socket bound to an address.

    Raises:
        PortInUse: The address is taken or not ours.
    """
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        bound = socket.socket(family, socket.SOCK_STREAM)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        bound.bind(address)
    except OSError as error:
        raise PortInUse(f"cannot listen on {host}:{port}: {error.strerror}; choose another --port") from error
    return bound


class _Server(uvicorn.Server):
    """Uvicorn without its signal handlers: those belong to the composition root."""

    async def serve_on(self, bound: socket.socket) -> None:
        """Serve until ``should_exit``."""
        await self._serve([bound])


def _protocol() -> Any:
    """Return uvicorn's httptools protocol, with the client's certificate put into the ASGI scope."""
    from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

    class Protocol(HttpToolsProtocol):
        """Keeps the TLS peer's certificate; read once per connection, it cannot change."""

        _peer: bytes | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            tls = transport.get_extra_info("ssl_object")
            self._peer = tls.getpeercert(binary_form=True) if tls is not None else None

        def on_message_begin(self) -> None:
            super().on_message_begin()
            if self._peer is not None:
                self.scope["strato.peer_certificate"] = self._peer

    return Protocol
