"""Serve ``/metrics`` and ``/healthz`` of a component that has no API of its own."""

from __future__ import annotations

import asyncio
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from strato.errors import UsageError
from strato.metrics import CONTENT_TYPE, Registry

if TYPE_CHECKING:
    from aiohttp import web

_HEALTH = ("/healthz", "/livez", "/readyz")
_GRACE_SECONDS = 5.0
"""How long an answer under way is waited for at the end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsFiles:
    """Where the certificate of an endpoint is."""

    certificate: Path
    key: Path
    authority: Path

    def context(self) -> ssl.SSLContext:
        """Return what the server needs.

        Raises:
            UsageError: A file cannot be read or holds no certificate or key.
        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            context.load_cert_chain(self.certificate, self.key)
            context.load_verify_locations(self.authority)
        except (OSError, ssl.SSLError) as error:
            raise UsageError(
                f"--tls-cert-file {str(self.certificate)!r}, --tls-private-key-file {str(self.key)!r}, "
                f"--ca-cert-file {str(self.authority)!r}: cannot be used: {error}; give PEM files that belong together"
            ) from error
        return context


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """One address to serve."""

    flag: str
    """The option it comes from, for messages."""
    address: str
    """``host:port``; an empty host is every address of this machine, as Go's servers have it."""
    metrics: Registry | None
    """What ``/metrics`` renders; None serves health alone."""
    tls: TlsFiles | None = None


async def serve_endpoint(endpoint: Endpoint) -> None:
    """Serve until cancelled. Signals stay with the caller.

    Raises:
        UsageError: The address is none, is taken, or is not ours; certificates cannot be used.
    """
    from aiohttp import web

    host, port = split_address(endpoint.address, endpoint.flag)
    context = endpoint.tls.context() if endpoint.tls is not None else None
    registry = endpoint.metrics

    async def answer(request: web.BaseRequest) -> web.Response:
        if request.path == "/metrics" and registry is not None:
            return web.Response(body=registry.render(), headers={"content-type": CONTENT_TYPE})
        if request.path in _HEALTH:
            return web.Response(text="ok")
        served = "/healthz" if registry is None else "/metrics and /healthz"
        return web.Response(status=404, text=f"not found: this address serves {served}\n")

    # no access log: a probe every few seconds would drown the rest
    runner = web.ServerRunner(
        web.Server(answer, access_log=None), handle_signals=False, shutdown_timeout=_GRACE_SECONDS
    )
    await runner.setup()
    try:
        try:
            await web.TCPSite(runner, host or None, port, ssl_context=context).start()
        except OSError as error:
            raise UsageError(
                f"{endpoint.flag} {endpoint.address!r}: cannot listen there: {error.strerror or error}; choose another"
            ) from error
        await asyncio.Event().wait()
    finally:
        await runner.cleanup()


def split_address(address: str, flag: str) -> tuple[str, int]:
    """Split ``host:port``; the host may be empty.

    Raises:
        UsageError: The port is missing or no number.
    """
    host, separator, port = address.rpartition(":")
    if not separator or not port.isdigit() or int(port) > 65535:
        raise UsageError(f"{flag} {address!r}: write host:port or :port, for example 127.0.0.1:8080")
    return host.strip("[]"), int(port)
