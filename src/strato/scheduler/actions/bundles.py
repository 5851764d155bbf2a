"""Bundles: the tasks of a gang that can be evicted without breaking it, and those that break it (volcano-actions 8)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from strato.scheduler.cache import ingest
from strato.scheduler.framework.plugin import GANG_PREEMPT
from strato.scheduler.model.answers import Evictor
from strato.scheduler.model.jobs import Job, Task
from strato.scheduler.model.resources import Vector

if TYPE_CHECKING:
    from strato.scheduler.session import Session


@dataclass(frozen=True, slots=True)
class Bundle:
    """Tasks of one job that are evicted together.

    Attributes:
        job: Their job.
        tasks: The tasks, lowest priority first.
        whole: Whether evicting them breaks the gang.
        cost: Σ requests of all the job's tasks if the gang breaks, else 0.
    """

    job: Job
    tasks: tuple[Task, ...]
    whole: bool
    cost: Vector

    def request(self) -> Vector:
        """Return Σ requests of its tasks."""
        return sum((task.cls.request for task in self.tasks), np.zeros_like(self.cost))


def bundles_of(job: Job, victims: Iterable[Task]) -> list[Bundle]:
    """Return the bundles of a job's tasks: those it can spare, and the others."""
    ordered = sorted(victims, key=lambda task: (task.priority, task.uid, task.key))
    nothing = np.zeros_like(job.used)
    if job.ready < job.min_available:
        return [Bundle(job, tuple(ordered), whole=False, cost=nothing)] if ordered else []
    spare = _Spare(job)
    safe = [task for task in ordered if spare.give(task)]
    kept = set(map(id, safe))
    others = [task for task in ordered if id(task) not in kept]
    out = []
    if safe:
        out.append(Bundle(job, tuple(safe), whole=False, cost=nothing))
    if others:
        every: Vector = sum((task.cls.request for task in job.tasks.values()), nothing)
        out.append(Bundle(job, tuple(others), whole=True, cost=every))
    return out


class _Spare:
    """How much a ready job has beyond its minima, in total, by role and by sub-job policy."""

    def __init__(self, job: Job) -> None:
        self._left = job.ready - job.min_available
        roles = job.min_task if job.min_available >= sum(job.min_task.values()) else {}
        self._roles = {role: job.role_ready(role) - minimum for role, minimum in roles.items() if minimum > 0}
        layout = job.layout
        self._split = layout is not None and layout.split
        self._broken: set[str] = set()
        self._policies: dict[str, int] = {}
        if layout is not None and layout.split:
            self._policies = {policy: -minimum for policy, minimum in layout.minimum.items()}
            for sub in layout.subs.values():
                if sub.is_ready:
                    self._policies[sub.policy] = self._policies.get(sub.policy, 0) + 1
                else:
                    self._broken.add(sub.key)

    def give(self, task: Task) -> bool:
        """Whether the job can spare a task as well; if so, subtract it from the surplus."""
        if self._left <= 0 or self._roles.get(task.role, 1) <= 0:
            return False
        sub = task.sub
        if self._split:
            if sub is None:
                return False
            if sub.key not in self._broken:
                if self._policies.get(sub.policy, 0) <= 0:
                    return False
                self._broken.add(sub.key)
                self._policies[sub.policy] -= 1
        self._left -= 1
        if task.role in self._roles:
            self._roles[task.role] -= 1
        return True


def choose(ssn: Session, evictor: Evictor, candidates: Iterable[Task], need: Vector, *, whole: bool) -> list[Bundle]:
    """Return the bundles that may be evicted, in the order in which to evict them.

    Args:
        ssn: The session, whose plugins exclude and order them.
        evictor: The job they are evicted for.
        candidates: Tasks that may be evicted.
        need: What the evictor needs.
        whole: Whether gangs may be broken.
    """
    by_job: dict[str, list[Task]] = {}
    for task in candidates:
        if task.job is not None:
            by_job.setdefault(task.job.key, []).append(task)
    found = [bundle for key, tasks in by_job.items() for bundle in bundles_of(ssn.world.jobs[key], tasks)]
    found = _ordered(ssn, evictor, found, need)
    allowed = {task.key for task in ssn.unified_evictable(evictor, [t for bundle in found for t in bundle.tasks])}
    kept = []
    for bundle in found:
        tasks = tuple(task for task in bundle.tasks if task.key in allowed)
        if tasks and (not bundle.whole or (whole and len(tasks) == len(bundle.tasks))):
            kept.append(replace(bundle, tasks=tasks))
    return _ordered(ssn, evictor, kept, need)


def _ordered(ssn: Session, evictor: Evictor, bundles: Sequence[Bundle], need: Vector) -> list[Bundle]:
    """Sort bundles: those that break no gang first, then by the plugins' order of jobs or queues, then by `return_of`.

    Among those that break no gang, bundles of elastic jobs with a surplus come first.
    """
    rest = sorted(bundles, key=lambda b: (-return_of(b, need), b.job.uid, b.job.key, b.tasks[0].uid, len(b.tasks)))
    mine = evictor.job.queue

    def turn(bundle: Bundle) -> Any:
        if evictor.kind == GANG_PREEMPT:
            return ssn.job_key(bundle.job)
        queue = bundle.job.queue
        return ssn.queue_key(queue) if queue is not None else ()

    rest.sort(key=turn, reverse=True)
    if evictor.kind != GANG_PREEMPT and mine is not None:
        rest.sort(key=lambda b: ssn.victim_queue_key(b.job.queue, mine) if b.job.queue is not None else ())
    return sorted(rest, key=lambda bundle: (bundle.whole, not bundle.job.has_surplus))


def return_of(bundle: Bundle, need: Vector) -> float:
    """Return the fraction of the need that a bundle frees, divided by its cost; infinite when it costs nothing."""
    gain, loss = _score(bundle.request(), need, 1.0), _score(bundle.cost, need, math.inf)
    return math.inf if loss == 0 else gain / loss


def _score(amount: Vector, need: Vector, most: float) -> float:
    return sum(min(float(amount[d]) / float(need[d]), most) for d in np.nonzero(need > 0)[0].tolist())


def gives_way(job: Job) -> bool:
    """Whether a job's tasks may be evicted for a gang: as its PodGroup is marked, else yes."""
    if job.group is None:
        return True
    meta = job.group.metadata
    value = meta.annotation(ingest.PREEMPTABLE_KEY) or meta.label(ingest.PREEMPTABLE_KEY)
    return ingest.go_bool(value) is True if value else True
