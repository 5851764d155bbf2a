"""Recomputes the counts and sums of jobs and queues from tasks and jobs, for the audit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from strato.scheduler.model.counts import Counts
from strato.scheduler.model.jobs import Job, SubJob, Task
from strato.scheduler.model.ledger import ABSENT
from strato.scheduler.model.queues import Queue
from strato.scheduler.model.resources import Dimensions
from strato.scheduler.model.tasks import STATUS_COUNT, TaskClass


def repair_job(job: Job) -> bool:
    """Recompute all that `Job.shift` keeps on the job from its tasks; return whether any of it was wrong."""
    fresh = Job(job.key, Dimensions(len(job.used)))
    fresh.min_task = job.min_task
    equal: dict[tuple[TaskClass, int], list[Task]] = {}
    for task in job.tasks.values():
        equal.setdefault((task.cls, task.status), []).append(task)
    for (_, status), tasks in equal.items():
        fresh.shift(tasks, ABSENT, status)
    gated = sum(task.gated for task in job.tasks.values())
    right = (
        (job.counts, job.pending_best_effort, job.gated) == (fresh.counts, fresh.pending_best_effort, gated)
        and job.pending.keys() == fresh.pending.keys()
        and (job.used == fresh.used).all()
        and (job.pending_request == fresh.pending_request).all()
        and _named(job.role_counts) == _named(fresh.role_counts)
    )
    if not right:
        job.counts[:], job.pending_best_effort, job.gated = fresh.counts, fresh.pending_best_effort, gated
        job.pending, job.used, job.pending_request = fresh.pending, fresh.used, fresh.pending_request
        job.role_counts = fresh.role_counts
    subs = job.layout.subs.values() if job.layout is not None else ()
    return any([not right, *[_repair_part(sub) for sub in subs]])


def _repair_part(sub: SubJob) -> bool:
    """Recount a sub-job's tasks; return whether the counts were wrong."""
    if sub.whole:
        return False
    before = [*sub.counts, sub.best_effort]
    sub.counts[:], sub.best_effort = [0] * STATUS_COUNT, 0
    for task in sub.tasks.values():
        sub.count(task, task.status, 1)
    return before != [*sub.counts, sub.best_effort]


def _named(roles: Mapping[str, Counts]) -> dict[str, Counts]:
    """Return the counts of the roles that have tasks."""
    return {role: counts for role, counts in roles.items() if any(counts)}


def repair_queue(queue: Queue, jobs: Sequence[Job]) -> bool:
    """Recompute a queue's sums from those of its jobs; return whether any was wrong."""
    before = queue.used, queue.pending_request, queue.inqueue, queue.elastic
    nothing = np.zeros_like(queue.used)
    queue.used = np.array([nothing, *[job.used for job in jobs]]).sum(axis=0)
    queue.pending_request = np.array([nothing, *[job.pending_request for job in jobs]]).sum(axis=0)
    queue.inqueue = np.array([nothing, *[job.inqueue for job in jobs if job.inqueue is not None]]).sum(axis=0)
    queue.elastic = np.array([nothing, *[job.elastic for job in jobs if job.elastic is not None]]).sum(axis=0)
    after = queue.used, queue.pending_request, queue.inqueue, queue.elastic
    return any((old != new).any() for old, new in zip(before, after, strict=True))
