"""Serve ``/metrics`` and ``/healthz`` of a component that has no API of its own."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from strato.errors import UsageError
from strato.metrics import CONTENT_TYPE, Registry

Message = MutableMapping[str, Any]


async def serve_metrics(listen_address: str, metrics: Registry) -> None:
    """Serve until cancelled.

    Args:
        listen_address: ``host:port``; an empty host is this machine alone, ``0.0.0.0`` everybody.
        metrics: What to render.
    """
    import uvicorn

    host, port = split_address(listen_address)

    async def app(
        scope: Message, receive: Callable[[], Awaitable[Message]], send: Callable[[Message], Awaitable[None]]
    ) -> None:
        if scope["type"] != "http":
            return
        status, body, content_type = 404, b"not found: this component serves /metrics and /healthz\n", "text/plain"
        if scope["path"] == "/metrics":
            status, body, content_type = 200, metrics.render(), CONTENT_TYPE
        elif scope["path"] in ("/healthz", "/livez", "/readyz"):
            status, body = 200, b"ok"
        headers = [(b"content-type", content_type.encode()), (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    config = uvicorn.Config(app, host=host, port=port, log_level="warning", access_log=False, lifespan="off")
    server = uvicorn.Server(config)
    server.install_signal_handlers = lambda: None  # type: ignore[attr-defined]  # the caller owns signals
    await server.serve()


def split_address(address: str) -> tuple[str, int]:
    """Split ``host:port``.

    Raises:
        UsageError: The port is missing or no number.
    """
    host, separator, port = address.rpartition(":")
    if not separator or not port.isdigit() or int(port) > 65535:
        raise UsageError(f"--listen-address {address!r}: write host:port, for example 127.0.0.1:8080")
    return host or "127.0.0.1", int(port)
