"""Patches of a status: only that is looked at, and nobody can tell from a server that looks at all."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest

from strato.api.wire import Request, User
from strato.clock import VirtualClock
from strato.server.embedded import in_memory_server
from strato.server.rest import memberpatch
from tests.server.asking import Client

ADMIN = User("admin", ("system:masters",))
PODS = "/api/v1/namespaces/default/pods"
GROUPS = "/apis/scheduling.volcano.sh/v1beta1/namespaces/default/podgroups"
QUEUES = "/apis/scheduling.volcano.sh/v1beta1/queues"
MERGE, JSON = "application/merge-patch+json", "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
RUNNING = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True", "lastProbeTime": None}]}
WOVEN = {
    "phase": "Running",
    "conditions": [
        {"type": "Ready", "status": "False", "reason": "Waits", "message": "for \u00e4", "lastProbeTime": None},
        {"type": "Initialized", "status": "True", "reason": None},
    ],
    "hostIP": "1.1.1.1",
    "hostIPs": [{"ip": "1.1.1.1"}],
    "podIPs": [{"ip": "10.0.0.1"}],
    "containerStatuses": [
        {"name": "c", "image": "i", "imageID": "", "ready": True, "restartCount": 0, "state": {}, "lastState": {}}
    ],
}
"""As nodes write it."""
TEMPLATE = {"spec": {"containers": [{"name": "c", "image": "busybox"}]}}
OBJECTS: list[tuple[str, dict[str, Any]]] = [
    ("/api/v1/namespaces", {"metadata": {"name": "default"}}),
    (QUEUES, {"metadata": {"name": "default"}, "spec": {"weight": 1}}),
    (PODS, {"metadata": {"name": "p", "labels": {"resourceVersion": "3"}}, **TEMPLATE}),
    (PODS, {"metadata": {"name": "q"}, **TEMPLATE}),
    (GROUPS, {"metadata": {"name": "g"}, "spec": {"minMember": 1}}),
]
KINDS = {
    GROUPS: ("scheduling.volcano.sh/v1beta1", "PodGroup"),
    QUEUES: ("scheduling.volcano.sh/v1beta1", "Queue"),
}
SAID = {
    "conditions": [
        {"type": "PodScheduled", "status": "True", "reason": "Bound"},
        {"type": "Ready", "status": "False", "reason": "NodeNotReady", "message": "the node is away"},
    ],
    "hostIPs": [{"ip": "3.3.3.3"}],
}
"""By others, before."""
UID = "{uid}"
"""Stands for the object's."""


def _operations(*more: dict[str, Any], uid: str = UID) -> list[dict[str, Any]]:
    return [{"op": "test", "path": "/metadata/uid", "value": uid}, *more]


CASES: dict[str, tuple[str, str, Any]] = {
    "a status is merged": (f"{PODS}/q/status", MERGE, {"status": RUNNING}),
    "a uid that is the pod's": (f"{PODS}/q/status", MERGE, {"metadata": {"uid": UID}, "status": RUNNING}),
    "a uid of another pod": (f"{PODS}/q/status", MERGE, {"metadata": {"uid": "x"}, "status": RUNNING}),
    "a label called like the revision": (f"{PODS}/p/status", MERGE, {"status": RUNNING}),
    "conditions are woven in": (f"{PODS}/q/status", STRATEGIC, {"metadata": {"uid": UID}, "status": WOVEN}),
    "words of a condition go": (
        f"{PODS}/q/status",
        STRATEGIC,
        {"status": {"conditions": [{"type": "Ready", "status": "True", "reason": None, "message": None}]}},
    ),
    "a condition and a list are taken back": (
        f"{PODS}/q/status",
        STRATEGIC,
        {
            "status": {
                "conditions": [{"type": "Ready", "$patch": "delete"}, {"type": "Other", "status": "Unknown"}],
                "hostIPs": [{"$patch": "replace"}, {"ip": "2.2.2.2"}],
                "podIPs": None,
            }
        },
    ),
    "a whole status is replaced": (
        f"{PODS}/q/status",
        STRATEGIC,
        {"status": {"$patch": "replace", "phase": "Failed", "reason": "\u00c4"}},
    ),
    "a field nobody knows is woven in": (f"{PODS}/q/status", STRATEGIC, {"status": {"foo": [{"$a": 1}]}}),
    "a type that is wrong is woven in": (f"{PODS}/q/status", STRATEGIC, {"status": {"phase": 1}}),
    "a condition without a type": (f"{PODS}/q/status", STRATEGIC, {"status": {"conditions": [{"status": "True"}]}}),
    "a uid of another pod, woven in": (f"{PODS}/q/status", STRATEGIC, {"metadata": {"uid": "x"}, "status": WOVEN}),
    "a kind that knows no keys": (f"{GROUPS}/g/status", STRATEGIC, {"status": {"phase": "Running"}}),
    "nothing changes": (f"{PODS}/q/status", MERGE, {"status": {"phase": "Pending"}}),
    "a member is removed": (f"{PODS}/q/status", MERGE, {"status": {"qosClass": None, "phase": "Running"}}),
    "labels come with the status": (f"{PODS}/q/status", MERGE, {"metadata": {"labels": {"a": "b"}}, "status": RUNNING}),
    "a spec comes with the status": (f"{PODS}/q/status", MERGE, {"spec": {"nodeName": "n"}, "status": RUNNING}),
    "a field nobody knows": (f"{PODS}/q/status", MERGE, {"status": {"foo": 1, "phase": "Running"}}),
    "a null in a condition": (f"{PODS}/q/status", MERGE, {"status": {"conditions": [{"type": "R", "reason": None}]}}),
    "a type that is wrong": (f"{PODS}/q/status", MERGE, {"status": {"phase": 1}}),
    "no status left": (f"{PODS}/q/status", MERGE, {"status": None}),
    "no object": (f"{PODS}/missing/status", MERGE, {"status": RUNNING}),
    "no patch": (f"{PODS}/q/status", MERGE, []),
    "an old revision": (f"{PODS}/q/status", MERGE, {"metadata": {"resourceVersion": "1"}, "status": RUNNING}),
    "a status by operations": (
        f"{PODS}/q/status",
        JSON,
        _operations({"op": "add", "path": "/status", "value": RUNNING}),
    ),
    "operations inside the status": (
        f"{PODS}/q/status",
        JSON,
        _operations({"op": "add", "path": "/status/phase", "value": "Running"}),
    ),
    "an operation that fails": (
        f"{PODS}/q/status",
        JSON,
        _operations({"op": "add", "path": "/status/no/such", "value": 1}),
    ),
    "operations for another uid": (
        f"{PODS}/q/status",
        JSON,
        _operations({"op": "add", "path": "/status", "value": RUNNING}, uid="x"),
    ),
    "operations on the spec": (f"{PODS}/q/status", JSON, [{"op": "add", "path": "/spec/nodeName", "value": "n"}]),
    "an operation that removes": (f"{PODS}/q/status", JSON, [{"op": "remove", "path": "/status/qosClass"}]),
    "a pod group's status, of the whole group": (f"{GROUPS}/g", MERGE, {"status": {"phase": "Running", "running": 1}}),
    "a pod group's spec as well": (f"{GROUPS}/g", MERGE, {"spec": {"minMember": 2}, "status": {"phase": "Running"}}),
    "a pod group's status of a wrong type": (f"{GROUPS}/g", MERGE, {"status": {"running": "one"}}),
    "a pod group's status with what no schema names": (f"{GROUPS}/g", MERGE, {"status": {"foo": 1}}),
    "a pod's status, not by its subresource": (f"{PODS}/q", MERGE, {"status": RUNNING}),
    "a queue's status": (f"{QUEUES}/default/status", MERGE, {"status": {"state": "Open", "running": 1}}),
    "a queue's status of a wrong type": (f"{QUEUES}/default/status", MERGE, {"status": {"running": "one"}}),
    "a queue's status replaced": (
        f"{QUEUES}/default/status",
        JSON,
        _operations({"op": "add", "path": "/status", "value": {"state": "Open", "running": 1}}),
    ),
    "a queue's status replaced without a uid": (
        f"{QUEUES}/default/status",
        JSON,
        [{"op": "replace", "path": "/status", "value": {"state": "Open"}}],
    ),
    "a queue's status replaced, for another uid": (
        f"{QUEUES}/default/status",
        JSON,
        _operations({"op": "add", "path": "/status", "value": {"state": "Open", "running": 1}}, uid="x"),
    ),
    "a queue's status replaced by one of a wrong type": (
        f"{QUEUES}/default/status",
        JSON,
        _operations({"op": "add", "path": "/status", "value": {"running": "one"}}),
    ),
    "a queue's status replaced by one with what no schema names": (
        f"{QUEUES}/default/status",
        JSON,
        _operations({"op": "add", "path": "/status", "value": {"state": "Open", "foo": 1}}),
    ),
    "a queue's status replaced by no object": (
        f"{QUEUES}/default/status",
        JSON,
        _operations({"op": "add", "path": "/status", "value": []}),
    ),
    "a queue's status replaced by nothing": (
        f"{QUEUES}/default/status",
        JSON,
        _operations({"op": "add", "path": "/status"}),
    ),
    "a queue's status removed": (f"{QUEUES}/default/status", JSON, _operations({"op": "remove", "path": "/status"})),
    "a queue's status replaced, then changed": (
        f"{QUEUES}/default/status",
        JSON,
        _operations(
            {"op": "add", "path": "/status", "value": {"state": "Open", "running": 1}},
            {"op": "add", "path": "/status/running", "value": 2},
        ),
    ),
    "no operation on a queue's status": (f"{QUEUES}/default/status", JSON, []),
}


async def _asked(path: str, media: str, patch: Any) -> list[Any]:
    """Return the answer, the object afterwards, and the answer to the same once more."""
    server = in_memory_server(VirtualClock(), Random(1))

    async def ask(method: str, path: str, body: Any = None, media: str = "application/json") -> tuple[int, Any]:
        content = b"" if body is None else json.dumps(body).encode()
        answer = await server.handle(Request(method, path, {}, {"content-type": media}, content, ADMIN))
        return answer.status, json.loads(answer.body)

    for place, body in OBJECTS:
        version, kind = KINDS.get(place, ("v1", "Namespace" if "pods" not in place else "Pod"))
        status, answer = await ask("POST", place, {"apiVersion": version, "kind": kind, **body})
        assert status in (201, 409), answer  # some are there from the beginning
        if place == PODS:
            said = {**answer, "status": answer["status"] | SAID}
            await ask("PUT", f"{PODS}/{body['metadata']['name']}/status", said)
    _, before = await ask("GET", path)
    uid = before.get("metadata", {}).get("uid", "")
    patch = json.loads(json.dumps(patch).replace(UID, uid))
    return [answer for _ in range(2) for answer in (await ask("PATCH", path, patch, media), await ask("GET", path))]


@pytest.mark.parametrize("name", CASES)
async def test_both_ways_answer_and_store_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    short = await _asked(*CASES[name])
    with monkeypatch.context() as patched:
        patched.setattr(memberpatch, "patched", lambda *_: None)
        long = await _asked(*CASES[name])
    assert short == long


async def test_the_short_way_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[bool] = []
    original = memberpatch.patched

    def noted(*args: Any) -> bytes | None:
        result = original(*args)
        taken.append(result is not None)
        return result

    monkeypatch.setattr(memberpatch, "patched", noted)
    merged = ("a status is merged", "a uid that is the pod's", "conditions are woven in", "words of a condition go")
    for name in (*merged, "a status by operations", "a queue's status"):
        await _asked(*CASES[name])
    await _asked(*CASES["a pod group's status, of the whole group"])
    assert all(taken)
    taken.clear()
    for name in ("labels come with the status", "a spec comes with the status", "a type that is wrong"):
        await _asked(*CASES[name])
    assert not any(taken)


async def test_kubernetes_own_kinds_have_a_status_always() -> None:
    client = Client(in_memory_server(VirtualClock(start=0.0), Random(1)))
    claims = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
    spec = {"devices": {"requests": [{"name": "a", "exactly": {"deviceClassName": "c"}}]}}
    made = await client.ask("POST", claims, {"metadata": {"name": "c"}, "spec": spec})
    assert made["status"] == {}
    for _ in range(2):
        added = [{"op": "add", "path": "/status/allocation", "value": {}}]
        changed = await client.ask("PATCH", f"{claims}/c/status", added, JSON)
        assert changed["status"] == {"allocation": {}}
        emptied = await client.ask("PATCH", f"{claims}/c/status", {"status": None}, MERGE)
        assert emptied["status"] == {}
