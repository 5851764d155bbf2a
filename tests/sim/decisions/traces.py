"""Random traces, clusters and policies for the comparison of the two fidelities."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

from strato.scheduler.config import parse_config
from strato.scheduler.framework.options import Config
from strato.sim.nodes import GPU, NodeShape, parse_nodes
from strato.sim.results.record import RunRecord
from strato.sim.traces import Trace, TraceJob

_QUEUES = ("", "a", "b", "c")

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


_INSTANTS = st.one_of(
    st.integers(0, 60).map(float), st.floats(0, 600, allow_nan=False).map(lambda seconds: round(seconds, 3))
)
_RUNS = st.one_of(
    st.sampled_from([0.0, 0.1, 1.0, 10.0, 60.0, 100.0]),
    st.floats(0.3, 900).map(lambda seconds: round(seconds, 2)),
)


@st.composite
def _jobs(draw: st.DrawFn, number: int) -> TraceJob:
    replicas = draw(st.sampled_from([1, 1, 1, 2, 3, 4, 7]))
    requests = {"cpu": draw(st.sampled_from(["1", "2", "500m", "4", "9"]))}
    if draw(st.booleans()):
        requests["memory"] = draw(st.sampled_from(["1Gi", "3Gi"]))
    if draw(st.integers(0, 3)) == 0:
        requests[GPU] = draw(st.sampled_from(["1", "2"]))
    after = draw(st.lists(st.integers(0, number - 1), max_size=2, unique=True)) if number else []
    run = draw(_RUNS)
    return TraceJob(
        name=draw(st.sampled_from(["job", "a-job", "z"])) + f"-{number}",
        submit_seconds=draw(_INSTANTS),
        run_seconds=run,
        replicas=replicas,
        min_replicas=draw(st.one_of(st.none(), st.integers(1, replicas))),
        requests=requests,
        queue=draw(st.sampled_from(_QUEUES)),
        priority=draw(st.sampled_from([0, 0, 5, -3])),
        estimate_seconds=draw(st.one_of(st.none(), st.just(run), st.just(200.0))),
        user=draw(st.sampled_from(["", "ann", "bob"])),
        after=tuple(f"#{other}" for other in after) if draw(st.integers(0, 4)) == 0 else (),
        node_selector=draw(st.sampled_from([{}, {}, {}, {"disk": "fast"}])),
    )


_ANY_POLICY = st.sampled_from(sorted(POLICIES))


@st.composite
def scenes(draw: st.DrawFn, policies: st.SearchStrategy[str] = _ANY_POLICY) -> Scene:
    """Draw a trace, a cluster and a policy."""
    jobs = [draw(_jobs(number)) for number in range(draw(st.integers(1, 14)))]
    names = [job.name for job in jobs]
    linked = [
        TraceJob(**{**_fields(job), "after": tuple(names[int(other[1:])] for other in job.after)}) for job in jobs
    ]
    shapes = draw(
        st.sampled_from(
            ["2x4cpu,8Gi", "3x4cpu,4Gi,2gpu+2x8cpu,16Gi,label:disk=fast", "1x16cpu,32Gi,4gpu,label:disk=fast"]
        )
    )
    queues = tuple(
        _queue(name, draw(st.sampled_from([1, 1, 3])), draw(st.sampled_from([{}, {}, {"capability": {"cpu": "4"}}])))
        for name in draw(st.lists(st.sampled_from(["a", "b", "default"]), max_size=2, unique=True))
    )
    ordered = sorted(linked, key=lambda job: job.submit_seconds)
    return Scene(Trace(tuple(ordered)), parse_nodes(shapes), queues, draw(policies), draw(st.integers(0, 3)))


def _fields(job: TraceJob) -> dict[str, Any]:
    return {name: getattr(job, name) for name in TraceJob.__dataclass_fields__}


def _queue(name: str, weight: int, more: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": name},
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
    if dict(one.reasons) != dict(other.reasons):
        found.append(f"reasons: {dict(one.reasons)} {dict(other.reasons)}")
    return found
