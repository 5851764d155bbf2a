"""Which victim goes first, and whether a set of them suffices; for all actions that evict (core 10.4, 11)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cmp_to_key
from typing import TYPE_CHECKING, Any

import numpy as np

from strato.scheduler import kernels
from strato.scheduler.cache.nodes import Rows
from strato.scheduler.cache.resources import Vector
from strato.scheduler.cache.tasks import Task
from strato.scheduler.shards import SOFT

if TYPE_CHECKING:
    from strato.scheduler.cache.jobs import Job
    from strato.scheduler.session import Session


def in_order(ssn: Session, victims: Sequence[Task], preemptor: Task) -> list[Task]:
    """Return victims, the one to evict first first."""
    keys = _Keys(ssn)
    queues = {id(victim.job.queue) if victim.job is not None else 0 for victim in victims}
    if len(queues) == 1 and 0 not in queues:
        return sorted(victims, key=keys.within_queue, reverse=True)

    def compare(left: Task, right: Task) -> int:
        a, b = left.job, right.job
        if a is b or a is None or b is None:
            if a is not b:
                return -1 if a is None else 1
            return keys.reverse_task_order(left, right)
        mine = preemptor.job
        if mine is None or a.queue is b.queue or a.queue is None or b.queue is None or mine.queue is None:
            x, y = keys.of_job(a), keys.of_job(b)
            if x != y:
                return -1 if x > y else 1
            return keys.reverse_task_order(left, right)
        x, y = ssn.victim_queue_key(a.queue, mine.queue), ssn.victim_queue_key(b.queue, mine.queue)
        if x != y:
            return -1 if x < y else 1
        x, y = ssn.queue_key(a.queue), ssn.queue_key(b.queue)
        return -1 if x > y else 1 if x < y else 0

    return sorted(victims, key=cmp_to_key(compare))


class _Keys:
    """Sort keys, made once each; good for one sort, while nothing moves."""

    def __init__(self, ssn: Session) -> None:
        self._ssn = ssn
        self._jobs: dict[str, tuple[Any, ...]] = {}
        self._tasks: dict[str, tuple[Any, ...]] = {}

    def of_job(self, job: Job) -> tuple[Any, ...]:
        key = self._jobs.get(job.key)
        if key is None:
            key = self._jobs[job.key] = self._ssn.job_plugin_key(job)
        return key

    def _of_task(self, task: Task) -> tuple[Any, ...]:
        key = self._tasks.get(task.key)
        if key is None:
            key = self._tasks[task.key] = self._ssn.task_key(task)
        return key

    def within_queue(self, victim: Task) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """Return the key of a victim among victims of one queue: the last job, and its last task, go first."""
        assert victim.job is not None
        return self.of_job(victim.job), self._of_task(victim)

    def reverse_task_order(self, left: Task, right: Task) -> int:
        a, b = self._of_task(left), self._of_task(right)
        return -1 if a > b else 1 if a < b else 0


class Exhausted:
    """Rows on which all victims together make too little room for a task; they need not be asked for its equals.

    Good while the tasks of one job are served, one after the other: what has been evicted and promised meanwhile only
    leaves fewer victims, and nothing was done to a row that offered too little.
    """

    __slots__ = ("_equals", "_rows")

    def __init__(self) -> None:
        self._equals: tuple[object, ...] = ()
        self._rows: set[int] = set()

    def rows_for(self, task: Task) -> set[int]:
        """Return the rows to pass over; add to it those that turn out to offer too little."""
        equals = (task.cls, task.priority, task.role, task.preemptable)
        if task.cls.uses_claims or equals != self._equals:
            self._equals, self._rows = equals, set()
        return self._rows


def fits(need: Vector, available: Vector) -> bool:
    """Whether a request fits: cpu, memory and whatever else it asks for."""
    return all(need[c] <= available[c] for c in range(need.size) if need[c] > 0 or c < 2)


def candidate_rows(ssn: Session, task: Task) -> Rows:
    """Return rows that evictions may open for a task: what pods hold does not count against them."""
    return ssn.placer.rows_after_evictions(ssn, task)


def by_shard(ssn: Session, rows: Rows) -> list[Rows]:
    """Return rows in the groups to try in turn: where nodes are preferred by shard, those of the own shard first."""
    shards = ssn.world.shards
    if shards.mode != SOFT:
        return [rows]
    ours = shards.ours(ssn.world.nodes, rows)
    return [rows[ours], rows[~ours]]


def scored_order(ssn: Session, task: Task, rows: Rows) -> list[int]:
    """Return rows, the best first."""
    if len(rows) <= 1:
        return [int(row) for row in rows]
    scores = ssn.placer.score_rows(ssn, task, rows)
    best_first: list[int] = rows[np.argsort(-scores, kind="stable")].tolist()
    return best_first


def passes_filters(ssn: Session, task: Task, row: int) -> bool:
    """Whether a task may run on a row once everybody leaving has left."""
    with ssn.promises():
        return ssn.placer.fits_row(ssn, task, row, kernels.FUTURE | ssn.kernel_flags)
