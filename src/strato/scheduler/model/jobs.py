"""Jobs (one PodGroup and its tasks) and queues, with every count and sum kept current as tasks move.

Nothing here loops over tasks to answer a question a plugin asks often: counts per status, requests of the pending and
of the placed, and per role where the group asks for minima, are kept by `Job.shift`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from strato.api.volcano.scheduling import PodGroup
from strato.api.volcano.scheduling import Queue as QueueView
from strato.scheduler.model.ledger import ABSENT, JOB_MOVES, UNCHARGED
from strato.scheduler.model.resources import Dimensions, Vector
from strato.scheduler.model.tasks import (
    ALLOCATED,
    BINDING,
    BOUND,
    FAILED,
    PENDING,
    PIPELINED,
    RUNNING,
    STATUS_COUNT,
    STATUS_NAMES,
    SUCCEEDED,
    Task,
    TaskClass,
)

if TYPE_CHECKING:
    from strato.scheduler.model.plan import PodVerdict
    from strato.scheduler.model.subjobs import Layout

PHASE_PENDING: Final = "Pending"
PHASE_INQUEUE: Final = "Inqueue"
PHASE_RUNNING: Final = "Running"
PHASE_UNKNOWN: Final = "Unknown"
PHASE_COMPLETED: Final = "Completed"

JOB_FACTS: Final = frozenset(
    ("created", "min_available", "minimum", "name", "namespace", "priority", "roles", "uid", "waiting_seconds")
)
"""Attributes of a job that a plugin may say it looks at (`strato.scheduler.framework.Plugin.job_facts`)."""

Counts = list[int]
"""Number of tasks by status number."""
_BEST_EFFORT: Final = ABSENT + 1
"""In a role's counts: the pending tasks that request nothing. At `ABSENT` is what makes the sum of the others 0."""


class Growth(NamedTuple):
    """How a gang's pods came, kept on the job; instants are monotonic seconds."""

    uid: str
    pods: int
    since: float
    longest_gap: float = 0.0


class Job:
    """A PodGroup and its tasks; the unit that is placed whole or not at all.

    Attributes:
        key: ``namespace/podgroup``; group-less pods of the default scheduler get ``namespace/pod:NAME``.
        group: The PodGroup, None while it is unknown.
        growth: How its pods came while it was incomplete; kept by the reports.
        phase: The group's phase as last decided here or read.
        tasks: Every task by key; ``pending`` only those in status Pending.
        counts: Number of tasks by status; ``pending_best_effort`` of the pending ones that request nothing.
        role_counts: Per role (``volcano.sh/task-spec``) the counts; the pending best-effort ones are at the end.
        used: Σ requests of tasks that hold resources (allocated statuses and pipelined).
        pending_request: Σ requests of pending tasks.
        min_resources: The group's ``spec.minResources``; None when not given. ``min_columns`` its columns.
        gated: Tasks with scheduling gates.
        solo: Made for one pod without a group; has no PodGroup to write.
        layout: Its sub-jobs and network topology; None for the many jobs that have neither.
    """

    __slots__ = (
        "conditions",
        "counts",
        "created",
        "elastic",
        "gated",
        "group",
        "growth",
        "inqueue",
        "key",
        "layout",
        "min_available",
        "min_columns",
        "min_resources",
        "min_task",
        "name",
        "namespace",
        "pending",
        "pending_best_effort",
        "pending_request",
        "phase",
        "preemptable",
        "priority",
        "queue",
        "queue_name",
        "role_counts",
        "solo",
        "tasks",
        "told",
        "uid",
        "used",
        "waiting_seconds",
    )

    def __init__(self, key: str, dims: Dimensions) -> None:
        self.key = key
        self.namespace, _, self.name = key.partition("/")
        self.group: PodGroup | None = None
        self.growth: Growth | None = None
        self.phase = ""
        self.queue_name = ""
        self.queue: Queue | None = None
        self.uid = ""
        self.created = ""
        self.priority = 0
        self.preemptable = False
        self.waiting_seconds: float | None = None
        self.min_available = 0
        self.min_task: Mapping[str, int] = {}
        self.min_resources: Vector | None = None
        self.min_columns: tuple[int, ...] = ()
        self.tasks: dict[str, Task] = {}
        self.pending: dict[str, Task] = {}
        self.counts: Counts = [0] * STATUS_COUNT
        self.pending_best_effort = 0
        self.role_counts: dict[str, Counts] = {}
        self.used = dims.zeros()
        self.pending_request = dims.zeros()
        self.inqueue: Vector | None = None
        self.elastic: Vector | None = None
        self.gated = 0
        self.solo = False
        self.layout: Layout | None = None
        self.conditions: dict[str, tuple[str, str, str]] = {}
        self.told: tuple[str, Sequence[PodVerdict]] | None = None
        """What the last session said of its pods, and the words that all of them share; None when they share none."""

    def __repr__(self) -> str:
        return f"Job({self.key} {self.phase or '-'} {self.describe_counts()})"

    # -- counters (spec scheduler-core 7.2) --------------------------------------------------------------------------

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
        """Whether enough tasks have a place or expect one."""
        return self.waiting + self.ready + self.pending_best_effort >= self.min_available

    @property
    def is_starving(self) -> bool:
        """Whether fewer tasks than the minimum have or expect a place."""
        return self.waiting + self.ready < self.min_available

    @property
    def is_waiting_for_queue(self) -> bool:
        """Whether it has not been enqueued yet (spec: IsPending)."""
        return (self.group is None and not self.solo) or self.phase in ("", PHASE_PENDING)

    @property
    def roles(self) -> tuple[tuple[str, int], ...]:
        """Least number of tasks by role, as the group names them."""
        return tuple(self.min_task.items()) if self.min_task else ()

    @property
    def minimum(self) -> tuple[tuple[str, str | int | float], ...] | None:
        """What the group asks for in all before it may begin, as written; None when not given."""
        asked = self.group.spec.min_resources if self.group is not None else None
        return None if asked is None else tuple(asked.items())

    def _roles_apply(self) -> bool:
        return bool(self.min_task) and self.min_available >= sum(self.min_task.values())

    def roles_valid(self) -> bool:
        """Whether every role has enough tasks that count (CheckTaskValid)."""
        if not self.min_task or not self._roles_apply():
            return True
        for role, minimum in self.min_task.items():
            if minimum and self._role(role, pending=True) + self._role_pipelined(role) < minimum:
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
        """Whether every role has its minimum placed or expected (CheckTaskPipelined)."""
        return not self._roles_apply() or all(
            self.role_ready(role) + self._role_pipelined(role) >= minimum for role, minimum in self.min_task.items()
        )

    def roles_starving(self) -> bool:
        """Whether a role has less than its minimum placed or expected; True when minima do not apply."""
        return not self._roles_apply() or any(
            self._role(role) + self._role_pipelined(role) < minimum for role, minimum in self.min_task.items()
        )

    def role_ready(self, role: str) -> int:
        """Return the role's placed tasks plus its pending best-effort ones."""
        counts = self.role_counts.get(role)
        return 0 if counts is None else self._role(role) + counts[_BEST_EFFORT]

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

        0 is never returned: a ready job takes one task per visit. A large number means that placing this role alone
        does not make it ready.
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

    def describe_counts(self) -> str:
        """Return the counts as messages show them: ``1 Pending, 2 Running, 3 minAvailable``, sorted."""
        parts = [f"{n} {STATUS_NAMES[s]}" for s, n in enumerate(self.counts) if n]
        parts.append(f"{self.min_available} minAvailable")
        return ", ".join(sorted(parts))

    def shift(self, tasks: Sequence[Task], old: int, status: int) -> None:
        """Count equal tasks under another status, here and in the queue; `ABSENT` for those that come or go."""
        count, cls, counts = len(tasks), tasks[0].cls, self.counts
        if old != ABSENT:
            counts[old] -= count
        if status != ABSENT:
            counts[status] += count
        if self.min_task:
            self._count_roles(tasks, old, status)
        if self.layout is not None and self.layout.split:
            for task in tasks:
                if task.sub is not None:
                    task.sub.count(task, old, -1)
                    task.sub.count(task, status, 1)
        by = JOB_MOVES[old][status]
        if by is UNCHARGED.job:
            return
        amount = cls.request if count == 1 else cls.request * count
        if by.pending > 0:
            for task in tasks:
                self.pending[task.key] = task
        elif by.pending and count == len(self.pending):
            self.pending.clear()
        elif by.pending:
            for task in tasks:
                del self.pending[task.key]
        if cls.best_effort:
            self.pending_best_effort += by.pending * count
        for holder in (self, self.queue):
            if holder is None:
                continue
            asked, used = holder.pending_request, holder.used
            if by.pending > 0:
                asked += amount
            elif by.pending:
                asked -= amount
            if by.used > 0:
                used += amount
            elif by.used:
                used -= amount

    def repair(self) -> bool:
        """Compute all that `shift` keeps anew from the tasks, for the job alone; return whether it had been wrong."""
        fresh = Job(self.key, Dimensions(len(self.used)))
        fresh.min_task = self.min_task
        equal: dict[tuple[TaskClass, int], list[Task]] = {}
        for task in self.tasks.values():
            equal.setdefault((task.cls, task.status), []).append(task)
        for (_, status), tasks in equal.items():
            fresh.shift(tasks, ABSENT, status)
        gated = sum(task.gated for task in self.tasks.values())
        right = (
            (self.counts, self.pending_best_effort, self.gated) == (fresh.counts, fresh.pending_best_effort, gated)
            and self.pending.keys() == fresh.pending.keys()
            and (self.used == fresh.used).all()
            and (self.pending_request == fresh.pending_request).all()
            and _named(self.role_counts) == _named(fresh.role_counts)
        )
        if not right:
            self.counts[:], self.pending_best_effort, self.gated = fresh.counts, fresh.pending_best_effort, gated
            self.pending, self.used, self.pending_request = fresh.pending, fresh.used, fresh.pending_request
            self.role_counts = fresh.role_counts
        subs = self.layout.subs.values() if self.layout is not None else ()
        return any([not right, *[sub.repair() for sub in subs]])

    def track_roles(self) -> None:
        """Rebuild the counts per role from the tasks; only kept while the group asks for minima."""
        self.role_counts = {}
        if self.min_task:
            for task in self.tasks.values():
                self._count_roles((task,), ABSENT, task.status)

    def _count_roles(self, tasks: Sequence[Task], old: int, status: int) -> None:
        """Count equal tasks under another status of their roles."""
        roles, best_effort = self.role_counts, JOB_MOVES[old][status].pending * tasks[0].cls.best_effort
        for task in tasks:
            counts = roles.get(task.role)
            if counts is None:
                counts = roles[task.role] = [0] * (_BEST_EFFORT + 1)
            counts[old] -= 1
            counts[status] += 1
            counts[_BEST_EFFORT] += best_effort


def _named(roles: Mapping[str, Counts]) -> dict[str, Counts]:
    """Return the counts of the roles that have tasks."""
    return {role: counts for role, counts in roles.items() if any(counts)}


class Queue:
    """A queue and the sums over its jobs.

    Attributes:
        view: The Queue object; None while it is unknown (jobs of an unknown queue are left alone).
        jobs: Jobs that name it, with a PodGroup (or solo).
        used, pending_request, inqueue, elastic: Sums over its jobs; the last two are current after `World.settle`.
        capability, deserved, guarantee: ``column -> amount`` as declared.
    """

    __slots__ = (
        "capability",
        "deserved",
        "elastic",
        "guarantee",
        "inqueue",
        "jobs",
        "name",
        "pending_request",
        "used",
        "view",
    )

    def __init__(self, name: str, dims: Dimensions) -> None:
        self.name = name
        self.view: QueueView | None = None
        self.jobs: dict[str, Job] = {}
        self.used = dims.zeros()
        self.pending_request = dims.zeros()
        self.inqueue = dims.zeros()
        self.elastic = dims.zeros()
        self.capability: dict[int, int] = {}
        self.deserved: dict[int, int] = {}
        self.guarantee: dict[int, int] = {}

    def __repr__(self) -> str:
        return f"Queue({self.name}, {len(self.jobs)} jobs)"

    def repair(self) -> bool:
        """Compute its sums anew from those of its jobs; return whether they had been wrong."""
        before = self.used, self.pending_request, self.inqueue, self.elastic
        jobs, nothing = self.jobs.values(), np.zeros_like(self.used)
        self.used = np.array([nothing, *[job.used for job in jobs]]).sum(axis=0)
        self.pending_request = np.array([nothing, *[job.pending_request for job in jobs]]).sum(axis=0)
        self.inqueue = np.array([nothing, *[job.inqueue for job in jobs if job.inqueue is not None]]).sum(axis=0)
        self.elastic = np.array([nothing, *[job.elastic for job in jobs if job.elastic is not None]]).sum(axis=0)
        after = self.used, self.pending_request, self.inqueue, self.elastic
        return any((old != new).any() for old, new in zip(before, after, strict=True))

    @property
    def weight(self) -> int:
        """Share weight."""
        return self.view.spec.weight if self.view is not None else 1

    @property
    def priority(self) -> int:
        """Higher goes first."""
        return self.view.spec.priority if self.view is not None else 0

    @property
    def parent(self) -> str:
        """Parent queue's name, empty when not given."""
        return self.view.spec.parent if self.view is not None else ""

    @property
    def is_open(self) -> bool:
        """Whether it takes new work; one that no controller has looked at yet does."""
        return self.view is not None and self.view.status.state in ("", "Open")

    @property
    def state(self) -> str:
        """State as written in its status."""
        return self.view.status.state if self.view is not None else ""

    @property
    def reclaimable(self) -> bool:
        """Whether what it borrowed may be taken back; nothing is taken from the jobs of a queue that is unknown."""
        return self.view is not None and self.view.spec.reclaimable is not False

    @property
    def created(self) -> str:
        """Creation time, RFC 3339."""
        return (self.view.metadata.creation_timestamp or "") if self.view is not None else ""

    @property
    def uid(self) -> str:
        """Identity."""
        return self.view.metadata.uid if self.view is not None else ""
