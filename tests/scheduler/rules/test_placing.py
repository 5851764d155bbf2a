"""enqueue, allocate and backfill, rule by rule (spec volcano-actions 1 to 3, scheduler-core 7.2)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.scheduler.rules.deciding import HIGH, NOTHING, Json, Tier, decided, many, running
from tests.scheduler.worlds import group, node, pod, queue

PLAIN: list[Tier] = [["gang"], ["predicates", "nodeorder"]]
RANKED: list[Tier] = [["priority", "gang"], ["predicates"]]
LEAVING = running("r", "r", leaving=True)
OTHERS = group("r", 0, phase="Running")


def role(name: str) -> Json:
    return {"annotations": {"volcano.sh/task-spec": name}}


def nominated(made: Json, node: str) -> Json:
    made["status"]["nominatedNodeName"] = node
    return made


ROLES = (
    node("n1", cpu="2"),
    pod("m", "a", cpu="4", **role("m")),
    pod("w1", "a", **role("w")),
    pod("w2", "a", **role("w")),
)

APART = group("a", 1)
APART["metadata"]["annotations"] = {"volcano.sh/task-topology-anti-affinity": "b,z"}

ALLOCATE = [
    pytest.param(
        PLAIN, (node("n1", cpu="2"), group("a", 1), *many(3, "a", "a", waiting=True)), {"a1": "n1", "a2": "n1"},
        id="what is beyond the minimum is placed one by one, as long as it fits",
    ),
    pytest.param(
        PLAIN, (node("n1", cpu="2"), group("a", 3), pod("big", "a", cpu="4"), *many(2, "a", "a", waiting=True)), {},
        id="a gang of all gives up with its first task that fits nowhere",
    ),
    pytest.param(
        PLAIN, (node("n1", cpu="2"), group("a", 2), pod("a0", "a", cpu="4"), *many(2, "a", "a", waiting=True)),
        {"a1": "n1", "a2": "n1"}, id="a gang that can do without a task goes on",
    ),
    pytest.param(
        PLAIN, (*ROLES, group("a", 2, minTaskMember={"m": 1, "w": 1})), {}, id="a role below its minimum ends it all"
    ),
    pytest.param(
        PLAIN, (*ROLES, group("a", 2, minTaskMember={"m": 1, "w": 2})), {"w1": "n1", "w2": "n1"},
        id="roles whose minima exceed the group's are not enforced",
    ),
    pytest.param(
        PLAIN, (node("n1", cpu="1"), node("n2", cpu="2"), group("a", 2), pod("a1", "a", cpu="2", **role("w")),
        pod("a2", "a", **role("w"))), {"a1": "n2", "a2": "n1"},
        id="where a large task did not fit, a small one of its role may",
    ),
    pytest.param(
        PLAIN, (node("n1", cpu="1"), group("a", 2), pod("a1", "a"), pod("a2", "a", **NOTHING)), {"a1": "n1"},
        id="pending best-effort tasks count as ready",
    ),
    pytest.param(
        PLAIN, (node("n1"), group("a", 2, phase="Running"), running("a1", "a") | {"status": {"phase": "Succeeded"}},
        pod("a2", "a")), {"a2": "n1"}, id="succeeded tasks count as ready",
    ),
    pytest.param(
        PLAIN, (node("n1"), group("a", 2, phase="Running"), running("a1", "a") | {"status": {"phase": "Failed"}},
        pod("a2", "a")), {}, id="failed tasks do not",
    ),
    pytest.param(
        RANKED, (node("n1", cpu="1"), group("a", 1), pod("a1", "a", priority=1), pod("a2", "a", priority=5)),
        {"a2": "n1"}, id="tasks of higher priority first",
    ),
    pytest.param(
        RANKED, (node("n1", cpu="1"), group("a", 1), pod("a2", "a", priority=5),
        pod("a1", "a", priority=1, annotations={"volcano.sh/task-priority": "9"})),
        {"a1": "n1"}, id="the task priority in an annotation wins",
    ),
    pytest.param(
        PLAIN, (node("n1"), node("n2"), group("a", 1), nominated(pod("a1", "a"), "n2")), {"a1": "n2"},
        id="the nominated node comes first",
    ),
    pytest.param(
        PLAIN, (node("n1"), group("a", 2), pod("a1", "a"), pod("a2", "a", schedulingGates=[{"name": "x"}])), {},
        id="gated tasks make a gang valid but take no place",
    ),
    pytest.param(PLAIN, (node("n1"), group("a", 2), pod("a1", "a")), {}, id="a gang without enough pods is not tried"),
    pytest.param(PLAIN, (node("n1"), group("a", 1, queue="nobody"), pod("a1", "a")), {}, id="an unknown queue"),
    pytest.param(
        [["predicates"]], (node("n1", cpu="2"), group("a", 3), *many(3, "a", "a", waiting=True)),
        {"a1": "n1", "a2": "n1"}, id="without gang what fits is placed",
    ),
    pytest.param(
        [["gang"], ["task-topology", "predicates"]],
        (node("n1", cpu="1"), APART, pod("a1", "a", **role("z")), pod("a2", "a", **role("b"))), {"a1": "n1"},
        id="of roles that rank the same in a topology, the pod with the first name leads",
    ),
]  # fmt: skip


def test_pods_whose_claims_are_missing_hold_up_nobody_of_their_job() -> None:
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "gone"}}]
    waiting = (pod("a1", "a", volumes=volumes), pod("a2", "a", volumes=volumes), pod("a3", "a"))
    found = decided("allocate", [["gang"], ["predicates"]], queue(), node("n1"), group("a", 1), *waiting)
    assert found.binds == {"a3": "n1"}


@pytest.mark.parametrize(("tiers", "objects", "expected"), ALLOCATE)
def test_allocate(tiers: list[Tier], objects: tuple[Json, ...], expected: dict[str, str]) -> None:
    assert decided("allocate", tiers, queue(), *objects).binds == expected


PROMISES = [
    pytest.param(
        (node("n1", cpu="2"), group("a", 2), *many(2, "a", "a", waiting=True), group("b", 1), pod("b1", "b")),
        {}, {"a2": "n1"}, id="a gang half on what leaves is not bound, and keeps its room from jobs after it",
    ),
    pytest.param(
        (node("n1", cpu="1"), node("n2"), group("a", 1), nominated(pod("a1", "a"), "n1")), {}, {"a1": "n1"},
        id="the nominated node comes first even when it is not free yet",
    ),
    pytest.param(
        (node("n1", cpu="1"), node("n2"), group("a", 1), pod("a1", "a")), {"a1": "n2"}, {},
        id="free room comes before room to come",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("objects", "binds", "pipelined"), PROMISES)
def test_promises(objects: tuple[Json, ...], binds: dict[str, str], pipelined: dict[str, str]) -> None:
    found = decided("allocate", PLAIN, queue(), OTHERS, LEAVING, *objects)
    assert (found.binds, found.pipelined) == (binds, pipelined)


BACKFILL = [
    pytest.param((node("n1"), group("a", 1, phase="Pending"), pod("a1", "a", **NOTHING)), {}, id="not before enqueue"),
    pytest.param(
        (node("n1"), group("a", 2), pod("a1", "a", **NOTHING), pod("a2", "a")), {}, id="not before the gang is ready"
    ),
    pytest.param(
        (node("n1", cpu="1"), OTHERS, running("r1", "r"), group("a", 1), pod("a1", "a", **NOTHING)), {"a1": "n1"},
        id="full nodes have room for it",
    ),
    pytest.param(
        (node("n1", pods="1"), OTHERS, running("r1", "r"), group("a", 1), pod("a1", "a", **NOTHING)), {},
        id="nodes full of pods do not",
    ),
    pytest.param(
        (node("n1", pods="1"), HIGH, group("a", 1), group("b", 1, priorityClassName="high"), pod("a1", "a", **NOTHING),
        pod("b1", "b", **NOTHING)), {"b1": "n1"}, id="jobs go in their order",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("objects", "expected"), BACKFILL)
def test_backfill(objects: tuple[Json, ...], expected: dict[str, str]) -> None:
    assert decided("backfill", RANKED, queue(), *objects).binds == expected


def test_allocate_and_backfill_complete_a_gang_together() -> None:
    objects = (node("n1", cpu="1"), queue(), group("a", 2), pod("a1", "a", **NOTHING), pod("a2", "a"))
    assert decided("allocate, backfill", RANKED, *objects).binds == {"a1": "n1", "a2": "n1"}


def asks(name: str, **amounts: str) -> Json:
    return group(name, 1, phase="Pending", **({"minResources": amounts} if amounts else {}))


SLA: Json = {"name": "sla", "arguments": {"sla-waiting-time": "1s"}}
QUOTA = {
    "kind": "ResourceQuota",
    "metadata": {"name": "quota", "namespace": "ns"},
    "status": {"hard": {"cpu": "2"}, "used": {"cpu": "1"}},
}
SHARED: Tier = ["overcommit", "proportion"]

ENQUEUE: list[Any] = [
    pytest.param([SHARED], (asks("a"),), ["a"], id="who asks for nothing enters"),
    pytest.param([SHARED], (asks("a", cpu="11"),), [], id="not more than the queue may ever hold"),
    pytest.param(
        [["overcommit"]], (asks("a", cpu="12"), asks("b", cpu="1")), ["a"], id="what was let in before counts"
    ),
    pytest.param([["overcommit"]], (asks("a", cpu="12001m"),), [], id="the factor is exact"),
    pytest.param(
        [[{"name": "overcommit", "arguments": {"overcommit-factor": 0.5}}]], (asks("a", cpu="12"),), ["a"],
        id="a factor below 1 is the default",
    ),
    pytest.param([[SLA, "overcommit"]], (asks("a", cpu="99"),), [], id="sla cannot outvote its own tier"),
    pytest.param([[SLA], ["overcommit"]], (asks("a", cpu="99"),), ["a"], id="sla in an earlier tier decides"),
    pytest.param(
        [["resourcequota"]], (QUOTA, asks("a", cpu="1", memory="99Gi"), asks("b", cpu="1m")), ["a"],
        id="a ResourceQuota limits what it names, and counts who was let in",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("tiers", "objects", "expected"), ENQUEUE)
def test_enqueue(tiers: list[Tier], objects: tuple[Json, ...], expected: list[str]) -> None:
    phases = decided("enqueue", tiers, node("n1", cpu="10"), queue(), *objects).phases
    assert [name for name, phase in sorted(phases.items()) if phase == "Inqueue"] == expected


@pytest.mark.parametrize(
    ("amounts", "phase"),
    [({"cpu": "1"}, "Pending"), ({}, "Inqueue")],
    ids=["asks for resources", "asks for none, so that no plugin is asked"],
)
def test_a_closed_queue(amounts: dict[str, str], phase: str) -> None:
    found = decided("enqueue", [["proportion"]], node("n1"), queue(state="Closed"), asks("a", **amounts))
    assert found.phases == {"a": phase}


@pytest.mark.parametrize(
    ("waited", "phase"), [("22:13:18", "Inqueue"), ("22:13:17", "Inqueue"), ("22:13:19", "Pending")]
)
def test_sla_lets_in_from_the_very_end_of_the_waiting_time(waited: str, phase: str) -> None:
    waiting = asks("a", cpu="99")
    waiting["metadata"]["creationTimestamp"] = f"2023-11-14T{waited}Z"
    sla: Json = {"name": "sla", "arguments": {"sla-waiting-time": "2s"}}
    assert decided("enqueue", [[sla], ["overcommit"]], node("n1"), queue(), waiting).phases == {"a": phase}


SERVES = [{"containerPort": 80}]
SIDECAR = [{"name": "side", "restartPolicy": "Always", "ports": [{"containerPort": 80, "hostPort": 80}]}]
INIT = [{"name": "init", "ports": [{"containerPort": 80, "hostPort": 80}]}]

HOST_PORTS = [
    pytest.param({"ports": [{"containerPort": 80, "hostPort": 80}]}, 1, id="containers' host ports"),
    pytest.param({"ports": SERVES}, 2, id="ports of their own network are no host ports"),
    pytest.param({"ports": SERVES, "hostNetwork": True}, 1, id="ports in the host's network are"),
    pytest.param({"initContainers": SIDECAR}, 1, id="sidecars' host ports"),
    pytest.param({"initContainers": INIT}, 2, id="those of containers that end before are free again"),
]


@pytest.mark.parametrize(("spec", "placed"), HOST_PORTS)
def test_host_ports_are_taken_once_per_node(spec: Json, placed: int) -> None:
    pods = many(2, "a", "a", waiting=True, **spec)
    assert len(decided("allocate", PLAIN, node("n1"), queue(), group("a", 1), *pods).binds) == placed


def test_the_hosts_network_tells_pods_apart_that_are_equal_otherwise() -> None:
    pods = (pod("a1", "a", ports=SERVES), *many(2, "b", "a", waiting=True, ports=SERVES, hostNetwork=True))
    assert sorted(decided("allocate", PLAIN, node("n1"), queue(), group("a", 1), *pods).binds) == ["a1", "b1"]
