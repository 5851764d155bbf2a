"""Converts tasks, jobs, nodes and queues to JSON with Volcano's internal field names, for extenders (plugins 24)."""

from __future__ import annotations

from collections.abc import Iterable

from strato.api.meta import Json
from strato.scheduler.cache.world import World
from strato.scheduler.model.jobs import Job, Task
from strato.scheduler.model.nodes import NodeTable
from strato.scheduler.model.queues import Queue
from strato.scheduler.model.resources import CPU, MEMORY, Dimensions


def resource(dims: Dimensions, vector: Iterable[int]) -> Json:
    """Write a vector: milli-cpu, bytes, and scalars in internal units."""
    amounts = list(vector)
    scalars = {
        name: float(n) for name, n in zip(dims.names, amounts, strict=False) if n and name not in ("cpu", "memory")
    }
    return {"MilliCPU": float(amounts[CPU]), "Memory": float(amounts[MEMORY]), "ScalarResources": scalars}


def task(world: World, of: Task) -> Json:
    """Write a task."""
    request = resource(world.dims, of.cls.request.tolist())
    return {
        "UID": of.uid,
        "Job": of.job.key if of.job is not None else "",
        "Name": of.name,
        "Namespace": of.namespace,
        "TaskRole": of.role,
        "Resreq": request,
        "InitResreq": request,
        "NodeName": world.nodes.names[of.row] if of.row >= 0 else "",
        "Status": 1 << of.status,
        "Priority": of.priority,
        "Preemptable": of.preemptable,
        "BestEffort": of.cls.best_effort,
        "Pod": {
            "metadata": {
                "name": of.name,
                "namespace": of.namespace,
                "uid": of.uid,
                "labels": of.pod.metadata.labels or {},
                "annotations": of.pod.metadata.annotations or {},
            }
        },
    }


def node(world: World, row: int) -> Json:
    """Write a node with what is free on it."""
    nodes: NodeTable = world.nodes
    facts, dims = nodes.facts[row], nodes.dims
    used = nodes.allocatable[row] - nodes.idle[row]
    return {
        "Name": nodes.names[row],
        "Allocatable": resource(dims, nodes.allocatable[row].tolist()),
        "Idle": resource(dims, nodes.idle[row].tolist()),
        "Used": resource(dims, used.tolist()),
        "Releasing": resource(dims, nodes.releasing[row].tolist()),
        "Pipelined": resource(dims, nodes.pipelined[row].tolist()),
        "Node": {"metadata": {"name": nodes.names[row], "labels": (facts.metadata.labels if facts else None) or {}}},
    }


def job(world: World, of: Job) -> Json:
    """Write a job, without its tasks."""
    least = of.min_resources
    return {
        "UID": of.key,
        "Name": of.name,
        "Namespace": of.namespace,
        "Queue": of.queue_name,
        "Priority": of.priority,
        "MinAvailable": of.min_available,
        "TaskMinAvailable": dict(of.min_task),
        "Allocated": resource(world.dims, of.used.tolist()),
        "TotalRequest": resource(world.dims, (of.used + of.pending_request).tolist()),
        "MinResources": None if least is None else resource(world.dims, least.tolist()),
        "Preemptable": of.preemptable,
        "PodGroup": {"metadata": {"name": of.name, "namespace": of.namespace}, "status": {"phase": of.phase}},
    }


def queue(of: Queue) -> Json:
    """Write a queue."""
    return {"UID": of.name, "Name": of.name, "Weight": of.weight, "Hierarchy": "", "Weights": ""}
