"""Evictions and the budgets that limit them."""

from __future__ import annotations

import random
from typing import Any

import pytest

from strato.clock import VirtualClock
from strato.server.embedded import in_memory_server
from strato.server.rest.evict import Covered, DisruptionsAllowed, is_healthy, room_for
from tests.server.asking import MERGE, Client

CORE, POLICY = "/api/v1/namespaces/default", "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
READY = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}


def pods(ready: int, unready: int = 0, leaving: int = 0) -> list[dict[str, Any]]:
    going = {"deletionTimestamp": "2024-01-01T00:00:00Z"}
    return [
        *({"metadata": {}, "status": READY} for _ in range(ready)),
        *({"metadata": {}, "status": {"phase": "Running"}} for _ in range(unready)),
        *({"metadata": going, "status": READY} for _ in range(leaving)),
    ]


@pytest.mark.parametrize(
    ("spec", "alike", "expected", "room"),
    [
        pytest.param({"minAvailable": 2}, pods(3), 3, DisruptionsAllowed(2, 3), id="a number of pods"),
        pytest.param({"minAvailable": "50%"}, pods(3), 3, DisruptionsAllowed(2, 3), id="a percentage is rounded up"),
        pytest.param({"maxUnavailable": 1}, pods(3), 3, DisruptionsAllowed(2, 3), id="at most one away"),
        pytest.param(
            {"maxUnavailable": "50%"}, pods(3), 3, DisruptionsAllowed(1, 3), id="at most half, rounded up, away"
        ),
        pytest.param({"maxUnavailable": 5}, pods(3), 3, DisruptionsAllowed(0, 3), id="more away than there are"),
        pytest.param(
            {"maxUnavailable": 1}, pods(2), 4, DisruptionsAllowed(3, 2), id="pods that are not made yet are away"
        ),
        pytest.param(
            {"minAvailable": 1}, pods(1, 2, 3), 6, DisruptionsAllowed(1, 1), id="only ready ones that stay are healthy"
        ),
        pytest.param({}, pods(1), 1, DisruptionsAllowed(0, 1), id="nothing is asked for"),
    ],
)
def test_room(spec: dict[str, Any], alike: list[dict[str, Any]], expected: int, room: DisruptionsAllowed) -> None:
    assert room_for(spec, [Covered(is_healthy(pod), None) for pod in alike], expected) == room


@pytest.mark.parametrize(
    ("room", "healthy", "policy", "goes"),
    [
        pytest.param(DisruptionsAllowed(1, 2), True, None, True, id="there is room"),
        pytest.param(DisruptionsAllowed(2, 2), True, None, False, id="there is none"),
        pytest.param(
            DisruptionsAllowed(2, 2), False, None, True, id="an unhealthy pod goes while the others are enough"
        ),
        pytest.param(
            DisruptionsAllowed(2, 1), False, None, False, id="an unhealthy pod stays when the others are too few"
        ),
        pytest.param(DisruptionsAllowed(2, 1), False, "AlwaysAllow", True, id="unhealthy pods may always go"),
        pytest.param(DisruptionsAllowed(2, 2), True, "AlwaysAllow", False, id="healthy ones not even then"),
    ],
)
def test_who_goes(room: DisruptionsAllowed, healthy: bool, policy: str | None, goes: bool) -> None:
    assert room.is_allowed(healthy, policy) is goes


@pytest.fixture
async def client() -> Client:
    """A server with a budget of one pod and three ready pods of a replica set of three."""
    made = Client(in_memory_server(VirtualClock(), random.Random(1)))
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"replicas": 3, "selector": {"matchLabels": {"a": "b"}}, "template": template}
    replicas = {"metadata": {"name": "r"}, "spec": spec}
    uid = (await made.ask("POST", "/apis/apps/v1/namespaces/default/replicasets", replicas))["metadata"]["uid"]
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": uid, "controller": True}
    for name in "xyz":
        metadata = {"name": name, "labels": {"a": "b"}, "ownerReferences": [owner]}
        await made.ask("POST", f"{CORE}/pods", {"metadata": metadata, "spec": {**template["spec"], "nodeName": "n"}})
        await made.ask("PATCH", f"{CORE}/pods/{name}/status", {"status": READY}, MERGE)
    budget = {"maxUnavailable": 1, "selector": {"matchLabels": {"a": "b"}}}
    await made.ask("POST", POLICY, {"metadata": {"name": "b"}, "spec": budget})
    return made


async def evict(client: Client, name: str, code: int = 201, **more: Any) -> Any:
    return await client.ask("POST", f"{CORE}/pods/{name}/eviction", {"metadata": {"name": name}, **more}, code=code)


async def test_one_goes_and_the_next_has_to_wait(client: Client) -> None:
    await evict(client, "x")
    pod = await client.ask("GET", f"{CORE}/pods/x")
    assert "deletionTimestamp" in pod["metadata"]
    assert pod["status"]["conditions"][-1]["reason"] == "EvictionByEvictionAPI"
    refused = await evict(client, "y", 429)
    assert refused["details"]["causes"] == [
        {"reason": "DisruptionBudget", "message": "The disruption budget b needs 2 healthy pods and has 2 currently"}
    ]
    await evict(client, "x")  # it is going anyway


OTHER = {"type": "Ready", "status": "True"}
OLD = {"type": "DisruptionTarget", "status": "False", "reason": "Old"}


@pytest.mark.parametrize(
    ("conditions", "kept"),
    [
        pytest.param(None, [], id="none"),
        pytest.param([], [], id="an empty list"),
        pytest.param([OTHER], ["Ready"], id="another"),
        pytest.param([OLD, OTHER], ["Ready"], id="one of an eviction before"),
    ],
)
@pytest.mark.parametrize("phase", ["Running", "Pending", "Unknown"])
async def test_what_is_evicted_says_so_once(
    client: Client, conditions: list[dict[str, Any]] | None, kept: list[str], phase: str
) -> None:
    spec = {"containers": [{"name": "c", "image": "i"}], "nodeName": "n"}
    await client.ask("POST", f"{CORE}/pods", {"metadata": {"name": "alone"}, "spec": spec})
    status = {"phase": phase, "conditions": conditions}
    await client.ask("PATCH", f"{CORE}/pods/alone/status", {"status": status}, MERGE)
    await evict(client, "alone")
    found = (await client.ask("GET", f"{CORE}/pods/alone"))["status"]["conditions"]
    assert [one["type"] for one in found] == [*kept, "DisruptionTarget"]
    assert (found[-1]["status"], found[-1]["reason"]) == ("True", "EvictionByEvictionAPI")


@pytest.mark.parametrize(("phase", "code"), [("Pending", 201), ("Failed", 201), ("Running", 429), ("Unknown", 429)])
async def test_only_what_may_run_is_held_back(client: Client, phase: str, code: int) -> None:
    await evict(client, "x")
    await client.ask("PATCH", f"{CORE}/pods/y/status", {"status": {"phase": phase}}, MERGE)
    await evict(client, "y", code)


@pytest.mark.parametrize(
    ("selector", "code"), [(None, 429), ({}, 429), ({"matchLabels": {"a": "c"}}, 201)], ids=["none", "empty", "others"]
)
async def test_a_budget_without_a_selector_is_of_all_pods(client: Client, selector: Any, code: int) -> None:
    await client.ask("DELETE", f"{POLICY}/b")
    budget = {"minAvailable": 3, **({} if selector is None else {"selector": selector})}
    await client.ask("POST", POLICY, {"metadata": {"name": "all"}, "spec": budget})
    await evict(client, "x", code)


async def test_a_dry_run_evicts_nobody(client: Client) -> None:
    await evict(client, "x", deleteOptions={"dryRun": ["All"]})
    assert "deletionTimestamp" not in (await client.ask("GET", f"{CORE}/pods/x"))["metadata"]


async def test_a_finished_pod_goes_whatever_the_budget(client: Client) -> None:
    await evict(client, "x")
    await client.ask("PATCH", f"{CORE}/pods/y/status", {"status": {"phase": "Succeeded"}}, MERGE)
    await evict(client, "y")
    await client.ask("GET", f"{CORE}/pods/y", code=404)


async def test_other_pods_are_not_held_back(client: Client) -> None:
    spec = {"containers": [{"name": "c", "image": "i"}], "nodeName": "n"}
    await client.ask("POST", f"{CORE}/pods", {"metadata": {"name": "other"}, "spec": spec})
    await client.ask("PATCH", f"{CORE}/pods/other/status", {"status": READY}, MERGE)
    await evict(client, "x")
    await evict(client, "other")
