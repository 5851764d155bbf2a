"""Bindings, however they are read: each is sent as programs write it, and as a client with another media type."""

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
SPEC = {"containers": [{"name": "c", "image": "busybox", "env": [{"name": "E", "value": 'x"nodeName":"y'}]}]}
UID = "{uid}"
"""Stands for the pod's."""

CASES: dict[str, tuple[int, dict[str, Any]]] = {
    "a target": (201, {"target": {"name": "n"}}),
    "a target as schedulers write it": (
        201,
        {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": "p", "namespace": "default", "uid": UID},
            "target": {"apiVersion": "v1", "kind": "Node", "name": "n"},
        },
    ),
    "annotations": (201, {"metadata": {"annotations": {"a": "new", "c": "d"}}, "target": {"name": "n"}}),
    "labels": (201, {"metadata": {"labels": {"a": "b"}}, "target": {"name": "n"}}),
    "another name": (400, {"metadata": {"name": "q"}, "target": {"name": "n"}}),
    "another namespace": (400, {"metadata": {"namespace": "q"}, "target": {"name": "n"}}),
    "another uid": (409, {"metadata": {"uid": "x"}, "target": {"name": "n"}}),
    "no node": (422, {"metadata": {}, "target": {"name": ""}}),
    "no target": (422, {"metadata": {}}),
    "a target that is no node": (422, {"metadata": {}, "target": {"kind": "Pod", "name": "n"}}),
    "another kind": (400, {"apiVersion": "v1", "kind": "Pod", "metadata": {}, "target": {"name": "n"}}),
    "an unknown field": (201, {"foo": 1, "metadata": {}, "target": {"name": "n"}}),
    "a wrong type": (400, {"metadata": {"annotations": {"a": 1}}, "target": {"name": "n"}}),
}


async def _asked(binding: dict[str, Any], media: str, pod: dict[str, Any]) -> list[Any]:
    """Return what two bindings are answered, and the pod after each."""
    server = in_memory_server(VirtualClock(), Random(1))

    async def ask(method: str, path: str, body: Any = None) -> tuple[int, Any]:
        content = b"" if body is None else json.dumps(body).encode()
        answer = await server.handle(Request(method, path, {}, {"content-type": media}, content, ADMIN))
        return answer.status, json.loads(answer.body)

    await ask("POST", "/api/v1/namespaces", {"metadata": {"name": "default"}})
    status, answer = await ask("POST", PODS, pod)
    assert status == 201, answer
    binding = json.loads(json.dumps(binding).replace(UID, answer["metadata"]["uid"]))
    return [
        answer
        for _ in range(2)
        for answer in (await ask("POST", f"{PODS}/p/binding", binding), await ask("GET", f"{PODS}/p"))
    ]


PODS_BOUND: dict[str, dict[str, Any]] = {
    "a free pod": {"metadata": {"name": "p", "annotations": {"a": "b"}}, "spec": SPEC},
    "a gated pod": {"metadata": {"name": "p"}, "spec": {**SPEC, "schedulingGates": [{"name": "a"}]}},
    "no node yet": {"metadata": {"name": "p"}, "spec": {"nodeName": "", **SPEC}},
    "a label like the revision": {"metadata": {"name": "p", "labels": {"resourceVersion": "3"}}, "spec": SPEC},
    "the type last": {"spec": SPEC, "metadata": {"name": "p"}, "kind": "Pod", "apiVersion": "v1"},
}


@pytest.mark.parametrize("pod", PODS_BOUND)
@pytest.mark.parametrize("name", CASES)
async def test_a_binding_is_answered_and_stored(name: str, pod: str) -> None:
    code, binding = CASES[name]
    answers = await _asked(binding, "application/json", PODS_BOUND[pod])
    assert answers == await _asked(binding, "application/json; charset=utf-8", PODS_BOUND[pod])
    (first, _), (_, bound), (second, _), (_, after) = answers
    assert after == bound
    if code != 201 or pod == "a gated pod":
        assert (first, second) == ((409, 409) if code == 201 else (code, code))
        assert "nodeName" not in bound["spec"] or not bound["spec"]["nodeName"]
        return
    assert (first, second) == (201, 409), "a pod is bound once"
    assert bound["spec"]["nodeName"] == "n"
    assert bound["spec"]["containers"][0]["env"] == SPEC["containers"][0]["env"]
    assert [condition["type"] for condition in bound["status"]["conditions"]] == ["PodScheduled"]
    about = binding.get("metadata", {})
    for member in ("annotations", "labels"):
        before = PODS_BOUND[pod]["metadata"].get(member, {})
        assert bound["metadata"].get(member, {}) == {**before, **about.get(member, {})}


async def test_a_pod_on_its_way_out_is_not_bound() -> None:
    server = in_memory_server(VirtualClock(), Random(1))

    async def ask(method: str, path: str, body: Any) -> tuple[int, Any]:
        sent = json.dumps(body).encode()
        answer = await server.handle(Request(method, path, {}, {"content-type": "application/json"}, sent, ADMIN))
        return answer.status, json.loads(answer.body)

    await ask("POST", "/api/v1/namespaces", {"metadata": {"name": "default"}})
    await ask("POST", PODS, {"metadata": {"name": "p", "finalizers": ["a/b"]}, "spec": SPEC})
    await ask("DELETE", f"{PODS}/p", {"gracePeriodSeconds": 0})
    status, answer = await ask("POST", f"{PODS}/p/binding", {"target": {"name": "n"}})
    assert (status, answer["message"].rpartition(": ")[2]) == (
        409,
        "pod p is being deleted, cannot be assigned to a host",
    )
