"""`workload_of`: reads the workload of a log as a trace: submission, width and run time of its jobs, and its nodes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from strato.api import catalog
from strato.api.core import Node, Pod
from strato.api.meta import Json, Object
from strato.api.pods import effective_spec
from strato.api.volcano.scheduling import PodGroup, Queue
from strato.node.hollow.runplan import certain_seconds
from strato.node.shapes import NodeShape
from strato.scheduler.cache.ingest import group_of, requests
from strato.scheduler.model.estimates import EXPECTED, seconds_of
from strato.scheduler.model.resources import PODS, Dimensions, to_quantity
from strato.sim.recording import entries as e
from strato.sim.recording.log import Log
from strato.sim.recording.state import KIND_NUMBERS, in_order, view_of
from strato.sim.traces import Trace, TraceJob

_HOSTNAME = "kubernetes.io/hostname"
_GROUP, _POD, _NODE, _QUEUE, _PRIORITY = (
    KIND_NUMBERS[kind] for kind in (catalog.PODGROUP, catalog.POD, catalog.NODE, catalog.QUEUE, catalog.PRIORITYCLASS)
)


@dataclass(slots=True)
class _PodLife:
    """The history of one pod in the log.

    Attributes:
        bound_at: Instant at which it was bound; None if it was not.
        ended_at: Instant at which it ended or was removed; None if it was neither.
        is_final: Whether it succeeded or failed, and was not removed before.
    """

    view: Pod
    bound_at: float | None = None
    ended_at: float | None = None
    is_final: bool = False

    def seconds(self) -> float | None:
        """Return how long the pod ran from its bind to its end; None unless the log has both."""
        if not self.is_final or self.bound_at is None or self.ended_at is None:
            return None
        return max(0.0, self.ended_at - self.bound_at)


@dataclass(slots=True)
class _JobLife:
    key: str
    came_at: float
    group: PodGroup | None = None
    pods: dict[str, _PodLife] = field(default_factory=dict)
    started_at: float | None = None


@dataclass(frozen=True, slots=True)
class RecordedWorkload:
    """Jobs, nodes and queues of a log.

    Attributes:
        trace: The jobs; instants are seconds after the log's beginning.
        shapes: The nodes, each as a shape of its own.
        queues: Manifests of the queues.
        waits: Name of a job → its recorded wait in seconds; None if it did not start.
        notes: Sentences for the user about jobs left out and what is assumed.
    """

    trace: Trace
    shapes: tuple[NodeShape, ...]
    queues: tuple[Json, ...]
    waits: Mapping[str, float | None]
    notes: Sequence[str]


def workload_of(log: Log) -> RecordedWorkload:
    """Read the workload of a log.

    Raises:
        BadLog: The log is damaged.
    """
    reading = _Reading(log.first())
    for entry in in_order(log.entries()):
        reading.take(entry)
    return reading.workload()


class _Reading:
    def __init__(self, began: e.Began) -> None:
        self._names = frozenset(began.names)
        self._begin = self._now = began.at
        self._jobs: dict[str, _JobLife] = {}
        self._pods: dict[str, tuple[str, str]] = {}
        self._nodes: dict[str, Node] = {}
        self._queues: dict[str, Queue] = {}
        self._priorities: dict[str, int] = {}

    def take(self, entry: e.AnyEntry) -> None:
        match entry:
            case e.Took() | e.SnapshotPart():
                self._take(entry.kind, view_of(entry))
            case e.Dropped() if entry.kind == _POD:
                self._drop(f"{entry.namespace}/{entry.name}")
            case e.Instant() | e.Cycle():
                self._now = entry.at
            case _:
                pass

    def _take(self, kind: int, view: Object) -> None:
        if isinstance(view, Pod):
            self._take_pod(view)
        elif isinstance(view, PodGroup):
            self._job(str(view.key)).group = view
        elif isinstance(view, Node):
            self._nodes[view.metadata.name] = view
        elif isinstance(view, Queue):
            self._queues[view.metadata.name] = view
        elif kind == _PRIORITY:
            self._priorities[view.metadata.name] = int(getattr(view, "value", 0))

    def _job(self, key: str) -> _JobLife:
        if key not in self._jobs:
            self._jobs[key] = _JobLife(key, self._now)
        return self._jobs[key]

    def _take_pod(self, pod: Pod) -> None:
        if pod.spec.scheduler_name not in self._names:
            return
        group = group_of(pod)
        namespace, name = pod.metadata.namespace, pod.metadata.name
        job_key = f"{namespace}/{group}" if group else f"{namespace}/pod:{name}"
        known = self._pods.get(f"{namespace}/{name}")
        if known is not None and known[0] != job_key:  # the podgroup controller has added the group to the pod
            self._jobs[known[0]].pods.pop(name, None)
        job = self._job(job_key)
        life = job.pods.get(name)
        if life is None or life.view.metadata.uid != pod.metadata.uid:
            life = job.pods[name] = _PodLife(pod)
        life.view = pod
        self._pods[f"{namespace}/{name}"] = job_key, name
        if pod.spec.node_name and life.bound_at is None:
            life.bound_at = self._now
            least = job.group.spec.min_member if job.group is not None else 1
            if job.started_at is None and sum(one.bound_at is not None for one in job.pods.values()) >= least:
                job.started_at = self._now
        if pod.is_finished and life.ended_at is None:
            life.ended_at, life.is_final = self._now, True

    def _drop(self, key: str) -> None:
        job_key, name = self._pods.pop(key, ("", ""))
        job = self._jobs.get(job_key)
        if job is not None and job.pods[name].ended_at is None:
            job.pods[name].ended_at = self._now

    # -- the trace -----------------------------------------------------------------------------------------------------

    def workload(self) -> RecordedWorkload:
        jobs: list[TraceJob] = []
        waits: dict[str, float | None] = {}
        skipped: dict[str, int] = {}
        running = 0
        taken: set[str] = set()
        for life in self._jobs.values():
            if not life.pods and life.group is None:
                continue
            if not life.pods:
                skipped["no pods were seen"] = skipped.get("no pods were seen", 0) + 1
                continue
            seconds, is_whole = self._run_seconds(life)
            if seconds is None:
                skipped["its run time is unknown"] = skipped.get("its run time is unknown", 0) + 1
                continue
            running += not is_whole
            made = self._trace_job(life, seconds, taken)
            jobs.append(made)
            waits[made.name] = None if life.started_at is None else max(0.0, life.started_at - life.came_at)
        jobs.sort(key=lambda job: job.submit_seconds)
        notes = [f"{count} jobs left out: {why}" for why, count in skipped.items()]
        if running:
            notes.append(f"{running} jobs had not ended: they run as long as was seen")
        if any(_has_roles(life) for life in self._jobs.values()):
            notes.append("of jobs whose pods differ all are taken to be as the largest")
        trace = Trace(tuple(jobs), skipped=sum(skipped.values()), nodes=self._shapes(), format="log", reasons=skipped)
        return RecordedWorkload(trace, self._shapes(), self._queue_manifests(), waits, notes)

    def _run_seconds(self, life: _JobLife) -> tuple[float | None, bool]:
        """Return how long a job's pods run, and whether that is known: from ended pods, or from an annotation.

        Else it is the time for which the log has shown them running.
        """
        seen = [seconds for one in life.pods.values() if (seconds := one.seconds()) is not None]
        if seen:
            return sum(seen) / len(seen), True
        for one in life.pods.values():
            meta = one.view.metadata
            annotated = certain_seconds(meta.annotations), seconds_of(meta.annotation(EXPECTED))
            for seconds in annotated:
                if seconds is not None:
                    return seconds, True
        bound = [self._now - one.bound_at for one in life.pods.values() if one.bound_at is not None]
        return (max(bound), False) if bound else (None, False)

    def _trace_job(self, life: _JobLife, seconds: float, taken: set[str]) -> TraceJob:
        group = life.group
        largest = max((one.view for one in life.pods.values()), key=lambda pod: sorted(_amounts(pod).items()))
        owner = group.metadata.controller if group is not None else None
        base = owner.name if owner is not None else life.key.partition("/")[2].removeprefix("pod:")
        replicas = len(life.pods)
        least = min(max(group.spec.min_member, 1), replicas) if group is not None else 1
        queue = group.spec.queue if group is not None else ""
        return TraceJob(
            name=_unused(base, taken),
            submit_seconds=max(0.0, life.came_at - self._begin),
            run_seconds=seconds,
            replicas=replicas,
            min_replicas=least if least < replicas else None,
            requests=_amounts(largest),
            queue="" if queue == "default" else queue,
            priority=self._priority(life, largest),
            user=life.key.partition("/")[0],
            node_selector=dict(largest.spec.node_selector),
        )

    def _priority(self, life: _JobLife, pod: Pod) -> int:
        name = life.group.spec.priority_class_name if life.group is not None else ""
        return self._priorities.get(name, pod.spec.priority or 0)

    def _shapes(self) -> tuple[NodeShape, ...]:
        return tuple(
            NodeShape(
                1,
                {key: str(amount) for key, amount in node.status.allocatable.items()},
                labels={key: text for key, text in (node.metadata.labels or {}).items() if key != _HOSTNAME},
                name=node.metadata.name,
                taints=tuple(
                    {"key": taint.key, "value": taint.value, "effect": taint.effect}
                    for taint in node.spec.taints
                    if not taint.key.startswith("node.kubernetes.io/")
                ),
            )
            for node in self._nodes.values()
        )

    def _queue_manifests(self) -> tuple[Json, ...]:
        found: list[Json] = []
        for name, queue in self._queues.items():
            if name == "root":
                continue
            identity = {"apiVersion": catalog.QUEUE.api_version, "kind": catalog.QUEUE.name, "metadata": {"name": name}}
            found.append({**identity, "spec": msgspec.to_builtins(queue.spec)})
        return tuple(found)


def _has_roles(life: _JobLife) -> bool:
    """Whether the pods of a job have different requests."""
    return len({tuple(sorted(_amounts(one.view).items())) for one in life.pods.values()}) > 1


def _amounts(pod: Pod) -> dict[str, str]:
    """Return the effective requests of a pod, as quantities."""
    dims = Dimensions()
    amounts = requests(effective_spec(pod), dims)
    return {
        dims.names[column]: to_quantity(dims.names[column], amount)
        for column, amount in amounts.items()
        if column != PODS and amount
    }


def _unused(base: str, taken: set[str]) -> str:
    """Return a valid name like ``base`` that is not taken, and take it."""
    plain = re.sub(r"[^a-z0-9-]+", "-", base.lower()).strip("-")[:50].strip("-") or "job"
    name, number = plain, 1
    while name in taken:
        number += 1
        name = f"{plain}-{number}"
    taken.add(name)
    return name
