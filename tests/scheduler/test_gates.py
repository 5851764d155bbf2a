"""Queue admission: pods wait at a gate until their queue has room; the scheduler takes the gate away."""

from __future__ import annotations

from typing import Any

import pytest

from strato.api import catalog
from strato.clock import VirtualClock
from strato.scheduler.config import parse_config
from strato.scheduler.dryrun.run import settle
from tests.scheduler import worlds
from tests.scheduler.test_service import create, running, virtually

GATE = "scheduling.volcano.sh/queue-allocation-gate"
CONFIG = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}]
- plugins: [{name: predicates}, {name: capacity}]
"""


def gated(name: str, *more: str, group: str = "g", asks: bool = True, cpu: str = "1") -> dict[str, Any]:
    gates = [{"name": gate} for gate in (GATE, *more)]
    notes = {GATE: "true"} if asks else {}
    return worlds.pod(name, group, cpu=cpu, memory="1Gi" if cpu else "", schedulingGates=gates, annotations=notes)


def world(*pods: dict[str, Any], cpus: str = "2") -> Any:
    queue = worlds.queue("q", capability={"cpu": cpus, "memory": "1Ti"})
    return worlds.world(worlds.node("n", cpu="16"), queue, worlds.group("g", 1, queue="q"), *pods)


def test_as_many_are_let_in_as_the_queue_has_room_for_and_placed_in_the_next_cycle() -> None:
    made = world(*[gated(f"p{i}") for i in range(4)])
    first = worlds.cycle(made, CONFIG)
    assert (sorted(first.admitted), first.binds) == (["ns/p0", "ns/p1"], [])
    settle(first, made)
    worlds.feed(made, worlds.pod("late", "g"))
    second = worlds.cycle(made, CONFIG)
    assert sorted(worlds.binds(second)) == ["ns/p0", "ns/p1"]
    assert second.admitted == {}


def test_room_of_those_let_in_is_not_given_to_others() -> None:
    made = world(gated("p0"), gated("p1"))
    settle(worlds.cycle(made, CONFIG), made)
    worlds.feed(made, worlds.group("other", 1, queue="q"), worlds.pod("taker", "other", priority=100))
    plan = worlds.cycle(made, CONFIG)
    assert sorted(worlds.binds(plan)) == ["ns/p0", "ns/p1"]


WAITING = [
    pytest.param(gated("p", "example.com/other"), [], id="another gate holds it as well"),
    pytest.param(gated("p", asks=False), [], id="it did not ask for it"),
    pytest.param(gated("p", cpu="3"), [], id="it is more than the queue may hold"),
    pytest.param(gated("p", cpu=""), ["ns/p"], id="one that requests nothing is let in"),
]


@pytest.mark.parametrize(("pod", "expected"), WAITING)
def test_who_is_let_in(pod: dict[str, Any], expected: list[str]) -> None:
    assert list(worlds.cycle(world(pod), CONFIG).admitted) == expected


def test_in_a_cluster_gates_go_and_pods_run() -> None:
    async def story(clock: VirtualClock) -> None:
        async with running(clock, config=parse_config(CONFIG)) as (cluster, _):
            queue = worlds.queue("q", capability={"cpu": "2", "memory": "1Ti"})
            await create(cluster, worlds.node("n", cpu="16"), queue, worlds.group("g", 1, queue="q"))
            await create(cluster, *[gated(f"p{i}") for i in range(3)])
            await clock.sleep(5)
            pods = [await cluster.get(catalog.POD, f"p{i}", "ns") for i in range(3)]
            placed = [bool(pod["spec"].get("nodeName")) for pod in pods]
            held = [bool(pod["spec"].get("schedulingGates")) for pod in pods]
            assert sum(placed) == 2
            assert held == [not has_place for has_place in placed]

    virtually(story)


def test_in_a_cluster_the_annotation_alone_brings_the_gate_and_room_takes_it_away() -> None:
    async def story(clock: VirtualClock) -> None:
        async with running(clock, config=parse_config(CONFIG)) as (cluster, _):
            queue = worlds.queue("q", capability={"cpu": "2", "memory": "1Ti"})
            await create(cluster, worlds.node("n", cpu="16"), queue, worlds.group("g", 1, queue="q"))
            asking = [worlds.pod(f"p{i}", "g", cpu="1", memory="1Gi", annotations={GATE: "true"}) for i in range(3)]
            await create(cluster, *asking, worlds.pod("free", "g", cpu="1", memory="1Gi"))
            created = [await cluster.get(catalog.POD, f"p{i}", "ns") for i in range(3)]
            assert [pod["spec"]["schedulingGates"] for pod in created] == [[{"name": GATE}]] * 3
            await clock.sleep(5)
            pods = [await cluster.get(catalog.POD, name, "ns") for name in ("free", "p0", "p1", "p2")]
            assert sum(bool(pod["spec"].get("nodeName")) for pod in pods) == 2
            assert all(
                bool(pod["spec"].get("schedulingGates")) != bool(pod["spec"].get("nodeName")) for pod in pods[1:]
            )

    virtually(story)
