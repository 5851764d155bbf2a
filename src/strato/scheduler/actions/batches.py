"""`Batches`: places successive one-task jobs of a job class with one call of the kernel.

In a burst of small jobs, single visits would spend nearly all of their time on questions that have the same answer for
all of the class. A batch gives the same result as visits one after the other:

- It is used only while a single queue has jobs left and no refused class waits for something to move, so that no other
  visit would come between those of the batch.
- The kernel places equal tasks as it does those of a gang, which is the same as one by one.
- Conditions that may end it (the queue has all it deserves, a plugin rejects a task, a job is not ready after all) are
  checked for each job. The jobs after that one get their rows released and are visited by themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from strato.scheduler.model.jobs import Job, Task
from strato.scheduler.model.ledger import NODE_MOVES
from strato.scheduler.model.queues import Queue
from strato.scheduler.model.tasks import ALLOCATED, PENDING
from strato.scheduler.ordering.jobclasses import JobClass
from strato.scheduler.ordering.jobqueue import JobQueue, QueuedJob

if TYPE_CHECKING:
    from strato.scheduler.session import Session

_MOST = 256
"""Most jobs that are placed with one call."""


class Batches:
    """Places batches in one execution of `allocate`."""

    def __init__(self, ssn: Session) -> None:
        self._ssn = ssn
        self._exhausted: set[JobClass] = set()
        """Classes of which a batch could not place every job; the rest of these are visited by themselves."""

    def place(self, queue: JobQueue, entry: QueuedJob) -> int:
        """Place the job of an entry together with the next jobs of its class.

        Args:
            queue: The only queue with jobs left; the caller has just checked that it is not overused.
            entry: Entry of the job to visit.

        Returns:
            How many jobs count as visited; 0 when no batch is possible and nothing was done.
        """
        cls = entry.cls
        if cls is None or len(entry.job.pending) != 1 or cls in self._exhausted or queue.holds_verdicts:
            return 0
        if cls.account is not None and entry.at == 0:
            return 0  # refused in an earlier cycle: a visit of one job shows whether the class fits now
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
        finally:  # after an exception too, for which `Session.isolated` in `allocate` blames the entry's job
            if count < len(jobs):
                self._exhausted.add(cls)
        return count

    def _fits_batch(self, job: Job) -> bool:
        """Whether a job has one pending task that can be placed by its class alone."""
        ssn = self._ssn
        if len(job.pending) != 1 or job.key in ssn.notes or not ssn.places_as_batch:
            return False
        return not ssn.one_by_one(_only_task(job))

    def _place_all(self, queue: Queue, jobs: Sequence[Job]) -> int:
        """Place jobs in order; return how many count as visited."""
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
                if not failed:  # otherwise `Session.recover` has rebuilt the columns from the tasks already
                    self._return_rows(tasks, rows[at + 1 :])
                return at + 1
        return len(rows)

    def _place(self, job: Job, task: Task, row: int) -> bool:
        """Place the one task of a job; return whether it was bound."""
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
