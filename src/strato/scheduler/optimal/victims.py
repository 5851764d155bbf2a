"""Possible victims for starving jobs: pods that plugins let be preempted, and pods that can run on another node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from strato.scheduler.actions import victims as choice
from strato.scheduler.model.jobs import Job, Task
from strato.scheduler.model.queues import Queue
from strato.scheduler.model.tasks import BOUND, RUNNING, TaskClass
from strato.scheduler.optimal.evictions import how_often
from strato.scheduler.optimal.gains import Prices
from strato.scheduler.optimal.holds import is_replaced

if TYPE_CHECKING:
    from strato.scheduler.session import Session

Int64s = npt.NDArray[np.int64]
EVICTABLE = frozenset((BOUND, RUNNING))
_MOST_ROWS = 256
"""Most rows, those that lack least first, on which pods are considered for moving."""
_MOST_REFUGES = 256
"""Most rows with room in the network for each class that may move."""


class Victim(NamedTuple):
    """A pod that may be evicted.

    Attributes:
        task: The pod.
        price: Cost of evicting it, in node-hours.
        moves: Whether a place is kept for its successor on another node.
    """

    task: Task
    price: float
    moves: bool


class Holders:
    """The possible victims in a session, and the rows with free room.

    Args:
        ssn: The session.
        prices: Prices of victims.
        preemption: Whether pods of lower priority in the same queue may be left out.
        migration: Whether pods that their owner replaces may move.
    """

    def __init__(self, ssn: Session, prices: Prices, *, preemption: bool, migration: bool) -> None:
        self._ssn, self._prices, self._preemption, self.migration = ssn, prices, preemption, migration
        self._lower: dict[tuple[str, int], list[Victim]] = {}
        self._refuges: dict[int, list[tuple[int, int]]] = {}

    def refresh(self) -> None:
        """Drop the cached results, because the session has changed."""
        self._lower.clear()
        self._refuges.clear()

    def victims(self, job: Job, queue: Queue, task: Task) -> dict[int, list[Victim]]:
        """Return by row the possible victims for a task, the cheapest first."""
        rows = choice.candidate_rows(self._ssn, task)
        found: dict[str, Victim] = {}
        if self._preemption:
            found = {victim.task.key: victim for victim in self._preemptable(job, queue, task, rows)}
        if self.migration:
            for victim in self._movable(job, task, rows):
                found[victim.task.key] = victim  # moving costs less than being left out
        by_row: dict[int, list[Victim]] = {}
        for victim in sorted(found.values(), key=lambda victim: victim.price):
            by_row.setdefault(victim.task.row, []).append(victim)
        return by_row

    def _preemptable(self, job: Job, queue: Queue, task: Task, rows: Int64s) -> list[Victim]:
        """Return the pods of lower priority that plugins let be preempted for a task, where that may suffice."""
        lower, nodes = self._less_important(queue, job.priority), self._ssn.world.nodes
        on = np.zeros(nodes.size, np.bool_)
        on[rows] = True
        given: dict[int, Int64s] = {}
        for victim in lower:
            row = victim.task.row
            if on[row]:
                given[row] = given.get(row, 0) + victim.task.cls.request
        enough = {row for row, gift in given.items() if how_often(nodes.future_idle_of(row) + gift, task.cls.request)}
        candidates = [victim.task for victim in lower if victim.task.row in enough]
        given_up = self.given_up(task, candidates)
        return [victim for victim in lower if victim.task.key in given_up]

    def given_up(self, task: Task, candidates: Sequence[Task]) -> set[str]:
        """Return the keys of candidates that may be left out for a task.

        A tier whose plugins agree on no victim leaves the decision to the next tier (as in Volcano), whose plugins may
        know nothing of gangs or budgets. So every plugin that protects pods must agree in addition.
        """
        guarded = self._ssn.movable(task, candidates) if candidates else []
        return {victim.key for victim in self._ssn.preemptable(task, guarded)} if guarded else set()

    def _less_important(self, queue: Queue, priority: int) -> list[Victim]:
        """Return the running pods of a queue's jobs below a priority, the cheapest first."""
        found = self._lower.get((queue.name, priority))
        if found is None:
            pods = [
                Victim(task, self._prices.eviction(task), moves=False)
                for job in self._ssn.world.jobs.values()
                if job.queue is queue and job.priority < priority and (job.counts[RUNNING] or job.counts[BOUND])
                for task in job.tasks.values()
                if task.status in EVICTABLE and task.row >= 0 and choice.may_go(self._ssn, task)
            ]
            found = self._lower[queue.name, priority] = sorted(pods, key=_cheap_and_late)
        return found

    def _movable(self, job: Job, task: Task, rows: Int64s) -> list[Victim]:
        """Return the pods that could run on another node, on the rows that lack least for a task."""
        ssn, nodes = self._ssn, self._ssn.world.nodes
        need = task.cls.request
        asked = need > 0
        free = nodes.future_idle_of(rows)
        lack = (np.maximum(need - free, 0)[:, asked] / need[asked]).max(axis=1, initial=0.0)
        near = np.argsort(lack, kind="stable")
        pods = [
            Victim(other, self._prices.migration(other), moves=True)
            for row in rows[near[lack[near] > 0][:_MOST_ROWS]].tolist()
            for other in nodes.tasks[row].values()
            if other.status == RUNNING and other.job is not None and choice.may_go(ssn, other)
            if other.job is not job and other.job.priority <= job.priority
            if is_replaced(other) and not other.cls.uses_claims and not ssn.one_by_one(other)
        ]
        pods = [pod for pod in pods if any(row != pod.task.row for row, _ in self.refuge(pod.task))]
        pods.sort(key=_cheap_and_late)
        agreed = {t.key for t in ssn.movable(task, [pod.task for pod in pods])} if pods else set()
        return [pod for pod in pods if pod.task.key in agreed]

    def refuge(self, task: Task) -> list[tuple[int, int]]:
        """Return the rows with room for a task's class now, and for how many tasks, the best first."""
        found = self._refuges.get(task.cls.number)
        if found is None:
            nodes, rows = self._ssn.world.nodes, self.room_now(task)[:_MOST_REFUGES]
            found = [(row, how_often(nodes.future_idle_of(row), task.cls.request)) for row in rows]
            found = [(row, room) for row, room in found if room]
            self._refuges[task.cls.number] = found
        return found

    def room_now(self, task: Task) -> list[int]:
        """Return rows that can take a task at once, the best first."""
        rows = self._ssn.placer.rows_for(self._ssn, task, self._ssn.kernel_flags)
        return choice.scored_order(self._ssn, task, rows)

    def rooms(self, rows: Int64s, cls: TaskClass) -> Int64s:
        """Return how many tasks of a class fit into what is free on rows."""
        nodes, asked = self._ssn.world.nodes, cls.request > 0
        free = nodes.future_idle_of(rows)
        room: Int64s = np.maximum(0, (free[:, asked] // cls.request[asked]).min(axis=1, initial=1 << 20))
        return room


def _cheap_and_late(victim: Victim) -> tuple[float, tuple[int, str, str]]:
    """Order victims: the cheapest first; the order of tasks decides among equals."""
    return victim.price, victim.task.order
