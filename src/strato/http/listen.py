"""Open a port and answer a service's requests on it."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import resource
import socket
import ssl

from strato.clock import Clock, SystemClock
from strato.errors import StratoError
from strato.http.limits import MOST_CONNECTIONS
from strato.http.server import HANDSHAKE_SECONDS, Connections
from strato.http.service import HttpService

_BACKLOG = 2048
_OTHER_DESCRIPTORS = 512
"""File descriptors kept for everything but connections of clients."""


class PortInUse(StratoError):
    """The address cannot be listened on; ``why`` is the system's error."""

    def __init__(self, message: str, why: str) -> None:
        super().__init__(message)
        self.why = why


class HttpServer:
    """A running server; made by `serve`."""

    def __init__(self, connections: Connections, listener: asyncio.Server, grace_seconds: float) -> None:
        self.connections = connections
        self._listener, self._grace_seconds = listener, grace_seconds
        self._stopped = asyncio.Event()
        self.port: int = listener.sockets[0].getsockname()[1]
        """The bound port; the one that the system picked if 0 was given."""

    async def wait(self) -> None:
        """Wait until `stop` has ended."""
        await self._stopped.wait()

    async def stop(self) -> None:
        """Stop listening, end watches at once, and wait up to the grace period for the other connections to end."""
        self._listener.close()
        await self.connections.close(self._grace_seconds)
        self._stopped.set()


async def serve(
    service: HttpService,
    host: str = "127.0.0.1",
    port: int = 0,
    *,
    tls: ssl.SSLContext | None = None,
    listener: socket.socket | None = None,
    clock: Clock | None = None,
    grace_seconds: float = 2.0,
) -> HttpServer:
    """Listen and serve in the running event loop; returns once connections are accepted.

    Args:
        service: Answers the requests.
        host: Address to listen on, empty for all of this machine; a name is resolved.
        port: 0 picks a free one.
        tls: From `strato.http.tls.server_context`; plain HTTP without it.
        listener: A bound socket to use instead of ``host`` and ``port``.
        clock: Gives the answers' Date header; None is the machine's clock.
        grace_seconds: How long running requests may take after a stop.

    Raises:
        PortInUse: The address is taken or not ours.
    """
    bound = listener if listener is not None else bind(host, port)
    connections = Connections(service, clock or SystemClock(), most=_descriptors())
    loop = asyncio.get_running_loop()
    handshake_timeout = HANDSHAKE_SECONDS if tls is not None else None
    listening = await loop.create_server(
        connections.make, sock=bound, ssl=tls, backlog=_BACKLOG, ssl_handshake_timeout=handshake_timeout
    )
    return HttpServer(connections, listening, grace_seconds)


def _descriptors() -> int:
    """Return how many connections the process may have, after raising its limit of open files as far as allowed."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_CONNECTIONS + _OTHER_DESCRIPTORS
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return MOST_CONNECTIONS
    return min(MOST_CONNECTIONS, max(soft - _OTHER_DESCRIPTORS, soft // 2))


def bind(host: str, port: int) -> socket.socket:
    """Return a socket bound to an address; an empty host is every IPv4 and, if the machine has IPv6, IPv6 address.

    Raises:
        PortInUse: The address is taken or not ours.
    """
    bound = None
    try:
        if host:
            family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        elif socket.has_dualstack_ipv6():
            family, address = socket.AF_INET6, ("::", port)
        else:
            family, address = socket.AF_INET, ("", port)
        bound = socket.socket(family, socket.SOCK_STREAM)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if not host and family == socket.AF_INET6:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        bound.bind(address)
    except OSError as error:
        if bound is not None:
            bound.close()
        other = "--port" if error.errno in (errno.EADDRINUSE, errno.EACCES) else "--host"
        why = error.strerror or str(error)
        raise PortInUse(f"cannot listen on {host}:{port}: {why}; choose another {other}", why) from error
    return bound
