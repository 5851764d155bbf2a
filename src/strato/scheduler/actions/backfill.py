"""backfill: place tasks that request nothing but a pod slot (spec volcano-actions 3)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from strato.scheduler.actions.base import Action
from strato.scheduler.actions.placing import admit
from strato.scheduler.cache.ingest import waits_for_queue
from strato.scheduler.model.jobs import Job, Task
from strato.scheduler.model.tasks import ALLOCATED, PENDING, PIPELINED
from strato.scheduler.ordering import jobclasses
from strato.scheduler.ordering.jobqueue import can_try, jobs_in_order

if TYPE_CHECKING:
    from strato.scheduler.session import Session


class Backfill(Action):
    """Place best-effort tasks wherever the filters allow."""

    name = "backfill"

    def execute(self, ssn: Session) -> None:
        """Drain queues, jobs and tasks in their orders."""
        for job in self._jobs_in_order(ssn):
            with ssn.isolated(job):
                promised = self._take_promises_back(ssn, job)
                waiting = [t for t in job.pending.values() if t.cls.best_effort]
                for task in ssn.sorted_tasks(waiting):
                    if not task.gated:
                        self._place(ssn, job, task)
                    elif job.queue is not None and waits_for_queue(task):
                        admit(ssn, job.queue, task)
                self._promise_again(ssn, job, promised)

    @staticmethod
    def _jobs_in_order(ssn: Session) -> list[Job]:
        promised = [t.job for t in ssn.temporary if t.status == PIPELINED and t.cls.best_effort and t.job is not None]
        valid = {job.key: job for job in promised if can_try(ssn, job)}
        return jobs_in_order(ssn, ssn.job_classes, jobclasses.PENDING, lambda job: job.pending_best_effort > 0, valid)

    @staticmethod
    def _take_promises_back(ssn: Session, job: Job) -> dict[Task, int]:
        """Set pipelined tasks to Pending again, as they may be placed now; return the rows they were pipelined to."""
        promised = {t: t.row for t in job.tasks.values() if t.status == PIPELINED and t.cls.best_effort}
        for task in promised:
            ssn.world.move(task, PENDING)
            ssn.fire_removed((task,))
        return promised

    @staticmethod
    def _promise_again(ssn: Session, job: Job, promised: Mapping[Task, int]) -> None:
        """Pipeline tasks that were not bound to their rows again, because pods may have been evicted for them there."""
        ready = ssn.job_ready(job)
        for task, row in promised.items():
            if task.status == ALLOCATED and not ready:
                ssn.world.move(task, PENDING)
                ssn.fire_removed((task,))
            if task.status == PENDING and ssn.placer.try_row(ssn, task, row, future=True):
                ssn.statement().placed((task,), (row,), PIPELINED)

    @staticmethod
    def _place(ssn: Session, job: Job, task: Task) -> None:
        notes = ssn.note(job)
        denied = ssn.pre_filter(task)
        single = ssn.one_by_one(task)
        rows = [] if denied else ssn.placer.place(ssn, [task], future=False, one_by_one=single)
        if not rows:
            notes.errors[task.fit_key] = denied or ssn.placer.explain(ssn, task, one_by_one=single)
            return
        stmt = ssn.statement()
        stmt.placed([task], rows, ALLOCATED)
        if not ssn.job_ready(job):
            return
        stmt.commit()
        waiting = [t for t in job.tasks.values() if t.status == ALLOCATED]
        ssn.dispatch(waiting)
