"""Connections, datagrams and names of services, with real sockets on addresses of loopback."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import shutil
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from strato.clock import SystemClock
from strato.node.services.balancer import Balancer
from strato.node.services.dataplane import DataPlane
from strato.node.services.nameserver import DNS_PORT
from strato.node.services.records import (
    Backend,
    DataPlaneReport,
    DataPlaneSettings,
    PortRecord,
    ServiceRecord,
    Update,
)
from strato.node.services.zone import Zone

SETTINGS = DataPlaneSettings(
    network="127.250.0.0/20",
    pods="127.64.0.0/20",
    is_routed=False,
    node_addresses=(),
    is_open=False,
    reaches_beyond=True,
    api=("127.0.0.1", 1),
)
CLUSTER_IP, POD, OTHER_POD = "127.250.0.9", "127.64.0.5", "127.64.0.6"


def plane(settings: DataPlaneSettings = SETTINGS) -> DataPlane:
    return DataPlane(settings, SystemClock(), random.Random(1), Zone("cluster.local"))


@contextlib.asynccontextmanager
async def running(settings: DataPlaneSettings = SETTINGS) -> AsyncIterator[DataPlane]:
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
async def test_endpoints_that_pods_must_not_reach_are_left_out(settings: DataPlaneSettings, address: str) -> None:
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


@pytest.mark.skipif(shutil.which("setpriv") is None, reason="takes a right away with setpriv")
def test_who_may_not_have_the_port_of_name_servers_is_told_which_setting_gives_it() -> None:
    allowed = Path("/proc/sys/net/ipv4/ip_unprivileged_port_start").read_text()
    if int(allowed) <= DNS_PORT:
        pytest.skip("every user may have it here")
    command = ["setpriv", "--bounding-set=-net_bind_service"] if os.geteuid() == 0 else []
    settings = msgspec.structs.replace(SETTINGS, dns=CLUSTER_IP)
    done = subprocess.run(
        [*command, sys.executable, "-P", "-m", "strato.node.services.dataplane"],
        input=msgspec.json.encode(Update(settings=settings)) + b"\n",
        capture_output=True,
        check=True,
    )
    report = msgspec.json.decode(done.stdout.splitlines()[0], type=DataPlaneReport)
    assert report.is_ready
    assert not report.has_dns
    assert report.problem.endswith("sudo sysctl net.ipv4.ip_unprivileged_port_start=53")
