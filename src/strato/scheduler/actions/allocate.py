"""allocate: place pending tasks, gang by gang, in the order of queues and jobs (spec volcano-actions 2).

Runs of equal tasks are placed as one batch. That gives what one-by-one placing gives, because until a job is ready no
other job or queue is looked at, and a ready job takes one task per visit.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Any

from strato.scheduler.actions.base import Action
from strato.scheduler.jobs import PHASE_INQUEUE, Job, Queue
from strato.scheduler.reasons import FitErrors, Verdict
from strato.scheduler.tasks import ALLOCATED, PIPELINED, Task

if TYPE_CHECKING:
    from strato.scheduler.session import Notes, Session
    from strato.scheduler.statement import Statement


class Work:
    """The tasks of a job still to place in this cycle, in order, as runs of equal ones; taken from the front."""

    __slots__ = ("at", "tasks")

    def __init__(self, tasks: list[Task]) -> None:
        self.tasks = tasks
        self.at = 0

    def __bool__(self) -> bool:
        return self.at < len(self.tasks)

    def run_length(self, ssn: Session, single: bool) -> int:
        """Return how many tasks from the front are equal; tasks with a nominated node stand alone."""
        first = self.tasks[self.at]
        if single or first.nominated:
            return 1
        end = self.at + 1
        tasks, cls, role = self.tasks, first.cls, first.role
        while end < len(tasks) and tasks[end].cls is cls and tasks[end].role == role and not tasks[end].nominated:
            end += 1
        return ssn.equal_run(tasks, self.at, end)

    def take(self, count: int) -> list[Task]:
        """Remove and return the first tasks."""
        taken = self.tasks[self.at : self.at + count]
        self.at += count
        return taken


class Allocate(Action):
    """Place what fits now; promise what will fit."""

    name = "allocate"

    def execute(self, ssn: Session) -> None:
        """Visit queues in order; each visit places one job up to its minimum, or one task of a ready job."""
        work, jobs = self._collect(ssn)
        queues: list[tuple[Any, str, Queue]] = []
        for name in jobs:
            queue = ssn.world.queues[name]
            queues.append((ssn.queue_key(queue), name, queue))
        heapify(queues)
        while queues:
            _, name, queue = heappop(queues)
            if not jobs[name]:
                continue
            if ssn.overused(queue):
                self._say_overused(ssn, queue, jobs[name])
                continue
            _, _, job = heappop(jobs[name])
            todo = work[job.key]
            with ssn.isolated(job):
                stmt = ssn.statement()
                if self._place_job(ssn, stmt, job, queue, todo) and ssn.job_ready(job):
                    stmt.commit()
                    if todo:
                        heappush(jobs[name], (ssn.job_key(job), job.key, job))
            heappush(queues, (ssn.queue_key(queue), name, queue))

    def _collect(self, ssn: Session) -> tuple[dict[str, Work], dict[str, list[tuple[Any, str, Job]]]]:
        """Return the work of every job that may be placed, and the jobs by queue as heaps."""
        enqueue_runs = "enqueue" in ssn.config.actions
        work: dict[str, Work] = {}
        jobs: dict[str, list[tuple[Any, str, Job]]] = {}
        if not enqueue_runs:
            for job in list(ssn.world.waiting_for_queue.values()):
                if job.group is not None and job.queue is not None and job.queue.view is not None:
                    ssn.world.set_phase(job, PHASE_INQUEUE)
        for job in ssn.world.with_pending.values():
            if job.is_waiting_for_queue or job.queue is None or job.queue.view is None:
                continue
            if not can_try(ssn, job):
                continue
            tasks = [t for t in job.pending.values() if not t.gated and not t.cls.best_effort]
            if not tasks:
                continue
            work[job.key] = Work(ssn.sorted_tasks(tasks) if len(tasks) > 1 else tasks)
            jobs.setdefault(job.queue_name, []).append((ssn.job_key(job), job.key, job))
        for heap in jobs.values():
            heapify(heap)
        return work, jobs

    @staticmethod
    def _say_overused(ssn: Session, queue: Queue, jobs: list[tuple[Any, str, Job]]) -> None:
        text = f"queue {queue.name} has all it deserves"
        verdict = Verdict("proportion", "QueueOverused", text, ssn.world.dims.describe(queue.used))
        for _, _, job in jobs:
            ssn.say(job, verdict)

    def _place_job(self, ssn: Session, stmt: Statement, job: Job, queue: Queue, work: Work) -> bool:
        """Place tasks until the job is ready or nothing fits; return whether the statement stands.

        A statement that only made the job pipelined stands too: it is not bound, but keeps its places in this session.
        """
        notes = ssn.note(job)
        while work:
            first = work.tasks[work.at]
            single = ssn.one_by_one(first)
            run = work.run_length(ssn, single)
            allowed = ssn.allocatable(queue, first, run)
            if allowed < run:
                self._say_share(ssn, job, queue, first)
            if allowed == 0:
                work.take(run)
                continue
            if self._masked(notes, first, ssn):
                work.take(run)
                continue
            denied = ssn.pre_filter(first)
            if denied is not None:
                self._fail(notes, first, denied)
                work.take(1)
                if not may_go_on(job, notes):
                    break
                continue
            ready = self._place_run(ssn, stmt, job, work, allowed, run, single, notes)
            if ready is None:
                break
            if ready:
                break
        if ssn.job_ready(job):
            return True
        if ssn.job_pipelined(job):
            return True
        stmt.discard()
        return False

    def _place_run(
        self, ssn: Session, stmt: Statement, job: Job, work: Work, allowed: int, run: int, single: bool, notes: Notes
    ) -> bool | None:
        """Place tasks of one run; True when the job is ready, None when it is no use to go on."""
        first = work.tasks[work.at]
        count = min(allowed, ssn.missing_until_ready(job, first.role))
        if first.nominated and self._place_nominated(ssn, stmt, first):
            work.take(1)
            return ssn.job_ready(job)
        batch = work.tasks[work.at : work.at + count]
        rows = ssn.placer.place(ssn, batch, future=False, one_by_one=single)
        if rows:
            placed = work.take(len(rows))
            stmt.placed(placed, rows, ALLOCATED)
            if len(rows) == count or len(rows) == run:
                if ssn.job_ready(job):
                    return True
                if allowed < run and allowed == len(rows):
                    work.take(run - allowed)
                return False
            if ssn.job_ready(job):
                return True
        left = allowed - len(rows)
        batch = work.tasks[work.at : work.at + left]
        rows = ssn.placer.place(ssn, batch, future=True, one_by_one=single) if ssn.world.nodes.leaving else []
        if rows:
            stmt.placed(work.take(len(rows)), rows, PIPELINED)
            left -= len(rows)
            if ssn.job_ready(job):
                return True
        if left == 0:
            work.take(run - allowed)
            return False
        failed = work.tasks[work.at]
        self._fail(notes, failed, ssn.placer.explain(ssn, failed, one_by_one=single))
        work.take(1 if single else left + run - allowed)
        return False if may_go_on(job, notes) else None

    @staticmethod
    def _place_nominated(ssn: Session, stmt: Statement, task: Task) -> bool:
        """Try the node a task was promised in an earlier cycle."""
        row = ssn.world.nodes.row_of.get(task.nominated)
        if row is None or not ssn.world.nodes.present[row]:
            return False
        for future, status in ((False, ALLOCATED), (True, PIPELINED)):
            if ssn.placer.try_row(ssn, task, row, future=future):
                stmt.placed((task,), (row,), status)
                return True
        return False

    def _masked(self, notes: Notes, task: Task, ssn: Session) -> bool:
        """Whether a sibling of the same role failed already."""
        if task.role and task.role in notes.failed_roles:
            note = f"Task {task.name} with role spec {task.role} has already predicated failed, skip"
            notes.errors.setdefault(task.alike, FitErrors(note=note))
            return True
        return False

    @staticmethod
    def _fail(notes: Notes, task: Task, errors: FitErrors) -> None:
        notes.errors[task.alike] = errors
        notes.failed_roles.add(task.role)

    @staticmethod
    def _say_share(ssn: Session, job: Job, queue: Queue, task: Task) -> None:
        dims = ssn.world.dims
        text = f"queue {queue.name} has no share left for {task.key}"
        numbers = {f"used {k}": v for k, v in dims.describe(queue.used).items()}
        numbers |= {f"request {k}": v for k, v in dims.describe(task.cls.request).items()}
        ssn.say(job, Verdict("proportion", "QueueShare", text, numbers))


def can_try(ssn: Session, job: Job) -> bool:
    """Whether a job is valid; says why when it is not."""
    validity = ssn.job_valid(job)
    if validity is None:
        return True
    ssn.say(job, Verdict("gang", validity.reason, validity.message))
    return False


def may_go_on(job: Job, notes: Notes) -> bool:
    """Whether placing further tasks can still help after one fits nowhere (spec: NeedContinueAllocating)."""
    if job.min_available >= len(job.tasks):
        return False
    failed = notes.failed_roles
    if job.min_available < sum(job.min_task.values()):
        others = sum(task.role not in failed for task in job.pending.values())
        return job.ready + others >= job.min_available
    return all(job.role_ready(role) >= job.min_task[role] for role in failed if job.min_task.get(role, 0) > 0)
