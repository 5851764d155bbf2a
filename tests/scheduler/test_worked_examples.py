"""Examples worked out on paper: dominant resource fairness, queues that share, borrow and reclaim, orders of jobs."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from strato.scheduler.cache.world import World
from strato.scheduler.config import parse_config
from strato.scheduler.dryrun.run import settle
from strato.scheduler.model.plan import Plan
from tests.scheduler import worlds

Json = dict[str, Any]

FAIR = 'actions: "allocate"\ntiers:\n- plugins: [{name: drf}, {name: gang}, {name: predicates}]\n'
SHARES = """
actions: "enqueue, reclaim, allocate"
tiers:
- plugins: [{name: priority}, {name: gang, enableReclaimable: false}, {name: conformance, enableReclaimable: false}]
- plugins: [{name: drf}, {name: predicates}, {name: proportion}, {name: nodeorder}]
"""
SHOP = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins: [{name: drf}, {name: priority}, {name: gang}, {name: conformance}]
- plugins: [{name: proportion}]
- plugins: [{name: nodeorder}, {name: predicates}]
"""


def job(
    name: str, size: int, minimum: int, queue: str = "default", cpu: str = "1", memory: str = "1Gi", **more: Any
) -> list[Json]:
    pods = [worlds.pod(f"{name}-{i}", name, cpu=cpu, memory=memory) for i in range(size)]
    return [worlds.group(name, minimum, queue=queue, **more), *pods]


def to_the_end(world: World, config: str, cycles: int = 60) -> list[Plan]:
    """Run cycles, letting every plan come about and evicted pods be made anew, until nothing happens any more."""
    plans = []
    for _ in range(cycles):
        plan = worlds.cycle(world, parse_config(config))
        plans.append(plan)
        settle(plan, world)
        again = [(e.task.name, e.task.job.name) for e in plan.evictions if e.task.job is not None]
        worlds.feed(world, *[worlds.pod(name, group, memory="1Gi") for name, group in again])
        if not plan.binds and not plan.evictions:
            return plans
    raise AssertionError(f"still busy after {cycles} cycles")


def running(world: World) -> Counter[str]:
    return Counter(task.job.name for task in world.tasks.values() if task.row >= 0 and task.job is not None)


def test_dominant_resource_fairness_gives_three_and_two_tasks() -> None:
    """Ghodsi et al., NSDI 2011, section 4.1: 9 CPUs and 18 GB; tasks of 1 CPU and 4 GB, and of 3 CPUs and 1 GB."""
    objects = [worlds.queue(), worlds.node("n", cpu="9", memory="18G")]
    objects += job("a", 10, 0, cpu="1", memory="4G") + job("b", 10, 0, cpu="3", memory="1G")
    world = worlds.world(*objects)
    worlds.cycle(world, FAIR)
    assert running(world) == {"a": 3, "b": 2}


def two_queues(**research: Any) -> list[Json]:
    nodes = [worlds.node(f"n{i}", cpu="4", memory="64Gi") for i in range(4)]
    return [*nodes, worlds.queue("research", weight=1, **research), worlds.queue("production", weight=3)]


def test_two_full_queues_share_by_weight() -> None:
    objects = [*two_queues(), *job("research", 16, 1, "research"), *job("production", 16, 1, "production")]
    world = worlds.world(*objects)
    to_the_end(world, SHARES)
    assert running(world) == {"research": 4, "production": 12}


def test_a_queue_borrows_what_another_leaves_idle() -> None:
    world = worlds.world(*two_queues(), *job("research", 16, 1, "research"))
    to_the_end(world, SHARES)
    assert running(world) == {"research": 16}


def test_a_capability_is_never_exceeded() -> None:
    world = worlds.world(*two_queues(capability={"cpu": "5"}), *job("research", 16, 1, "research"))
    to_the_end(world, SHARES)
    assert running(world) == {"research": 5}


@pytest.mark.parametrize(
    ("reclaimable", "want"),
    [
        pytest.param(True, {"research": 4, "production": 12}, id="the owner takes back what was borrowed"),
        pytest.param(False, {"research": 16}, id="a queue that is not reclaimable keeps what it borrowed"),
    ],
)
def test_owner_comes_back(reclaimable: bool, want: dict[str, int]) -> None:
    world = worlds.world(*two_queues(reclaimable=reclaimable), *job("research", 16, 1, "research"))
    to_the_end(world, SHARES)
    assert running(world) == {"research": 16}
    worlds.feed(world, *job("production", 16, 12, "production"))
    plans = to_the_end(world, SHARES)
    assert running(world) == want
    assert sum(len(plan.evictions) for plan in plans) == (12 if reclaimable else 0)


def test_order_is_drf_then_priority_then_gang_as_the_shop_configures_it() -> None:
    """One training shop: equal shares first, then priority, then whether the gang is complete.

    Three jobs of two pods and room for two of them: the important one and, of the others, the one with the smaller
    share at its turn.
    """
    classes = [{"kind": "PriorityClass", "metadata": {"name": "high"}, "value": 100}]
    objects = [*classes, worlds.queue(), worlds.node("n", cpu="6", memory="64Gi")]
    objects += job("holder", 1, 1) + job("low", 2, 2) + job("high", 2, 2, priorityClassName="high")
    world = worlds.world(*objects[: len(objects) - 6])
    worlds.cycle(world, SHOP)  # holder runs: its share is the largest from now on
    worlds.feed(world, *objects[len(objects) - 6 :], worlds.pod("holder-1", "holder"), worlds.pod("holder-2", "holder"))
    plan = worlds.cycle(world, SHOP)
    order = [bind.task.job.name for bind in plan.binds if bind.task.job is not None]
    assert order[:4] == ["high", "high", "low", "low"]
    assert order[4:] == ["holder"]


LEVELS = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins: [{name: gang}, {name: priority}, {name: drf}]
- plugins: [{name: predicates}]
"""


def test_order_of_three_levels_is_gang_then_priority_then_share() -> None:
    """A job that lacks its minimum goes first, then priority decides, then the smaller dominant share."""
    classes = [{"kind": "PriorityClass", "metadata": {"name": "high"}, "value": 100}]
    nodes = [worlds.node("n", cpu="5", memory="64Gi")]
    started = [
        worlds.pod("ready-r", "ready", phase="Running", nodeName="n"),
        worlds.pod("rich-r", "rich", phase="Running", nodeName="n"),
    ]
    objects = [*classes, worlds.queue(), *nodes, *started]
    objects += job("ready", 2, 1, priorityClassName="high")  # its minimum runs: yields to gangs that are not ready
    objects += job("rich", 1, 1)
    objects += job("gang", 1, 1)
    objects += job("important", 1, 1, priorityClassName="high")
    world = worlds.world(*objects)
    order = [bind.task.job.name for bind in worlds.cycle(world, LEVELS).binds if bind.task.job is not None]
    assert order == ["important", "gang", "ready"]
