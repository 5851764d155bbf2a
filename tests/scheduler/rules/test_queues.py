"""What queues may hold and who is let in: proportion and capacity, rule by rule (spec volcano-plugins 5 and 6)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.scheduler.rules.deciding import NOTHING, Json, Tier, decided, many, running
from tests.scheduler.worlds import group, node, pod, queue

GPU = "nvidia.com/gpu"
SHARED: list[Tier] = [["gang"], ["proportion", "predicates"]]
DESERVED: list[Tier] = [["gang"], ["capacity", "predicates"]]
TREE: list[Tier] = [["gang"], [{"name": "capacity", "enableHierarchy": True}, "predicates"]]

NODE = node("n1", cpu="4")
Q1, Q2 = queue("q1"), queue("q2")
ROOT = queue("root", capability={"cpu": "8", "memory": "8Gi"})


def job(name: str, home: str, pods: int = 4, **more: Any) -> tuple[Json, ...]:
    """Return a job of waiting pods of 1 cpu each."""
    return group(name, 1, queue=home), *many(pods, name, name, waiting=True, **more)


def holds(home: str, cpu: str) -> tuple[Json, ...]:
    """Return a job that runs."""
    return group("r", 0, queue=home, phase="Running"), running("r", "r", cpu=cpu)


ALLOCATE = [
    pytest.param(SHARED, (NODE, Q1, Q2, *job("a", "q1"), *job("b", "q2")), {"a": 2, "b": 2}, id="equal weights"),
    pytest.param(
        SHARED, (NODE, Q1, queue("q2", weight=3), *job("a", "q1"), *job("b", "q2")), {"a": 1, "b": 3}, id="weights"
    ),
    pytest.param(SHARED, (NODE, Q1, Q2, *job("a", "q1")), {"a": 4}, id="who is alone may have all"),
    pytest.param(SHARED, (NODE, queue("q1", capability={"cpu": "2"}), *job("a", "q1")), {"a": 2}, id="capability"),
    pytest.param(
        SHARED, (NODE, queue("q1", capability={"memory": "3Gi"}), *job("a", "q1")), {"a": 3},
        id="what a capability does not name is not limited",
    ),
    pytest.param(
        SHARED, (node("n1", **{GPU: "4"}), queue("q1", capability={GPU: "0"}), *job("a", "q1", resources={GPU: "1"})),
        {}, id="none of a scarce resource means none",
    ),
    pytest.param(SHARED, (NODE, queue("q1", state="Closing"), *job("a", "q1")), {}, id="queues that are not open"),
    pytest.param(SHARED, (NODE, Q1, *job("a", "q1", cpu="")), {"a": 4}, id="requests without cpu"),
    pytest.param(DESERVED, (NODE, Q1, *job("a", "q1")), {"a": 4}, id="capacity: without deserved up to the capability"),
    pytest.param(
        DESERVED, (NODE, queue("q1", deserved={"cpu": "1"}), *job("a", "q1")), {"a": 4},
        id="capacity: beyond what is deserved while nobody else wants it",
    ),
    pytest.param(
        DESERVED, (NODE, Q1, queue("q2", guarantee={"resource": {"cpu": "2", "memory": "1Gi"}}), *job("a", "q1")),
        {"a": 2}, id="capacity: not what others are guaranteed",
    ),
    pytest.param(
        DESERVED, (node("n1", cpu="3"), queue("q1", deserved={"cpu": "2"}), queue("q2", deserved={"cpu": "2"}),
        *holds("q1", "2"), *job("a", "q1"), *job("b", "q2")), {"b": 1}, id="capacity: the smaller share first",
    ),
    pytest.param(
        DESERVED, (node("n1", cpu="1"), Q1, queue("q2", deserved={"cpu": "2"}), *job("a", "q1"), *job("b", "q2")),
        {"b": 1}, id="capacity: who deserves nothing comes last",
    ),
    pytest.param(
        DESERVED, (node("n1", cpu="1"), queue("q1", priority=1), queue("q2", deserved={"cpu": "2"}), *job("a", "q1"),
        *job("b", "q2")), {"a": 1}, id="capacity: the priority of queues comes before shares",
    ),
    pytest.param(TREE, (NODE, Q1, *job("a", "q1")), {}, id="tree: nothing without a root"),
    pytest.param(TREE, (NODE, ROOT, Q1, *job("a", "q1")), {"a": 4}, id="tree: root is the parent of who names none"),
    pytest.param(
        TREE, (NODE, ROOT, queue("p", parent="root", capability={"cpu": "2"}), queue("q1", parent="p"),
        *job("a", "q1")), {"a": 2}, id="tree: ancestors' capability",
    ),
    pytest.param(
        TREE, (node("n1", cpu="8"), ROOT, queue("p", parent="root", capability={"cpu": "3"}), queue("q1", parent="p"),
        queue("q2", parent="p"), *holds("q1", "2"), *job("a", "q2")), {"a": 1},
        id="tree: what siblings hold of the parent's",
    ),
    pytest.param(
        TREE, (NODE, ROOT, queue("p", parent="root"), queue("q1", parent="p"), *job("a", "p")), {},
        id="tree: inner queues place nothing",
    ),
    pytest.param(TREE, (NODE, ROOT, queue("q1", parent="gone"), *job("a", "q1")), {}, id="tree: an unknown parent"),
]  # fmt: skip


@pytest.mark.parametrize(("tiers", "objects", "expected"), ALLOCATE)
def test_allocate(tiers: list[Tier], objects: tuple[Json, ...], expected: dict[str, int]) -> None:
    placed = [name[0] for name in decided("allocate", tiers, *objects).binds]
    assert {name: placed.count(name) for name in placed} == expected


def claiming(*classes: str) -> tuple[Json, ...]:
    """Return a job of pods that are equal but for the claim each has, for a device of a class."""
    pods, claims = many(len(classes), "a", "a", waiting=True), []
    for made, name in zip(pods, classes, strict=True):
        of = made["metadata"]["name"]
        made["spec"]["resourceClaims"] = [{"name": "it", "resourceClaimName": of}]
        wants = [{"name": "it", "exactly": {"deviceClassName": name, "count": 1}}]
        claims.append({
            "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": of, "namespace": "ns"},
            "spec": {"devices": {"requests": wants}},
        })  # fmt: skip
    return group("a", 0, queue="q1"), *claims, *pods


@pytest.mark.parametrize("classes", [("gpu", "gpu", "nic"), ("nic", "gpu", "gpu"), ("gpu", "nic", "gpu")], ids="-".join)
def test_a_quota_on_devices_looks_at_every_claim_by_itself(classes: tuple[str, ...]) -> None:
    quota = {"name": "capacity", "arguments": {"capacity.DynamicResourceAllocationEnable": True}}
    limited = queue("q1", capability={"deviceclass/gpu": "1"})
    binds = decided("allocate", [[quota]], NODE, limited, *claiming(*classes)).binds
    assert sorted(binds) == sorted(f"a{1 + classes.index(name)}" for name in ("gpu", "nic"))


def asks(name: str, cpu: str, phase: str = "Pending", minimum: int = 1) -> Json:
    return group(name, minimum, queue="q1", phase=phase, minResources={"cpu": cpu})


def gated(by: str) -> Json:
    return pod("a1", "a", cpu="3", schedulingGates=[{"name": by}])


ENQUEUE = [
    pytest.param((asks("a", "3", "Inqueue"), asks("b", "2")), False, id="who was let in holds its minimum"),
    pytest.param((asks("a", "4", "Unknown"), asks("b", "4")), True, id="who is neither waiting nor running does not"),
    pytest.param(
        (asks("a", "1", "Running"), *many(3, "a", "a"), asks("b", "3")), True, id="what is beyond a minimum can go"
    ),
    pytest.param(
        (asks("a", "3", "Running", minimum=3), *many(1, "a", "a"), asks("b", "3")), True,
        id="a gang below its minimum holds what it has",
    ),
    pytest.param(
        (asks("a", "3", "Running"), *many(1, "a", "a"), asks("b", "2")), False, id="a gang that runs claims the rest"
    ),
    pytest.param((asks("a", "3", "Inqueue"), gated("mine"), asks("b", "4")), True, id="gated pods claim nothing yet"),
    pytest.param(
        (asks("a", "3", "Inqueue"), gated("scheduling.volcano.sh/queue-allocation-gate"), asks("b", "4")), False,
        id="those who wait for the queue do",
    ),
    pytest.param((asks("b", "3"), *holds("q1", "1")), True, id="the boundary itself fits"),
]  # fmt: skip


@pytest.mark.parametrize("plugin", ["proportion", "capacity"])
@pytest.mark.parametrize(("objects", "enters"), ENQUEUE)
def test_enqueue(plugin: str, objects: tuple[Json, ...], enters: bool) -> None:
    found = decided("enqueue", [[plugin]], NODE, Q1, *objects)
    assert (found.phases["b"] == "Inqueue") == enters


def test_a_queue_of_best_effort_jobs_deserves_nothing_and_is_left_to_backfill() -> None:
    objects = (NODE, Q1, group("a", 1, queue="q1"), pod("a", "a", **NOTHING))
    assert decided("allocate", SHARED, *objects).binds == {}
    assert decided("allocate, backfill", SHARED, *objects).binds == {"a": "n1"}
