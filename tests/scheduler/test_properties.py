"""What must hold whatever the world looks like."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strato.scheduler.config import parse_config
from strato.scheduler.cycle import decide
from strato.scheduler.model.tasks import ALLOCATED, BINDING, BOUND, PENDING, PIPELINED, RELEASING, RUNNING
from strato.scheduler.placement.placer import Placer
from tests.scheduler import worlds

GREEDY = """
actions: "enqueue, reclaim, allocate, backfill, preempt"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}]
- plugins: [{name: overcommit}, {name: drf}, {name: predicates}, {name: proportion}, {name: nodeorder}, {name: binpack}]
"""

FLOW = GREEDY.replace("allocate", "flow")

either = pytest.mark.parametrize("full", [pytest.param(GREEDY, id="allocate"), pytest.param(FLOW, id="flow")])


def some_world(seed: int) -> list[dict[str, Any]]:
    """A random small cluster with running, leaving and pending pods, gangs, queues and roles."""
    rng = random.Random(seed)
    out: list[dict[str, Any]] = [{"kind": "PriorityClass", "metadata": {"name": "high"}, "value": 100}]
    out += [worlds.queue(f"q{i}", weight=rng.randint(1, 3)) for i in range(rng.randint(1, 3))]
    queues = [o["metadata"]["name"] for o in out if o["kind"] == "Queue"]
    names = [f"n{i}" for i in range(rng.randint(1, 5))]
    for name in names:
        taints = [{"key": "a", "value": "b", "effect": "NoSchedule"}] if rng.random() < 0.2 else []
        out.append(worlds.node(name, cpu=str(rng.randint(1, 6)), pods=str(rng.randint(1, 8)), taints=taints))
    free = {n["metadata"]["name"]: int(n["status"]["allocatable"]["cpu"]) for n in out if n["kind"] == "Node"}
    slots = {n["metadata"]["name"]: int(n["status"]["allocatable"]["pods"]) for n in out if n["kind"] == "Node"}
    for j in range(rng.randint(1, 5)):
        size = rng.randint(1, 5)
        spec: dict[str, Any] = {"queue": rng.choice(queues)}
        if rng.random() < 0.3:
            spec["priorityClassName"] = "high"
        if rng.random() < 0.5:
            spec["minResources"] = {"cpu": str(size)}
        out.append(
            worlds.group(f"g{j}", rng.randint(0, size), phase=rng.choice(["Pending", "Inqueue", "Running"]), **spec)
        )
        for p in range(size):
            cpu = rng.choice(["", "1", "1", "2"])
            more: dict[str, Any] = {}
            where = rng.choice(names)
            if rng.random() < 0.4 and free[where] >= int(cpu or 0) and slots[where] > 0:
                free[where] -= int(cpu or 0)
                slots[where] -= 1
                more = {"phase": "Running", "nodeName": where, "leaving": rng.random() < 0.2}
            if rng.random() < 0.1:
                more["ports"] = [{"hostPort": 80, "containerPort": 80}]
            out.append(worlds.pod(f"g{j}-w-{p}", f"g{j}", cpu=cpu, memory="", **more))
    return out


@either
@settings(max_examples=120, deadline=None)
@given(seed=st.integers(0, 1 << 30))
def test_no_node_over_capacity_and_gangs_whole(full: str, seed: int) -> None:
    world = worlds.world(*some_world(seed))
    before = {job.key: job.ready for job in world.jobs.values()}
    plan = worlds.cycle(world, full)
    worlds.check_invariants(world)
    touched = {bind.task.job.key for bind in plan.binds if bind.task.job is not None}
    for key in touched:
        job = world.jobs[key]
        gone = sum(e.task.job is job for e in plan.evictions)  # counted when it was bound, evicted by a later action
        have = job.ready + job.pending_best_effort + gone
        assert have >= job.min_available, f"{key} was bound with {have} of {job.min_available}, {before[key]} before"
    assert all(t.status not in (ALLOCATED, PIPELINED) for t in world.tasks.values())
    assert {b.task.key for b in plan.binds} == {t.key for t in world.tasks.values() if t.status == BINDING}


@settings(max_examples=80, deadline=None)
@given(seed=st.integers(0, 1 << 30))
def test_statements_undo_exactly(seed: int) -> None:
    world = worlds.world(*some_world(seed))
    rng = random.Random(seed)
    ssn = decide(world, parse_config('actions: "enqueue"\n'), now=0.0, rng=rng, uid="u", placer=Placer(world.nodes))
    before = worlds.fingerprint(world)
    stmt = ssn.statement()
    for task in list(world.tasks.values()):
        if task.status == PENDING and not task.gated:
            future = rng.random() < 0.5
            rows = ssn.placer.place(ssn, [task], future=future, one_by_one=rng.random() < 0.3)
            if rows:
                stmt.placed([task], rows, PIPELINED if future else ALLOCATED)
        elif task.status == RUNNING and rng.random() < 0.5:
            stmt.evict(task, "test")
    stmt.discard()
    assert worlds.fingerprint(world) == before


@pytest.mark.parametrize("others", [False, True], ids=["alone", "beside another statement"])
def test_what_is_undone_is_no_change_unless_others_changed_something(others: bool) -> None:
    """What was found out before holds again once all is as it was, and only then."""
    world = worlds.world(worlds.queue(), worlds.node("n"), worlds.group("g", 1), *(worlds.pod(n, "g") for n in "ab"))
    ssn = decide(
        world, parse_config('actions: "enqueue"\n'), now=0.0, rng=random.Random(1), uid="u", placer=Placer(world.nodes)
    )
    before, row = ssn.moves, world.nodes.row_of["n"]
    undone, stays = ssn.statement(), ssn.statement()
    undone.pipeline(world.tasks["ns/a"], row, evicted=False)
    if others:
        stays.pipeline(world.tasks["ns/b"], row, evicted=False)
    undone.discard()
    assert (ssn.moves != before) is others


@either
@settings(max_examples=80, deadline=None)
@given(seed=st.integers(0, 1 << 30))
def test_same_seed_same_decisions(full: str, seed: int) -> None:
    first, second = worlds.world(*some_world(seed)), worlds.world(*some_world(seed))
    for _ in range(2):
        a, b = worlds.cycle(first, full, seed=7), worlds.cycle(second, full, seed=7)
        assert worlds.binds(a) == worlds.binds(b)
        assert [e.task.key for e in a.evictions] == [e.task.key for e in b.evictions]
        assert [(p.task.key, p.message) for p in a.pods] == [(p.task.key, p.message) for p in b.pods]


@either
@settings(max_examples=80, deadline=None)
@given(seed=st.integers(0, 1 << 30), order=st.randoms())
def test_incremental_equals_from_scratch(full: str, seed: int, order: random.Random) -> None:
    """A world that lived through changes in any order equals one that is built from the outcome."""
    objects = some_world(seed)
    rng = random.Random(seed)
    shuffled = objects[:]
    order.shuffle(shuffled)
    lived = worlds.world(*shuffled)
    placer = Placer(lived.nodes)
    config = parse_config(full)
    ssn = decide(lived, config, now=0.0, rng=rng, uid="u", placer=placer)
    for task in reversed(ssn.temporary):
        if task.status in (ALLOCATED, PIPELINED):
            lived.move(task, PENDING)
    final = []
    for obj in objects:
        if obj["kind"] == "Pod":
            if rng.random() < 0.2:
                lived.remove_pod(f"ns/{obj['metadata']['name']}")
                continue
            task = lived.tasks[f"ns/{obj['metadata']['name']}"]
            if task.status in (BINDING, BOUND):
                obj = {**obj, "spec": {**obj["spec"], "nodeName": lived.nodes.names[task.row]}}
                obj["status"] = {"phase": rng.choice(["Pending", "Running", "Succeeded"])}
            elif task.status == RELEASING:
                obj = {**obj, "metadata": {**obj["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}}
        elif obj["kind"] == "PodGroup":
            obj = {**obj, "status": {"phase": lived.jobs[f"ns/{obj['metadata']['name']}"].phase}}
        final.append(obj)
        worlds.feed(lived, obj)
    scratch = worlds.world(*final)
    assert worlds.fingerprint(lived) == worlds.fingerprint(scratch)


@either
@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 1 << 30))
def test_caches_between_cycles_change_no_decision(full: str, seed: int) -> None:
    """A placer that lived through earlier cycles decides as a fresh one does."""
    warm, cold = worlds.world(*some_world(seed)), worlds.world(*some_world(seed))
    config = parse_config(full)
    placer = Placer(warm.nodes)
    rng = random.Random(seed)
    for round_ in range(3):
        kept = decide(warm, config, now=0.0, rng=random.Random(1), uid="u", placer=placer)
        fresh = decide(cold, config, now=0.0, rng=random.Random(1), uid="u", placer=Placer(cold.nodes))
        assert worlds.binds(kept.plan) == worlds.binds(fresh.plan)
        for ssn in (kept, fresh):
            for task in reversed(ssn.temporary):
                if task.status in (ALLOCATED, PIPELINED):
                    ssn.world.move(task, PENDING)
        name = f"x{round_}"
        more = [worlds.group(name, 1, queue="q0"), worlds.pod(f"{name}-0", name, cpu=str(rng.randint(1, 3)))]
        more.append(worlds.node(f"n{rng.randint(0, 6)}", cpu=str(rng.randint(4, 8))))
        worlds.feed(warm, *more)
        worlds.feed(cold, *more)


@pytest.mark.parametrize(
    ("text", "placed"), [("inf", 0), ("1e400", 0), ("nan", 0), ("9" * 30, 1), ("4000", 1), ("x", 0)]
)
def test_what_a_node_offers_beyond_what_it_has_may_be_any_text(text: str, placed: int) -> None:
    node = worlds.node("n", cpu="1")
    node["metadata"]["annotations"] = {"volcano.sh/oversubscription-cpu": text}
    world = worlds.world(node, worlds.queue(), worlds.group("g", 1), worlds.pod("p", "g", cpu="2"))
    assert len(worlds.cycle(world).binds) == placed


def test_tiers_may_have_any_number() -> None:
    members = [{"type": "Node", "selector": {"exactMatch": {"name": "n"}}}]
    spec = {"tier": 2**31 - 1, "members": members}
    high = {"kind": "HyperNode", "metadata": {"name": "h"}, "spec": spec}
    objects = [worlds.node("n"), high, worlds.queue(), worlds.group("g", 1), worlds.pod("p", "g")]
    config = "actions: allocate\ntiers: [{plugins: [{name: gang}, {name: network-topology-aware}]}]"
    assert len(worlds.cycle(worlds.world(*objects), config).binds) == 1
