"""`Statement`: changes of the session that are committed or undone as a whole (spec scheduler-core 9.7)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from strato.scheduler.framework.pluginanswers import PluginAnswers
from strato.scheduler.model.jobs import Task
from strato.scheduler.model.ledger import NODE_MOVES
from strato.scheduler.model.plan import Eviction, Transaction, binds
from strato.scheduler.model.tasks import ALLOCATED, BINDING, PENDING, PIPELINED, RELEASING, RUNNING, TaskClass


class _Op(NamedTuple):
    kind: int
    tasks: Sequence[Task]
    reason: str = ""
    evicted: bool = False
    beneficiary: str = ""
    moves_to: str = ""
    before: int = RUNNING
    """Status of a victim when it was evicted."""


class Saved(NamedTuple):
    """One operation, and the row that each of its tasks had."""

    op: _Op
    rows: tuple[int, ...]


class Statement:
    """A log of operations. Each takes effect when it is made; `discard` undoes them exactly, in reverse order."""

    __slots__ = ("_began", "_moves", "_ops", "_ssn")

    def __init__(self, ssn: PluginAnswers) -> None:
        self._ssn = ssn
        self._ops: list[_Op] = []
        self._began = 0  # `Session.moves` before the first operation
        self._moves = 0  # how many moves this statement has made since

    @property
    def is_empty(self) -> bool:
        """Whether it has no operations."""
        return not self._ops

    @property
    def has_evictions(self) -> bool:
        """Whether any of its operations is an eviction."""
        return any(op.kind == RELEASING for op in self._ops)

    @property
    def beneficiaries(self) -> list[Task]:
        """Tasks that it places or pipelines."""
        return [task for op in self._ops if op.kind != RELEASING for task in op.tasks]

    def placed(self, tasks: Sequence[Task], rows: Sequence[int], status: int, *, evicted: bool = False) -> None:
        """Record the placement of tasks whose rows a kernel has charged already; status is ALLOCATED or PIPELINED."""
        self._ssn.world.place_batch(tasks, rows, status)
        self._ssn.temporary.extend(tasks)
        self._log(_Op(status, tasks, evicted=evicted))
        self._ssn.fire_placed(tasks)

    def pipeline(self, task: Task, row: int, *, evicted: bool) -> None:
        """Promise a task the resources that will be free on a row once its leaving pods are gone."""
        self._ssn.world.move(task, PIPELINED, row)
        self._ssn.temporary.append(task)
        self._log(_Op(PIPELINED, (task,), evicted=evicted))
        self._ssn.fire_placed((task,))

    def evict(self, task: Task, reason: str, beneficiary: str = "", moves_to: str = "") -> None:
        """Mark a running or bound task as Releasing.

        Args:
            task: The victim.
            reason: For its events and conditions.
            beneficiary: Key of the pod it is evicted for; empty for none.
            moves_to: Node on which a place is kept for its successor; empty for none.
        """
        status = task.status
        self._ssn.world.move(task, RELEASING, task.row)
        self._log(_Op(RELEASING, (task,), reason, False, beneficiary, moves_to, status))
        self._ssn.fire_removed((task,))

    def spare(self, task: Task) -> None:
        """Undo one eviction of this statement: the task gets the status it had before."""
        at = next(i for i, op in enumerate(self._ops) if op.kind == RELEASING and op.tasks[0] is task)
        self._ssn.world.move(task, self._ops.pop(at).before, task.row)
        self._moves += 1
        self._ssn.fire_placed((task,))

    def merge(self, other: Statement) -> None:
        """Move another statement's operations into this one; the other is empty afterwards."""
        if not self._ops:
            self._began, self._moves = other._began, 0
        self._ops += other._ops
        self._moves += other._moves
        other._ops = []

    def saved(self) -> list[Saved]:
        """Return the operations, for `replay` after a `discard`."""
        return [Saved(op, tuple(task.row for task in op.tasks)) for op in self._ops]

    def replay(self, saved: Sequence[Saved]) -> None:
        """Repeat the saved operations of another statement; the session must be as it was when they were made."""
        table = self._ssn.world.nodes
        for op, rows in saved:
            if op.kind == RELEASING:
                self.evict(op.tasks[0], op.reason, op.beneficiary, op.moves_to)
                continue
            table.charge_all(rows, op.tasks[0].cls, NODE_MOVES[PENDING][op.kind])
            self.placed(op.tasks, rows, op.kind, evicted=op.evicted)

    @property
    def count_placed(self) -> int:
        """How many tasks it places or pipelines."""
        return sum(len(op.tasks) for op in self._ops if op.kind != RELEASING)

    def commit(self) -> None:
        """Put binds and evictions into the plan; pipelined tasks keep their place until the session ends.

        If the evictions would be in vain, `discard` everything instead: when the beneficiary of a victim has no place
        in this statement, or its node will be too small even after all victims have left. Likewise while the job that
        evicts has to wait because its earlier evictions brought it nothing (`strato.scheduler.cache.evictionrounds`).
        """
        if self.has_evictions and not (self._proven() and self._begins_round()):
            self.discard()
            return
        ssn = self._ssn
        names = ssn.world.nodes.names
        for op in self._ops:
            if op.kind == ALLOCATED:
                ssn.world.restatus(op.tasks, BINDING)
                ssn.plan.binds.extend(binds(op.tasks, names))
            elif op.kind == RELEASING:
                (victim,) = op.tasks
                ssn.world.begin_eviction(victim, op.beneficiary)
                ssn.plan.evictions.append(Eviction(victim, op.reason, op.reason, op.beneficiary, op.moves_to))
            if op.evicted:
                ssn.nominated.update((task.key, task.row) for task in op.tasks)
        self._ops = []

    def _begins_round(self) -> bool:
        """Note an eviction round of the beneficiaries' jobs, unless `EvictionRounds` has one of them wait.

        Returns:
            Whether the round was noted; otherwise the plan says when to decide again.
        """
        ssn, rounds = self._ssn, self._ssn.world.eviction_rounds
        found = [ssn.world.tasks.get(op.beneficiary) for op in self._ops if op.beneficiary]
        jobs = {task.job.key: task.job for task in found if task is not None and task.job is not None}
        wait = max((rounds.wait_seconds(job, ssn.now) for job in jobs.values()), default=0.0)
        if wait:
            plan = ssn.plan
            plan.again_seconds = min(plan.again_seconds, wait) if plan.again_seconds else wait
            return False
        rounds.note(jobs.values(), ssn.now)
        return True

    def _proven(self) -> bool:
        """Whether every beneficiary is placed here, on a node with enough room once all victims have left."""
        nodes = self._ssn.world.nodes
        placed = {task.key: task for task in self.beneficiaries}
        rows: dict[TaskClass, list[int]] = {}
        for op in self._ops:
            if op.kind == RELEASING and op.beneficiary:
                task = placed.get(op.beneficiary)
                if task is None or task.row < 0:
                    return False
                rows.setdefault(task.cls, []).append(task.row)
        for cls, at in rows.items():
            left = nodes.future_idle_of(np.array(at, np.int64))
            if (left[:, cls.request > 0] < 0).any():
                return False
        return True

    def discard(self, *, remember: bool = True) -> None:
        """Undo all operations, last first.

        Args:
            remember: Whether to keep the places in ``transactions``, from which pod conditions name them.
        """
        ssn = self._ssn
        alone = bool(self._ops) and ssn.moves - self._began == self._moves
        for op in reversed(self._ops):
            for task in op.tasks if remember else ():
                ssn.transactions[task.key] = Transaction(task.status, task.row, op.evicted)
            if len(op.tasks) > 1 and all(task.status == op.kind for task in op.tasks):
                ssn.world.unplace_batch(op.tasks)
            else:
                for task in reversed(op.tasks):
                    if op.kind == RELEASING:
                        ssn.world.move(task, op.before, task.row)
                    else:
                        ssn.world.move(task, PENDING)
            (ssn.fire_placed if op.kind == RELEASING else ssn.fire_removed)(op.tasks)
        self._ops = []
        if alone:  # only this statement has changed the world since it began, so the world is as it was then
            ssn.undone = ssn.world.version - self._began

    def _log(self, op: _Op) -> None:
        """Append an operation; each has grown ``world.version`` by one."""
        if not self._ops:
            self._began, self._moves = self._ssn.moves - 1, 0
        self._ops.append(op)
        self._moves += 1
