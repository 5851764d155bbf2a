"""A node's logs and streams over its door: only for those whom the authority vouches for and the API server allows."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import socket
import ssl
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from strato.api.core import Pod
from strato.api.meta import Key
from strato.api.wire import Request, User
from strato.cli.run.kubeletport import KubeletPort, NodeEndpoint, serve_node
from strato.client.cluster import Cluster
from strato.clock import SystemClock
from strato.errors import ApiError, BadRequest, NotFound, UsageError
from strato.http.client import Origin
from strato.http.tls import client_context
from strato.pki import Authority, KeyPair
from strato.server.auth.ca import CertificateAuthority
from strato.server.embedded import in_memory_server
from strato.server.logs import LogOptions
from strato.server.rest.remotenodes import RemoteNodes, RemotePod
from strato.server.streams import CLOSE, STATUS, STDIN, STDOUT, StreamOptions
from tests.cli.test_run import free_port

SERVER = User("kube-apiserver-kubelet-client", ("system:masters", "system:authenticated"))
POD = {
    "metadata": {"name": "p", "namespace": "ns", "uid": "u-1"},
    "spec": {"nodeName": "here", "containers": [{"name": "main"}], "initContainers": [{"name": "first"}]},
    "status": {
        "containerStatuses": [{"name": "main", "state": {"running": {}}}],
        "initContainerStatuses": [{"name": "first", "state": {"waiting": {"reason": "ImagePullBackOff"}}}],
    },
}
PATH, JOIN = "/containerLogs/ns/p/main", "/streams/exec/ns/p/main"


class Reviews:
    """A cluster that allows some users and keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []

    async def create(self, kind: object, body: dict[str, Any], namespace: str = "") -> dict[str, Any]:
        self.asked.append(body["spec"])
        return {"status": {"allowed": "system:masters" in body["spec"]["groups"]}}


class Source:
    """Logs that say what was asked for."""

    async def read_log(
        self, namespace: str, pod: str, uid: str, container: str, options: LogOptions
    ) -> AsyncIterator[bytes]:
        if container == "first":
            raise NotFound("it has not started yet")
        yield f"{namespace}/{pod}/{uid}/{container}\n".encode()
        yield f"tail={options.tail_lines} follow={options.follow}\n".encode()


class Echo:
    """A process that says its command and then what it is told; its input's end is its own."""

    def __init__(self, words: Sequence[str]) -> None:
        self._said: asyncio.Queue[bytes] = asyncio.Queue()
        self._said.put_nowait(bytes((STDOUT,)) + " ".join(words).encode())

    async def receive(self) -> bytes:
        return await self._said.get()

    async def send(self, message: bytes) -> None:
        ending = bytes((STATUS,)) + b'{"exitCode": 3}'
        self._said.put_nowait(ending if message[0] == CLOSE else bytes((STDOUT,)) + message[1:])

    def close(self) -> None:
        self._said.put_nowait(b"")


class Streams:
    """Processes that echo; port 80 echoes too."""

    async def exec(self, uid: str, container: str, command: Sequence[str], options: StreamOptions) -> Echo:
        return Echo([uid, container, *command, *(["in"] if options.stdin else [])])

    async def attach(self, uid: str, container: str, options: StreamOptions) -> Echo:
        raise BadRequest(f'container "{container}" is not running')

    async def connect(self, uid: str, port: int) -> socket.socket:
        ours, theirs = socket.socketpair()

        async def echo() -> None:
            reader, writer = await asyncio.open_connection(sock=theirs)
            writer.write((await reader.read()).upper())
            writer.close()

        self.echoing = asyncio.ensure_future(echo())
        return ours


def logs(reviews: Reviews, node: str = "here") -> NodeEndpoint:
    pods = {Key("ns", "p"): msgspec.convert(POD, Pod)}
    return NodeEndpoint(cast(Cluster, reviews), node, pods.get, Source(), Streams())


CASES = [
    pytest.param(Request("GET", PATH), SERVER, (200, "ns/p/u-1/main\ntail=None follow=False\n"), id="a whole log"),
    pytest.param(
        Request("GET", PATH, {"tailLines": ["3"]}), SERVER, (200, "ns/p/u-1/main\ntail=3 follow=False\n"), id="its end"
    ),
    pytest.param(
        Request("GET", PATH, {"tailLines": ["x"]}),
        SERVER,
        (400, "tailLines: Invalid value"),
        id="a number that is none",
    ),
    pytest.param(
        Request("GET", "/containerLogs/ns/p/first"),
        SERVER,
        (400, 'container "first" in pod "p" is waiting to start: trying and failing to pull image'),
        id="too early",
    ),
    pytest.param(
        Request("GET", "/containerLogs/ns/p/first", {"follow": ["true"]}),
        SERVER,
        (400, 'container "first" in pod "p" is waiting to start: trying and failing to pull image'),
        id="too early to follow",
    ),
    pytest.param(
        Request("GET", "/containerLogs/ns/p/other"),
        SERVER,
        (404, 'container "other" not found'),
        id="no such container",
    ),
    pytest.param(
        Request("GET", "/containerLogs/ns/q/main"), SERVER, (404, 'pod "q" of namespace "ns"'), id="no such pod"
    ),
    pytest.param(
        Request("GET", PATH), User("somebody"), (403, "Forbidden (user=somebody"), id="somebody it may not be"
    ),
    pytest.param(Request("GET", PATH), None, (401, "Unauthorized"), id="nobody"),
    pytest.param(
        Request("GET", "/pods"), SERVER, (404, "logs and streams and nothing else"), id="another path of kubelets"
    ),
    pytest.param(Request("POST", "/exec/ns/p/main"), SERVER, (404, "nothing else"), id="a kubelet's way in"),
    pytest.param(Request("GET", JOIN), User("somebody"), (403, "verb=create"), id="somebody who may not go in"),
    pytest.param(Request("GET", JOIN), SERVER, (400, "Upgrade request required"), id="a stream without a WebSocket"),
    pytest.param(Request("GET", JOIN, {"uid": ["u-0"]}), SERVER, (404, "does not run"), id="a former pod of that name"),
    pytest.param(Request("GET", "/streams/port/ns/p/0"), SERVER, (400, "is no port"), id="no port"),
]


@pytest.mark.parametrize(("request_", "user", "expected"), CASES)
async def test_what_is_answered(request_: Request, user: User | None, expected: tuple[int, str]) -> None:
    answer = await logs(Reviews()).handle(msgspec.structs.replace(request_, user=user))
    status, words = expected
    assert answer.status == status
    assert words in answer.body.decode()


async def test_the_api_server_is_asked_as_a_kubelet_asks_it() -> None:
    reviews = Reviews()
    await logs(reviews).handle(Request("GET", PATH, user=SERVER))
    attributes = {"verb": "get", "version": "v1", "resource": "nodes", "subresource": "proxy", "name": "here"}
    assert reviews.asked == [{"user": SERVER.name, "groups": list(SERVER.groups), "resourceAttributes": attributes}]


async def test_a_pod_of_another_node_is_not_read() -> None:
    answer = await logs(Reviews(), node="there").handle(Request("GET", PATH, user=SERVER))
    assert (answer.status, answer.body) == (404, b'pod "p" of namespace "ns" does not run on node there')


def context(folder: Path, pair: KeyPair | None) -> ssl.SSLContext:
    """Return a client that, like kube-apiserver as it comes, does not look who serves."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    made.check_hostname, made.verify_mode = False, ssl.CERT_NONE
    if pair is not None:
        certificate, key = folder / "client.crt", folder / "client.key"
        certificate.write_bytes(pair.certificate)
        key.write_bytes(pair.private_key)
        made.load_cert_chain(certificate, key)
    return made


async def test_only_certificates_of_the_authority_open_the_door(tmp_path: Path) -> None:
    clock = SystemClock()
    ours, others = (Authority.make(name, now_seconds=clock.now(), days=1) for name in ("ours", "others"))
    (tmp_path / "ca.crt").write_bytes(ours.pair.certificate)
    endpoint = KubeletPort(node="here", port=free_port(), client_ca=tmp_path / "ca.crt", directory=tmp_path / "node")
    endpoint.check()
    reviews = Reviews()
    serving = asyncio.ensure_future(serve_node(endpoint, logs(reviews), clock))

    def client(authority: Authority) -> KeyPair:
        return authority.client(SERVER.name, SERVER.groups[:1], now_seconds=clock.now(), days=1)

    def ask(pair: KeyPair | None, query: str) -> tuple[int, str]:
        opened = http.client.HTTPSConnection("127.0.0.1", endpoint.port, context=context(tmp_path, pair), timeout=60)
        with contextlib.closing(opened) as connection:
            connection.request("GET", PATH + query)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()

    async def fetch(pair: KeyPair | None, query: str = "") -> tuple[int, str]:
        return await asyncio.to_thread(ask, pair, query)

    async def until_it_serves() -> tuple[int, str]:
        while True:
            assert not serving.done(), serving.exception()
            try:
                return await fetch(client(ours))
            except ConnectionRefusedError:
                await asyncio.sleep(0.01)

    try:
        assert await until_it_serves() == (200, "ns/p/u-1/main\ntail=None follow=False\n")
        assert await fetch(client(ours), "?follow=true") == (200, "ns/p/u-1/main\ntail=None follow=True\n")
        assert (await fetch(None))[0] == 401
        assert len(reviews.asked) == 2
        with pytest.raises(OSError):
            await fetch(client(others))
        assert len(reviews.asked) == 2
    finally:
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)


def test_an_authority_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_text("none")
    for path in (tmp_path / "ca.crt", tmp_path / "absent"):
        endpoint = KubeletPort(node="here", port=1, client_ca=path, directory=tmp_path)
        with pytest.raises(UsageError, match=f"--client-ca-file '{path}': cannot be used"):
            endpoint.check()


@contextlib.asynccontextmanager
async def asked(folder: Path) -> AsyncIterator[RemotePod]:
    """Serve a node, and yield what an API server of the authority reaches its pod with."""
    clock = SystemClock()
    authority = CertificateAuthority(folder / "cluster", clock)
    door = KubeletPort(node="here", port=free_port(), client_ca=authority.certificate_path, directory=folder / "node")
    server = in_memory_server(clock, Random(1))
    node = {
        "metadata": {"name": "here", "annotations": door.annotations(clock)},
        "status": {
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": door.port}},
        },
    }
    body = json.dumps({"apiVersion": "v1", "kind": "Node", **node}).encode()
    await server.handle(Request("POST", "/api/v1/nodes", {}, {"content-type": "application/json"}, body, SERVER))
    pod = RemoteNodes(server.state, authority.client).of(POD)
    assert pod is not None
    serving = asyncio.ensure_future(serve_node(door, logs(Reviews()), clock))
    try:
        async with asyncio.timeout(60):
            while True:  # until it listens
                assert not serving.done(), serving.exception()
                with contextlib.suppress(OSError):
                    _, writer = await asyncio.open_connection("127.0.0.1", door.port)
                    writer.close()
                    break
                await asyncio.sleep(0.01)
            yield pod
    finally:
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)


async def test_an_api_server_reaches_what_runs_on_another_machine(tmp_path: Path) -> None:
    async with asked(tmp_path) as pod:
        log = [chunk async for chunk in pod.read_log("ns", "p", "u-1", "main", LogOptions(tail_lines=3))]
        assert b"".join(log) == b"ns/p/u-1/main\ntail=3 follow=False\n"
        channels = await pod.exec("u-1", "main", ["say", "a b"], StreamOptions(stdin=True))
        assert await channels.receive() == bytes((STDOUT,)) + b"u-1 main say a b in"
        await channels.send(bytes((STDIN,)) + b"x" * 40_000)
        assert await channels.receive() == bytes((STDOUT,)) + b"x" * 40_000
        await channels.send(bytes((CLOSE, STDIN)))
        assert await channels.receive() == bytes((STATUS,)) + b'{"exitCode": 3}'
        channels.close()
        with pytest.raises(BadRequest, match="is not running"):
            await pod.attach("u-1", "main", StreamOptions(stdout=True))
        reader, writer = await asyncio.open_connection(sock=await pod.connect("u-1", 80))
        writer.write(b"y" * 100_000)
        writer.write_eof()
        assert await reader.read() == b"Y" * 100_000
        writer.close()


async def test_a_node_with_another_certificate_is_not_believed(tmp_path: Path) -> None:
    async with asked(tmp_path / "true") as _, asked(tmp_path / "false") as pod:
        other = CertificateAuthority(tmp_path / "true" / "node" / "pki", SystemClock()).certificate
        origin = pod._origin

        async def mistaken() -> Origin:
            found = await origin()
            return found._replace(tls=client_context("node", ca=other))

        pod._origin = mistaken
        with pytest.raises(ApiError, match=r"node here of pod ns/p cannot be reached: .*certificate verify failed"):
            await pod.exec("u-1", "main", ["x"], StreamOptions(stdout=True))


async def test_a_client_certificate_serves_all_nodes_for_a_day(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    authority, now, issued = CertificateAuthority(tmp_path, SystemClock()), [1e9], list[User]()
    server = in_memory_server(SystemClock(), Random(1))
    monkeypatch.setattr(server.state, "clock", SimpleNamespace(now=lambda: now[0]))

    def issue(user: User) -> KeyPair:
        issued.append(user)
        return authority.client(user)

    nodes, counts = RemoteNodes(server.state, issue), []
    for seconds in (0, 60, 86_000, 1_000, 60, -100_000):  # the last: a clock that was set back
        now[0] += seconds
        for name in ("a", "b"):
            await nodes._origin(name, "127.0.0.1", 10250, authority.certificate.decode())
        counts.append(len(issued))
    assert counts == [1, 1, 1, 2, 2, 3]
