"""gangpreempt and gangreclaim: whole gangs make room for whole gangs, and nobody goes in vain."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strato.scheduler.actions.bundles import bundles_of
from tests.scheduler import worlds
from tests.scheduler.fabrics import fabric, gang

Json = dict[str, Any]


def config(action: str, more: str = "", plugins: str = "{name: gang}, {name: priority}") -> str:
    return f"""
actions: "{action}"
tiers:
- plugins: [{plugins}]
- plugins: [{{name: predicates}}, {{name: network-topology-aware}}]
configurations:
- name: {action}
  arguments: {{{more}}}
"""


def classes() -> list[Json]:
    return [
        {"kind": "PriorityClass", "metadata": {"name": name}, "value": value}
        for name, value in (("low", 1), ("high", 9))
    ]


def running(name: str, minimum: int, nodes: list[str], *, queue: str = "default", **spec: Any) -> list[Json]:
    meta = spec.pop("annotations", None)
    group = worlds.group(name, minimum, phase="Running", queue=queue, priorityClassName="low", **spec)
    if meta:
        group["metadata"]["annotations"] = meta
    pods = [
        worlds.pod(f"{name}-t-{i}", name, cpu="1", memory="", phase="Running", nodeName=node)
        for i, node in enumerate(nodes)
    ]
    return [group, *pods]


def names(of: Any) -> list[str]:
    return sorted(eviction.task.name for eviction in of.evictions)


# -- bundles -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("minimum", "count", "safe", "whole"),
    [
        pytest.param(2, 4, 2, 2, id="what is above the minimum can be spared, the rest only together"),
        pytest.param(4, 4, 0, 4, id="a gang at its minimum goes whole"),
        pytest.param(0, 3, 3, 0, id="without a minimum everybody can be spared"),
        pytest.param(5, 3, 3, 0, id="a gang that is broken already loses nothing more"),
    ],
)
def test_a_gang_is_cut_into_what_it_can_spare_and_the_rest(minimum: int, count: int, safe: int, whole: int) -> None:
    world = worlds.world(worlds.queue(), worlds.node("n", cpu="9"), *running("v", minimum, ["n"] * count))
    found = bundles_of(world.jobs["ns/v"], world.jobs["ns/v"].tasks.values())
    assert [(len(b.tasks), b.whole) for b in found] == [(n, w) for n, w in ((safe, False), (whole, True)) if n]
    for bundle in found:
        assert int(bundle.cost[0]) == (1000 * count if bundle.whole else 0)


def test_a_role_at_its_minimum_is_not_spared() -> None:
    objects = running("v", 2, ["n"] * 4, minTaskMember={"a": 2})
    for i, pod in enumerate(o for o in objects if o["kind"] == "Pod"):
        pod["metadata"]["labels"] = {"volcano.sh/task-spec": "a" if i < 2 else "b"}
    world = worlds.world(worlds.queue(), worlds.node("n", cpu="9"), *objects)
    safe, rest = bundles_of(world.jobs["ns/v"], world.jobs["ns/v"].tasks.values())
    assert {task.role for task in safe.tasks} == {"b"}
    assert {task.role for task in rest.tasks} == {"a"}


def test_a_part_is_broken_once() -> None:
    policy = {"name": "p", "subGroupSize": 2, "minSubGroups": 1, "matchLabelKeys": ["part"]}
    objects = running("v", 0, ["n"] * 4, subGroupPolicy=[policy])
    for i, pod in enumerate(o for o in objects if o["kind"] == "Pod"):
        pod["metadata"]["labels"] = {"part": str(i // 2)}
    world = worlds.world(worlds.queue(), worlds.node("n", cpu="9"), *objects)
    safe, rest = bundles_of(world.jobs["ns/v"], world.jobs["ns/v"].tasks.values())
    assert {task.pod.metadata.label("part") for task in safe.tasks} == {"0"}
    assert {task.pod.metadata.label("part") for task in rest.tasks} == {"1"}


# -- gangpreempt -------------------------------------------------------------------------------------------------------


def full(*, low: int = 1, **spec: Any) -> list[Json]:
    """One leaf of two nodes with four cpus each, full of one job with a minimum of ``low``; the other leaf too."""
    out = running("left", low, ["l0-0-n0"] * 4 + ["l0-0-n1"] * 4, **spec)
    return out + running("right", 8, ["l0-1-n0"] * 4 + ["l0-1-n1"] * 4)


def test_what_a_gang_can_spare_goes_before_a_gang_is_broken() -> None:
    new = gang("new", 4, 4, 1, priorityClassName="high")
    world = worlds.world(*classes(), worlds.queue(), *fabric((2, 2, 1)), *full(low=1), *new)
    plan = worlds.cycle(world, config("gangpreempt"))
    assert len(plan.evictions) >= 4
    assert all(name.startswith("left-") for name in names(plan))
    assert len(plan.pipelined) == 4
    assert {node[:4] for node in plan.pipelined.values()} == {"l0-0"}
    worlds.check_invariants(world)


@pytest.mark.parametrize(
    ("more", "evicted"),
    [
        pytest.param("", 8, id="a gang at its minimum is broken as a whole"),
        pytest.param("allowWholeBundle: false", 0, id="unless gangs must not be broken"),
    ],
)
def test_gangs_at_their_minimum(more: str, evicted: int) -> None:
    new = gang("new", 4, 4, 1, priorityClassName="high")
    world = worlds.world(*classes(), worlds.queue(), *fabric((2, 2, 1)), *full(low=8), *new)
    assert len(worlds.cycle(world, config("gangpreempt", more)).evictions) == evicted


@pytest.mark.parametrize(
    ("size", "importance", "gives_way"),
    [
        pytest.param(4, "low", "true", id="equals are not evicted"),
        pytest.param(9, "high", "true", id="nobody goes for a gang no leaf can hold"),
        pytest.param(4, "high", "false", id="a job that does not give way is spared"),
    ],
)
def test_nobody_goes_in_vain(size: int, importance: str, gives_way: str) -> None:
    left = running("left", 1, ["l0-0-n0"] * 4 + ["l0-0-n1"] * 4, annotations={"volcano.sh/preemptable": gives_way})
    new = gang("new", size, size, 1, priorityClassName=importance)
    world = worlds.world(*classes(), worlds.queue(), *fabric((2, 1, 1)), *left, *new)
    before = worlds.fingerprint(world)
    assert worlds.cycle(world, config("gangpreempt")).evictions == []
    assert worlds.fingerprint(world) == before


@pytest.mark.parametrize("action", ["gangpreempt", "gangreclaim"])
def test_a_gang_that_fits_already_is_left_to_allocate(action: str) -> None:
    left = running("left", 1, ["l0-0-n0"] * 4, queue="other")
    new = gang("new", 4, 4, 1, priorityClassName="high")
    objects = [*classes(), worlds.queue(), worlds.queue("other"), *fabric((2, 1, 1)), *left, *new]
    world = worlds.world(*objects)
    plan = worlds.cycle(world, config(action))
    assert plan.evictions == []
    assert plan.pipelined == {}


def test_while_victims_leave_nobody_else_goes() -> None:
    new = gang("new", 4, 4, 1, priorityClassName="high")
    world = worlds.world(*classes(), worlds.queue(), *fabric((2, 2, 1)), *full(low=1), *new)
    assert worlds.cycle(world, config("gangpreempt")).evictions
    assert worlds.cycle(world, config("gangpreempt")).evictions == []


def test_a_gang_without_a_topology_takes_from_the_whole_cluster() -> None:
    new = [worlds.group("new", 10, priorityClassName="high")]
    new += [worlds.pod(f"new-t-{i}", "new", memory="") for i in range(10)]
    world = worlds.world(*classes(), worlds.queue(), *fabric((2, 2, 1)), *full(low=1), *new)
    plan = worlds.cycle(world, config("gangpreempt"))
    assert len(plan.pipelined) == 10
    assert len(plan.evictions) >= 10


# -- gangreclaim -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reclaimable", "evicted"),
    [pytest.param(True, 4, id="a queue gives back"), pytest.param(False, 0, id="unless it does not")],
)
def test_a_queue_takes_back_for_a_whole_gang(reclaimable: bool, evicted: int) -> None:
    left = running("left", 0, ["l0-0-n0"] * 4 + ["l0-0-n1"] * 4, queue="other")
    queues = [worlds.queue(), worlds.queue("other", reclaimable=reclaimable, deserved={"cpu": "4"})]
    plugins = "{name: gang}, {name: priority}, {name: capacity}"
    queues[0]["spec"]["deserved"] = {"cpu": "4"}
    world = worlds.world(*classes(), *queues, *fabric((2, 1, 1)), *left, *gang("new", 4, 4, 1))
    plan = worlds.cycle(world, config("gangreclaim", plugins=plugins))
    assert len(plan.evictions) == evicted
    assert len(plan.pipelined) == evicted


@settings(max_examples=50, deadline=None)
@given(
    held=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3)), min_size=1, max_size=4),
    size=st.integers(1, 9),
    tier=st.integers(1, 3),
)
def test_evictions_come_with_a_plan_that_runs_the_gang(held: list[tuple[int, int]], size: int, tier: int) -> None:
    """Whoever goes, the gang has all its places afterwards; who stays is a whole gang or loses nothing it needs."""
    objects = [*classes(), worlds.queue(), *fabric((2, 2, 1))]
    nodes = [o["metadata"]["name"] for o in objects if o["kind"] == "Node"]
    for number, (minimum, row) in enumerate(held):
        objects += running(f"v{number}", minimum, [nodes[row]] * 4 if number == 0 else [nodes[(row + number) % 4]] * 2)
    world = worlds.world(*objects, *gang("new", size, size, tier, priorityClassName="high"))
    if (world.nodes.idle < 0).any():
        return
    plan = worlds.cycle(world, config("gangpreempt"))
    if plan.evictions:
        assert len(plan.pipelined) == size
        rows = [world.nodes.row_of[node] for node in plan.pipelined.values()]
        tree = world.hyper_nodes.tree()
        assert int(tree.tiers[tree.span(rows)]) <= tier
        free = world.nodes.idle + world.nodes.releasing
        for row, count in zip(*np.unique(rows, return_counts=True), strict=True):
            assert free[row, 0] >= 1000 * count
