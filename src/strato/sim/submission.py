"""Makes the manifests of a trace: a Volcano job for each of its jobs, the queues and priority classes it names.

Both fidelities of the simulator submit these manifests, so a trace asks for the same in either.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

from strato.api import catalog
from strato.api.defaults.jobs import DEFAULT_QUEUE
from strato.api.meta import Json
from strato.api.queueacls import SUBMITTED_BY
from strato.api.volcano.scheduling import PodGroup, Queue
from strato.client.cluster import Cluster
from strato.client.informer import Informer
from strato.node.hollow.runplan import RUN_SECONDS
from strato.scheduler.cache.runtimes import EXPECTED
from strato.sim.traces import TraceJob

NAMESPACE = "default"
TASK = "task"
"""Name of the one task that every job has."""
CONTAINER = "main"
SCHEDULER = "volcano"


def manifest_of(job: TraceJob) -> Json:
    """Return the Volcano job of a trace's job: one task, whose pods start together (of an elastic job the minimum)."""
    requests = dict(job.requests)
    limits = {name: amount for name, amount in requests.items() if "/" in name}
    resources: Json = {"requests": requests}
    if limits:
        resources["limits"] = limits  # the API requires limits of extended resources, equal to the requests
    pod: Json = {
        "restartPolicy": "Never",
        "containers": [{"name": CONTAINER, "image": "simulated", "resources": resources}],
    }
    if job.node_selector:
        pod["nodeSelector"] = dict(job.node_selector)
    annotations = {**job.annotations, RUN_SECONDS: f"{job.run_seconds:.6f}"}
    task = {
        "name": TASK,
        "replicas": job.replicas,
        "minAvailable": job.members,
        "template": {"metadata": {"annotations": annotations}, "spec": pod},
    }
    spec: Json = {
        "schedulerName": SCHEDULER,
        "minAvailable": job.members,
        "queue": job.queue or DEFAULT_QUEUE,
        "tasks": [task],
    }
    if job.priority:
        spec["priorityClassName"] = priority_name(job.priority)
    metadata: Json = {"name": job.name, "namespace": NAMESPACE}
    notes = _notes(job)
    if notes:
        metadata["annotations"] = notes
    return {
        "apiVersion": catalog.VCJOB.api_version,
        "kind": catalog.VCJOB.name,
        "metadata": metadata,
        "spec": spec,
    }


def _notes(job: TraceJob) -> dict[str, str]:
    """Return a job's annotations, which its pod group gets too: its user, and its estimated run time in seconds."""
    notes = {}
    if job.estimate_seconds is not None:
        notes[EXPECTED] = f"{job.estimate_seconds:.6f}"
    if job.user:
        notes[SUBMITTED_BY] = job.user
    return notes


def priority_name(priority: int) -> str:
    """Return the name of the PriorityClass of a trace's priority."""
    return f"trace-{priority}" if priority >= 0 else f"trace-minus-{-priority}"


def priority_classes(jobs: Iterable[TraceJob]) -> list[Json]:
    """Return the PriorityClasses that jobs name; jobs of priority 0 name none."""
    return [
        {
            "apiVersion": catalog.PRIORITYCLASS.api_version,
            "kind": catalog.PRIORITYCLASS.name,
            "metadata": {"name": priority_name(priority)},
            "value": priority,
        }
        for priority in sorted({job.priority for job in jobs} - {0})
    ]


def queue_manifests(jobs: Iterable[TraceJob], given: Sequence[Json]) -> list[Json]:
    """Return the queues to create: the given ones, and one of weight 1 for each other queue that a job names."""
    names = {queue["metadata"]["name"] for queue in given}
    named = sorted({job.queue for job in jobs if job.queue} - names - {DEFAULT_QUEUE})
    return [
        *given,
        *(
            {
                "apiVersion": catalog.QUEUE.api_version,
                "kind": catalog.QUEUE.name,
                "metadata": {"name": name},
                "spec": {"weight": 1},
            }
            for name in named
        ),
    ]


async def prepare(cluster: Cluster, queues: Informer[Queue], jobs: Sequence[TraceJob], given: Sequence[Json]) -> None:
    """Create the queues and priority classes of a trace, and wait until the queue controller has opened them.

    Args:
        cluster: The cluster to create them on.
        queues: The running informer of that cluster's queues.
        jobs: The trace's jobs.
        given: Queue manifests of the user's file.

    Raises:
        ApiError: The API refused a queue or priority class.
    """
    wanted = queue_manifests(jobs, given)
    for queue in wanted:
        await _create_or_change(cluster, queue)
    await _until_open(queues, {queue["metadata"]["name"] for queue in wanted} | {DEFAULT_QUEUE})
    for body in priority_classes(jobs):
        await cluster.create(catalog.PRIORITYCLASS, body)


async def _until_open(queues: Informer[Queue], names: set[str]) -> None:
    changed = asyncio.Event()
    queues.add_batch_handler(lambda _: changed.set())
    while True:
        changed.clear()
        known = {queue.metadata.name: queue.status.state for queue in queues.list()}
        if all(known.get(name) for name in names):
            return
        await changed.wait()


async def _create_or_change(cluster: Cluster, queue: Json) -> None:
    name = queue["metadata"]["name"]
    existing = {item["metadata"]["name"] for item in (await cluster.list(catalog.QUEUE)).items}
    if name in existing:
        metadata = {key: queue["metadata"][key] for key in ("annotations", "labels") if queue["metadata"].get(key)}
        await cluster.patch(catalog.QUEUE, name, "", {"metadata": metadata, "spec": queue.get("spec", {})})
    else:
        await cluster.create(catalog.QUEUE, queue)


def waiting_reason(group: PodGroup) -> str:
    """Return why a job waits: the message of its pod group's latest Unschedulable condition, else its phase."""
    messages = [condition.message for condition in group.status.conditions if condition.type == "Unschedulable"]
    return messages[-1] if messages else f"its pod group is {group.status.phase or 'Pending'}"
