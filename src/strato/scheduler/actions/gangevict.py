"""gangpreempt and gangreclaim: make room for a whole gang in one network domain (spec volcano-actions 6 to 8).

Evictions are committed only when a statement has shown that they suffice: it evicts, places every task, and checks
whether the gang then has what it needs. Unlike in Volcano, no pod is evicted for a gang that fits on what is idle or
leaving; allocate places it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from strato.scheduler.actions import bundles
from strato.scheduler.actions import victims as choice
from strato.scheduler.actions.base import Action
from strato.scheduler.actions.placing import TasksToPlace
from strato.scheduler.actions.subjobqueue import SubJobQueue
from strato.scheduler.actions.surplus import Surplus, given_back
from strato.scheduler.framework.arguments import arg
from strato.scheduler.framework.plugin import EVICT, GANG_PREEMPT, GANG_RECLAIM
from strato.scheduler.model.answers import Evictor
from strato.scheduler.model.jobs import Job, SubJob, Task
from strato.scheduler.model.queues import Queue
from strato.scheduler.model.resources import Vector
from strato.scheduler.model.tasks import BOUND, PIPELINED, RUNNING
from strato.scheduler.ordering.jobqueue import starving_jobs
from strato.scheduler.session import Session
from strato.scheduler.statement import Statement
from strato.scheduler.topology.domains import Search
from strato.scheduler.topology.hypernodes import NOWHERE

_MAX_DOMAINS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class GangEvictArgs:
    """Arguments of both actions."""

    max_domains: int = arg("maxDomains", _MAX_DOMAINS)
    """How many domains are tried for a job; 0 or less counts as 8. Default 8."""
    allow_whole: bool = arg("allowWholeBundle", True)
    """Whether a gang may be broken when the tasks beyond its minimum do not suffice. Default true."""
    predicate_error_cache: bool = arg("predicateErrorCacheEnable", True)
    """Accepted for compatibility; filters are always cached here. Default true."""


Part = tuple[SubJob | None, list[Task]]
"""A sub-job (None for a job that has none) and its tasks to place, in order."""


class GangEvict(Action):
    """Base of both actions: serves jobs in order and tries, for each, domain by domain and bundle by bundle."""

    kind: ClassVar[str] = ""
    args_type = GangEvictArgs

    def execute(self, ssn: Session) -> None:
        """Serve the starving jobs of each queue in order."""
        queues, surplus = starving_jobs(ssn, ssn.job_classes), Surplus(ssn)
        while (queue := queues.pop()) is not None:
            if not self.may_take(ssn, queue.queue):
                continue
            for job in queue.visits():
                with ssn.isolated(job):
                    self._serve(ssn, queue.queue, job, surplus)

    def may_take(self, ssn: Session, queue: Queue) -> bool:
        """Whether pods may be evicted for a queue's jobs at all."""
        return True

    def may_serve(self, ssn: Session, queue: Queue, tasks: Sequence[Task]) -> bool:
        """Whether pods may be evicted for these tasks of a queue."""
        return True

    def stands_in_the_way(self, ssn: Session, job: Job, queue: Queue, task: Task) -> bool:
        """Whether a task is a candidate for eviction for a job."""
        raise NotImplementedError

    def _serve(self, ssn: Session, queue: Queue, job: Job, surplus: Surplus) -> None:
        if job.layout is not None and job.layout.topological and ssn.tree.problem:
            return
        parts = parts_of(ssn, job)
        if not parts:
            return
        pending = parts[0][1] if ssn.job_ready(job) else [task for _, tasks in parts for task in tasks]
        if any(choice.keeps_room(ssn, task) for task in job.pending.values()) or not self.may_serve(
            ssn, queue, pending
        ):
            return
        need: Vector = sum((task.cls.request for task in pending), ssn.world.dims.zeros())
        domains = self._domains(ssn, job)
        if any(self._fits_already(ssn, queue, job, parts, domain, need) for domain in domains):
            return
        for spares in (True, False) if surplus.is_there else (False,):
            for domain in domains:
                if self._take(ssn, queue, job, parts, domain, need, spares=spares):
                    return

    def _domains(self, ssn: Session, job: Job) -> list[int]:
        limit = self.args.max_domains if self.args.max_domains > 0 else _MAX_DOMAINS
        groups = ssn.gradient(job, ssn.tree.top, EVICT)
        return list(dict.fromkeys(domain for group in groups for domain in group))[:limit]

    @staticmethod
    def _fits_already(ssn: Session, queue: Queue, job: Job, parts: Sequence[Part], domain: int, need: Vector) -> bool:
        if not choice.fits(need, _free(ssn, domain)):
            return False
        stmt = ssn.statement()
        fits = _Plan(ssn, queue, job, domain, stmt).place(parts)
        stmt.discard(remember=False)
        return fits

    def _take(
        self, ssn: Session, queue: Queue, job: Job, parts: Sequence[Part], domain: int, need: Vector, *, spares: bool
    ) -> bool:
        """Evict bundles in order until the job fits within a domain; return whether it does.

        With ``spares`` only tasks that elastic jobs give back may be evicted.
        """
        on_row = ssn.world.nodes.tasks
        rows = ssn.tree.rows[domain].tolist()
        candidates = [t for row in rows for t in on_row[row].values() if self.stands_in_the_way(ssn, job, queue, t)]
        candidates = given_back(candidates) if spares else candidates
        evictor, whole = Evictor(self.kind, job, domain), self.args.allow_whole and not spares
        free, chosen, spare = _free(ssn, domain), list[Task](), list[Task]()
        for bundle in bundles.choose(ssn, evictor, candidates, need, whole=whole):
            chosen += bundle.tasks
            spare += () if bundle.whole else bundle.tasks
            free = free + bundle.request()
            if not choice.fits(need, free):
                continue
            stmt = ssn.statement()
            for victim in chosen:
                stmt.evict(victim, self.name, parts[0][1][0].key)
            if _Plan(ssn, queue, job, domain, stmt).place(parts):
                _spare_needless(ssn, stmt, spare)
                stmt.commit()
                return True
            stmt.discard(remember=False)
        return False


class GangPreempt(GangEvict):
    """Evict pods of jobs of lower priority in the same queue for whole gangs."""

    name = kind = GANG_PREEMPT

    def stands_in_the_way(self, ssn: Session, job: Job, queue: Queue, task: Task) -> bool:
        """Whether a task belongs to a preemptable job of lower priority in the same queue."""
        other = task.job
        if other is None or other is job or other.queue is not queue or not choice.may_go(ssn, task):
            return False
        return task.status in (BOUND, RUNNING) and job.priority > other.priority and bundles.gives_way(other)


class GangReclaim(GangEvict):
    """Evict pods of queues that hold more than their share for whole gangs of other queues."""

    name = kind = GANG_RECLAIM

    def may_take(self, ssn: Session, queue: Queue) -> bool:
        """Whether a queue has less than it deserves."""
        return not ssn.overused(queue)

    def may_serve(self, ssn: Session, queue: Queue, tasks: Sequence[Task]) -> bool:
        """Whether the queue would stay within what it deserves with these tasks."""
        return ssn.preemptive(queue, tasks)

    def stands_in_the_way(self, ssn: Session, job: Job, queue: Queue, task: Task) -> bool:
        """Whether a task runs in another, reclaimable queue and its job may be evicted from."""
        other = task.job
        if other is None or other.queue is None or other.queue is queue or not other.queue.reclaimable:
            return False
        return choice.may_be_reclaimed(ssn, task) and bundles.gives_way(other)


class _Plan:
    """Pipelines a job's sub-jobs within a domain in a statement, on what is idle and what will be."""

    def __init__(self, ssn: Session, queue: Queue, job: Job, domain: int, stmt: Statement) -> None:
        self._ssn = ssn
        self._queue = queue
        self._job = job
        self._domain = domain
        self._stmt = stmt

    def place(self, parts: Sequence[Part]) -> bool:
        """Pipeline all tasks of part after part, until the job has what it needs; return whether it has.

        Restores the domains of the sub-jobs: the tasks are no longer pending, so allocate does not need these.
        """
        ssn, job = self._ssn, self._job
        was_ready = ssn.job_ready(job)
        placed = False
        before = {sub.key: sub.allocated for sub, _ in parts if sub is not None}
        for sub, tasks in parts:
            if not any(self._place_part(sub, tasks, domain) for domain in self._inner(sub)):
                break
            placed = True
            if was_ready or ssn.job_pipelined(job):
                break
        for sub, _ in parts:
            if sub is not None:
                sub.allocated = before[sub.key]
        return placed and ssn.job_pipelined(job)

    def _inner(self, sub: SubJob | None) -> list[int]:
        if sub is None or self._ssn.domains.limit(self._job) is None:
            return [self._domain]
        return [d for group in self._ssn.gradient(sub, self._domain, EVICT) for d in group]

    def _place_part(self, sub: SubJob | None, tasks: list[Task], domain: int) -> bool:
        """Pipeline every task of a part within a domain; undo all of it when one does not fit."""
        ssn = self._ssn
        near = NOWHERE if sub is None else ssn.domains.allocated(sub)
        trial = ssn.statement()
        with ssn.searching(Search(ssn.tree, domain, sub, near)), ssn.promises():
            works = self._place_all(TasksToPlace(tasks), trial)
        if works and self._has_enough(sub):
            self._stmt.merge(trial)
            return True
        trial.discard(remember=False)
        return False

    def _has_enough(self, sub: SubJob | None) -> bool:
        ssn = self._ssn
        if sub is None:
            return ssn.job_ready(self._job) or ssn.job_pipelined(self._job)
        return ssn.sub_job_ready(sub) or ssn.sub_job_pipelined(sub)

    def _place_all(self, work: TasksToPlace, trial: Statement) -> bool:
        ssn, evicts = self._ssn, self._stmt.has_evictions
        while work:
            first = work.tasks[work.at]
            single = ssn.one_by_one(first)
            run = work.run_length(ssn, single)
            if ssn.allocatable(self._queue, first, run) < run or ssn.pre_filter(first) is not None:
                return False
            for future in (False, True):
                batch = work.tasks[work.at : work.at + run]
                rows = ssn.placer.place(ssn, batch, future=future, one_by_one=single, promise=True) if batch else []
                if rows:
                    trial.placed(work.take(len(rows)), rows, PIPELINED, evicted=evicts)
                    run -= len(rows)
                if not run:
                    break
            if run:
                return False
        return True


def parts_of(ssn: Session, job: Job) -> list[Part]:
    """Return the tasks a job has to place, part by part in order, without gated and best-effort tasks."""

    def wanted(task: Task) -> bool:
        return not task.gated and not task.cls.best_effort

    if job.layout is None:
        tasks = [task for task in job.pending.values() if wanted(task)]
        return [(None, ssn.sorted_tasks(tasks))] if tasks else []
    sub_jobs, out = SubJobQueue(ssn, job, wanted), list[Part]()
    while sub_jobs:
        sub = sub_jobs.pop()
        out.append((sub, sub_jobs.work[sub.key].tasks))
    return out


def _spare_needless(ssn: Session, stmt: Statement, victims: Sequence[Task]) -> None:
    """Undo the evictions, those of the highest priority first, that the placed tasks on the node do not need.

    Victims with host ports, claims or rules about other pods stay evicted, as these may exclude the placed tasks.
    """
    nodes = ssn.world.nodes
    if any(task.cls.pairwise for task in stmt.beneficiaries):
        return
    for victim in reversed(victims):
        cls = victim.cls
        if cls.pairwise or cls.uses_claims or cls.host_ports:
            continue
        if (nodes.future_idle_of(victim.row) >= cls.request).all():
            stmt.spare(victim)


def _free(ssn: Session, domain: int) -> Vector:
    """Return the sum of idle and releasing on a domain's nodes, without subtracting pipelined."""
    nodes, rows = ssn.world.nodes, ssn.tree.rows[domain]
    free: Vector = np.asarray(nodes.idle[rows].sum(axis=0) + nodes.releasing[rows].sum(axis=0))
    return free
