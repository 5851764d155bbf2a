"""Worlds that are full, for the scheduler's benchmarks: a gang that has to make room, and a start with a history."""

from __future__ import annotations

import random
import time
from typing import Any

import msgspec

from strato.api.core import Node, Pod
from strato.api.scheduling import PriorityClass
from strato.api.volcano.scheduling import PodGroup, PodGroupCondition, Queue
from strato.scheduler.cache.world import World
from strato.scheduler.config import default_config, parse_config
from strato.scheduler.cycle import run_cycle
from strato.scheduler.model.plan import Plan
from strato.scheduler.placement.placer import Placer

_CONFIG = """
actions: "enqueue, allocate, {action}"
tiers:
- plugins: [{{name: priority}}, {{name: gang, enableReclaimable: false}}]
- plugins: [{{name: overcommit}}, {{name: predicates}}, {{name: proportion}}, {{name: nodeorder}}]
"""


def _queues(world: World, count: int) -> None:
    for q in range(count):
        view = {"metadata": {"name": f"q{q}"}, "spec": {"weight": 1}, "status": {"state": "Open"}}
        world.set_queue(msgspec.convert(view, Queue))


def _nodes(world: World, count: int) -> None:
    for n in range(count):
        allocatable = {"cpu": "64", "memory": "256Gi", "pods": "250"}
        world.set_node(
            msgspec.convert({"metadata": {"name": f"node-{n}"}, "status": {"allocatable": allocatable}}, Node)
        )


def _group(name: str, minimum: int, queue: str, phase: str, priority: str = "") -> PodGroup:
    spec = {"minMember": minimum, "queue": queue, "priorityClassName": priority}
    meta = {"name": name, "namespace": "bench", "uid": name}
    return msgspec.convert({"metadata": meta, "spec": spec, "status": {"phase": phase}}, PodGroup)


def _pod(name: str, group: str, milli: int, node: str = "", priority: int = 0) -> Pod:
    container = {"name": "main", "resources": {"requests": {"cpu": f"{milli}m", "memory": "1Gi"}}}
    annotations = {"scheduling.k8s.io/group-name": group}
    view = {
        "metadata": {"name": name, "namespace": "bench", "uid": name, "annotations": annotations},
        "spec": {"schedulerName": "volcano", "containers": [container], "nodeName": node, "priority": priority},
        "status": {"phase": "Running" if node else "Pending"},
    }
    return msgspec.convert(view, Pod)


def evicting(action: str) -> dict[str, Any]:
    """A full cluster of 1,000 nodes, and a gang of 200 that preempts within its queue or reclaims for another."""
    world = World()
    _queues(world, 2)
    _nodes(world, 1000)
    world.set_priority_class(msgspec.convert({"metadata": {"name": "high"}, "value": 100}, PriorityClass))
    for j in range(16):
        world.set_group(_group(f"old-{j}", 1, "q0", "Running"))
        for p in range(1000):
            world.set_pod(_pod(f"old-{j}-{p}", f"old-{j}", 4000, f"node-{p}"))
    within = action == "preempt"
    world.set_group(_group("gang", 200, "q0" if within else "q1", "Inqueue", "high" if within else ""))
    for p in range(200):
        world.set_pod(_pod(f"gang-{p}", "gang", 4000, priority=100 if within else 0))
    config, placer = parse_config(_CONFIG.format(action=action)), Placer(world.nodes)
    began = time.process_time()
    plan = run_cycle(world, config, now=1e9, rng=random.Random(1), placer=placer)
    seconds = time.process_time() - began
    assert len(plan.evictions) == len(plan.pipelined) == 200
    return {"pods": 200, "seconds": seconds, "value": seconds * 1000, "unit": "ms"}


def refused(jobs: int) -> dict[str, Any]:
    """A full cluster of 1,000 nodes, and so many jobs that each ask for something else and may evict nobody."""
    world = World()
    _queues(world, 1)
    _nodes(world, 1000)
    world.set_group(_group("old", 1, "q0", "Running"))
    for p in range(4000):
        world.set_pod(_pod(f"old-{p}", "old", 16_000, f"node-{p % 1000}"))
    for j in range(jobs):
        world.set_group(_group(f"j{j}", 1, "q0", "Inqueue"))
        world.set_pod(_pod(f"j{j}-0", f"j{j}", 1000 + j))
    config, placer = parse_config(_CONFIG.format(action="preempt")), Placer(world.nodes)
    began = time.process_time()
    plan = run_cycle(world, config, now=1e9, rng=random.Random(1), placer=placer)
    seconds = time.process_time() - began
    assert not plan.evictions
    return {"pods": 0, "seconds": seconds, "value": seconds * 1000, "unit": "ms"}


def backlog(what: str) -> dict[str, Any]:
    """A full cluster of 1,000 nodes, 2,000 jobs wait for room or for their queue: a cycle after a change.

    Jobs have one pod, or (``gangs``) are gangs of eight of which five fit.

    Statuses are written between cycles, as the API would show them; the median of nine such cycles.
    """
    world = World()
    _queues(world, 2)
    _nodes(world, 1000)
    world.set_group(_group("old", 1, "q0", "Running"))
    for p in range(1000):
        world.set_pod(_pod(f"old-{p}", "old", 60_000 if what == "gangs" and p >= 995 else 63_000, f"node-{p}"))
    for j in range(2000):
        group = _group(f"j{j}", 1, "q0", "Pending" if what == "queue" else "Inqueue")
        if what == "queue":
            group = msgspec.structs.replace(
                group, spec=msgspec.structs.replace(group.spec, min_resources={"cpu": 99999})
            )
        elif what == "gangs":
            group = _group(f"j{j}", 8, "q0", "Inqueue")
            for p in range(8):
                world.set_pod(_pod(f"j{j}-{p}", f"j{j}", 3500))
        else:
            world.set_pod(_pod(f"j{j}-0", f"j{j}", 2000))
        world.set_group(group)
    config, placer = default_config(), Placer(world.nodes)
    seconds = []
    for cycle in range(12):
        if cycle and what == "new":
            world.set_group(_group(f"new-{cycle}", 1, "q1", "Inqueue"))
            world.set_pod(_pod(f"new-{cycle}-0", f"new-{cycle}", 500))
        elif cycle:
            world.set_pod(_pod(f"old-{cycle}", "old", 63_000, f"node-{cycle}", priority=cycle))
        began = time.process_time()
        plan = run_cycle(world, config, now=1e9, rng=random.Random(1), placer=placer)
        seconds.append(time.process_time() - began)
        assert len(plan.binds) == (cycle > 0 and what == "new")
        _write(world, plan)
    value = seconds[0] if what == "first" else sorted(seconds[3:])[4]
    return {"pods": 0, "seconds": value, "value": value * 1000, "unit": "ms"}


def _write(world: World, plan: Plan) -> None:
    """Let the API have the statuses of groups."""
    for wanted in plan.groups:
        group, condition = wanted.job.group, wanted.condition
        if group is None:
            continue
        conditions = group.status.conditions
        if condition is not None:
            conditions = (msgspec.convert(msgspec.to_builtins(condition), PodGroupCondition),)
        status = msgspec.structs.replace(
            group.status,
            phase=wanted.phase,
            running=wanted.running,
            succeeded=wanted.succeeded,
            failed=wanted.failed,
            conditions=conditions,
        )
        world.set_group(msgspec.structs.replace(group, status=status))


def cold_start() -> dict[str, Any]:
    """From decoded objects to the first plan: 5,000 nodes, 140,000 pods of 87,000 jobs, 7,000 of which wait."""
    jobs, running = 87_000, 80_000
    groups = [_group(f"j{j}", 1, f"q{j % 4}", "Running" if j < running else "Inqueue") for j in range(jobs)]
    pods = [
        _pod(f"p{p}", f"j{p % jobs}", 1000 + p % jobs % 50 * 10, f"node-{p % 5000}" if p % jobs < running else "")
        for p in range(140_000)
    ]
    began = time.process_time()
    world = World()
    _queues(world, 4)
    _nodes(world, 5000)
    for group in groups:
        world.set_group(group)
    for pod in pods:
        world.set_pod(pod)
    plan = run_cycle(world, default_config(), now=1e9, rng=random.Random(1), placer=Placer(world.nodes))
    seconds = time.process_time() - began
    return {"pods": len(plan.binds), "seconds": seconds, "value": seconds * 1000, "unit": "ms"}
