"""The data plane process: forwards connections to services, and answers DNS queries for their names.

It reads one JSON message (`Update`) per line from standard input, and writes `DataPlaneReport` messages to standard
output. At the end of its input it removes the route of the cluster IPs and ends.

If the cluster IPs are not loopback addresses, a local route makes the whole range this machine's own. A pod's packets
to a cluster IP then arrive here by the pod's default route, and the listener at that address and port accepts them. So
services need neither packet filter rules nor routes of their own.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import os
import random
import resource
import sys

import msgspec

from strato.clock import Clock, SystemClock
from strato.errors import one_line
from strato.node import netlink
from strato.node.services.balancer import Balancer
from strato.node.services.forwarding import Connections, Frontend, TcpPort, UdpPort
from strato.node.services.records import Backend, DataPlaneReport, DataPlaneSettings, PortRecord, ServiceRecord, Update
from strato.node.services.refusednames import RefusedNames
from strato.node.services.zone import Zone

_MAX_MESSAGE_BYTES = 4 << 20
_LOOPBACK = "127.0.0.1"
_PROTOCOLS = ("TCP", "UDP")

Place = tuple[str, str, int]
"""Protocol, address and port."""


class DataPlane:
    """Keeps the ports of all services open."""

    def __init__(self, settings: DataPlaneSettings, clock: Clock, rng: random.Random, zone: Zone) -> None:
        self._settings, self._clock, self._rng, self._zone = settings, clock, rng, zone
        self._network = ipaddress.IPv4Network(settings.network)
        self._pods = ipaddress.IPv4Network(settings.pods)
        self._node_addresses = (_LOOPBACK, *settings.node_addresses)
        self._all_addresses = (*self._node_addresses, *settings.neighbour_addresses)
        self._connections = Connections()
        self._open: dict[Place, tuple[str, Balancer, Frontend]] = {}
        """Open ports: the key of the service or pod, the balancer and the listener of each."""
        self._places: dict[str, set[Place]] = {}

    async def update(self, key: str, record: ServiceRecord | None) -> str:
        """Bring the ports of a service up to date; return why some could not be opened, empty when all are."""
        namespace, _, name = key.partition("/")
        self._zone.put(namespace, name, record)
        return await self._open_ports(f"service {key}", record, self._all_addresses)

    async def update_pod(self, key: str, record: ServiceRecord | None) -> str:
        """Bring a pod's host ports up to date; return why some could not be opened, empty when all are."""
        return await self._open_ports(f"pod {key}", record, self._node_addresses)

    async def _open_ports(self, key: str, record: ServiceRecord | None, everywhere: tuple[str, ...]) -> str:
        problems = []
        wanted: dict[Place, tuple[PortRecord, tuple[Backend, ...]]] = {}
        for port in record.ports if record is not None else ():
            if port.protocol not in _PROTOCOLS:
                continue
            assert record is not None
            inner, outer = (self._permitted(key, some) for some in (port.backends, port.outer_backends))
            if inner and self._is_cluster_ip(record.cluster_ip):
                wanted[port.protocol, record.cluster_ip, port.port] = (port, inner)
            if outer and port.node_port:
                for address in (port.node_address,) if port.node_address in self._all_addresses else everywhere:
                    if port.node_address in ("", address):
                        wanted[port.protocol, address, port.node_port] = (port, outer)
                if port.node_address not in ("", *self._all_addresses):
                    problems.append(
                        f"port {port.node_port} of {port.node_address} is not opened: "
                        f"the node's addresses are {', '.join(everywhere)}"
                    )
        known = self._places.setdefault(key, set())
        for place in known - wanted.keys():
            self._open.pop(place)[2].close()
            known.discard(place)
        for place, (_, backends) in wanted.items():
            if place not in known:
                problem = await self._listen(key, place)
                if problem:
                    problems.append(problem)
                    continue
                known.add(place)
            _, balancer, frontend = self._open[place]
            balancer.update(backends, record.affinity_seconds if record is not None else 0)
            frontend.retain()
        if not known:
            del self._places[key]
        return "; ".join(problems)

    @property
    def connections(self) -> int:
        """Number of forwarded connections."""
        return self._connections.count

    def close(self) -> None:
        """Close all listeners; existing connections go on."""
        for _, _, frontend in self._open.values():
            frontend.close()
        self._open.clear()
        self._places.clear()

    async def _listen(self, key: str, place: Place) -> str:
        protocol, address, port = place
        if place in self._open:
            return f"{address}:{port} is open for {self._open[place][0]} already"
        balancer = Balancer(self._rng)
        frontend: TcpPort | UdpPort
        if protocol == "TCP":
            frontend = TcpPort(balancer, self._clock, self._connections, self.admits)
        else:
            frontend = UdpPort(balancer, self._clock, self.admits)
        try:
            await frontend.open(address, port)
        except OSError as error:
            return f"{protocol} port {port} of {address} cannot be opened: {one_line(error)}"
        self._open[place] = (key, balancer, frontend)
        return ""

    def _is_cluster_ip(self, address: str) -> bool:
        """Whether an address is in the range of cluster IPs: a service must not listen at other addresses here."""
        return bool(address) and ipaddress.ip_address(address) in self._network

    def _permitted(self, key: str, backends: tuple[Backend, ...]) -> tuple[Backend, ...]:
        """Return the endpoints without those that pods must not reach, since this process could connect to them.

        The API server's own service always gets the server's real address, whatever its endpoints in the API say.
        """
        if key == "service " + "/".join(self._settings.api_service):
            return (Backend(*self._settings.api),) if backends else ()
        return tuple(backend for backend in backends if self._is_permitted(backend.address))

    def _is_permitted(self, text: str) -> bool:
        try:
            address = ipaddress.IPv4Address(text)
        except ValueError:
            return False
        if address in self._pods or text in self._settings.node_addresses:
            return True
        if address.is_loopback or address.is_link_local or address.is_multicast or address.is_unspecified:
            return False
        return self._settings.reaches_beyond and address not in self._network

    def admits(self, peer: str, own: str) -> bool:
        """Whether a client may connect: clients on this machine and its pods may, others if the settings allow it."""
        address = ipaddress.ip_address(peer)
        if self._settings.is_open and not self._is_cluster_ip(own):
            return True
        return peer == own or address.is_loopback or address in self._pods or peer in self._settings.node_addresses


async def serve(lines: asyncio.StreamReader, clock: Clock, rng: random.Random) -> None:
    """Apply the messages until the input ends."""
    decoder = msgspec.json.Decoder(Update)
    first = await lines.readline()
    if not first:
        return  # the node has ended before it sent the settings
    settings = decoder.decode(first).settings
    assert settings is not None, "the settings come first"
    zone = Zone(settings.domain)
    plane = DataPlane(settings, clock, rng, zone)
    network = ipaddress.IPv4Network(settings.network)
    try:
        if settings.is_routed:
            netlink.add_local_route(network)
        has_dns, problem = await _open_dns(settings, zone, rng, plane, clock)
        _report(DataPlaneReport(is_ready=True, has_dns=has_dns, problem=problem))
        while line := await lines.readline():
            update = decoder.decode(line)
            bring = plane.update_pod if update.is_pod else plane.update
            problem = await bring(update.key, update.service)
            if problem:
                _report(DataPlaneReport(key=update.key, is_pod=update.is_pod, problem=problem))
    finally:
        if settings.is_routed:
            with contextlib.suppress(OSError):
                netlink.delete_local_route(network)


_NO_PORT = (
    "pods do not find Services by name: this machine gives its users no port 53; "
    "sudo sysctl net.ipv4.ip_unprivileged_port_start=53"
)


async def _open_dns(
    settings: DataPlaneSettings, zone: Zone, rng: random.Random, plane: DataPlane, clock: Clock
) -> tuple[bool, str]:
    if not settings.dns:
        return False, ""
    refused = RefusedNames(clock, _report)
    on_refused = (lambda _client, _name: None) if settings.reaches_beyond else refused.add
    try:
        from strato.node.services.nameserver import NameServer

        await NameServer(zone, settings.upstreams, rng, plane.admits, on_refused).open(settings.dns)
    except PermissionError:
        return False, _NO_PORT
    except (ImportError, OSError) as error:
        return False, f"services have no names: {one_line(error)}"
    return True, ""


def _report(report: DataPlaneReport) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(report) + b"\n")
    sys.stdout.buffer.flush()


async def _main() -> None:
    loop = asyncio.get_running_loop()
    lines = asyncio.StreamReader(limit=_MAX_MESSAGE_BYTES)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    await serve(lines, SystemClock(), random.Random(os.urandom(16)))


def main() -> None:
    """Run the data plane; raises the limit of descriptors, as every connection takes two."""
    import signal

    import uvloop

    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # the process ends with the node, not by a signal to the whole group
    with contextlib.suppress(BrokenPipeError):  # a report after the node has ended
        uvloop.run(_main())


if __name__ == "__main__":
    main()
