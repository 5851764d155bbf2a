"""Serve ``/metrics`` and ``/healthz`` of a component that has no API of its own."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path

from strato.api.wire import Request, Response
from strato.errors import UsageError, one_line
from strato.http.listen import PortInUse, serve
from strato.http.plain import PlainService, text
from strato.http.tls import server_context
from strato.metrics import CONTENT_TYPE, Registry

_HEALTH = ("/healthz", "/livez", "/readyz")
_GRACE_SECONDS = 5.0
"""How long requests under way may take when the server stops."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsFiles:
    """The files of an endpoint's certificate."""

    certificate: Path
    key: Path
    authority: Path

    def context(self) -> ssl.SSLContext:
        """Return the server's SSL context.

        Raises:
            UsageError: A file cannot be read or holds no certificate or key.
        """
        try:
            context = server_context(self.certificate, self.key)
            context.load_verify_locations(self.authority)
        except OSError as error:
            raise UsageError(
                f"--tls-cert-file {str(self.certificate)!r}, --tls-private-key-file {str(self.key)!r}, "
                f"--ca-cert-file {str(self.authority)!r}: cannot be used: {one_line(error)}; "
                "give PEM files that belong together"
            ) from error
        return context


@dataclass(frozen=True, slots=True, kw_only=True)
class MonitoringEndpoint:
    """An address at which health, and perhaps metrics, are served."""

    flag: str
    """The option it comes from, for messages."""
    address: str
    """``host:port``; an empty host is every address of this machine, as Go's servers have it."""
    metrics: Registry | None
    """Registry that ``/metrics`` renders; None serves only health."""
    tls: TlsFiles | None = None


async def serve_endpoint(endpoint: MonitoringEndpoint) -> None:
    """Serve until cancelled. Signals stay with the caller.

    Raises:
        UsageError: The address is malformed, taken, or not this machine's; or the certificate cannot be used.
    """
    host, port = split_address(endpoint.address, endpoint.flag)
    context = endpoint.tls.context() if endpoint.tls is not None else None
    registry = endpoint.metrics

    async def answer(request: Request) -> Response:
        if request.path == "/metrics" and registry is not None:
            return Response(200, registry.render(), CONTENT_TYPE)
        if request.path in _HEALTH:
            return text("ok")
        served = "/healthz" if registry is None else "/metrics and /healthz"
        return text(f"not found: this address serves {served}\n", 404)

    try:
        server = await serve(PlainService(answer), host, port, tls=context, grace_seconds=_GRACE_SECONDS)
    except PortInUse as error:
        message = f"{endpoint.flag} {endpoint.address!r}: cannot listen there: {error.why}; choose another"
        raise UsageError(message) from error
    try:
        await server.wait()
    finally:
        await server.stop()


def split_address(address: str, flag: str) -> tuple[str, int]:
    """Split ``host:port``; the host may be empty.

    Raises:
        UsageError: The port is missing or no number.
    """
    host, separator, port = address.rpartition(":")
    if not separator or not port.isdigit() or int(port) > 65535:
        raise UsageError(f"{flag} {address!r}: write host:port or :port, for example 127.0.0.1:8080")
    return host.strip("[]"), int(port)
