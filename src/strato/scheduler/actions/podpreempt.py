"""Preemption for a pod without a PodGroup, as kube-scheduler does it: the node whose victims cost least.

On each node a trial statement evicts all pods of lower priority. If the pod then fits, as many of them as possible are
spared: first those whose eviction would violate a PodDisruptionBudget, then those of higher priority. Plugins that
protect gangs and critical pods can still exclude victims.

Source: kube-scheduler's plugin DefaultPreemption.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import NamedTuple

import numpy as np

from strato.scheduler.actions import victims as choice
from strato.scheduler.actions.surplus import given_back
from strato.scheduler.cache.budgets import Budgets
from strato.scheduler.model.jobs import Task
from strato.scheduler.model.queues import Queue
from strato.scheduler.model.tasks import BOUND, RUNNING
from strato.scheduler.session import Session
from strato.scheduler.statement import Statement

_EVICTABLE = frozenset((BOUND, RUNNING))
_MIN_CANDIDATES = 100
"""Candidate nodes after which the search stops; a tenth of all nodes if that is more (kube-scheduler's default)."""


class _Choice(NamedTuple):
    """A candidate node, its victims (highest priority first) and how many of these violate a budget."""

    row: int
    victims: list[Task]
    violations: int


def preempt_for_pod(ssn: Session, stmt: Statement, queue: Queue, task: Task, open_rows: AbstractSet[int]) -> bool:
    """Evict from the node where it costs least and pipeline the task there; return whether there is such a node.

    Args:
        ssn: The session.
        stmt: Receives the evictions and the pipelined task.
        queue: The task's queue.
        task: The pod.
        open_rows: Nodes with tasks that elastic jobs give back; these are evicted before other pods.
    """
    budgets = Budgets(ssn.world)
    groups = [group.tolist() for group in choice.by_shard(ssn, task, choice.candidate_rows(ssn, task))]
    opened = [[row for row in group if row in open_rows] for group in groups] if open_rows else []
    for rows, spares in (*((group, True) for group in opened), *((group, False) for group in groups)):
        best = _best(ssn, queue, task, rows, budgets, spares=spares)
        if best is not None:
            for victim in best.victims:
                stmt.evict(victim, "preempt", task.key)
            stmt.pipeline(task, best.row, evicted=True)
            return True
    return False


def _best(ssn: Session, queue: Queue, task: Task, rows: list[int], budgets: Budgets, *, spares: bool) -> _Choice | None:
    """Return the cheapest candidate among rows, which are tried from a random one on; None without a candidate.

    Args:
        ssn: The session.
        queue: The task's queue.
        task: The pod.
        rows: The rows to try, in the nodes' order.
        budgets: The PodDisruptionBudgets.
        spares: Whether only tasks that elastic jobs give back may be evicted.
    """
    most = max(_MIN_CANDIDATES, ssn.world.nodes.size // 10)
    found: list[_Choice] = []
    first = ssn.rng.randrange(len(rows)) if rows else 0
    for row in (*rows[first:], *rows[:first]):
        one = _on_row(ssn, queue, task, row, budgets, spares=spares)
        if one is not None:
            found.append(one)
            if len(found) >= most:
                break
    return min(found, key=_cost, default=None)


def _on_row(ssn: Session, queue: Queue, task: Task, row: int, budgets: Budgets, *, spares: bool) -> _Choice | None:
    """Return the victims whose eviction lets the task fit on a row; None when it would not fit."""
    nodes, mine = ssn.world.nodes, task.pod.spec.priority or 0
    here_now = nodes.tasks[row].values()
    lower = [t for t in here_now if _is_evictable(ssn, t, queue) and _priority(t) < mine]
    lower = given_back(lower) if spares else lower
    lower = ssn.movable(task, lower) if lower else []
    if not lower or not choice.suffices(task, nodes.free(row), lower):
        return None
    first = {victim.key for victim in given_back(lower)}
    trial = ssn.statement()
    for victim in lower:
        trial.evict(victim, "preempt", task.key)
    here = np.array([row], np.int64)

    def works() -> bool:
        fits = ssn.allocatable(queue, task) and choice.passes_filters(ssn, task, row)
        return bool(fits) and ssn.neighbours_allow(task, here).size > 0

    try:
        if not works():
            return None
        important = sorted(lower, key=lambda t: (t.key in first, -_priority(t), t.pod.status.start_time or "~"))
        violating = budgets.violated_by(ssn.world.evictions.unconfirmed.values(), important)
        victims, violations = list[Task](), 0
        for breaks in (True, False):
            for victim in (t for t, violates in zip(important, violating, strict=True) if violates is breaks):
                trial.spare(victim)
                if not works():
                    trial.evict(victim, "preempt", task.key)
                    victims.append(victim)
                    violations += breaks
        victims.sort(key=lambda t: -_priority(t))
        return _Choice(row, victims, violations) if victims else None
    finally:
        trial.discard(remember=False)


def _is_evictable(ssn: Session, task: Task, queue: Queue) -> bool:
    job = task.job
    return task.status in _EVICTABLE and job is not None and job.queue is queue and choice.may_go(ssn, task)


def _priority(task: Task) -> int:
    """Return the priority of a pod as a victim: its own, or its group's when that is higher."""
    own = task.pod.spec.priority or 0
    return own if task.job is None else max(own, task.job.priority)


def _cost(found: _Choice) -> tuple[int, int, int, int, tuple[int, ...]]:
    """Return what the victims of a node cost; less is better (kube-scheduler's pickOneNodeForPreemption)."""
    priorities = [_priority(victim) for victim in found.victims]
    highest = max(priorities)
    earliest = min(v.pod.status.start_time or "~" for v in found.victims if _priority(v) == highest)
    later_first = tuple(-ord(letter) for letter in earliest)
    return found.violations, highest, sum(p + (1 << 31) for p in priorities), len(priorities), later_first
