"""Small worlds for the scheduler's tests, built from plain objects."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import numpy as np

from strato.scheduler.cache import kinds
from strato.scheduler.cache.totals import Totals
from strato.scheduler.cache.world import World
from strato.scheduler.config import default_config, parse_config
from strato.scheduler.cycle import run_cycle
from strato.scheduler.framework.options import Config
from strato.scheduler.model.plan import Plan
from strato.scheduler.model.tasks import PENDING, STATUS_NAMES
from strato.scheduler.placement.placer import Placer


def node(name: str, cpu: str = "4", memory: str = "8Gi", pods: str = "110", **more: Any) -> dict[str, Any]:
    labels, taints = more.pop("labels", {}), more.pop("taints", [])
    spec: dict[str, Any] = {"taints": taints}
    if more.pop("unschedulable", False):
        spec["unschedulable"] = True
    allocatable = {"cpu": cpu, "memory": memory, "pods": pods} | {k: str(v) for k, v in more.items()}
    meta = {"name": name, "labels": {"kubernetes.io/hostname": name, **labels}}
    return {"kind": "Node", "metadata": meta, "spec": spec, "status": {"allocatable": allocatable}}


def queue(name: str = "default", weight: int = 1, **spec: Any) -> dict[str, Any]:
    state = spec.pop("state", "Open")
    return {
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": {"weight": weight, **spec},
        "status": {"state": state},
    }


def group(name: str, minimum: int, namespace: str = "ns", phase: str = "Inqueue", **spec: Any) -> dict[str, Any]:
    spec.setdefault("queue", "default")
    meta = {"name": name, "namespace": namespace, "uid": f"uid-{name}"}
    return {"kind": "PodGroup", "metadata": meta, "spec": {"minMember": minimum, **spec}, "status": {"phase": phase}}


def pod(
    name: str, group: str = "", cpu: str = "1", memory: str = "1Gi", namespace: str = "ns", **more: Any
) -> dict[str, Any]:
    annotations = dict(more.pop("annotations", {}))
    if group:
        annotations["scheduling.k8s.io/group-name"] = group
    requests = {key: value for key, value in (("cpu", cpu), ("memory", memory)) if value}
    status: dict[str, Any] = {"phase": more.pop("phase", "Pending")}
    meta: dict[str, Any] = {
        "name": name,
        "namespace": namespace,
        "uid": f"{namespace}-{name}",
        "annotations": annotations,
        "labels": more.pop("labels", {}),
    }
    if more.pop("leaving", False):
        meta["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    extra = more.pop("resources", {})
    container = {"name": "main", "resources": {"requests": {**requests, **extra}}, "ports": more.pop("ports", [])}
    spec = {"containers": [container], "schedulerName": more.pop("scheduler", "volcano"), **more}
    return {"kind": "Pod", "metadata": meta, "spec": spec, "status": status}


def world(*objects: dict[str, Any], names: tuple[str, ...] = ()) -> World:
    made = World(names)
    feed(made, *objects)
    return made


def feed(into: World, *objects: dict[str, Any]) -> None:
    for obj in objects:
        known = kinds.find(obj.get("apiVersion", ""), obj["kind"])
        assert known is not None, obj["kind"]
        known.take(into, msgspec.convert(obj, known.kind.view))


def cycle(
    into: World, config: Config | str | None = None, *, now: float = 1_700_000_000.0, seed: int = 0, spread: int = 0
) -> Plan:
    """Run one cycle; ``spread`` decides where the search among equal nodes begins."""
    chosen = default_config() if config is None else parse_config(config) if isinstance(config, str) else config
    plan = run_cycle(into, chosen, now=now, rng=random.Random(seed), uid="test", placer=Placer(into.nodes, spread))
    assert plan.failures == []
    return plan


def binds(plan: Plan) -> dict[str, str]:
    return {bind.task.key: bind.node for bind in plan.binds}


def fingerprint(of: World) -> dict[str, Any]:
    """Everything a decision depends on, in a form that compares; two equal worlds have equal fingerprints."""
    nodes = of.nodes
    rows = {}
    for name, row in sorted(nodes.row_of.items()):
        if nodes.present[row]:
            columns = (nodes.allocatable, nodes.idle, nodes.releasing, nodes.pipelined, nodes.requested)
            values = [of.dims.describe(column[row].tolist()) for column in columns]
            rows[name] = (values, nodes.scored[row].tolist(), int(nodes.pods[row]), sorted(nodes.tasks[row]))
    of.settle()
    jobs = {
        job.key: (
            job.counts[:],
            job.pending_best_effort,
            sorted(job.pending),
            of.dims.describe(job.used.tolist()),
            of.dims.describe(job.pending_request.tolist()),
        )
        for job in of.jobs.values()
    }
    queues = {
        q.name: [of.dims.describe(v.tolist()) for v in (q.used, q.pending_request, q.inqueue, q.elastic)]
        for q in of.queues.values()
    }
    tasks = {t.key: (STATUS_NAMES[t.status], nodes.names[t.row] if t.row >= 0 else "") for t in of.tasks.values()}
    return {
        "nodes": rows,
        "jobs": jobs,
        "queues": queues,
        "tasks": tasks,
        "pending": sorted(of.with_pending),
        "leaving": nodes.leaving,
    }


def check_invariants(of: World) -> None:
    """No node over capacity in any dimension; sums equal what their parts say."""
    nodes = of.nodes
    assert np.array_equal(nodes.total, nodes.allocatable[: nodes.size].sum(axis=0))
    fresh = Totals(nodes)
    fresh.rule = of.totals.rule
    for row in range(nodes.size):
        fresh.node_changed(row)
    fresh.foreign = {key: task for key, task in of.tasks.items() if not of.is_ours(task.pod)}
    assert np.array_equal(of.totals.total, fresh.total)
    for name, row in nodes.row_of.items():
        if not nodes.present[row]:
            continue
        held = sum((t.cls.request for t in nodes.tasks[row].values() if t.status != PENDING), of.dims.zeros())
        assert (nodes.idle[row] == nodes.allocatable[row] - held).all(), name
        assert (nodes.idle[row] >= 0).all(), f"{name} is over capacity: {nodes.idle[row]}"
        assert (nodes.pipelined[row] == 0).all()
    for job in of.jobs.values():
        assert sum(job.counts) == len(job.tasks)
        assert job.counts[PENDING] == len(job.pending)
        pending = sum((t.cls.request for t in job.pending.values()), of.dims.zeros())
        assert np.array_equal(job.pending_request, pending)
