"""What elastic jobs run with beyond their minimum goes before the pods of others, and keeps nobody out."""

from __future__ import annotations

from typing import Any

import pytest

from strato.api.volcano.scheduling import ELASTIC_ANNOTATION
from strato.scheduler.model.plan import Plan
from tests.scheduler import worlds
from tests.scheduler.fabrics import fabric, gang

Json = dict[str, Any]
TIERS = """
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}]
- plugins: [{name: predicates}, {name: proportion}, {name: nodeorder}]
"""
HIGH = {"kind": "PriorityClass", "metadata": {"name": "high"}, "value": 9}


def evicted(plan: Plan) -> set[str]:
    return {one.task.name for one in plan.evictions}


def running(name: str, group: str, node: str, **more: Any) -> Json:
    return worlds.pod(name, group, phase="Running", nodeName=node, **more)


def elastic(name: str, minimum: int, **spec: Any) -> Json:
    group = worlds.group(name, minimum, phase="Running", **spec)
    group["metadata"]["annotations"] = {ELASTIC_ANNOTATION: "true"}
    return group


def full(elastic_queue: str, rigid_queue: str, *, mark: bool) -> list[Json]:
    """Two nodes: on the first, which comes first, a pod more than its gang needs; on the second an elastic job's."""
    group = elastic("e", 1, queue=elastic_queue)
    if not mark:
        del group["metadata"]["annotations"]
    return [
        worlds.node("a", cpu="2"),
        worlds.node("b", cpu="2"),
        worlds.group("r", 1, phase="Running", queue=rigid_queue),
        running("r0", "r", "a"),
        running("r1", "r", "a"),
        group,
        running("e0", "e", "b", annotations={"volcano.sh/preemptable": "false"}),
        running("e1", "e", "b"),
    ]


@pytest.mark.parametrize(("mark", "victims"), [(True, {"e1"}), (False, {"r0"})])
def test_reclaim_takes_what_is_given_back_wherever_it_is(mark: bool, victims: set[str]) -> None:
    objects = [
        *(worlds.queue(name) for name in ("x", "y", "z")),
        *full("x", "y", mark=mark),
        worlds.group("want", 1, queue="z"),
        worlds.pod("want", "want"),
    ]
    plan = worlds.cycle(worlds.world(*objects), 'actions: "allocate, reclaim"' + TIERS)
    assert evicted(plan) == victims


@pytest.mark.parametrize("mark", [True, False])
def test_preempt_takes_what_is_given_back_wherever_it_is(mark: bool) -> None:
    objects = [
        HIGH,
        worlds.queue(),
        *full("default", "default", mark=mark),
        worlds.group("want", 1, priorityClassName="high"),
        worlds.pod("want", "want", priority=9),
    ]
    plan = worlds.cycle(worlds.world(*objects), 'actions: "allocate, preempt"' + TIERS)
    assert len(evicted(plan)) == 1
    if mark:
        assert evicted(plan) == {"e1"}


def test_what_is_given_back_goes_first_on_its_node_too() -> None:
    objects = [
        HIGH,
        worlds.queue(),
        worlds.node("n", cpu="4"),
        worlds.group("r", 1, phase="Running"),
        running("r0", "r", "n"),
        running("r1", "r", "n", priority=0),
        elastic("e", 1),
        running("e0", "e", "n", priority=5, annotations={"volcano.sh/preemptable": "false"}),
        running("e1", "e", "n", priority=5),
        worlds.group("want", 1, priorityClassName="high"),
        worlds.pod("want", "want", priority=9),
    ]
    plan = worlds.cycle(worlds.world(*objects), 'actions: "allocate, preempt"' + TIERS)
    assert evicted(plan) == {"e1"}


def test_an_elastic_job_keeps_its_minimum() -> None:
    objects = [
        HIGH,
        worlds.queue(),
        worlds.node("n", cpu="2"),
        elastic("e", 2),
        running("e0", "e", "n"),
        running("e1", "e", "n"),
        worlds.group("want", 1, priorityClassName="high"),
        worlds.pod("want", "want", priority=9),
    ]
    plan = worlds.cycle(worlds.world(*objects), 'actions: "allocate, preempt"' + TIERS)
    assert evicted(plan) == set()


@pytest.mark.parametrize(("mark", "phase"), [(True, "Inqueue"), (False, "Pending")])
def test_what_is_given_back_keeps_no_job_out_of_its_queue(mark: bool, phase: str) -> None:
    group = elastic("e", 1, minResources={"cpu": "1", "memory": "1Gi"})
    if not mark:
        del group["metadata"]["annotations"]
    objects = [
        worlds.queue(),
        worlds.queue("other"),
        worlds.node("n", cpu="4"),
        group,
        *(running(f"e{index}", "e", "n") for index in range(4)),
        worlds.group("want", 2, phase="Pending", queue="other", minResources={"cpu": "2", "memory": "2Gi"}),
        worlds.pod("w0", "want"),
        worlds.pod("w1", "want"),
    ]
    tiers = TIERS.replace("{name: nodeorder}", "{name: nodeorder}, {name: overcommit}")
    world = worlds.world(*objects)
    worlds.cycle(world, 'actions: "enqueue, allocate"' + tiers)
    assert world.jobs["ns/want"].phase == phase


def gang_tiers(action: str) -> str:
    return f"""
actions: "allocate, {action}"
tiers:
- plugins: [{{name: gang}}, {{name: priority}}]
- plugins: [{{name: predicates}}, {{name: network-topology-aware}}]
"""


@pytest.mark.parametrize(("action", "elastic_queue"), [("gangpreempt", "default"), ("gangreclaim", "x")])
@pytest.mark.parametrize(("mark", "victims"), [(True, {"e1", "e2"}), (False, {"r0", "r1"})])
def test_a_gang_takes_what_is_given_back_in_whichever_domain(
    action: str, elastic_queue: str, mark: bool, victims: set[str]
) -> None:
    """The first of two domains has as much that a gang without the mark can spare."""
    group = elastic("e", 1, queue=elastic_queue, priorityClassName="low")
    if not mark:
        del group["metadata"]["annotations"]
    objects = [
        HIGH,
        {"kind": "PriorityClass", "metadata": {"name": "low"}, "value": 1},
        worlds.queue(),
        worlds.queue("x"),
        *fabric((2, 2, 1), cpu="3"),
        worlds.group("r", 1, phase="Running", queue=elastic_queue, priorityClassName="low"),
        *(running(f"r{index}", "r", "l0-0-n0", cpu="1", memory="") for index in range(3)),
        running("f1", "", "l0-0-n1", cpu="3", memory=""),
        group,
        running("e0", "e", "l0-1-n0", cpu="1", memory="", annotations={"volcano.sh/preemptable": "false"}),
        *(running(f"e{index}", "e", "l0-1-n0", cpu="1", memory="") for index in (1, 2)),
        running("f2", "", "l0-1-n1", cpu="3", memory=""),
        *gang("want", 2, 2, 1, priorityClassName="high"),
    ]
    assert evicted(worlds.cycle(worlds.world(*objects), gang_tiers(action))) == victims


@pytest.mark.parametrize("mark", [True, False])
def test_preemption_by_topology_takes_what_is_given_back_wherever_it_is(mark: bool) -> None:
    objects = [
        HIGH,
        worlds.queue(),
        *full("default", "default", mark=mark),
        worlds.group("want", 1, priorityClassName="high"),
        worlds.pod("want", "want", priority=9),
    ]
    for one in objects:  # by cost alone the other gang's pods would go
        if one["kind"] == "Pod" and one["metadata"]["name"].startswith("e"):
            one["spec"]["priority"] = 5
    arguments = "{enableTopologyAwarePreemption: true, minCandidateNodesPercentage: 100}"
    aware = f"configurations:\n- name: preempt\n  arguments: {arguments}\n"
    plan = worlds.cycle(worlds.world(*objects), 'actions: "allocate, preempt"' + TIERS + aware)
    assert len(evicted(plan)) == 1
    assert (evicted(plan) == {"e1"}) == mark


@pytest.mark.parametrize("mark", [True, False])
def test_a_pod_without_a_group_takes_what_is_given_back_wherever_it_is(mark: bool) -> None:
    objects = [worlds.queue(), *full("default", "default", mark=mark)]
    for one in objects:
        if one["kind"] == "Pod" and one["metadata"]["name"].startswith("e"):
            one["spec"]["priority"] = 5
    objects.append(worlds.pod("want", scheduler="default-scheduler", priority=9))
    world = worlds.world(*objects, names=("volcano", "default-scheduler"))
    plan = worlds.cycle(world, 'actions: "allocate, preempt"' + TIERS)
    assert len(evicted(plan)) == 1
    assert (evicted(plan) == {"e1"}) == mark
