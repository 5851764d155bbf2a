"""allocate: place pending tasks, gang by gang, in the order of queues and jobs (spec volcano-actions 2)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar, Final

from strato.scheduler.actions.base import Action, CommonArgs
from strato.scheduler.actions.batches import Batches
from strato.scheduler.actions.gangsearch import GangSearch
from strato.scheduler.actions.placing import TaskLoop, TasksToPlace
from strato.scheduler.actions.subjobqueue import SubJobQueue
from strato.scheduler.cache.ingest import waits_for_queue
from strato.scheduler.framework.arguments import arg
from strato.scheduler.model.jobs import Job, Task
from strato.scheduler.model.queues import Queue
from strato.scheduler.model.reasons import Verdict
from strato.scheduler.ordering.jobclasses import PENDING
from strato.scheduler.ordering.jobqueue import JobQueue, JobQueues
from strato.scheduler.topology.domains import Search

if TYPE_CHECKING:
    from strato.scheduler.session import Session
    from strato.scheduler.statement import Statement

_BY_DEFAULT: Final = attrgetter("order")


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocateArgs(CommonArgs):
    """Arguments of ``allocate``."""

    candidate_nodes: int = arg("candidateNodeCount", 3)
    """Accepted without effect for the agent scheduler's files: a single placer needs no alternative nodes."""


class Allocate(Action):
    """Place tasks that fit now; pipeline tasks that will fit once leaving pods are gone."""

    name = "allocate"
    args_type: ClassVar[type[Any] | None] = AllocateArgs

    def execute(self, ssn: Session) -> None:
        """Visit queues in order; each visit places one job up to its minimum, or one task of a ready job."""
        work: dict[str, TasksToPlace | SubJobQueue] = {}
        queues, batches = self.queues(ssn), Batches(ssn)
        while (queue := queues.pop()) is not None:
            if ssn.overused(queue.queue):
                _record_overused(ssn, queue)
                continue
            moved = False
            # after a visit that moved nothing this queue is still the first and no more overused than before
            while queue and not moved:
                entry, again, count = queue.pop(), False, 0
                with ssn.isolated(entry.job):
                    count = 0 if queues else batches.place(queue, entry)
                    again = not count and self._visit(ssn, entry.job, queue.queue, work)
                moved = queue.done(entry, again=again, count=max(count, 1))
            queues.push(queue)

    def queues(self, ssn: Session) -> JobQueues:
        """Return the queues with the jobs that may be placed."""
        self.let_in(ssn)
        return JobQueues(ssn, ssn.job_classes, PENDING, lambda job: has_work(ssn, job))

    @staticmethod
    def let_in(ssn: Session) -> None:
        """Enqueue all waiting jobs if the configuration lacks the action enqueue."""
        if "enqueue" in ssn.config.actions:
            return
        for job in list(ssn.world.waiting_for_queue.values()):
            if job.group is not None and job.queue is not None and job.queue.view is not None:
                ssn.let_in(job)

    def _visit(self, ssn: Session, job: Job, queue: Queue, work: dict[str, TasksToPlace | SubJobQueue]) -> bool:
        """Place the tasks of a job that one visit may place; return whether to visit it again."""
        todo = work.get(job.key)
        if todo is None:
            todo = work[job.key] = self.work_of(ssn, job)
        if isinstance(todo, SubJobQueue):
            search = GangSearch(ssn, job, queue, todo)
            found = search.run()
            work[job.key] = todo = search.sub_jobs
            if found is None or not ssn.job_ready(job):
                return False
            found.commit()
            search.remember()
            return bool(todo)
        stmt = self._place_plain(ssn, job, queue, todo)
        if stmt is None or not ssn.job_ready(job):
            return False
        stmt.commit()
        return bool(todo)

    @staticmethod
    def _place_plain(ssn: Session, job: Job, queue: Queue, todo: TasksToPlace) -> Statement | None:
        """Place tasks of a job without sub-jobs on any node; None when too few fit and the statement was discarded."""
        stmt = ssn.statement()
        sub = job.layout.subs.get(job.key) if job.layout is not None else None
        loop = TaskLoop(ssn, stmt, job, queue, todo, ssn.note(job), sub)
        if sub is None:
            stands = loop.run()
        else:
            with ssn.searching(Search(ssn.tree, ssn.tree.top, sub, ssn.domains.allocated(sub))):
                stands = loop.run()
        if stands:
            return stmt
        stmt.discard()
        return None

    @staticmethod
    def work_of(ssn: Session, job: Job) -> TasksToPlace | SubJobQueue:
        """Return the tasks of a job that may be placed."""
        if job.layout is not None and (job.layout.split or ssn.domains.limit(job) is not None):
            return SubJobQueue(ssn, job, _placeable)
        tasks: Iterable[Task] = job.pending.values()
        if ssn.job_classes.has_equal_tasks(job):
            return TasksToPlace(sorted(tasks, key=_BY_DEFAULT), equal=True)
        if job.gated or job.pending_best_effort:
            tasks = [task for task in tasks if _placeable(task)]
        return TasksToPlace(ssn.sorted_tasks(tasks))


def _record_overused(ssn: Session, queue: JobQueue) -> None:
    name = queue.queue.name
    numbers = ssn.world.dims.describe(queue.queue.used)
    verdict = Verdict("proportion", "QueueOverused", f"queue {name} has all it deserves", numbers)
    for job in queue.visits():
        ssn.record_verdict(job, verdict)


def has_work(ssn: Session, job: Job) -> bool:
    """Whether a job has tasks to place, and the network topology it asks for can be used."""
    if job.layout is not None and job.layout.topological and ssn.tree.problem:
        ssn.record_verdict(job, Verdict("core", "Topology", f"the network topology cannot be used: {ssn.tree.problem}"))
        return False
    if job.gated or job.pending_best_effort:
        return any(_placeable(task) for task in job.pending.values())
    return bool(job.pending)


def _placeable(task: Task) -> bool:
    return not task.cls.best_effort and (not task.gated or waits_for_queue(task))
