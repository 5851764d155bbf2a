"""Forward connections and datagrams to the endpoints of a service's port."""

from __future__ import annotations

import asyncio
import socket
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Protocol, cast

from strato.clock import Clock
from strato.node.services.balancer import Balancer
from strato.node.services.records import Backend

MAX_CONNECTIONS = 16384
"""Most connections of all services together."""
_MAX_SESSIONS = 4096
"""Most clients of one UDP port with an open session."""
_SESSION_SECONDS = 60.0
"""How long a session stays open for answers after the client's last datagram."""
_CONNECT_SECONDS = 5.0
_BACKLOG = 512
_HIGH_WATER_BYTES = 256 << 10

Admits = Callable[[str, str], bool]
"""Returns whether a client, given by its address, may connect to an address of this machine."""


class Frontend(Protocol):
    """An open port."""

    def close(self) -> None:
        """Accept no more clients; open connections go on."""

    def retain(self) -> None:
        """Drop clients whose endpoint is gone, if the protocol does not notice that by itself."""


class Connections:
    """Counts the connections of all ports."""

    def __init__(self) -> None:
        self.count = 0


class _End(asyncio.Protocol):
    """One side of a forwarded connection: writes its data to the other side, and pauses reading while that is full."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.other: _End | None = None
        self._early = bytearray()
        """Data that arrived before the other side was connected."""
        self.has_ended = False
        """Whether the peer has closed its direction."""
        self.on_lost: Callable[[], None] = lambda: None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.transport.set_write_buffer_limits(_HIGH_WATER_BYTES)

    def join(self, other: _End) -> None:
        """Connect the two sides, for both directions."""
        self.other, other.other = other, self
        self.flush()
        other.flush()

    def flush(self) -> None:
        """Write the early data to the other side."""
        if self.other is None or self.other.transport is None:
            return
        if self._early:
            self.other.transport.write(bytes(self._early))
            self._early.clear()
        if self.has_ended:
            self.other.transport.write_eof()

    def data_received(self, data: bytes) -> None:
        if self.other is not None and self.other.transport is not None:
            self.other.transport.write(data)
        elif self.transport is not None:
            self._early += data
            self.transport.pause_reading()

    def eof_received(self) -> bool:
        self.has_ended = True
        if self.other is None or self.other.transport is None:
            return True
        if self.other.transport.is_closing():
            return False
        self.other.transport.write_eof()
        if self.other.has_ended:
            self.other.transport.close()
        return not self.other.has_ended  # keep the connection open while the other direction is in use

    def pause_writing(self) -> None:
        if self.other is not None and self.other.transport is not None:
            self.other.transport.pause_reading()

    def resume_writing(self) -> None:
        if self.other is not None and self.other.transport is not None and not self.other.transport.is_closing():
            self.other.transport.resume_reading()

    def connection_lost(self, error: Exception | None) -> None:
        other = self.other.transport if self.other is not None else None
        if other is not None:
            other.close() if error is None else other.abort()
        self.on_lost()


class _Client(_End):
    """The side of the client."""

    def __init__(self, port: TcpPort) -> None:
        super().__init__()
        self._port = port

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._port.accepted(self)


class TcpPort:
    """A TCP port whose connections are forwarded."""

    def __init__(self, balancer: Balancer, clock: Clock, connections: Connections, admits: Admits) -> None:
        self._balancer, self._clock = balancer, clock
        self._connections, self._admits = connections, admits
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def open(self, address: str, port: int) -> None:
        """Listen.

        Raises:
            OSError: The address is taken, or not this machine's.
        """
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: _Client(self), address, port, backlog=_BACKLOG)

    def accepted(self, client: _Client) -> None:
        """Connect a client with an endpoint, or close its connection."""
        assert client.transport is not None
        peer, own = (client.transport.get_extra_info(name)[0] for name in ("peername", "sockname"))
        if self._connections.count >= MAX_CONNECTIONS or not self._admits(peer, own):
            client.transport.abort()
            return
        self._connections.count += 1
        client.on_lost = self._lost
        task = asyncio.get_running_loop().create_task(self._connect(client, peer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _lost(self) -> None:
        self._connections.count -= 1

    async def _connect(self, client: _Client, peer: str) -> None:
        assert client.transport is not None
        loop, failed = asyncio.get_running_loop(), frozenset[Backend]()
        while (backend := self._balancer.choose(peer, self._clock.monotonic(), failed)) is not None:
            try:
                async with asyncio.timeout(_CONNECT_SECONDS):
                    _, server = await loop.create_connection(_End, backend.address, backend.port)
            except (OSError, TimeoutError):
                failed |= {backend}
                if len(failed) < 3:
                    continue
                break
            client.join(server)
            if client.transport.is_closing():
                cast("asyncio.Transport", server.transport).abort()
            else:
                client.transport.resume_reading()
            return
        client.transport.abort()

    def retain(self) -> None:
        """Keep all connections: a terminating endpoint closes them itself."""

    def close(self) -> None:
        """Stop listening."""
        if self._server is not None:
            self._server.close()


class _Answers(asyncio.DatagramProtocol):
    """The socket between this process and an endpoint, for one client."""

    def __init__(self, send: Callable[[bytes], None]) -> None:
        self._send = send

    def datagram_received(self, data: bytes, _address: Any) -> None:
        self._send(data)

    def error_received(self, _error: Exception) -> None:
        """Ignore the error: a client of UDP repeats its request."""


class _Session:
    def __init__(self, backend: Backend, now: float) -> None:
        self.backend = backend
        self.used = now
        self.transport: asyncio.DatagramTransport | None = None
        self.waiting: list[bytes] = []


class UdpPort(asyncio.DatagramProtocol):
    """A UDP port whose datagrams are forwarded, and the answers returned; each client has a socket of its own."""

    def __init__(self, balancer: Balancer, clock: Clock, admits: Admits) -> None:
        self._balancer, self._clock, self._admits = balancer, clock, admits
        self._sessions: OrderedDict[tuple[str, int], _Session] = OrderedDict()
        """Client → its session; the least recently used first."""
        self._transport: asyncio.DatagramTransport | None = None
        self._own = ""
        self._tasks: set[asyncio.Task[None]] = set()

    async def open(self, address: str, port: int) -> None:
        """Listen.

        Raises:
            OSError: The address is taken, or not this machine's.
        """
        self._own = address
        await asyncio.get_running_loop().create_datagram_endpoint(lambda: self, (address, port), family=socket.AF_INET)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the transport."""
        self._transport = cast("asyncio.DatagramTransport", transport)

    def datagram_received(self, data: bytes, client: Any) -> None:
        """Forward a datagram."""
        now = self._clock.monotonic()
        self._forget(lambda session: now - session.used > _SESSION_SECONDS, only_oldest=True)
        session = self._sessions.get(client)
        if session is None:
            backend = self._balancer.choose(client[0], now) if self._admits(client[0], self._own) else None
            if backend is None:
                return
            session = self._sessions[client] = _Session(backend, now)
            if len(self._sessions) > _MAX_SESSIONS:
                self._end(next(iter(self._sessions)))
            task = asyncio.get_running_loop().create_task(self._connect(client, session))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        session.used = now
        self._sessions.move_to_end(client)
        if session.transport is not None:
            session.transport.sendto(data)
        elif len(session.waiting) < 16:
            session.waiting.append(data)

    async def _connect(self, client: tuple[str, int], session: _Session) -> None:
        def answer(data: bytes) -> None:
            if self._transport is not None:
                self._transport.sendto(data, client)

        try:
            transport, _ = await asyncio.get_running_loop().create_datagram_endpoint(
                lambda: _Answers(answer), remote_addr=(session.backend.address, session.backend.port)
            )
        except OSError:
            self._sessions.pop(client, None)
            return
        session.transport = transport
        if self._sessions.get(client) is not session:
            transport.close()
        for data in session.waiting:
            transport.sendto(data)
        session.waiting = []

    def retain(self) -> None:
        """End the sessions of clients whose endpoint is gone, so that they get another one."""
        self._forget(lambda session: session.backend not in self._balancer.backends)

    def _forget(self, is_over: Callable[[_Session], bool], *, only_oldest: bool = False) -> None:
        for client, session in list(self._sessions.items())[: 8 if only_oldest else None]:
            if is_over(session):
                self._end(client)

    def _end(self, client: tuple[str, int]) -> None:
        session = self._sessions.pop(client)
        if session.transport is not None:
            session.transport.close()

    def close(self) -> None:
        """Stop listening and end all sessions, whose answers could not be sent any more."""
        for client in list(self._sessions):
            self._end(client)
        if self._transport is not None:
            self._transport.close()
