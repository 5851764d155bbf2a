"""`CycleContext`: the world a cycle decides on, and its notes and plan so far; plugins read both and add notes."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from strato.scheduler.cache.world import World
from strato.scheduler.model.jobs import Job, Task
from strato.scheduler.model.nodes import Mask
from strato.scheduler.model.plan import Notes, Plan, Transaction
from strato.scheduler.model.queues import Queue
from strato.scheduler.model.reasons import Verdict
from strato.scheduler.model.resources import Vector
from strato.scheduler.model.tasks import RELEASING, TaskClass
from strato.scheduler.topology.domains import Domains, Search
from strato.scheduler.topology.hypernodes import HyperNodeTree


class CycleContext(ABC):
    """One cycle, as plugins see it.

    Args:
        world: The scheduler's view of the cluster; changed in place, see `World`.
        now: Seconds since the epoch.
        rng: Decides ties that the specification leaves to chance.
        uid: Identity of the session.

    Attributes:
        plan: What was decided so far.
        notes: By job key, the notes on the jobs that were tried.
        temporary: Tasks that were placed or pipelined in this cycle.
        transactions: By task key, the place that a discarded statement had for it.
        rejudged: How often plugins changed their judgement of tasks although nothing was placed or removed.
        undone: How many changes of the world were made by statements and then undone.
        nominated: By task key, the row that an eviction makes room on.
        queue_facts: By queue, what plugins computed about its share; for its status and metrics.
        reports_queues: Whether the plan gets the statuses of queues; otherwise ``queue_facts`` is not read.
        search: The search within network domains that placements are part of; None places on any node.
        is_pooled: Whether queues are restricted to groups of nodes, so that shares are computed per group.
        promising: Whether nodes are judged as they will be once all leaving pods are gone.
    """

    def __init__(self, world: World, *, now: float, rng: random.Random, uid: str) -> None:
        self.world = world
        self.now = now
        self.rng = rng
        self.uid = uid
        self.plan: Plan = Plan(uid)
        self.notes: dict[str, Notes] = {}
        self._share_numbers: tuple[tuple[int, str, int], Mapping[str, float]] = (-1, "", -1), {}
        self.temporary: list[Task] = []
        self.transactions: dict[str, Transaction] = {}
        self.rejudged = 0
        self.undone = 0
        self.nominated: dict[str, int] = {}
        self.queue_facts: dict[str, Any] = {}
        self.reports_queues = True
        self.search: Search | None = None
        self.promising = False
        self.is_pooled = False
        self._domains: Domains | None = None

    # -- the world -----------------------------------------------------------------------------------------------------

    @property
    def total(self) -> Vector:
        """Amounts that queues share, by the configuration's rule (`strato.scheduler.cache.totals`)."""
        return self.world.totals.total

    @property
    def domains(self) -> Domains:
        """The network topology in this session, with what was computed from it."""
        if self._domains is None:
            self._domains = Domains(self.world.hyper_nodes.tree())
        return self._domains

    @property
    def tree(self) -> HyperNodeTree:
        """The network domains."""
        return self.domains.tree

    @contextmanager
    def searching(self, search: Search | None) -> Iterator[None]:
        """Restrict placements to a search inside the context; None lifts the restriction."""
        outer, self.search = self.search, search
        try:
            yield
        finally:
            self.search = outer

    @contextmanager
    def promises(self) -> Iterator[None]:
        """Judge nodes inside the context as they will be once all leaving pods are gone."""
        outer, self.promising = self.promising, True
        try:
            yield
        finally:
            self.promising = outer

    def met_on(self, row: int) -> Iterable[Task]:
        """Return the tasks that a task placed on a row would share it with; under `promises` not the leaving ones."""
        there = self.world.nodes.tasks[row].values()
        return [task for task in there if task.status != RELEASING] if self.promising else there

    # -- notes ---------------------------------------------------------------------------------------------------------

    def note(self, job: Job) -> Notes:
        """Return the session's notes on a job."""
        notes = self.notes.get(job.key)
        if notes is None:
            notes = self.notes[job.key] = Notes()
        return notes

    @staticmethod
    def fresh_notes() -> Notes:
        """Return notes of their own for a trial placement, which may be given up."""
        return Notes()

    @property
    def moves(self) -> int:
        """A number that grows with every change of the world, and falls back when a statement undoes its changes."""
        return self.world.version - self.undone

    def nearly_placed(self, job: Job) -> bool:
        """Whether a discarded statement had a place for a pending task of a job; its pods' conditions say so."""
        transactions = self.transactions
        return bool(transactions) and not transactions.keys().isdisjoint(job.pending)

    def record_verdict(self, job: Job, verdict: Verdict) -> None:
        """Record what holds a job back."""
        self.note(job).verdicts.append(verdict)

    def share_numbers(self, queue: Queue, cls: TaskClass) -> Mapping[str, float]:
        """Return what a queue uses and a class requests, in internal units by name; cached until the world changes."""
        key = self.world.version, queue.name, cls.number
        if self._share_numbers[0] != key:
            describe = self.world.dims.describe
            numbers = {f"used {name}": amount for name, amount in describe(queue.used.tolist()).items()}
            numbers |= {f"request {name}": amount for name, amount in describe(cls.request.tolist()).items()}
            self._share_numbers = key, numbers
        return self._share_numbers[1]

    # -- what all plugins say together ---------------------------------------------------------------------------------

    @abstractmethod
    def facet(self, task: Task) -> tuple[Hashable, ...]:
        """Return the facets that plugins give a task, which tell it from others of its class; empty without such."""

    @abstractmethod
    def sorted_tasks(self, tasks: Iterable[Task]) -> list[Task]:
        """Return tasks in the plugins' order."""

    @abstractmethod
    def victims_in_order(self, victims: Sequence[Task], preemptor: Task) -> list[Task]:
        """Return victims in the order in which to evict them."""

    @abstractmethod
    def usable_rows(self, task: Task) -> Mask:
        """Return bool[rows known of the task's class]: nodes that pass all filters that do not look at pods."""

    @abstractmethod
    def fit_error(self, job: Job) -> str:
        """Return why a job does not fit, as worded in spec scheduler-core 7.4."""
