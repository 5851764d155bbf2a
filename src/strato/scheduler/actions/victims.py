"""Which tasks may be evicted, on which rows, and whether victims suffice; for all evicting actions (core 10.4, 11)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heapify, heappop, heappush

import numpy as np

from strato.scheduler.actions.offers import FreeableResources, Offers
from strato.scheduler.cache.ingest import is_marked_preemptable
from strato.scheduler.cache.shards import SOFT
from strato.scheduler.model.jobs import Task
from strato.scheduler.model.nodes import Rows
from strato.scheduler.model.resources import Vector
from strato.scheduler.model.tasks import RUNNING
from strato.scheduler.placement import kernels
from strato.scheduler.session import Session


def may_go(ssn: Session, task: Task) -> bool:
    """Whether a pod is preemptable and not spared because the API refused its eviction recently."""
    evictions = ssn.world.evictions
    return task.preemptable and not (evictions.refusals and evictions.spares(task, ssn.now))


def may_be_reclaimed(ssn: Session, task: Task) -> bool:
    """Whether a pod may be evicted for another queue; one without a PodGroup only if it is marked preemptable."""
    job = task.job
    if task.status != RUNNING or job is None or not may_go(ssn, task):
        return False
    return not job.solo or is_marked_preemptable(task.pod)


def keeps_room(ssn: Session, task: Task) -> bool:
    """Whether victims of a task are still leaving and their row will have room for it, not pipelined to others."""
    victims = ssn.world.evictions.victims_of(task.key)
    if not victims:
        return False
    nodes, tasks = ssn.world.nodes, ssn.world.tasks
    rows = {tasks[key].row for key in victims if key in tasks}
    return any(row >= 0 and suffices(task, nodes.free(row)) for row in rows)


class Attempts:
    """Results kept by row while the tasks of one job are served one after the other; valid for equal tasks.

    A row on which all victims together free too little for a task is not tried again for equal tasks: evictions and
    pipelined tasks meanwhile can only leave fewer victims there. For tasks whose filters and scores depend on their
    class alone, the order of rows is kept too, and only rows that were written since are ranked again.

    Args:
        nobody: Whether there are no possible victims: then rows without room as they are now are exhausted from the
            start, else only rows that would lack room if they were empty.

    Attributes:
        exhausted: The rows that are not tried.
    """

    __slots__ = ("_equals", "_nobody", "_ranking", "_room", "_rows", "exhausted")

    def __init__(self, *, nobody: bool = False) -> None:
        self._nobody = nobody
        self._equals: tuple[object, ...] = ()
        self._rows: list[int] | None = None
        self._ranking: Ranking | None = None
        self._room: FreeableResources | None = None
        self.exhausted: set[int] = set()

    def turn_to(self, ssn: Session, task: Task, offers: Offers | None = None) -> None:
        """Begin with a task: if it differs from the last, drop the results and start from those of ``offers``."""
        equals = (task.cls, task.priority, task.role, task.preemptable, ssn.facet(task))
        if task.cls.uses_claims or equals != self._equals:
            self._equals, self._rows, self._ranking = equals, None, None
            nodes = ssn.world.nodes
            self.exhausted = rows_short(task, nodes.future_idle if self._nobody else nodes.allocatable, nodes.size)
            self._room = offers.room(task) if offers is not None else None
            if self._room is not None:
                self.exhausted |= rows_short(task, self._room.amounts, nodes.size)

    def refuse(self, row: int, free: Sequence[int], victims: Sequence[Task]) -> None:
        """Record a row as exhausted: what is free there and what all victims hold is too little."""
        self.exhausted.add(row)
        if self._room is not None:
            self._room.note(row, free, victims)

    def rows(self, ssn: Session, task: Task) -> list[int]:
        """Return the rows where evictions may make room for the task, in the nodes' order."""
        if self._rows is None:
            self._rows = np.concatenate(by_shard(ssn, task, candidate_rows(ssn, task))).tolist()
        return self._rows

    def best_first(self, ssn: Session, task: Task, serves: Callable[[int], bool], *, neighbours: bool) -> bool:
        """Try rows for the task by falling score until one serves; return whether one did.

        Args:
            ssn: The session.
            task: The task to serve.
            serves: Tries a row; returns False and leaves the session unchanged when it does not serve.
            neighbours: Whether to exclude rows by rules about other pods, with the pods that are there now.
        """
        if len(self.exhausted) == ssn.world.nodes.size:
            return False
        if ssn.one_by_one(task):
            rows = candidate_rows(ssn, task)
            rows = ssn.neighbours_allow(task, rows) if neighbours else rows
            return any(serves(row) for row in scored_order(ssn, task, rows) if row not in self.exhausted)
        if self._ranking is None:
            rows = candidate_rows(ssn, task)
            self._ranking = Ranking(ssn, task, ssn.neighbours_allow(task, rows) if neighbours else rows)
        return self._ranking.offer(ssn, task, self.exhausted, serves)


class Ranking:
    """Rows of a class by falling score, equal ones by row number; an update only scores rows that were written."""

    __slots__ = ("_at", "_heap", "_rows", "_scores")

    def __init__(self, ssn: Session, task: Task, rows: Rows) -> None:
        self._rows = rows
        self._rank(ssn, task)

    def _rank(self, ssn: Session, task: Task) -> None:
        self._at = int(ssn.world.nodes.cursor[0])
        scores = ssn.placer.score_rows(ssn, task, self._rows) if self._rows.size else np.zeros(0)
        self._scores: dict[int, float] = dict(zip(self._rows.tolist(), scores.tolist(), strict=True))
        self._heap = [(-score, row) for row, score in self._scores.items()]
        heapify(self._heap)

    def _catch_up(self, ssn: Session, task: Task) -> None:
        nodes = ssn.world.nodes
        written = nodes.written(self._at)
        if written is None:
            self._rank(ssn, task)
            return
        rows = [row for row in written if row in self._scores]
        if rows:
            for row, score in zip(rows, ssn.placer.rescored(ssn, task, rows), strict=True):
                if score != self._scores[row]:
                    self._scores[row] = score
                    heappush(self._heap, (-score, row))
        self._at = int(nodes.cursor[0])

    def offer(self, ssn: Session, task: Task, exhausted: set[int], serves: Callable[[int], bool]) -> bool:
        """Try rows that are not exhausted by falling score until one serves; return whether one did."""
        self._catch_up(ssn, task)
        heap, scores = self._heap, self._scores
        offered: dict[int, float] = {}
        try:
            while heap:
                lost, row = heappop(heap)
                if row in exhausted or row in offered or -lost != scores[row]:
                    continue  # exhausted, a duplicate, or an outdated score
                offered[row] = lost
                if serves(row):
                    return True
            return False
        finally:
            for row, lost in offered.items():
                heappush(heap, (lost, row))


def fits(need: Vector, available: Vector) -> bool:
    """Whether a request fits into amounts, by cpu, memory and whatever else it asks for."""
    return all(need[c] <= available[c] for c in range(need.size) if need[c] > 0 or c < 2)


def suffices(task: Task, free: Sequence[int], victims: Sequence[Task] = ()) -> bool:
    """Whether a task fits into what is free once the victims have gone."""
    for column, need in task.cls.asked:
        if need > free[column] and need > free[column] + sum([v.cls.amounts[column] for v in victims]):
            return False
    return True


def rows_short(task: Task, amounts: Vector, rows: int) -> set[int]:
    """Return which of the first ``rows`` rows have too small amounts for a task."""
    lacks = np.zeros(rows, np.bool_)
    for column, need in task.cls.asked:
        lacks |= amounts[:rows, column] < need
    return set(np.nonzero(lacks)[0].tolist())


def candidate_rows(ssn: Session, task: Task) -> Rows:
    """Return the rows where evictions may make room for a task: those that static filters allow."""
    return ssn.placer.rows_after_evictions(ssn, task)


def by_shard(ssn: Session, task: Task, rows: Rows) -> list[Rows]:
    """Return rows in groups to try in order: with soft sharding the rows of the task's shard first, else one group."""
    shards = ssn.world.shards
    if shards.mode != SOFT:
        return [rows]
    ours = shards.ours(task.cls, ssn.world.nodes, rows)
    return [rows[ours], rows[~ours]]


def scored_order(ssn: Session, task: Task, rows: Rows) -> list[int]:
    """Return rows by falling score."""
    if len(rows) <= 1:
        return [int(row) for row in rows]
    scores = ssn.placer.score_rows(ssn, task, rows)
    best_first: list[int] = rows[np.argsort(-scores, kind="stable")].tolist()
    return best_first


def passes_filters(ssn: Session, task: Task, row: int) -> bool:
    """Whether a task may run on a row once all leaving pods are gone."""
    outer, ssn.promising = ssn.promising, True  # as `Session.promises`, whose context manager costs more than the check
    try:
        return ssn.placer.fits_row(ssn, task, row, kernels.FUTURE | ssn.kernel_flags)
    finally:
        ssn.promising = outer
