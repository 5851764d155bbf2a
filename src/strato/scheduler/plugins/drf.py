"""drf: dominant resource fairness between jobs (spec volcano-plugins 4; Ghodsi et al., NSDI 2011)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from strato.scheduler.framework import PERMIT, Plugin
from strato.scheduler.jobs import Job
from strato.scheduler.resources import Vector, share
from strato.scheduler.tasks import Task

if TYPE_CHECKING:
    from strato.scheduler.session import Session

_SHARE_DELTA = 1e-6


class Drf(Plugin):
    """Serve the job with the smallest dominant share first."""

    name = "drf"

    def open(self, ssn: Session) -> None:
        """Note the cluster's totals."""
        self._totals = [(column, amount) for column, amount in enumerate(ssn.total.tolist()) if amount > 0]

    def dominant_share(self, used: Vector) -> float:
        """Return the largest fraction of any of the cluster's resources."""
        amounts = used.tolist()
        return max([share(amounts[column], total) for column, total in self._totals], default=0.0)

    def job_order(self, job: Job) -> float:
        """Smaller share first."""
        return self.dominant_share(job.used)

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
