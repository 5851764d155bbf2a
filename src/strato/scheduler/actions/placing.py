"""The task loop of allocate: places tasks of a job or sub-job until it is ready (spec volcano-actions 2.5).

Runs of equal tasks are placed as one batch. The result equals placing them one by one, because no other job is visited
until a job is ready, and a ready job takes one task per visit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from strato.scheduler.model.jobs import Job, SubJob, Task
from strato.scheduler.model.queues import Queue
from strato.scheduler.model.reasons import QUEUE_SHARE, FitErrors, Verdict
from strato.scheduler.model.tasks import ALLOCATED, PIPELINED

if TYPE_CHECKING:
    from strato.scheduler.model.plan import Notes
    from strato.scheduler.session import Session
    from strato.scheduler.statement import Statement


class TasksToPlace:
    """The tasks of a (sub-)job still to place in this cycle, in order; taken from the front, in runs of equal ones."""

    __slots__ = ("_end", "at", "tasks")

    def __init__(self, tasks: list[Task], at: int = 0, *, equal: bool = False) -> None:
        self.tasks = tasks
        self.at = at
        self._end = len(tasks) if equal else 0

    def __bool__(self) -> bool:
        return self.at < len(self.tasks)

    def copy(self) -> TasksToPlace:
        """Return a copy that is taken from independently."""
        return TasksToPlace(self.tasks, self.at)

    def run_length(self, ssn: Session, single: bool) -> int:
        """Return how many tasks from the front are equal; a task with a nominated node is a run of its own."""
        first = self.tasks[self.at]
        if single or first.nominated:
            return 1
        tasks, cls, role = self.tasks, first.cls, first.role
        if self._end <= self.at:  # kept, because a ready job is visited for every single task of a long run
            let_in = ssn.world.queue_gated
            self._end = len(tasks)
            for end in range(self.at + 1, len(tasks)):
                task = tasks[end]
                if task.cls is not cls or task.role != role or task.nominated or task.gated:
                    self._end = end
                    break
                if let_in and (task.key in let_in) != (first.key in let_in):
                    self._end = end  # queues keep room for tasks behind a queue-admission gate only
                    break
        return ssn.equal_run(tasks, self.at, self._end)

    def take(self, count: int) -> list[Task]:
        """Remove and return the first tasks."""
        taken = self.tasks[self.at : self.at + count]
        self.at += count
        return taken


class TaskLoop:
    """Places the tasks of one job, or of one of its sub-jobs.

    Args:
        ssn: The session; its `search` restricts the rows.
        stmt: Receives the placements. The caller discards it if `run` returns False.
        work: The tasks; taken from when they are placed or given up.
        notes: Receives why tasks fit nowhere; its ``failed_roles`` are not tried again.
        sub: The sub-job; None for a job that has none.
    """

    def __init__(
        self,
        ssn: Session,
        stmt: Statement,
        job: Job,
        queue: Queue,
        work: TasksToPlace,
        notes: Notes,
        sub: SubJob | None = None,
    ) -> None:
        self._ssn = ssn
        self._stmt = stmt
        self._job = job
        self._queue = queue
        self._work = work
        self._notes = notes
        self._sub = sub

    def run(self) -> bool:
        """Place tasks until the (sub-)job is ready or nothing fits; return whether to keep the statement.

        It is also kept if the job is only pipelined: its tasks are not bound, but keep their places in this session.
        """
        ssn, work, notes = self._ssn, self._work, self._notes
        while work:
            first = work.tasks[work.at]
            if first.gated:
                admit(ssn, self._queue, work.take(1)[0])
                continue
            single = ssn.one_by_one(first)
            run = work.run_length(ssn, single)
            allowed = ssn.allocatable(self._queue, first, run)
            if allowed < run:
                self._record_share(first)
            if allowed == 0 or self._masked(first):
                work.take(run)
                continue
            denied = ssn.pre_filter(first)
            if denied is not None:
                self._fail(first, denied)
                work.take(1)
                if not may_go_on(self._job, notes, self._sub):
                    break
                continue
            ready = self._place_run(allowed, run, single)
            if ready is None or ready:
                break
        if self._ready():
            return True
        return ssn.job_pipelined(self._job) if self._sub is None else ssn.sub_job_pipelined(self._sub)

    def _ready(self) -> bool:
        return self._ssn.job_ready(self._job) if self._sub is None else self._ssn.sub_job_ready(self._sub)

    def _place_run(self, allowed: int, run: int, single: bool) -> bool | None:
        """Place tasks of one run; return True if the (sub-)job is ready, None if further tasks cannot make it so."""
        ssn, stmt, work, job, sub = self._ssn, self._stmt, self._work, self._job, self._sub
        first = work.tasks[work.at]
        role = first.role
        missing = ssn.missing_until_ready(job, role) if sub is None else ssn.missing_until_sub_ready(sub, role)
        count = min(allowed, missing)
        if first.nominated and place_nominated(ssn, stmt, first):
            work.take(1)
            return self._ready()
        batch = work.tasks[work.at : work.at + count]
        rows = ssn.placer.place(ssn, batch, future=False, one_by_one=single)
        if rows:
            placed = work.take(len(rows))
            stmt.placed(placed, rows, ALLOCATED)
            if len(rows) == count or len(rows) == run:
                if self._ready():
                    return True
                if allowed < run and allowed == len(rows):
                    work.take(run - allowed)
                return False
            if self._ready():
                return True
        left = allowed - len(rows)
        batch = work.tasks[work.at : work.at + left]
        rows = ssn.placer.place(ssn, batch, future=True, one_by_one=single) if ssn.world.nodes.leaving else []
        if rows:
            stmt.placed(work.take(len(rows)), rows, PIPELINED)
            left -= len(rows)
            if self._ready():
                return True
        if left == 0:
            work.take(run - allowed)
            return False
        failed = work.tasks[work.at]
        self._fail(failed, ssn.placer.explain(ssn, failed, one_by_one=single))
        work.take(1 if single else left + run - allowed)
        return False if may_go_on(job, self._notes, sub) else None

    def _masked(self, task: Task) -> bool:
        """Whether a task of the same role has failed already; records that as the task's error."""
        if task.role and task.role in self._notes.failed_roles:
            self._notes.errors.setdefault(task.fit_key, FitErrors(role=task.role))
            return True
        return False

    def _fail(self, task: Task, errors: FitErrors) -> None:
        self._notes.errors[task.fit_key] = errors
        self._notes.failed_roles.add(task.role)

    def _record_share(self, task: Task) -> None:
        text = f"queue {self._queue.name} has no share left for {task.key}"
        numbers = self._ssn.share_numbers(self._queue, task.cls)
        self._ssn.record_verdict(self._job, Verdict("proportion", QUEUE_SHARE, text, numbers))


def admit(ssn: Session, queue: Queue, task: Task) -> None:
    """Have the binder remove a task's queue-admission gate if its queue has room; a later cycle places the task."""
    if ssn.allocatable(queue, task):
        ssn.plan.admitted[task.key] = task


def place_nominated(ssn: Session, stmt: Statement, task: Task) -> bool:
    """Try to place a task on its nominated node, to which an earlier cycle pipelined it."""
    row = ssn.world.nodes.row_of.get(task.nominated)
    if row is None or not ssn.world.nodes.present[row]:
        return False
    for future, status in ((False, ALLOCATED), (True, PIPELINED)):
        if ssn.placer.try_row(ssn, task, row, future=future):
            stmt.placed((task,), (row,), status)
            if ssn.search is not None:
                ssn.search.note((row,))
            return True
    return False


def promise(ssn: Session, queue: Queue, stmt: Statement, task: Task) -> bool:
    """Pipeline a task to a node with enough idle and releasing, without evictions; return whether there is one."""
    if not ssn.allocatable(queue, task):
        return False
    row = ssn.world.nodes.row_of.get(task.nominated, -1) if task.nominated else -1
    if row >= 0 and ssn.world.nodes.present[row] and ssn.placer.try_row(ssn, task, row, future=True):
        rows = [row]
    else:
        rows = ssn.placer.place(ssn, (task,), future=True, one_by_one=ssn.one_by_one(task))
    if rows:
        stmt.placed((task,), rows, PIPELINED)
    return bool(rows)


def may_go_on(job: Job, notes: Notes, sub: SubJob | None = None) -> bool:
    """Whether placing further tasks can still help after one fits nowhere (spec: NeedContinueAllocating)."""
    if job.min_available >= len(job.tasks):
        return False
    if sub is not None:
        if sub.min_available >= len(sub.tasks):
            return False
        if not sub.whole:
            return True
    failed = notes.failed_roles
    if job.min_available < sum(job.min_task.values()):
        others = sum(task.role not in failed for task in job.pending.values())
        return job.ready + others >= job.min_available
    return all(job.role_ready(role) >= job.min_task[role] for role in failed if job.min_task.get(role, 0) > 0)
