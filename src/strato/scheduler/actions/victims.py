"""Who may be evicted, where, and whether a set of victims suffices; for all actions that evict (core 10.4, 11)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heapify, heappop, heappush

import numpy as np

from strato.scheduler.actions.offers import Offers, Room
from strato.scheduler.cache.ingest import is_marked_preemptable
from strato.scheduler.cache.shards import SOFT
from strato.scheduler.model.jobs import Task
from strato.scheduler.model.nodes import Rows
from strato.scheduler.model.resources import Vector
from strato.scheduler.model.tasks import RUNNING
from strato.scheduler.placement import kernels
from strato.scheduler.session import Session


def may_go(ssn: Session, task: Task) -> bool:
    """Whether a pod gives way at all, and the API did not refuse to evict it a short while ago."""
    evictions = ssn.world.evictions
    return task.preemptable and not (evictions.refusals and evictions.spares(task, ssn.now))


def may_be_reclaimed(ssn: Session, task: Task) -> bool:
    """Whether another queue may take a pod's place back; pods without a PodGroup have to say so."""
    job = task.job
    if task.status != RUNNING or job is None or not may_go(ssn, task):
        return False
    return not job.solo or is_marked_preemptable(task.pod)


def keeps_room(ssn: Session, task: Task) -> bool:
    """Whether victims that were evicted for a task are still leaving, and nobody was promised their room since."""
    victims = ssn.world.evictions.victims_of(task.key)
    if not victims:
        return False
    nodes, tasks = ssn.world.nodes, ssn.world.tasks
    rows = {tasks[key].row for key in victims if key in tasks}
    return any(row >= 0 and suffices(task, nodes.free(row)) for row in rows)


class Attempts:
    """What is remembered of rows while the tasks of one job are served, one after the other; good for equal tasks.

    Rows on which all victims together make too little room for a task need not be asked for its equals: what has been
    evicted and promised meanwhile only leaves fewer victims, and nothing was done to a row that offered too little.
    Where a class's filters and scores are all that counts, the rows' order is kept too, and only rows that were written
    since are ranked anew.

    Args:
        nobody: Whether there is nobody who could be evicted: only rows that have room as it is are worth a look. Else
            those are that would have it if they were empty.

    Attributes:
        exhausted: The rows to pass over; gains those that turn out to offer too little.
    """

    __slots__ = ("_equals", "_nobody", "_ranking", "_room", "_rows", "exhausted")

    def __init__(self, *, nobody: bool = False) -> None:
        self._nobody = nobody
        self._equals: tuple[object, ...] = ()
        self._rows: list[int] | None = None
        self._ranking: Ranking | None = None
        self._room: Room | None = None
        self.exhausted: set[int] = set()

    def turn_to(self, ssn: Session, task: Task, offers: Offers | None = None) -> None:
        """Serve a task: forget all unless it equals the one before; what others were offered is not asked for."""
        equals = (task.cls, task.priority, task.role, task.preemptable, ssn.facet(task))
        if task.cls.uses_claims or equals != self._equals:
            self._equals, self._rows, self._ranking = equals, None, None
            nodes = ssn.world.nodes
            self.exhausted = rows_short(task, nodes.future_idle if self._nobody else nodes.allocatable, nodes.size)
            self._room = offers.room(task) if offers is not None else None
            if self._room is not None:
                self.exhausted |= rows_short(task, self._room.amounts, nodes.size)

    def refuse(self, row: int, free: Sequence[int], victims: Sequence[Task]) -> None:
        """Note that what is free on a row and what all victims there hold is too little."""
        self.exhausted.add(row)
        if self._room is not None:
            self._room.note(row, free, victims)

    def rows(self, ssn: Session, task: Task) -> list[int]:
        """Return rows that evictions may open for the task, in the nodes' order."""
        if self._rows is None:
            self._rows = np.concatenate(by_shard(ssn, task, candidate_rows(ssn, task))).tolist()
        return self._rows

    def best_first(self, ssn: Session, task: Task, serves: Callable[[int], bool], *, neighbours: bool) -> bool:
        """Offer the task row after row, the best first, until one serves; return whether one did.

        Args:
            ssn: The session.
            task: The task whose turn it is.
            serves: Tries a row; leaves nothing behind on one that it refuses.
            neighbours: Whether rules about other pods hold as things stand.
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
    """Rows of a class, the best first (of equals, the first); rows that were written are ranked anew, not all."""

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
        """Offer row after row, but those that are exhausted, until one serves; return whether one did."""
        self._catch_up(ssn, task)
        heap, scores = self._heap, self._scores
        offered: dict[int, float] = {}
        try:
            while heap:
                lost, row = heappop(heap)
                if row in exhausted or row in offered or -lost != scores[row]:
                    continue  # never again, twice the same, or from before it was written
                offered[row] = lost
                if serves(row):
                    return True
            return False
        finally:
            for row, lost in offered.items():
                heappush(heap, (lost, row))


def fits(need: Vector, available: Vector) -> bool:
    """Whether a request fits: cpu, memory and whatever else it asks for."""
    return all(need[c] <= available[c] for c in range(need.size) if need[c] > 0 or c < 2)


def suffices(task: Task, free: Sequence[int], victims: Sequence[Task] = ()) -> bool:
    """Whether a task fits into what is free once the victims have gone."""
    for column, need in task.cls.asked:
        if need > free[column] and need > free[column] + sum([v.cls.amounts[column] for v in victims]):
            return False
    return True


def rows_short(task: Task, amounts: Vector, rows: int) -> set[int]:
    """Return those of the first rows that have too little for a task, by the amounts they have."""
    lacks = np.zeros(rows, np.bool_)
    for column, need in task.cls.asked:
        lacks |= amounts[:rows, column] < need
    return set(np.nonzero(lacks)[0].tolist())


def candidate_rows(ssn: Session, task: Task) -> Rows:
    """Return rows that evictions may open for a task: what pods hold does not count against them."""
    return ssn.placer.rows_after_evictions(ssn, task)


def by_shard(ssn: Session, task: Task, rows: Rows) -> list[Rows]:
    """Return rows in the groups to try in turn: where nodes are preferred by shard, those of the task's shard first."""
    shards = ssn.world.shards
    if shards.mode != SOFT:
        return [rows]
    ours = shards.ours(task.cls, ssn.world.nodes, rows)
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
    outer, ssn.promising = ssn.promising, True  # as `Session.promises` does, which costs more than the question
    try:
        return ssn.placer.fits_row(ssn, task, row, kernels.FUTURE | ssn.kernel_flags)
    finally:
        ssn.promising = outer
