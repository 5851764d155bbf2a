"""`Ranks`: jobs of one task each that are alike and stand behind each other get their nodes with one call.

In a burst of small jobs nearly all of the time would go into asking for each anew what is the same for all. That gives
what visiting one after the other gives:

- Only while one queue is left with anybody in line, so that nobody's turn comes between; and only jobs that a backlog
  would put in one crowd (see `strato.scheduler.ordering.backlog`), so that plugins treat them the same.
- Equal tasks are placed as one batch wherever they are placed, as those of a gang are.
- What may end it in between (the queue has enough, a plugin turns a task down, a job is not ready after all) is asked
  before or after each job as ever. Whoever is left then gives its row back and is visited by itself.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING

from strato.scheduler.actions.lines import Line, Place
from strato.scheduler.model.jobs import Job, Queue
from strato.scheduler.model.ledger import NODE_MOVES
from strato.scheduler.model.tasks import ALLOCATED, PENDING, Task
from strato.scheduler.ordering.backlog import alike_pending

if TYPE_CHECKING:
    from strato.scheduler.session import Session

_MOST = 256
"""Jobs that are taken out of the line at once; those that get no place stand there again."""


class Ranks:
    """Places ranks in one execution of `allocate`."""

    def __init__(self, ssn: Session) -> None:
        self._ssn = ssn
        self._serves = ssn.backlog is not None and ssn.places_alike
        self._spent: set[Hashable] = set()
        """What is alike in jobs of which one got no place: the others may fare no better, and are visited."""

    def serve(self, queue: Queue, line: Line, place: Place) -> bool:
        """Place the job whose turn it is and those behind it that are like it.

        Args:
            queue: The only one with anybody in line; it was asked just now whether it has enough.
            line: Its line.
            place: Whose turn it is.

        Returns:
            Whether that job had its turn; if not, nothing was done.
        """
        if not self._serves or not line.may_close_ranks(place):
            return False
        likeness = self._likeness(place.job)
        if likeness is None or likeness in self._spent:
            return False
        rank = [place, *line.take_while(lambda job: self._likeness(job) == likeness, _MOST)]
        if len(rank) == 1:
            return False
        served = 0
        try:
            served = self._place_all(queue, rank)
        finally:  # an error is that of the job whose turn it is
            line.put_back(rank[max(served, 1) :])
        if served < len(rank):
            self._spent.add(likeness)
        if served:
            line.had_turns(rank[served - 1])
        return served > 0

    def _likeness(self, job: Job) -> Hashable:
        """Return what tells a job from those like it; None where more than that counts, or it has not one task."""
        ssn = self._ssn
        if len(job.pending) != 1 or job.key in ssn.notes or job.key in ssn.nominations:
            return None
        likeness = alike_pending(ssn.world, job)
        if likeness is None:
            return None
        task = _only_task(job)
        return None if ssn.one_by_one(task) else (likeness, ssn.facet(task))

    def _place_all(self, queue: Queue, rank: Sequence[Place]) -> int:
        """Place the jobs of a rank; return how many had their turn."""
        ssn = self._ssn
        tasks = [_only_task(place.job) for place in rank]
        allowed = ssn.allocatable(queue, tasks[0], len(tasks))
        rows = ssn.placer.place(ssn, tasks[:allowed], future=False, one_by_one=False) if allowed else []
        for at, row in enumerate(rows):
            task, job = tasks[at], rank[at].job
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
