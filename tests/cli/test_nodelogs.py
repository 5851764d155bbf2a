"""A node's logs over its door: only for those whom the authority vouches for and the API server allows."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from strato.api.core import Pod
from strato.api.meta import Key
from strato.api.wire import Request, User
from strato.cli.run.nodelogs import LogEndpoint, NodeLogs, serve_logs
from strato.client.cluster import Cluster
from strato.clock import SystemClock
from strato.errors import NotFound, UsageError
from strato.pki import Authority, KeyPair
from strato.server.logs import LogOptions
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
PATH = "/containerLogs/ns/p/main"


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


def logs(reviews: Reviews, node: str = "here") -> NodeLogs:
    pods = {Key("ns", "p"): msgspec.convert(POD, Pod)}
    return NodeLogs(cast(Cluster, reviews), node, pods.get, Source())


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
        Request("GET", "/pods"), SERVER, (404, "container logs and nothing else"), id="another path of kubelets"
    ),
    pytest.param(Request("POST", "/exec/ns/p/main"), SERVER, (404, "nothing else"), id="a way into a container"),
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
    endpoint = LogEndpoint(node="here", port=free_port(), client_ca=tmp_path / "ca.crt", directory=tmp_path / "node")
    endpoint.check()
    reviews = Reviews()
    serving = asyncio.ensure_future(serve_logs(endpoint, logs(reviews), clock))

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
        endpoint = LogEndpoint(node="here", port=1, client_ca=path, directory=tmp_path)
        with pytest.raises(UsageError, match=f"--client-ca-file '{path}': cannot be used"):
            endpoint.check()
