"""Connections, datagrams and names of services, with real sockets on addresses of loopback."""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
from dnslib import RR, DNSRecord
from hypothesis import given
from hypothesis import strategies as st

from strato.clock import SystemClock
from strato.node.services.balancer import Balancer
from strato.node.services.dataplane import DataPlane
from strato.node.services.nameserver import NameServer
from strato.node.services.records import Backend, HostRecord, PortRecord, ServiceRecord, Settings
from strato.node.services.zone import Zone

SETTINGS = Settings(
    network="127.250.0.0/20",
    pods="127.64.0.0/20",
    is_routed=False,
    node_addresses=(),
    is_open=False,
    reaches_beyond=True,
    api=("127.0.0.1", 1),
)
CLUSTER_IP, POD, OTHER_POD = "127.250.0.9", "127.64.0.5", "127.64.0.6"


def plane(settings: Settings = SETTINGS) -> DataPlane:
    return DataPlane(settings, SystemClock(), random.Random(1), Zone("cluster.local"))


@contextlib.asynccontextmanager
async def running(settings: Settings = SETTINGS) -> AsyncIterator[DataPlane]:
    """Have a data plane, and see all connections ended that it has passed on."""
    made = plane(settings)
    try:
        yield made
    finally:
        made.close()
        while made.connections:
            await asyncio.sleep(0.001)


def record(*backends: Backend, port: int, protocol: str = "TCP", **more: Any) -> ServiceRecord:
    ports = (PortRecord(port=port, protocol=protocol, backends=backends, **more.pop("port_members", {})),)
    return ServiceRecord(namespace="d", name="s", cluster_ip=more.pop("cluster_ip", CLUSTER_IP), ports=ports, **more)


@contextlib.asynccontextmanager
async def answering(address: str, text: bytes) -> AsyncIterator[int]:
    """Serve: read to the end, answer with a text before what was read."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(text + await reader.read())
        await writer.drain()
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(serve, address, 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


async def asked(address: str, port: int, sent: bytes = b"hello") -> bytes:
    reader, writer = await asyncio.open_connection(address, port)
    writer.write(sent)
    writer.write_eof()
    try:
        return await reader.read()
    finally:
        writer.close()
        await writer.wait_closed()


def free_port(kind: socket.SocketKind = socket.SOCK_STREAM) -> int:
    with socket.socket(socket.AF_INET, kind) as sock:
        sock.bind((CLUSTER_IP, 0))
        number: int = sock.getsockname()[1]
    return number


async def test_connections_are_passed_on_both_ways_with_their_ends() -> None:
    port, large = free_port(), bytes(3_000_000)
    async with running() as data, answering(POD, b"one:") as backend:
        assert await data.update("d/s", record(Backend(POD, backend), port=port)) == ""
        assert await asked(CLUSTER_IP, port) == b"one:hello"
        assert await asked(CLUSTER_IP, port, large) == b"one:" + large
        await data.update("d/s", None)
        with pytest.raises(ConnectionRefusedError):
            await asked(CLUSTER_IP, port)


async def test_an_endpoint_that_does_not_answer_is_passed_over() -> None:
    port, closed = free_port(), free_port()
    async with running() as data, answering(POD, b"one:") as backend:
        await data.update("d/s", record(Backend(OTHER_POD, closed), Backend(POD, backend), port=port))
        assert [await asked(CLUSTER_IP, port) for _ in range(8)] == [b"one:hello"] * 8


async def test_a_service_without_endpoints_refuses() -> None:
    port = free_port()
    async with running() as data:
        await data.update("d/s", record(port=port))
        with pytest.raises(ConnectionRefusedError):
            await asked(CLUSTER_IP, port)


async def test_datagrams_are_answered_and_leave_an_endpoint_that_is_gone() -> None:
    loop, port = asyncio.get_running_loop(), free_port(socket.SOCK_DGRAM)

    class Echo(asyncio.DatagramProtocol):
        def __init__(self, text: bytes) -> None:
            self.text, self.transport = text, None

        def connection_made(self, transport: Any) -> None:
            self.transport = transport

        def datagram_received(self, data: bytes, address: Any) -> None:
            self.transport.sendto(self.text + data, address)

    first, _ = await loop.create_datagram_endpoint(lambda: Echo(b"one:"), (POD, 0))
    second, _ = await loop.create_datagram_endpoint(lambda: Echo(b"two:"), (OTHER_POD, 0))
    one, two = (Backend(*where.get_extra_info("sockname")) for where in (first, second))
    data = plane()
    await data.update("d/s", record(one, port=port, protocol="UDP"))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.setblocking(False)
        await loop.sock_connect(client, (CLUSTER_IP, port))
        await loop.sock_sendall(client, b"a")
        assert await loop.sock_recv(client, 100) == b"one:a"
        await data.update("d/s", record(two, port=port, protocol="UDP"))
        await loop.sock_sendall(client, b"b")
        assert await loop.sock_recv(client, 100) == b"two:b"
    for one_transport in (data, first, second):
        one_transport.close()
    await asyncio.sleep(0)


FORBIDDEN = [
    pytest.param(SETTINGS, "127.0.0.1", id="what listens on the machine's loopback"),
    pytest.param(SETTINGS, "169.254.169.254", id="link-local addresses"),
    pytest.param(SETTINGS, "127.250.0.10", id="another service"),
    pytest.param(SETTINGS, "not an address", id="no address"),
]


@pytest.mark.parametrize(("settings", "address"), FORBIDDEN)
async def test_endpoints_that_pods_must_not_reach_are_left_out(settings: Settings, address: str) -> None:
    port = free_port()
    async with running(settings) as data, answering("127.0.0.1", b"secret:") as backend:
        await data.update("d/s", record(Backend(address, backend), port=port))
        with pytest.raises(ConnectionRefusedError):
            await asked(CLUSTER_IP, port)


async def test_the_api_servers_service_ends_there_whatever_its_endpoints_say() -> None:
    port = free_port()
    async with (
        answering("127.0.0.1", b"api:") as api,
        answering(POD, b"fake:") as fake,
        running(msgspec.structs.replace(SETTINGS, api=("127.0.0.1", api))) as data,
    ):
        await data.update("default/kubernetes", record(Backend(POD, fake), port=port))
        assert await asked(CLUSTER_IP, port) == b"api:hello"


async def test_only_cluster_ips_of_the_range_are_listened_at() -> None:
    async with running() as data, answering(POD, b"one:") as backend:
        port = free_port()
        assert await data.update("d/s", record(Backend(POD, backend), port=port, cluster_ip="127.0.0.1")) == ""
        with pytest.raises(ConnectionRefusedError):
            await asked("127.0.0.1", port)


async def test_a_port_that_is_taken_is_reported() -> None:
    port = free_port()
    async with running() as data, answering(POD, b"one:") as backend:
        with socket.create_server((CLUSTER_IP, port)):
            problem = await data.update("d/s", record(Backend(POD, backend), port=port))
        assert f"TCP port {port} of {CLUSTER_IP} cannot be opened" in problem


def host_port(pod: str, number: int, *, at: str = "", backend: Backend) -> ServiceRecord:
    ports = (PortRecord(node_port=number, node_address=at, outer_backends=(backend,)),)
    return ServiceRecord(namespace="d", name=pod, ports=ports)


async def test_a_host_port_is_open_while_its_pod_has_it() -> None:
    port = free_port()
    async with running() as data, answering(POD, b"one:") as one, answering(OTHER_POD, b"two:") as two:
        assert await data.update_pod("d/a", host_port("a", port, backend=Backend(POD, one))) == ""
        assert await asked("127.0.0.1", port) == b"one:hello"
        other = host_port("b", port, backend=Backend(OTHER_POD, two))
        assert await data.update_pod("d/b", other) == f"127.0.0.1:{port} is open for pod d/a already"
        assert await data.update("d/a", None) == "", "a service of the same name is something else"
        assert await asked("127.0.0.1", port) == b"one:hello"
        await data.update_pod("d/a", None)
        assert await data.update_pod("d/b", other) == ""
        assert await asked("127.0.0.1", port) == b"two:hello"


async def test_pods_share_a_host_port_at_different_addresses() -> None:
    port, second = free_port(), "127.0.0.2"
    settings = msgspec.structs.replace(SETTINGS, node_addresses=(second,))
    async with running(settings) as data, answering(POD, b"one:") as one, answering(OTHER_POD, b"two:") as two:
        assert await data.update_pod("d/a", host_port("a", port, at="127.0.0.1", backend=Backend(POD, one))) == ""
        assert await data.update_pod("d/b", host_port("b", port, at=second, backend=Backend(OTHER_POD, two))) == ""
        assert await asked("127.0.0.1", port) == b"one:hello"
        assert await asked(second, port) == b"two:hello"
        strange = host_port("c", port, at="192.0.2.9", backend=Backend(POD, one))
        assert await data.update_pod("d/c", strange) == (
            f"port {port} of 192.0.2.9 is not opened: the node's addresses are 127.0.0.1, 127.0.0.2"
        )


async def test_nodes_of_one_machine_have_host_ports_of_their_own_and_node_ports_in_common() -> None:
    port, other = free_port(), "127.0.0.3"
    settings = msgspec.structs.replace(SETTINGS, neighbour_addresses=(other,))
    async with running(settings) as data, answering(POD, b"one:") as one, answering(OTHER_POD, b"two:") as two:
        assert await data.update_pod("d/a", host_port("a", port, backend=Backend(POD, one))) == ""
        assert await data.update_pod("d/b", host_port("b", port, at=other, backend=Backend(OTHER_POD, two))) == ""
        assert await asked("127.0.0.1", port) == b"one:hello"
        assert await asked(other, port) == b"two:hello"
        node_port = free_port()
        everywhere = record(port=80, port_members={"node_port": node_port, "outer_backends": (Backend(POD, one),)})
        assert await data.update("d/s", everywhere) == ""
        assert [await asked(at, node_port) for at in ("127.0.0.1", other)] == [b"one:hello"] * 2


def test_node_ports_take_others_only_when_open() -> None:
    closed = plane()
    assert closed.admits("127.0.0.1", "127.0.0.1")
    assert closed.admits("192.0.2.7", "192.0.2.7")
    assert not closed.admits("192.0.2.8", "192.0.2.7")
    assert not closed.admits("192.0.2.8", CLUSTER_IP)


def test_clients_keep_their_endpoint_for_their_time() -> None:
    backends = [Backend(f"10.0.0.{n}", 80) for n in range(8)]
    balancer = Balancer(random.Random(1))
    balancer.update(backends, 10)
    assert len({balancer.choose("a", float(now)) for now in range(40)}) == 1
    assert len({balancer.choose(f"client {n}", 0.0) for n in range(40)}) > 1
    assert len({balancer.choose("b", 100.0 * n) for n in range(40)}) > 1
    kept = balancer.choose("c", 0.0)
    balancer.update([one for one in backends if one != kept], 10)
    assert balancer.choose("c", 1.0) not in (None, kept)


DNS = "cluster.local"
SERVICE = ServiceRecord(namespace="team", name="web", cluster_ip="10.96.0.5", ports=(PortRecord(name="http", port=80),))
HEADLESS = ServiceRecord(
    namespace="team",
    name="bare",
    hosts=(
        HostRecord(address="10.1.0.1", hostname="a-0", ports=(("http", "TCP", 8080),)),
        HostRecord(address="10.1.0.2"),
    ),
)
EXTERNAL = ServiceRecord(namespace="team", name="out", external_name="db.example.com")


@pytest.fixture
def zone() -> Zone:
    made = Zone(DNS)
    for one in (SERVICE, HEADLESS, EXTERNAL):
        made.put(one.namespace, one.name, one)
    return made


def server(zone: Zone, *upstreams: str) -> NameServer:
    return NameServer(zone, upstreams, random.Random(1), lambda _peer, _own: True)


def answers(zone: Zone, name: str, kind: str = "A") -> tuple[str, set[str]]:
    """Return the answer's code and its records."""
    packed = server(zone).answer(DNSRecord.question(name, kind).pack())
    assert packed
    reply = DNSRecord.parse(packed)
    return {0: "NOERROR", 2: "SERVFAIL", 3: "NXDOMAIN"}[reply.header.rcode], {str(one.rdata) for one in reply.rr}


NAMES = [
    ("web.team.svc.cluster.local", "A", "NOERROR", {"10.96.0.5"}),
    ("WEB.Team.SVC.cluster.local", "A", "NOERROR", {"10.96.0.5"}),
    ("web.team.svc.cluster.local", "AAAA", "NOERROR", set()),
    ("_http._tcp.web.team.svc.cluster.local", "SRV", "NOERROR", {"0 100 80 web.team.svc.cluster.local."}),
    ("5.0.96.10.in-addr.arpa", "PTR", "NOERROR", {"web.team.svc.cluster.local."}),
    ("bare.team.svc.cluster.local", "A", "NOERROR", {"10.1.0.1", "10.1.0.2"}),
    ("a-0.bare.team.svc.cluster.local", "A", "NOERROR", {"10.1.0.1"}),
    ("10-1-0-2.bare.team.svc.cluster.local", "A", "NOERROR", {"10.1.0.2"}),
    ("_http._tcp.bare.team.svc.cluster.local", "SRV", "NOERROR", {"0 100 8080 a-0.bare.team.svc.cluster.local."}),
    ("1.0.1.10.in-addr.arpa", "PTR", "NOERROR", {"a-0.bare.team.svc.cluster.local."}),
    ("out.team.svc.cluster.local", "A", "NOERROR", {"db.example.com."}),
    ("10-1-0-9.team.pod.cluster.local", "A", "NOERROR", {"10.1.0.9"}),
    ("team.svc.cluster.local", "A", "NOERROR", set()),
    ("no.team.svc.cluster.local", "A", "NXDOMAIN", set()),
    ("elsewhere.example.com", "A", "NXDOMAIN", set()),
]


@pytest.mark.parametrize(("name", "kind", "code", "found"), NAMES, ids=[f"{row[1]} {row[0]}" for row in NAMES])
def test_names(zone: Zone, name: str, kind: str, code: str, found: set[str]) -> None:
    assert answers(zone, name, kind) == (code, found)


def test_names_go_with_their_service(zone: Zone) -> None:
    for name in ("web", "bare", "out"):
        zone.put("team", name, None)
    assert all(zone.find(name.lower()) is None for name, *_ in NAMES if ".pod." not in name)


@given(st.binary(max_size=1400), st.booleans())
def test_hostile_questions_get_a_small_answer_or_none(query: bytes, over_tcp: bool) -> None:
    answer = server(Zone(DNS)).answer(query, over_tcp=over_tcp)
    assert answer is not None
    assert len(answer) <= 1500


async def test_large_answers_are_cut_and_whole_over_tcp() -> None:
    zone = Zone(DNS)
    hosts = tuple(HostRecord(address=f"10.1.{n // 250}.{n % 250 + 1}") for n in range(400))
    zone.put("team", "bare", ServiceRecord(namespace="team", name="bare", hosts=hosts))
    query = DNSRecord.question(f"bare.team.svc.{DNS}").pack()
    cut = DNSRecord.parse(server(zone).answer(query) or b"")
    assert (cut.header.tc, len(cut.rr)) == (1, 0)
    assert len(DNSRecord.parse(server(zone).answer(query, over_tcp=True) or b"").rr) == 400


async def test_other_names_are_asked_of_the_machines_server_which_is_not_believed_blindly(
    monkeypatch: pytest.MonkeyPatch, zone: Zone
) -> None:
    """A false answer with another number comes first; the right one is given back under the asker's number."""
    loop = asyncio.get_running_loop()

    class Upstream(asyncio.DatagramProtocol):
        def connection_made(self, transport: Any) -> None:
            self.transport = transport

        def datagram_received(self, data: bytes, address: Any) -> None:
            reply = DNSRecord.parse(data).reply()
            reply.add_answer(*RR.fromZone("elsewhere.example.com 60 A 192.0.2.80"))
            false = DNSRecord.parse(reply.pack())
            false.header.id = (reply.header.id + 1) % 65536
            self.transport.sendto(false.pack(), address)
            self.transport.sendto(reply.pack(), address)

    transport, _ = await loop.create_datagram_endpoint(Upstream, ("127.0.0.1", 0))
    monkeypatch.setattr("strato.node.services.nameserver.DNS_PORT", transport.get_extra_info("sockname")[1])
    question = DNSRecord.question("elsewhere.example.com")
    asker = server(zone, "127.0.0.1")
    assert asker.answer(question.pack()) is None
    answer = DNSRecord.parse(await asker.forward(question.pack(), over_tcp=False))
    assert (answer.header.id, str(answer.rr[0].rdata)) == (question.header.id, "192.0.2.80")
    transport.close()
    await asyncio.sleep(0)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from([SERVICE, HEADLESS, EXTERNAL, None]))))
def test_a_zone_holds_what_was_put_last(steps: list[tuple[str, ServiceRecord | None]]) -> None:
    zone, last = Zone(DNS), dict[str, ServiceRecord | None]()
    for name, one in steps:
        zone.put("n", name, one)
        last[name] = one
    fresh = Zone(DNS)
    for name, one in last.items():
        fresh.put("n", name, one)
    for owner, *_ in NAMES:
        assert sorted(zone.find(owner.lower()) or ()) == sorted(fresh.find(owner.lower()) or ())


@pytest.mark.parametrize("first", [b"", b'{"settings":%s}\n'], ids=["before the settings", "before the report"])
def test_the_process_ends_quietly_when_its_node_is_gone(first: bytes) -> None:
    """As it may at any moment of a start that is interrupted."""
    if first:
        first %= msgspec.json.encode(SETTINGS)
    with subprocess.Popen(
        [sys.executable, "-P", "-m", "strato.node.services.dataplane"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()  # nobody reads what it reports
        process.stdin.write(first)
        process.stdin.close()
        assert process.stderr.read() == b""
    assert process.returncode == 0
