"""Counts of tasks by status, and what follows from them, for jobs and sub-jobs (spec scheduler-core 7.2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from strato.scheduler.model.ledger import ABSENT, JOB_MOVES
from strato.scheduler.model.tasks import (
    ALLOCATED,
    BINDING,
    BOUND,
    FAILED,
    PENDING,
    PIPELINED,
    RUNNING,
    STATUS_NAMES,
    SUCCEEDED,
    TaskClass,
)

Counts = list[int]
"""Number of tasks by status number."""
BEST_EFFORT: Final = ABSENT + 1
"""Index, in a role's counts, of pending tasks that request nothing. Index `ABSENT` is minus the number of all tasks, as
`count_roles` subtracts added tasks there; it is not read."""


class Growth(NamedTuple):
    """How the pods of an incomplete gang arrived, kept on the job; instants are monotonic seconds."""

    uid: str
    pods: int
    since: float
    longest_gap: float = 0.0


class Counted(Protocol):
    """What `RoleCounts` reads of a task."""

    cls: TaskClass
    role: str


class TaskCounts:
    """Counts of a job or sub-job, whose tasks are placed whole or not at all.

    Attributes:
        counts: Number of tasks by status.
        min_available: Tasks that are needed to run at all.
        pending_best_effort: Pending tasks that request nothing.
    """

    __slots__ = ()
    counts: Counts

    @property
    def min_available(self) -> int:
        """Tasks that are needed to run at all."""
        raise NotImplementedError

    @property
    def pending_best_effort(self) -> int:
        """Pending tasks that request nothing."""
        raise NotImplementedError

    @property
    def ready(self) -> int:
        """Tasks that hold or held a place: Bound, Binding, Running, Allocated, Succeeded."""
        c = self.counts
        return c[BOUND] + c[BINDING] + c[RUNNING] + c[ALLOCATED] + c[SUCCEEDED]

    @property
    def waiting(self) -> int:
        """Pipelined tasks."""
        return self.counts[PIPELINED]

    @property
    def allocated_count(self) -> int:
        """Tasks in allocated statuses."""
        c = self.counts
        return c[BOUND] + c[BINDING] + c[RUNNING] + c[ALLOCATED]

    @property
    def scheduled(self) -> int:
        """Tasks that ran or are about to: Running, Bound, Succeeded, Failed."""
        c = self.counts
        return c[RUNNING] + c[BOUND] + c[SUCCEEDED] + c[FAILED]

    @property
    def valid(self) -> int:
        """Tasks that count towards a complete gang."""
        c = self.counts
        return c[PENDING] + c[BOUND] + c[BINDING] + c[RUNNING] + c[ALLOCATED] + c[SUCCEEDED] + c[PIPELINED]

    @property
    def is_ready(self) -> bool:
        """Whether enough tasks have a place (pending best-effort ones count)."""
        c = self.counts
        placed = c[BOUND] + c[BINDING] + c[RUNNING] + c[ALLOCATED] + c[SUCCEEDED]
        return placed + self.pending_best_effort >= self.min_available

    @property
    def is_pipelined(self) -> bool:
        """Whether enough tasks have a place or are pipelined."""
        return self.waiting + self.ready + self.pending_best_effort >= self.min_available

    @property
    def missing(self) -> int:
        """How many more tasks must be placed before it is ready; at least 1."""
        return max(self.min_available - self.ready - self.pending_best_effort, 1)

    @property
    def is_starving(self) -> bool:
        """Whether fewer tasks than the minimum have a place or are pipelined."""
        return self.waiting + self.ready < self.min_available

    def describe_counts(self) -> str:
        """Return the counts as messages show them: ``1 Pending, 2 Running, 3 minAvailable``, sorted."""
        parts = [f"{n} {STATUS_NAMES[s]}" for s, n in enumerate(self.counts) if n]
        parts.append(f"{self.min_available} minAvailable")
        return ", ".join(sorted(parts))


class RoleCounts(TaskCounts):
    """Counts of a job, with minima by role.

    Attributes:
        min_task: Tasks that are needed of each role (``volcano.sh/task-spec``).
        role_counts: Counts by role; only kept while there are such minima.
    """

    __slots__ = ()
    min_task: Mapping[str, int]
    role_counts: dict[str, Counts]

    def _roles_apply(self) -> bool:
        return bool(self.min_task) and self.min_available >= sum(self.min_task.values())

    def roles_valid(self) -> bool:
        """Whether every role has enough tasks that count (CheckTaskValid)."""
        if not self.min_task or not self._roles_apply():
            return True
        for role, minimum in self.min_task.items():
            if self._role(role, pending=True) + self._role_pipelined(role) < minimum:
                return False
        return True

    def roles_ready(self) -> bool:
        """Whether every role has its minimum placed (CheckTaskReady)."""
        if not self.min_task or not self._roles_apply():
            return True
        for role, minimum in self.min_task.items():  # noqa: SIM110 -- asked of every job, and a generator costs as much
            if self.role_ready(role) < minimum:
                return False
        return True

    def roles_pipelined(self) -> bool:
        """Whether every role has its minimum placed or pipelined (CheckTaskPipelined)."""
        return not self._roles_apply() or all(
            self.role_ready(role) + self._role_pipelined(role) >= minimum for role, minimum in self.min_task.items()
        )

    def role_ready(self, role: str) -> int:
        """Return the role's placed tasks plus its pending best-effort ones."""
        counts = self.role_counts.get(role)
        return 0 if counts is None else self._role(role) + counts[BEST_EFFORT]

    def _role(self, role: str, *, pending: bool = False) -> int:
        c = self.role_counts.get(role)
        if c is None:
            return 0
        return c[BOUND] + c[BINDING] + c[RUNNING] + c[ALLOCATED] + c[SUCCEEDED] + (c[PENDING] if pending else 0)

    def _role_pipelined(self, role: str) -> int:
        c = self.role_counts.get(role)
        return 0 if c is None else c[PIPELINED]

    def missing_until_ready(self, role: str) -> int:
        """Return how many more tasks of a role must be placed before the gang can be ready; at least 1.

        1 for a ready job, because it gets one task per visit. A number above that of its tasks means that placing this
        role alone cannot make it ready.
        """
        missing = self.min_available - self.ready - self.pending_best_effort
        if self._roles_apply():
            for name, minimum in self.min_task.items():
                lacking = minimum - self.role_ready(name)
                if lacking > 0:
                    if name != role:
                        return 1 << 30
                    missing = max(missing, lacking)
        return max(missing, 1)

    def count_roles(self, tasks: Sequence[Counted], old: int, status: int) -> None:
        """Move equal tasks to another status in the counts of their roles."""
        roles, best_effort = self.role_counts, JOB_MOVES[old][status].pending * tasks[0].cls.best_effort
        for task in tasks:
            counts = roles.get(task.role)
            if counts is None:
                counts = roles[task.role] = [0] * (BEST_EFFORT + 1)
            counts[old] -= 1
            counts[status] += 1
            counts[BEST_EFFORT] += best_effort
