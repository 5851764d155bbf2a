"""Gauges of every queue and job by Volcano's names (spec volcano-cli E1 and E2), computed when they are read.

A series exists as long as its queue or job does, and has no cost between two reads.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from strato.clock import parse_time
from strato.metrics import Registry, Sample
from strato.scheduler.cache.world import World
from strato.scheduler.model.jobs import Job, Task
from strato.scheduler.model.plan import Plan, QueueStatus
from strato.scheduler.model.queues import Queue
from strato.scheduler.model.resources import CPU, MEMORY, FloatArray, Vector, share

_FEW = 1024
"""Times and retries of jobs that are gone are removed only beyond this many, as that takes a pass over all."""


@dataclass(slots=True)
class _Times:
    """When the binds of a job began and ended, in seconds since the epoch."""

    first: float
    last: float


class Series:
    """Metrics of queues and jobs."""

    def __init__(self, world: World, registry: Registry) -> None:
        self._world = world
        self._statuses: Sequence[QueueStatus] = ()
        self._times: dict[str, _Times] = {}
        self._retries: dict[str, int] = {}
        self._forget_at = _FEW
        registry.collect_gauges(self._gauges)
        registry.collect(self._counters)

    def cycle(self, plan: Plan) -> None:
        """Take the statuses of queues from a cycle, and count the jobs that were unschedulable."""
        self._statuses = plan.queues
        for status in plan.groups:
            if status.condition is not None and status.condition.type == "Unschedulable":
                self._retries[status.job.key] = self._retries.get(status.job.key, 0) + 1
        if len(self._times) + len(self._retries) > self._forget_at:  # also if the metrics are never read
            self._forget()
            self._forget_at = _FEW + 2 * (len(self._times) + len(self._retries))

    def _forget(self) -> None:
        """Remove the times and retries of jobs that are gone."""
        for known in (self._times, self._retries):
            for key in [key for key in known if key not in self._world.jobs]:
                del known[key]

    def bound(self, task: Task, now: float) -> None:
        """Note that a pod was bound."""
        if task.job is None or task.job.group is None:
            return
        times = self._times.get(task.job.key)
        if times is None:
            self._times[task.job.key] = _Times(now, now)
        else:
            times.last = now

    # -- counters ------------------------------------------------------------------------------------------------------

    def _counters(self) -> Iterator[Sample]:
        self._forget()
        by_name: Counter[str] = Counter()  # the label has no namespace, so jobs of equal name share a series
        for key, count in self._retries.items():
            by_name[self._world.jobs[key].name] += count
        for name, count in by_name.items():
            yield Sample("volcano_job_retry_counts", {"job_id": name}, count)

    # -- gauges --------------------------------------------------------------------------------------------------------

    def _gauges(self) -> Iterator[Sample]:
        for status in self._statuses:
            queue = self._world.queues.get(status.name)
            if queue is not None and queue.view is not None:
                yield from self._of_queue(queue, status)
        total = self._world.nodes.allocatable[: self._world.nodes.size].sum(axis=0).tolist()
        for pool, amounts in self._world.totals.pools.items():
            for resource, amount in self._world.dims.base_units(amounts.tolist()).items():
                labels = {"resource": resource, "pool": pool}
                yield Sample("strato_scheduler_total_resource", labels, amount)
        self._forget()
        waiting: Counter[str] = Counter()
        for job in self._world.jobs.values():
            if job.group is not None:
                waiting[job.name] += len(job.pending)
                yield from self._of_job(job, total)
        for name, count in waiting.items():
            if count:
                yield Sample("volcano_unschedule_task_count", {"job_id": name}, count)

    def _of_queue(self, queue: Queue, status: QueueStatus) -> Iterator[Sample]:
        name = {"queue_name": queue.name}
        if self._world.waiting_changes is None:  # not while a session that has changed the world waits for an answer
            self._world.settle()
        vectors = {"allocated": queue.used, "request": queue.used + queue.pending_request, "inqueue": queue.inqueue}
        for family, vector in vectors.items():
            yield from self._amounts(family, queue.name, vector)
        for family, amounts in status.vectors.items():
            yield from self._amounts(family, queue.name, amounts)
        yield Sample("volcano_queue_share", name, status.share)
        yield Sample("volcano_queue_weight", name, queue.weight)
        yield Sample("volcano_queue_overused", name, int(status.overused))

    def _amounts(self, family: str, queue: str, vector: Vector | FloatArray) -> Iterator[Sample]:
        name = {"queue_name": queue}
        yield Sample(f"volcano_queue_{family}_milli_cpu", name, vector[CPU].item())
        yield Sample(f"volcano_queue_{family}_memory_bytes", name, vector[MEMORY].item())
        for column, amount in enumerate(vector.tolist()):
            if (
                amount
                and math.isfinite(amount)
                and column not in (CPU, MEMORY)
                and column < len(self._world.dims.names)
            ):
                labels = {**name, "resource": self._world.dims.names[column]}
                yield Sample(f"volcano_queue_{family}_scalar_resources", labels, amount)

    def _of_job(self, job: Job, total: Sequence[int]) -> Iterator[Sample]:
        labels = {"job_ns": job.namespace, "job_id": job.name}
        yield Sample("volcano_job_share", labels, _dominant(job.used.tolist(), total))
        times = self._times.get(job.key)
        if times is None:
            return
        names: Mapping[str, str] = {"job_name": job.name, "queue": job.queue_name, "job_namespace": job.namespace}
        created = parse_time(job.created) if job.created else times.first
        yield Sample("volcano_e2e_job_scheduling_duration", names, max(0.0, times.last - created) * 1000)
        yield Sample("volcano_e2e_job_scheduling_start_time", names, created)
        yield Sample("volcano_e2e_job_scheduling_last_time", names, times.last)


def _dominant(used: Iterable[int], total: Iterable[int]) -> float:
    return max([share(u, t) for u, t in zip(used, total, strict=True) if t > 0], default=0.0)
