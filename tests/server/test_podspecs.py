"""Pods alike: the second and later of one spec take the short way, and nobody can tell."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest

from strato.api.wire import Request, User
from strato.clock import VirtualClock
from strato.server.embedded import in_memory_server

ADMIN = User("admin", ("system:masters",))
PODS = "/api/v1/namespaces/default/pods"
SPEC: dict[str, Any] = {
    "schedulerName": "volcano",
    "containers": [{"name": "c", "image": "busybox", "resources": {"limits": {"cpu": "1000m", "memory": "1Gi"}}}],
}


class Client:
    def __init__(self) -> None:
        self.server = in_memory_server(VirtualClock(), Random(1))

    async def post(self, path: str, body: Any, **query: str) -> tuple[int, Any]:
        headers = {"content-type": "application/json"}
        parameters = {name: [value] for name, value in query.items()}
        request = Request("POST", path, parameters, headers, json.dumps(body).encode(), ADMIN)
        response = await self.server.handle(request)
        return response.status, json.loads(response.body)

    async def pod(self, name: str, spec: Any = SPEC, **metadata: Any) -> tuple[int, Any]:
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **metadata}, "spec": spec}
        return await self.post(PODS, body)


@pytest.fixture
async def client() -> Client:
    client = Client()
    await client.post("/api/v1/namespaces", {"metadata": {"name": "default"}})
    return client


def alike(pod: dict[str, Any]) -> dict[str, Any]:
    own = ("name", "uid", "resourceVersion")
    return {**pod, "metadata": {key: value for key, value in pod["metadata"].items() if key not in own}}


async def test_every_pod_of_one_spec_is_stored_alike(client: Client) -> None:
    pods = [await client.pod(f"p{number}", labels={"a": "b"}) for number in range(5)]
    assert [status for status, _ in pods] == [201] * 5
    assert all(alike(pod) == alike(pods[0][1]) for _, pod in pods)
    assert pods[4][1]["status"] == {"phase": "Pending", "qosClass": "Guaranteed"}
    assert pods[4][1]["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "1", "memory": "1Gi"}


async def test_pods_alike_do_not_share_what_is_written_later(client: Client) -> None:
    for number in range(3):
        await client.pod(f"p{number}")
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "p2"}, "target": {"name": "n"}}
    assert (await client.post(f"{PODS}/p2/binding", binding))[0] == 201
    _, later = await client.pod("later")
    assert "nodeName" not in later["spec"]
    assert later["status"] == {"phase": "Pending", "qosClass": "Guaranteed"}


async def test_admission_sees_the_cluster_as_it_is_for_every_pod(client: Client) -> None:
    for number in range(3):
        await client.pod(f"p{number}")
    group = "/apis/scheduling.k8s.io/v1/priorityclasses"
    await client.post(group, {"metadata": {"name": "high"}, "value": 7, "globalDefault": True})
    _, pod = await client.pod("after")
    assert (pod["spec"]["priorityClassName"], pod["spec"]["priority"]) == ("high", 7)
    limits = {"limits": [{"type": "Container", "max": {"cpu": "500m"}}]}
    status, _ = await client.post("/api/v1/namespaces/default/limitranges", {"metadata": {"name": "l"}, "spec": limits})
    assert status == 201
    status, refused = await client.pod("too-big")
    assert (status, refused["reason"]) == (403, "Forbidden")


METADATA = [
    pytest.param({"name": "UPPER"}, 422, "metadata.name", id="a name that is none"),
    pytest.param({"labels": {"a": "b c"}}, 422, "metadata.labels", id="a label that is none"),
    pytest.param({"labels": {"a": 1}}, 400, "unmarshal number", id="a label of the wrong type"),
    pytest.param({"namespace": "other"}, 400, "does not match", id="another namespace"),
    pytest.param({"resourceVersion": "1"}, 400, "resourceVersion should not be set", id="a revision"),
    pytest.param({"name": "p0"}, 409, "already exists", id="a name that is taken"),
]


@pytest.mark.parametrize(("metadata", "code", "text"), METADATA)
async def test_metadata_is_checked_whatever_is_known(
    client: Client, metadata: dict[str, Any], code: int, text: str
) -> None:
    for number in range(3):
        await client.pod(f"p{number}")
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "next", **metadata}, "spec": SPEC}
    status, answer = await client.post(PODS, body)
    assert status == code
    assert text in json.dumps(answer)


async def test_a_spec_that_is_refused_is_not_learned(client: Client) -> None:
    bad = {**SPEC, "restartPolicy": "Sometimes"}
    for number in range(4):
        status, answer = await client.pod(f"p{number}", bad)
        assert (status, answer["details"]["causes"][0]["field"]) == (422, "spec.restartPolicy")


async def test_unknown_members_beside_a_known_spec_are_dropped_with_a_warning(client: Client) -> None:
    for number in range(3):
        await client.pod(f"p{number}")
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": SPEC, "extra": 1, "status": {}}
    status, pod = await client.post(PODS, body)
    assert status == 201
    assert "extra" not in pod
