"""drf: dominant resource fairness between jobs (spec volcano-plugins 4; Ghodsi et al., NSDI 2011)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from strato.scheduler.cache.usageaverages import UsageAverages
from strato.scheduler.framework.arguments import arg
from strato.scheduler.framework.context import CycleContext
from strato.scheduler.framework.plugin import PERMIT, Plugin
from strato.scheduler.model.jobs import Job, Task
from strato.scheduler.model.queues import Queue
from strato.scheduler.model.resources import FloatArray, Vector, share
from strato.scheduler.plugins.hdrf import ShareTree, Standing, compare

_SHARE_DELTA = 1e-6


def _in_session(jobs: Iterable[Job]) -> Iterable[Job]:
    return (job for job in jobs if job.queue is not None and job.queue.view is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class DrfArgs:
    """Arguments, as written under ``arguments:`` of this plugin."""

    half_life_seconds: float = arg("usageHalfLifeSeconds", 0.0, minimum=0)
    """Time after which what a namespace's jobs held counts half in the order of its jobs. Default 0, no memory."""


class Drf(Plugin):
    """Serve the job with the smallest dominant share first; with ``enableHierarchy`` queues likewise, as a tree."""

    name = "drf"
    job_facts = ("namespace",)
    weighs_claims = True
    args_type = DrfArgs

    def off_points(self) -> frozenset[str]:
        """Queues are only looked at as a tree."""
        return frozenset() if self.hierarchy else frozenset(("queue_order", "reclaimable", "on_place", "on_remove"))

    def open(self, ssn: CycleContext) -> None:
        """Note the cluster's totals."""
        self._tree = ShareTree(ssn.total, _in_session(ssn.world.jobs.values())) if self.hierarchy else None
        self._totals = [(column, amount) for column, amount in enumerate(ssn.total.tolist()) if amount > 0]
        self._memory = self._remembered(ssn) if self.args.half_life_seconds else None

    def _remembered(self, ssn: CycleContext) -> UsageAverages:
        memory = ssn.world.usage_averages.setdefault(self.name, UsageAverages())
        held: dict[str, Vector] = {}
        for job in ssn.world.jobs.values():
            if job.used.any():
                held[job.namespace] = held[job.namespace] + job.used if job.namespace in held else job.used
        memory.advance(ssn.now, self.args.half_life_seconds, held)
        return memory

    def dominant_share(self, used: Vector | FloatArray) -> float:
        """Return the largest fraction of any of the cluster's resources."""
        amounts = used.tolist()
        return max([share(amounts[column], total) for column, total in self._totals], default=0.0)

    def job_order(self, job: Job) -> float:
        """Smaller share first; with memory, what the job's namespace held lately counts too."""
        if self._memory is None:
            return self.dominant_share(job.used) if len(job.tasks) > len(job.pending) else 0.0
        return self.dominant_share(job.used + self._memory.of(job.namespace, job.used.size))

    def queue_order(self, queue: Queue) -> Standing:
        """Level by level from the root: unsaturated before saturated, then smaller weighted share."""
        assert self._tree is not None
        return Standing(self._tree.key(queue))

    def on_place(self, job: Job | None, tasks: Sequence[Task]) -> None:
        """Update what jobs hold in the tree of queues."""
        if self._tree is not None and job is not None:
            self._tree.note(job)

    on_remove = on_place

    def reclaimable(self, reclaimer: Task, candidates: Sequence[Task]) -> tuple[Sequence[Task], int]:
        """Tasks whose queue, without them, still comes after the reclaimer's queue with the reclaimer placed."""
        tree, mine = self._tree, reclaimer.job
        assert tree is not None
        if mine is None or mine.queue is None:
            return (), PERMIT
        victims = []
        tree.shift(mine, reclaimer.cls.request.astype(np.float64))
        for task in candidates:
            job = task.job
            if job is None or job.queue is None:
                continue
            tree.shift(job, -task.cls.request.astype(np.float64))
            if compare(tree.key(mine.queue), tree.key(job.queue)) < 0:
                victims.append(task)
            tree.shift(job, task.cls.request.astype(np.float64))
        tree.shift(mine, -reclaimer.cls.request.astype(np.float64))
        return victims, PERMIT

    def preemptable(self, preemptor: Task, candidates: Sequence[Task]) -> tuple[Sequence[Task], int]:
        """Tasks of jobs that keep at least the share the preemptor's job will have."""
        mine = preemptor.job
        if mine is None:
            return (), PERMIT
        after = self.dominant_share(mine.used + preemptor.cls.request)
        left: dict[str, Vector] = {}
        victims = []
        for task in candidates:
            job = task.job
            if job is None:
                continue
            remaining = left.get(job.key, job.used) - task.cls.request
            left[job.key] = remaining
            theirs = self.dominant_share(remaining)
            if after < theirs or abs(after - theirs) <= _SHARE_DELTA:
                victims.append(task)
        return victims, PERMIT
