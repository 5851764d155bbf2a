"""`Batches`: jobs of one task each and of one class that are visited one after the other get their nodes with one call.

In a burst of small jobs nearly all of the time would go into asking for each anew what is the same for all. A batch
decides what visits one after the other decide:

- It is placed only while one queue is left with jobs and no refused class waits for something to move, so that no other
  visit comes between.
- Equal tasks are placed as one batch wherever they are placed, as those of a gang are.
- What may end it in between (the queue has enough, a plugin turns a task down, a job is not ready after all) is asked
  before or after each job as ever. The jobs after that one give their rows back and are visited by themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from strato.scheduler.model.jobs import Job, Task
from strato.scheduler.model.ledger import NODE_MOVES
from strato.scheduler.model.queues import Queue
from strato.scheduler.model.tasks import ALLOCATED, PENDING
from strato.scheduler.ordering.jobclasses import JobClass
from strato.scheduler.ordering.jobqueue import Entry, JobQueue

if TYPE_CHECKING:
    from strato.scheduler.session import Session

_MOST = 256
"""Jobs that are placed with one call."""


class Batches:
    """Places batches in one execution of `allocate`."""

    def __init__(self, ssn: Session) -> None:
        self._ssn = ssn
        self._exhausted: set[JobClass] = set()
        """Classes of which one job got no place: the others may fare no better, and are visited by themselves."""

    def place(self, queue: JobQueue, entry: Entry) -> int:
        """Place the job that is visited and those of its class that come after it.

        Args:
            queue: The only one with jobs; it was asked just now whether it has enough.
            entry: The job.

        Returns:
            How many jobs had their visit with that; 0 when nothing was done.
        """
        cls = entry.cls
        if cls is None or len(entry.job.pending) != 1 or cls in self._exhausted or queue.holds_verdicts:
            return 0
        if cls.account is not None and entry.at == 0:
            return 0  # refused in an earlier cycle: whether it fits by now, one job shows
        following = queue.following(entry, _MOST)
        if not following or not self._fits_batch(entry.job):
            return 0
        jobs = [entry.job]
        task, ssn = _only_task(entry.job), self._ssn
        for job in following:
            if not self._fits_batch(job) or ssn.facet(_only_task(job)) != ssn.facet(task):
                break
            jobs.append(job)
        if len(jobs) == 1:
            return 0
        count = 0
        try:
            count = self._place_all(queue.queue, jobs)
        finally:  # an error is that of the job that is visited
            if count < len(jobs):
                self._exhausted.add(cls)
        return count

    def _fits_batch(self, job: Job) -> bool:
        """Whether a job has one task, and nothing counts for it that is not the same for all of its class."""
        ssn = self._ssn
        if len(job.pending) != 1 or job.key in ssn.notes or not ssn.places_as_batch:
            return False
        return not ssn.one_by_one(_only_task(job))

    def _place_all(self, queue: Queue, jobs: Sequence[Job]) -> int:
        """Place jobs; return how many had their visit."""
        ssn = self._ssn
        tasks = [_only_task(job) for job in jobs]
        allowed = ssn.allocatable(queue, tasks[0], len(tasks))
        rows = ssn.placer.place(ssn, tasks[:allowed], future=False, one_by_one=False) if allowed else []
        for at, row in enumerate(rows):
            task, job = tasks[at], jobs[at]
            if (at and ssn.overused(queue)) or ssn.pre_filter(task) is not None:
                self._return_rows(tasks, rows[at:])
                return at
            settled = failed = False
            with ssn.isolated(job):
                failed = True
                settled = self._place(job, task, row)
                failed = False
            if not settled:
                if not failed:  # else the nodes were counted anew
                    self._return_rows(tasks, rows[at + 1 :])
                return at + 1
        return len(rows)

    def _place(self, job: Job, task: Task, row: int) -> bool:
        """Place the one task of a job; return whether it is bound, as it should be."""
        ssn = self._ssn
        stmt = ssn.statement()
        stmt.placed((task,), (row,), ALLOCATED)
        if ssn.job_ready(job):
            stmt.commit()
            return True
        if not ssn.job_pipelined(job):
            stmt.discard()
        return False

    def _return_rows(self, tasks: Sequence[Task], rows: Sequence[int]) -> None:
        if rows:
            self._ssn.world.nodes.charge_all(rows, tasks[0].cls, NODE_MOVES[ALLOCATED][PENDING])


def _only_task(job: Job) -> Task:
    return next(iter(job.pending.values()))
