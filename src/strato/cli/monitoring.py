"""Serve ``/metrics`` and ``/healthz`` of a component that has no API of its own."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from strato.errors import UsageError
from strato.metrics import CONTENT_TYPE, Registry

if TYPE_CHECKING:
    from aiohttp import web

_HEALTH = ("/healthz", "/livez", "/readyz")


async def serve_metrics(listen_address: str, metrics: Registry) -> None:
    """Serve until cancelled. Signals stay with the caller.

    Args:
        listen_address: ``host:port``; an empty host is this machine alone, ``0.0.0.0`` everybody.
        metrics: What to render.

    Raises:
        UsageError: The address is none, is taken, or is not ours.
    """
    from aiohttp import web

    host, port = split_address(listen_address)

    async def answer(request: web.BaseRequest) -> web.Response:
        if request.path == "/metrics":
            return web.Response(body=metrics.render(), headers={"content-type": CONTENT_TYPE})
        if request.path in _HEALTH:
            return web.Response(text="ok")
        return web.Response(status=404, text="not found: this component serves /metrics and /healthz\n")

    runner = web.ServerRunner(web.Server(answer), handle_signals=False, access_log=None)
    await runner.setup()
    try:
        try:
            await web.TCPSite(runner, host, port).start()
        except OSError as error:
            raise UsageError(
                f"--listen-address {listen_address!r}: cannot listen there: {error.strerror or error}; choose another"
            ) from error
        await asyncio.Event().wait()
    finally:
        await runner.cleanup()


def split_address(address: str) -> tuple[str, int]:
    """Split ``host:port``.

    Raises:
        UsageError: The port is missing or no number.
    """
    host, separator, port = address.rpartition(":")
    if not separator or not port.isdigit() or int(port) > 65535:
        raise UsageError(f"--listen-address {address!r}: write host:port, for example 127.0.0.1:8080")
    return host.strip("[]") or "127.0.0.1", int(port)
