"""drf: dominant resource fairness between jobs (spec volcano-plugins 4; Ghodsi et al., NSDI 2011)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from strato.scheduler.framework import PERMIT, Plugin
from strato.scheduler.jobs import Job, Queue
from strato.scheduler.plugins.hdrf import Tree, compare
from strato.scheduler.resources import Vector, share
from strato.scheduler.tasks import Task

if TYPE_CHECKING:
    from strato.scheduler.session import Session

_SHARE_DELTA = 1e-6


def _in_session(jobs: Iterable[Job]) -> Iterable[Job]:
    return (job for job in jobs if job.queue is not None and job.queue.view is not None)


class Drf(Plugin):
    """Serve the job with the smallest dominant share first; with ``enableHierarchy`` queues likewise, as a tree."""

    name = "drf"

    def off_points(self) -> frozenset[str]:
        """Queues are only looked at as a tree."""
        return frozenset() if self.hierarchy else frozenset(("queue_order", "reclaimable", "on_place", "on_remove"))

    def open(self, ssn: Session) -> None:
        """Note the cluster's totals."""
        self._tree = Tree(ssn.total, _in_session(ssn.world.jobs.values())) if self.hierarchy else None
        self._totals = [(column, amount) for column, amount in enumerate(ssn.total.tolist()) if amount > 0]

    def dominant_share(self, used: Vector) -> float:
        """Return the largest fraction of any of the cluster's resources."""
        amounts = used.tolist()
        return max([share(amounts[column], total) for column, total in self._totals], default=0.0)

    def job_order(self, job: Job) -> float:
        """Smaller share first."""
        return self.dominant_share(job.used)

    def queue_order(self, queue: Queue) -> tuple[tuple[bool, float], ...]:
        """Level by level from the root: unsaturated before saturated, then smaller weighted share."""
        assert self._tree is not None
        return self._tree.key(queue)

    def on_place(self, job: Job | None, tasks: Sequence[Task]) -> None:
        """Follow what jobs hold."""
        if self._tree is not None and job is not None:
            self._tree.note(job)

    on_remove = on_place

    def reclaimable(self, reclaimer: Task, candidates: Sequence[Task]) -> tuple[Sequence[Task], int]:
        """Tasks without which their queue would still come after the reclaimer's, which has its task then."""
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
