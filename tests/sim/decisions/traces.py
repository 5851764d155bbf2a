"""Random traces, clusters and policies for the comparison of the two fidelities."""

from __future__ import annotations

import re
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np

from strato.node.shapes import GPU, NodeShape, parse_nodes
from strato.scheduler.config import parse_config
from strato.scheduler.framework.options import Config
from strato.sim.results.record import RunRecord
from strato.sim.traces import Trace, TraceJob

_POD = re.compile(r"default/\S+")

POLICIES: dict[str, str] = {
    "default": "",
    "fifo": """
actions: "enqueue, allocate, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: predicates}, {name: nodeorder}]
""",
    "drf and proportion": """
actions: "enqueue, allocate, reclaim, preempt, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}]
- plugins: [{name: drf}, {name: predicates}, {name: proportion}, {name: nodeorder}]
""",
    "capacity": """
actions: "enqueue, allocate, reclaim, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}]
- plugins: [{name: predicates}, {name: capacity}, {name: nodeorder}]
""",
    "preemption by priority": """
actions: "enqueue, allocate, preempt, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}]
- plugins: [{name: overcommit}, {name: predicates}, {name: proportion}, {name: nodeorder}]
""",
    "binpack": """
actions: "enqueue, allocate, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}]
- plugins:
  - {name: predicates}
  - {name: proportion}
  - {name: binpack, arguments: {binpack.weight: 10, binpack.resources: nvidia.com/gpu}}
""",
    "easy": """
actions: "enqueue, allocate, backfill"
tiers:
- plugins: [{name: gang}, {name: predicates}, {name: easy}, {name: nodeorder}]
""",
    "flow": """
actions: "enqueue, flow, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: predicates}, {name: proportion}, {name: nodeorder}]
""",
    "gangs preempt and reclaim": """
actions: "enqueue, allocate, gangpreempt, gangreclaim, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}]
- plugins: [{name: drf}, {name: predicates}, {name: proportion}, {name: nodeorder}]
""",
    "a hierarchy of queues reclaims": """
actions: "enqueue, allocate, reclaim, preempt, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}]
- plugins: [{name: drf, enableHierarchy: true}, {name: predicates}, {name: nodeorder}]
""",
    "all may be reclaimed": """
actions: "enqueue, allocate, reclaim, preempt, gangpreempt, gangreclaim, backfill"
tiers:
- plugins: [{name: priority}, {name: conformance}]
- plugins: [{name: drf}, {name: predicates}, {name: capacity}, {name: nodeorder}]
""",
    "waits have a limit": """
actions: "enqueue, allocate, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: sla, arguments: {sla-waiting-time: 3m}}]
- plugins: [{name: overcommit}, {name: predicates}, {name: proportion}, {name: nodeorder}]
""",
    "yarn's fair scheduler": """
actions: "enqueue, allocate, reclaim, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: predicates}, {name: yarnfair}, {name: nodeorder}]
""",
}
"""Policies by name; an empty text is the built-in one."""


def config_of(name: str) -> Config | None:
    """Return a policy; None is the built-in one."""
    return parse_config(POLICIES[name], name) if POLICIES[name] else None


@dataclass(frozen=True)
class Scene:
    """What both fidelities are given."""

    trace: Trace
    shapes: tuple[NodeShape, ...]
    queues: tuple[dict[str, Any], ...]
    policy: str
    seed: int


def scene(seed: int, policy: str, *, is_contended: bool = False) -> Scene:
    """Make a scene at random: a cluster that is too small for its jobs, of every kind that a trace may have.

    A generator of our own, not draws: what Hypothesis draws first and shrinks to is small and idle.

    Args:
        seed: Decides everything.
        policy: What is to decide.
        is_contended: Whether all jobs come within a minute and run for minutes, with priorities of five classes and in
            two queues of unequal rights, and can do with fewer pods than they ask for.
    """
    if is_contended:
        return _contended(seed, policy)
    random = Random(seed)
    jobs: list[TraceJob] = []
    for number in range(random.randint(2, 24)):
        jobs.append(_job(random, number, jobs))
    shapes = random.choice(
        ["2x4cpu,8Gi", "3x4cpu,8Gi,2gpu+2x8cpu,16Gi,label:disk=fast", "1x16cpu,32Gi,4gpu,label:disk=fast"]
    )
    names = random.sample(["a", "b", "default"], random.randint(0, 2))
    more: tuple[dict[str, Any], ...] = ({}, {}, {"capability": {"cpu": "6"}}, {"deserved": {"cpu": "2"}})
    queues = tuple(_queue(name, random.choice([1, 1, 3]), random.choice(more)) for name in names)
    ordered = sorted(jobs, key=lambda job: job.submit_seconds)
    return Scene(Trace(tuple(ordered)), parse_nodes(shapes), queues, policy, random.randint(0, 3))


def _contended(seed: int, policy: str) -> Scene:
    random = Random(seed)
    jobs = []
    for number in range(random.randint(6, 18)):
        replicas = random.choice([1, 2, 3, 4, 6])
        jobs.append(
            TraceJob(
                name=f"job-{number:02}",
                submit_seconds=float(random.randint(0, 60)),
                run_seconds=random.choice([5.0, 60.0, 200.0, round(random.uniform(20, 400), 2)]),
                replicas=replicas,
                min_replicas=random.choice([None, 1, max(1, replicas - 1)]),
                requests={"cpu": random.choice(["1", "2", "2", "3"]), "memory": random.choice(["1Gi", "2Gi"])},
                queue=random.choice(["a", "b"]),
                priority=random.choice([0, 1, 5, 9, 100]),
                estimate_seconds=random.choice([None, 200.0]),
            )
        )
    ordered = sorted(jobs, key=lambda job: job.submit_seconds)
    more = random.choice([{}, {"deserved": {"cpu": "4"}}, {"capability": {"cpu": "10"}}])
    queues = (_queue("a", 1, more), _queue("b", random.choice([1, 3]), {}))
    return Scene(Trace(tuple(ordered)), parse_nodes("4x4cpu,8Gi"), queues, policy, random.randint(0, 3))


def _job(random: Random, number: int, before: list[TraceJob]) -> TraceJob:
    replicas = random.choice([1, 1, 1, 2, 3, 4, 6])
    requests = {"cpu": random.choice(["1", "1", "2", "2", "500m", "3", "9" if number % 9 == 8 else "4"])}
    if random.random() < 0.5:
        requests["memory"] = random.choice(["100Mi", "1Gi", "2Gi"])
    if random.random() < 0.1:
        requests[GPU] = random.choice(["1", "2"])
    after = [random.choice(before).name] if before and random.random() < 0.1 else []
    run = random.choice([0.0, 0.1, 1.0, 10.0, 60.0, 100.0, round(random.uniform(0.3, 900), 2)])
    submit = random.choice([float(random.randint(0, 60)), round(random.uniform(0, 300), 3)])
    return TraceJob(
        name=f"{random.choice(['job', 'a-job', 'z'])}-{number}",
        submit_seconds=submit,
        run_seconds=run,
        replicas=replicas,
        min_replicas=random.choice([None, None, random.randint(1, replicas)]),
        requests=requests,
        queue=random.choice(["", "a", "b", "c"]),
        priority=random.choice([0, 0, 5, 9]),
        estimate_seconds=random.choice([None, run, 200.0]),
        user=random.choice(["", "ann", "bob"]),
        after=tuple(after),
        node_selector={"disk": "fast"} if random.random() < 0.05 else {},
    )


def _queue(name: str, weight: int, more: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {
            "name": name,
            "annotations": {"volcano.sh/hierarchy": f"root/{name}", "volcano.sh/hierarchy-weights": f"1/{weight}"},
        },
        "spec": {"weight": weight, **more},
    }


def intervals(record: RunRecord) -> list[tuple[float, str, int, str, float, int, str]]:
    """Return who ran where from when to when, how that ended and for whom, in an order that follows from that."""
    names = [job.name for job in record.jobs]
    columns = zip(
        record.interval_begin.tolist(),
        [names[row] for row in record.interval_job],
        record.interval_pod.tolist(),
        [record.nodes.names[row] for row in record.interval_node],
        record.interval_end.tolist(),
        record.interval_ending.tolist(),
        [names[row] if row >= 0 else "" for row in record.interval_for],
        strict=True,
    )
    return sorted(columns)


def differences(one: RunRecord, other: RunRecord) -> list[str]:
    """Return in what two records differ, the first differences of each kind."""
    found = []
    ours, theirs = intervals(one), intervals(other)
    if ours != theirs:
        at = next(
            (i for i, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b), min(len(ours), len(theirs))
        )
        found.append(f"interval {at} of {len(ours)} and {len(theirs)}: {ours[at : at + 2]} {theirs[at : at + 2]}")
    for name in ("start_seconds", "finish_seconds", "failed"):
        a, b = getattr(one, name), getattr(other, name)
        if not np.array_equal(a, b, equal_nan=name != "failed"):
            found.append(f"{name}: {a.tolist()} {b.tolist()}")
    if one.end_seconds != other.end_seconds:
        found.append(f"end_seconds: {one.end_seconds} {other.end_seconds}")
    ours_say, theirs_say = (
        {row: _POD.sub("…", text) for row, text in record.reasons.items()} for record in (one, other)
    )
    if ours_say != theirs_say:
        found.append(f"reasons: {ours_say} {theirs_say}")
    return found
