"""flow: place all pending tasks together, by minimum-cost flow, where `allocate` places them one gang after another.

It works on the same session by the same rules: filters and scores of the plugins give the arcs and their prices, queues
limit how many tasks are placed, statements keep gangs whole. Each pass solves one network over all waiting tasks
(`strato.scheduler.optimal.plan`). It drops gangs that would stay below their minimum and solves the network again, from
the last solution. Then it places the tasks on the nodes' real vectors; tasks that do not fit there are left to the next
pass. `allocate` places tasks that the network cannot express (rules about other pods, a nominated node, a network
topology) and those that are left. It also pipelines tasks to what leaving pods will free and records why the others
wait. Finally, if the arguments allow it, pods are evicted for starving jobs where that gains enough (`optimal.moves`).
While the kernels are not loaded yet (`optimal.loading`), `allocate` places all tasks.

Configuration: ``actions: "enqueue, flow, backfill"``. A pod with ``schedulerName: poseidon`` is placed like this under
any configuration that has ``allocate``.
"""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from strato.scheduler.actions.allocate import Allocate, has_work
from strato.scheduler.actions.placing import TasksToPlace
from strato.scheduler.actions.subjobqueue import SubJobQueue
from strato.scheduler.model.jobs import Task
from strato.scheduler.model.ledger import HELD
from strato.scheduler.model.reasons import Verdict
from strato.scheduler.model.resources import PODS
from strato.scheduler.model.tasks import ALLOCATED, TaskClass
from strato.scheduler.optimal.arguments import FlowArgs
from strato.scheduler.ordering.jobclasses import PENDING
from strato.scheduler.ordering.jobqueue import jobs_in_order
from strato.scheduler.placement.kernels import LIMIT_PODS
from strato.scheduler.placement.scoring import resource_scores

if TYPE_CHECKING:
    from strato.scheduler.model.jobs import Job
    from strato.scheduler.optimal.moves import Moves
    from strato.scheduler.optimal.plan import FittingRows, FlowPlan, LoadPenalty, Share
    from strato.scheduler.session import Session
    from strato.scheduler.statement import Statement

Int64s = npt.NDArray[np.int64]


class EqualTasks(NamedTuple):
    """Equal pending tasks of a job, in order."""

    job: Job
    tasks: list[Task]


class Why:
    """The arcs and prices behind one placement; computed when it is converted to text."""

    __slots__ = ("_ask", "_names", "_plan", "_row")

    def __init__(self, plan: FlowPlan, ask: int, row: int, names: list[str]) -> None:
        self._plan, self._ask, self._row, self._names = plan, ask, row, names

    def __str__(self) -> str:
        found = self._plan.choice(self._ask, self._row)
        text = f"flow: place {found.place:g} + load {found.load:g} + scarcity {found.scarcity:g}"
        if found.other is not None:
            row, price = found.other
            text += f"; next {self._names[row]} at {price:g}"
        return f"{text}; waiting {found.waiting:g}"


class Flow(Allocate):
    """Place all tasks that fit now together, by minimum cost."""

    name = "flow"
    args_type: ClassVar[type[FlowArgs]] = FlowArgs

    def execute(self, ssn: Session) -> None:
        """Place by flow, leave the rest to `Allocate`, then evict for starving jobs where that gains enough."""
        with self._moving(ssn) as moves:
            self._last: tuple[list[EqualTasks], FlowPlan] | None = None
            self.place_by_flow(ssn)
            super().execute(ssn)
            if self._last is not None:
                explain_waiting(ssn, *self._last)
            if moves is not None:
                moves.run()

    @contextmanager
    def _moving(self, ssn: Session) -> Iterator[Moves | None]:
        """Keep places for moved pods' successors in the context; yield the `Moves` if the arguments ask for evictions.

        Imports these modules only if they are needed.
        """
        wanted = ssn.world.flow_loaded and (self.args.preemption or self.args.migration)
        if not wanted and "flow" not in ssn.world.plugin_state:
            yield None
            return
        from strato.scheduler.optimal.holds import Holds
        from strato.scheduler.optimal.moves import Moves

        with Holds(ssn) as holds:
            yield Moves(ssn, self.args, holds) if wanted else None

    def place_by_flow(self, ssn: Session, only: AbstractSet[str] | None = None) -> None:
        """Place the jobs that a network can express.

        Args:
            ssn: The session.
            only: Keys of the jobs to place; None means all.
        """
        if not ssn.world.flow_loaded:
            ssn.world.flow_wanted = True
            return
        self.let_in(ssn)
        ranked = jobs_in_order(
            ssn, ssn.job_classes, PENDING, lambda job: (only is None or job.key in only) and has_work(ssn, job)
        )
        everything = {job.key: self.work_of(ssn, job) for job in ranked}
        work = {key: todo for key, todo in everything.items() if isinstance(todo, TasksToPlace)}
        for job in ranked:
            if any(_waits_for_victims(ssn, task) for task in job.pending.values()):
                with ssn.isolated(job):
                    self._keep_promise(ssn, job, everything)
        jobs = [job for job in ranked if job.key in work and can_flow(ssn, job, work[job.key])]
        for _ in range(self.args.passes):
            runs = _runs(ssn, jobs, work)
            if not runs or not self._pass(ssn, runs, work):
                break

    def _keep_promise(self, ssn: Session, job: Job, work: dict[str, TasksToPlace | SubJobQueue]) -> None:
        """Place a job for which pods were evicted before other jobs are placed."""
        if job.queue is not None and not ssn.overused(job.queue):
            while self._visit(ssn, job, job.queue, work):
                pass

    def _pass(self, ssn: Session, runs: list[EqualTasks], work: dict[str, TasksToPlace]) -> bool:
        """Solve one network and carry it out; return whether anything was placed."""
        found = _network(ssn, runs)
        if found is None:
            return False
        runs, plan = self._last = found
        shares = _settle(ssn, runs, plan)
        by_job: dict[str, list[int]] = {}
        for i, run in enumerate(runs):
            by_job.setdefault(run.job.key, []).append(i)
        progress = False
        for indices in by_job.values():
            job = runs[indices[0]].job
            mine = [(i, runs[i].tasks, shares[i]) for i in indices if len(shares[i].rows)]
            if mine and self._carry_out(ssn, job, mine, plan):
                progress = True
                work[job.key] = TasksToPlace([task for task in work[job.key].tasks if task.key in job.pending])
        return progress

    @staticmethod
    def _carry_out(ssn: Session, job: Job, shares: list[tuple[int, list[Task], Share]], plan: FlowPlan) -> int:
        """Place a job's share of a plan; return how many tasks, 0 when its gang would not be ready."""
        queue = job.queue
        if queue is None or ssn.overused(queue):
            return 0
        stmt = ssn.statement()
        chosen: dict[str, Why] = {}
        for ask, tasks, share in shares:
            wanted = int(share.counts.sum())
            allowed = ssn.allocatable(queue, tasks[0], wanted) if wanted else 0
            if allowed:
                rows = _charge(ssn, stmt, tasks, share, allowed)
                names = ssn.world.nodes.names
                for task, row in zip(tasks, rows, strict=False):
                    chosen[task.key] = Why(plan, ask, row, names)
        if chosen and not ssn.job_ready(job):
            stmt.discard()
            return 0
        stmt.commit()
        ssn.plan.choices.update(chosen)
        return len(chosen)


def _waits_for_victims(ssn: Session, task: Task) -> bool:
    """Whether victims of a task are leaving, or it has a nominated node."""
    return bool(task.nominated) or ssn.world.evictions.serve(task.key)


def can_flow(ssn: Session, job: Job, work: TasksToPlace) -> bool:
    """Whether a network can express every waiting task of a job, as a gang is placed whole by flow or by allocate."""
    if job.layout is not None:
        return False
    seen: set[TaskClass] = set()
    for task in work.tasks:
        if _waits_for_victims(ssn, task):
            return False
        if task.cls not in seen:
            seen.add(task.cls)
            if ssn.one_by_one(task):
                return False
    return all(ssn.pre_filter(task) is None for task in work.tasks)


def _runs(ssn: Session, jobs: list[Job], work: dict[str, TasksToPlace]) -> list[EqualTasks]:
    """Return the waiting tasks as runs of equal ones, in the jobs' order, as far as their queues allow."""
    runs = []
    for job in jobs:
        queue = job.queue
        if queue is None or not work[job.key] or ssn.overused(queue):
            continue
        by_class: dict[tuple[int, str], list[Task]] = {}
        for task in work[job.key].tasks:
            by_class.setdefault((task.cls.number, task.role if job.min_task else ""), []).append(task)
        for tasks in by_class.values():
            allowed = ssn.allocatable(queue, tasks[0], len(tasks))
            if allowed:
                runs.append(EqualTasks(job, tasks[:allowed]))
    return runs


def _network(ssn: Session, runs: list[EqualTasks]) -> tuple[list[EqualTasks], FlowPlan] | None:
    """Build the network, without runs that fit on no node; None when no run is left."""
    from strato.scheduler.optimal.plan import MOST_CLASSES, FlowPlan, WaitingTasks

    offers: list[FittingRows] = []
    number: dict[int, int] = {}
    kept, asks = [], []
    missing: dict[str, int] = {}
    for rank, run in enumerate(runs):
        cls = run.tasks[0].cls
        if cls.number not in number:
            if len(offers) == MOST_CLASSES:
                continue
            offer = _offer(ssn, run.tasks[0])
            number[cls.number] = len(offers) if len(offer.rows) else -1
            if len(offer.rows):
                offers.append(offer)
        if number[cls.number] < 0:
            continue
        job = run.job
        left = missing.setdefault(job.key, max(0, job.min_available - job.ready - job.pending_best_effort))
        core = min(left, len(run.tasks))
        if job.min_task:
            core = min(
                len(run.tasks), max(0, job.min_task.get(run.tasks[0].role, 0) - job.role_ready(run.tasks[0].role))
            )
        missing[job.key] = max(0, left - core)
        kept.append(run)
        asks.append(WaitingTasks(number[cls.number], len(run.tasks), core, rank))
    if not asks:
        return None
    nodes = ssn.world.nodes
    slots = (
        nodes.pods_limit() - nodes.pods[: nodes.size]
        if ssn.kernel_flags & LIMIT_PODS
        else nodes.idle[: nodes.size, PODS]
    )
    return kept, FlowPlan(asks, offers, _load(ssn, kept, offers), np.clip(slots, 0, 1 << 20))


def _offer(ssn: Session, task: Task) -> FittingRows:
    """Return the rows a task's class fits on, with their scores and how many of its tasks each can take."""
    from strato.scheduler.optimal.plan import FittingRows

    rows = ssn.placer.rows_for(ssn, task, ssn.kernel_flags)
    if not rows.size:
        return FittingRows(rows, np.zeros(0), rows)
    return FittingRows(rows, ssn.placer.score_rows(ssn, task, rows), room_for(ssn, task.cls, rows))


def room_for(ssn: Session, cls: TaskClass, rows: Int64s) -> Int64s:
    """Return how many tasks of a class each row can take now, by the nodes' real vectors."""
    nodes = ssn.world.nodes
    room = np.full(len(rows), 1 << 20, np.int64)
    for column, need in enumerate(cls.request.tolist()):
        if need > 0:
            idle = nodes.idle[rows, column]
            future = idle + nodes.releasing[rows, column] - nodes.pipelined[rows, column]
            room = np.minimum(room, np.minimum(idle, future) // need)
        elif column < PODS:
            room[nodes.idle[rows, column] < 0] = 0
    if ssn.kernel_flags & LIMIT_PODS:
        room = np.minimum(room, nodes.pods_limit()[rows] - nodes.pods[rows])
    return np.maximum(room, 0)


class _Imagined(NamedTuple):
    """Columns of nodes as they would be with more tasks."""

    allocatable: Int64s
    idle: Int64s
    requested: Int64s
    scored: Int64s


class _Average(NamedTuple):
    """A task of average size."""

    request: Int64s
    scored_request: Int64s


def _load(ssn: Session, runs: list[EqualTasks], offers: list[FittingRows]) -> LoadPenalty:
    """Return the score points lost by filling nodes with tasks of average size, step by step."""
    from strato.scheduler.optimal.plan import LoadPenalty

    nodes = ssn.world.nodes
    counts = np.array([len(run.tasks) for run in runs])
    total = int(counts.sum())
    request = sum(
        (run.tasks[0].cls.request * len(run.tasks) for run in runs), start=np.zeros_like(runs[0].tasks[0].cls.request)
    )
    scored = sum((run.tasks[0].cls.scored_request * len(run.tasks) for run in runs), start=np.zeros(2, np.int64))
    average = _Average(request // total, scored // total)
    most = min(total, max(int(offer.room.max()) for offer in offers))
    begins = np.array([0, *(1 << i for i in range(most.bit_length()) if 1 << i < most)], np.int64)
    rows = np.unique(np.concatenate([offer.rows for offer in offers]))
    points = np.zeros((len(begins), nodes.size))
    every = np.arange(len(rows))
    first = None
    for i, begin in enumerate(begins.tolist()):
        imagined = _Imagined(
            nodes.allocatable[rows],
            nodes.idle[rows] - begin * average.request,
            nodes.requested[rows] + begin * average.request,
            nodes.scored[rows] + begin * average.scored_request,
        )
        score = resource_scores(imagined, average, every, ssn.terms)
        first = score if first is None else first
        points[i, rows] = first - score
    return LoadPenalty(begins, np.maximum.accumulate(points, axis=0))


def _settle(ssn: Session, runs: list[EqualTasks], plan: FlowPlan) -> list[Share]:
    """Solve, dropping gangs below their minimum, until all are whole; return where the tasks of each run go."""
    nodes = ssn.world.nodes
    requests = plan.by_offer([run.tasks[0].cls.request for run in runs])
    idle = np.minimum(nodes.idle, nodes.future_idle)
    while True:
        plan.solve()
        shares = plan.shares(requests, idle)
        short = _short_of_minimum(runs, [int(share.counts.sum()) for share in shares])
        if not short:
            return shares
        plan.drop(short)


def _short_of_minimum(runs: list[EqualTasks], placed: list[int]) -> list[int]:
    """Return the asks of gangs to drop: of those below their minimum, the last half in order (at least one)."""
    got: dict[str, int] = {}
    roles: dict[str, dict[str, int]] = {}
    asks: dict[str, list[int]] = {}
    for i, run in enumerate(runs):
        key, count = run.job.key, placed[i]
        got[key] = got.get(key, 0) + count
        asks.setdefault(key, []).append(i)
        if run.job.min_task:
            by_role = roles.setdefault(key, {})
            by_role[run.tasks[0].role] = by_role.get(run.tasks[0].role, 0) + count
    short = [
        key
        for key, indices in asks.items()
        if got[key] and not _is_whole(runs[indices[0]].job, got[key], roles.get(key))
    ]
    return [i for key in short[len(short) // 2 :] for i in asks[key]]


def _is_whole(job: Job, count: int, roles: dict[str, int] | None) -> bool:
    if job.ready + job.pending_best_effort + count < job.min_available:
        return False
    if not roles or job.min_available < sum(job.min_task.values()):
        return True
    return all(job.role_ready(role) + roles.get(role, 0) >= minimum for role, minimum in job.min_task.items())


def _charge(ssn: Session, stmt: Statement, tasks: list[Task], share: Share, allowed: int) -> list[int]:
    """Place tasks on the rows of a share as far as these have room; return the rows of the placed tasks."""
    room = np.minimum(room_for(ssn, tasks[0].cls, share.rows), share.counts)
    before = np.cumsum(room) - room
    rows: list[int] = np.repeat(share.rows, np.clip(allowed - before, 0, room)).tolist()
    if rows:
        ssn.world.nodes.charge_all(rows, tasks[0].cls, HELD)
        stmt.placed(tasks[: len(rows)], rows, ALLOCATED)
    return rows


def explain_waiting(ssn: Session, runs: list[EqualTasks], plan: FlowPlan) -> None:
    """Record for each waiting job the prices of its first tasks in the last network that was solved."""
    recorded: set[str] = set()
    for ask, run in enumerate(runs):
        job = run.job
        if job.key in recorded or not job.pending:
            continue
        recorded.add(job.key)
        cheapest, waiting = plan.cheapest(ask), plan.waiting(ask)
        place = "no node takes it" if cheapest is None else f"its cheapest place costs {cheapest:g}"
        numbers = {"waiting": waiting} | ({} if cheapest is None else {"place": cheapest})
        ssn.record_verdict(job, Verdict("flow", "FlowPrice", f"by price: {place}, waiting costs {waiting:g}", numbers))
