"""gangpreempt and gangreclaim: make room for a whole gang in one network domain (spec volcano-actions 6 to 8).

Nobody is evicted before the complete plan is proven on the session itself: evict, place every task, and see whether the
gang then has what it needs. Unlike Volcano, a gang that already fits on what is free or about to be is left to
allocate, and nobody goes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from strato.scheduler.actions import bundles
from strato.scheduler.actions import victims as choice
from strato.scheduler.actions.base import Action
from strato.scheduler.actions.placing import Work
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
    """How many domains are looked at for a job; not positive counts as 8. Default 8."""
    allow_whole: bool = arg("allowWholeBundle", True)
    """Whether a gang may be broken when what it can spare does not suffice. Default true."""
    predicate_error_cache: bool = arg("predicateErrorCacheEnable", True)
    """Accepted for compatibility; filters are always cached here. Default true."""


Part = tuple[SubJob | None, list[Task]]
"""A sub-job (None for a job that has none) and its tasks to place, in order."""


class GangEvict(Action):
    """What both actions share: jobs in order, domain by domain, bundle by bundle."""

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
        """Whether a queue's jobs are served at all."""
        return True

    def may_serve(self, ssn: Session, queue: Queue, tasks: Sequence[Task]) -> bool:
        """Whether the queue may take from others for these tasks."""
        return True

    def stands_in_the_way(self, ssn: Session, job: Job, queue: Queue, task: Task) -> bool:
        """Whether a task may have to go for a job."""
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
        """Evict the fewest bundles that let the job run within a domain; return whether that worked.

        With ``spares`` only what elastic jobs give back may go.
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
    """Whole gangs take places from less important ones of their queue."""

    name = kind = GANG_PREEMPT

    def stands_in_the_way(self, ssn: Session, job: Job, queue: Queue, task: Task) -> bool:
        """Whether a task belongs to a less important job of the queue that gives way."""
        other = task.job
        if other is None or other is job or other.queue is not queue or not choice.may_go(ssn, task):
            return False
        return task.status in (BOUND, RUNNING) and job.priority > other.priority and bundles.gives_way(other)


class GangReclaim(GangEvict):
    """Whole gangs take back places from queues that hold more than their share."""

    name = kind = GANG_RECLAIM

    def may_take(self, ssn: Session, queue: Queue) -> bool:
        """A queue that has all it deserves takes nothing back."""
        return not ssn.overused(queue)

    def may_serve(self, ssn: Session, queue: Queue, tasks: Sequence[Task]) -> bool:
        """Whether the queue would stay within what it deserves."""
        return ssn.preemptive(queue, tasks)

    def stands_in_the_way(self, ssn: Session, job: Job, queue: Queue, task: Task) -> bool:
        """Whether a task runs in another queue that gives back."""
        other = task.job
        if other is None or other.queue is None or other.queue is queue or not other.queue.reclaimable:
            return False
        return choice.may_be_reclaimed(ssn, task) and bundles.gives_way(other)


class _Plan:
    """Places a job's parts within a domain in a statement, on what is free and what will be."""

    def __init__(self, ssn: Session, queue: Queue, job: Job, domain: int, stmt: Statement) -> None:
        self._ssn = ssn
        self._queue = queue
        self._job = job
        self._domain = domain
        self._stmt = stmt

    def place(self, parts: Sequence[Part]) -> bool:
        """Promise all tasks of part after part their places, until the job has what it needs; say whether it has.

        Allocate finds none of them pending in this session, so that nobody has to tell it the domains.
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
        """Promise every task of a part a place within a domain; nothing is left behind when one has none."""
        ssn = self._ssn
        near = NOWHERE if sub is None else ssn.domains.allocated(sub)
        trial = ssn.statement()
        with ssn.searching(Search(ssn.tree, domain, sub, near)), ssn.promises():
            works = self._place_all(Work(tasks), trial)
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

    def _place_all(self, work: Work, trial: Statement) -> bool:
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
    """Return what a job has to place, part by part in order; gated and best-effort tasks are left out."""

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
    """Let victims go on, the most important first, whose nodes have room enough for all that was promised there.

    Those whose ports, claims or rules about other pods may stand in the way have to go.
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
    """Return what is idle or leaving on a domain's nodes; what is promised there is not subtracted."""
    nodes, rows = ssn.world.nodes, ssn.tree.rows[domain]
    free: Vector = np.asarray(nodes.idle[rows].sum(axis=0) + nodes.releasing[rows].sum(axis=0))
    return free
