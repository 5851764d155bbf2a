"""Evictions: never in vain, and entered with what became of them."""

from __future__ import annotations

import random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from strato.scheduler.config import parse_config
from strato.scheduler.cycle import decide
from strato.scheduler.placement.placer import Placer
from strato.scheduler.reporting.evictionrecords import ABANDONED, STARTED, EvictionRecords
from tests.scheduler import worlds
from tests.scheduler.test_properties import GREEDY as FULL
from tests.scheduler.test_properties import some_world

Json = dict[str, Any]

EVICTING = """
actions: "enqueue, allocate, preempt"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}]
- plugins: [{name: predicates}, {name: nodeorder}]
"""
HIGH = {"kind": "PriorityClass", "metadata": {"name": "high"}, "value": 100}


def full_node() -> list[Json]:
    low = worlds.pod("low", "low", phase="Running", nodeName="n")
    objects = [HIGH, worlds.queue(), worlds.node("n", cpu="1"), worlds.group("low", 0, phase="Running"), low]
    return [*objects, worlds.group("high", 1, priorityClassName="high"), worlds.pod("high", "high", priority=100)]


@settings(max_examples=120, deadline=None)
@given(seed=st.integers(0, 1 << 30))
def test_nobody_is_evicted_for_a_pod_that_has_no_place(seed: int) -> None:
    world = worlds.world(*some_world(seed))
    plan = worlds.cycle(world, FULL)
    for eviction in plan.evictions:
        beneficiary = eviction.beneficiary
        assert beneficiary in plan.pipelined or beneficiary in worlds.binds(plan), eviction


@settings(max_examples=80, deadline=None)
@given(seed=st.integers(0, 1 << 30))
def test_place_is_large_enough_once_the_victims_have_left(seed: int) -> None:
    world = worlds.world(*some_world(seed))
    config = parse_config(FULL)
    ssn = decide(world, config, now=0.0, rng=random.Random(1), uid="u", placer=Placer(world.nodes))
    for eviction in ssn.plan.evictions:
        task = world.tasks[eviction.beneficiary]
        assert (world.nodes.future_idle[task.row] >= 0).all()


def test_eviction_whose_beneficiary_has_no_place_is_undone() -> None:
    world = worlds.world(*full_node())
    before = worlds.fingerprint(world)
    ssn = decide(
        world, parse_config('actions: "enqueue"\n'), now=0.0, rng=random.Random(1), uid="u", placer=Placer(world.nodes)
    )
    stmt = ssn.statement()
    stmt.evict(world.tasks["ns/low"], "preempt", "ns/high")
    stmt.commit()
    assert ssn.plan.evictions == []
    assert worlds.fingerprint(world) == before


def test_reclaim_leaves_a_victim_alone_whose_room_does_not_help() -> None:
    """The node has the cpu once the borrower is gone, but another pod keeps the host port."""
    port = [{"hostPort": 80, "containerPort": 80}]
    objects = [worlds.queue("a"), worlds.queue("b"), worlds.node("n", cpu="3")]
    objects += [
        worlds.group("borrower", 0, queue="a", phase="Running"),
        worlds.group("keeper", 1, queue="b", phase="Running"),
    ]
    objects += [worlds.pod(f"v{i}", "borrower", phase="Running", nodeName="n") for i in range(2)]
    objects += [worlds.pod("port", "keeper", phase="Running", nodeName="n", ports=port)]
    objects += [worlds.group("want", 1, queue="b"), worlds.pod("want", "want", ports=port)]
    reclaim = """
actions: "reclaim"
tiers:
- plugins: [{name: gang, enableReclaimable: false}, {name: predicates}, {name: capacity}]
"""
    assert worlds.cycle(worlds.world(*objects), reclaim).evictions == []


def test_records_know_what_became_of_the_beneficiary() -> None:
    world = worlds.world(*full_node())
    plan = worlds.cycle(world, EVICTING)
    settled: list[str] = []
    records = EvictionRecords(settled=lambda entry: settled.append(entry.outcome))
    records.note(plan.evictions, world.nodes.names, now=5.0)
    (entry,) = records.entries
    assert (entry.victim, entry.beneficiary, entry.action, entry.node) == ("ns/low", "ns/high", "preempt", "n")
    records.look(world.tasks, now=6.0)
    assert settled == []
    records.started("ns/high", now=7.0)
    assert (entry.outcome, entry.settled_at) == (STARTED, 7.0)
    records.note(plan.evictions, world.nodes.names, now=8.0)
    records.look((), now=9.0)
    assert settled == [STARTED, ABANDONED]
