"""`Accounts`: nodes, tasks, jobs and queues, with the columns, counts and sums that follow from tasks' statuses.

`Accounts.move` changes a task, `restatus`, `place_batch` and `unplace_batch` many equal ones. All of them update the
sums by the table in `strato.scheduler.model.ledger`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from strato.api.core import PodSpec, ResourceQuota
from strato.api.meta import Object
from strato.api.scheduling import PriorityClass
from strato.api.volcano.scheduling import PodGroupSpec
from strato.scheduler.cache import ingest, repair
from strato.scheduler.cache.affinity import AffinityIndex
from strato.scheduler.cache.evictionrounds import EvictionRounds
from strato.scheduler.cache.evictions import Evictions
from strato.scheduler.cache.journal import NO_JOURNAL
from strato.scheduler.cache.neighbours import Neighbours
from strato.scheduler.cache.replies import KnownReplies
from strato.scheduler.cache.runtimes import RunTimes
from strato.scheduler.cache.shards import Shards
from strato.scheduler.cache.totals import Totals
from strato.scheduler.cache.usage import Usages
from strato.scheduler.cache.usageaverages import UsageAverages
from strato.scheduler.claims.devices import Devices
from strato.scheduler.claims.reservations import Reservations
from strato.scheduler.claims.volumes import Volumes
from strato.scheduler.model.jobs import PHASE_INQUEUE, PHASE_RUNNING, Job, Task
from strato.scheduler.model.ledger import ABSENT, NODE_MOVES
from strato.scheduler.model.nodelabels import NodeLabels
from strato.scheduler.model.nodes import NodeTable
from strato.scheduler.model.queues import Queue
from strato.scheduler.model.resources import Dimensions, Vector, fit_width
from strato.scheduler.model.tasks import AGENT_SCHEDULER, ALLOCATED_SET, PENDING, PIPELINED, TaskClass, grow_class
from strato.scheduler.topology.hypernodes import HyperNodes, HyperNodeTree

DEFAULT_QUEUE = "default"
DEFAULT_SCHEDULER = "default-scheduler"
FLOW_SCHEDULER = "poseidon"
"""Pods that name it are placed by the action `flow`, also where the configuration has `allocate`."""


@dataclass(slots=True)
class NamespaceQuotas:
    """ResourceQuotas of a namespace by name."""

    by_name: dict[str, ResourceQuota] = field(default_factory=dict)


class Accounts:
    """Nodes, tasks, jobs and queues.

    Args:
        names: Values of ``spec.schedulerName`` this scheduler serves; empty serves every pod (dry runs of bare
            manifests).
        default_queue: Queue of groups that name none.
        solo: Scheduler names whose pods become one-pod jobs of their own when they have no group. Pods of other names
            wait for the group that a controller makes for them.

    Attributes:
        totals: The amounts that queues share.
        with_pending: Jobs that have pending tasks.
        for_flow: Keys of the jobs whose pods name `FLOW_SCHEDULER`.
        flow_loaded: Whether the kernels of the action `flow` are loaded; until then `allocate` places all jobs.
        flow_wanted: Whether `flow` had a job to place while its kernels were not loaded.
        affinity: Rules of pods about other pods.
        namespaces: Labels of namespaces, by name.
        neighbours: Counts of matching pods per node.
        labels: Node selectors, evaluated over all nodes at once.
        evictions: The evictions under way, with their beneficiaries.
        reservations: Volumes and devices that placed tasks were given.
        volumes: Claims for storage, and the volumes for them.
        devices: Claims for devices, and the devices for them.
        usage_averages: Averages of past use, by plugin.
        runtimes: How long pods run.
        shards: The nodes of this scheduler when several share the cluster.
        hyper_nodes: The network domains the nodes lie in.
        laid_out: Jobs that are split into sub-jobs or ask for a network topology.
        recovered: The domain tree for which `recover_domains` last looked at all of those jobs.
        objects: Objects kept as they are for the plugins that look them up, by view and key (``namespace/name``).
        plugin_state: State that plugins keep between sessions, by plugin.
        usages: What nodes really use, as last measured.
        waiting_for_queue: Jobs whose group has not been enqueued.
        changed: Jobs whose group status may have to be written again.
        dirty_jobs: Keys of the jobs in which something changed that a decision depends on, since `dirty_for` read them.
        status_dirty: Keys of the jobs whose PodGroup was read again, likewise.
        dirty_for: The `JobClasses` that reads and clears those two.
        held: By key, pending tasks excluded from decisions for a while because their binds failed.
        waiting_changes: Changes deferred to the end of the session under way; None while no session waits.
        journal: Records the inputs of cycles; `NO_JOURNAL` records nothing.
        replies: Recorded replies of extenders, used instead of calling them; None: extenders are called.
        version: Grows with every change.
        schedulable_generation: Grows with every change that may make something schedulable. A pod that proceeds from
            Binding to Bound to Running does not count, nor does one whose gang is still incomplete.
        gangs_are_whole: Whether pods of incomplete gangs are never placed, as with the plugin gang.
    """

    def __init__(
        self,
        names: Iterable[str] = (),
        default_queue: str = DEFAULT_QUEUE,
        solo: Iterable[str] = (DEFAULT_SCHEDULER, FLOW_SCHEDULER, AGENT_SCHEDULER),
    ) -> None:
        self.names = frozenset(names)
        self.solo = frozenset(solo)
        self.default_queue = default_queue
        self.dims = Dimensions()
        self.nodes = NodeTable(self.dims)
        self.totals = Totals(self.nodes)
        self.tasks: dict[str, Task] = {}
        self.jobs: dict[str, Job] = {}
        self.queues: dict[str, Queue] = {}
        self.priority_classes: dict[str, PriorityClass] = {}
        self.quotas: dict[str, NamespaceQuotas] = {}
        self.classes: dict[Hashable, TaskClass] = {}
        self.with_pending: dict[str, Job] = {}
        self.queue_gated: dict[str, Task] = {}
        """By key, tasks whose pods have the queue-admission gate, which is removed when their queue has room."""
        self.for_flow: set[str] = set()
        self.flow_loaded = True
        self.flow_wanted = False
        self.waiting_for_queue: dict[str, Job] = {}
        self.changed: dict[str, Job] = {}
        self.dirty_jobs: dict[str, None] = {}
        self.status_dirty: dict[str, None] = {}
        self.dirty_for: object = None
        self.held: dict[str, Task] = {}
        self.waiting_changes: list[Callable[[], None]] | None = None
        self.journal = NO_JOURNAL
        self.replies: KnownReplies | None = None
        self.version = 0
        self.schedulable_generation = 0
        self.gangs_are_whole = False
        self.affinity = AffinityIndex()
        self.namespaces: dict[str, Mapping[str, str]] = {}
        self.evictions = Evictions()
        self.eviction_rounds = EvictionRounds()
        self.neighbours = Neighbours(self.nodes, self.evictions)
        self.shards = Shards(self.nodes)
        self.hyper_nodes = HyperNodes(self.nodes)
        self.laid_out: dict[str, Job] = {}
        self.recovered: HyperNodeTree | None = None
        self.objects: dict[type[Object], dict[str, Object]] = {}
        self.plugin_state: dict[str, Any] = {}
        self.usages = Usages()
        self.labels = NodeLabels(self.nodes)
        self.reservations = Reservations()
        self.volumes = Volumes(self.reservations)
        self.devices = Devices(self.reservations, self.labels)
        self._claiming = 0
        self.usage_averages: dict[str, UsageAverages] = {}
        self.runtimes = RunTimes()
        self._unsettled: dict[str, Job] = {}
        self._classes_made = 0
        self._class_met: tuple[PodSpec | None, TaskClass | None] = None, None
        """The task class that was looked up last, and the spec it was looked up by."""
        self._minimum_met: tuple[PodGroupSpec | None, int, tuple[Vector | None, tuple[int, ...]]] = None, 0, (None, ())
        """The PodGroup spec read last, the vectors' width then, and its ``minResources`` as vector and columns."""
        self._width = self.dims.width

    def _schedulable_changed(self) -> None:
        self.version += 1
        self.schedulable_generation += 1

    def _note(self, job: Job) -> None:
        self.changed[job.key] = job
        self.dirty_jobs[job.key] = None
        self._unsettled[job.key] = job

    # -- tasks ---------------------------------------------------------------------------------------------------------

    def move(self, task: Task, status: int, row: int = -1) -> None:
        """Change a task's status and row; ``row`` -1 means no node."""
        old, old_row, nodes = task.status, task.row, self.nodes
        if old_row == row:
            if row >= 0:
                nodes.restate(row, task, old, status)
        else:
            if old_row >= 0:
                nodes.restate(old_row, task, old, ABSENT)
            if row >= 0:
                nodes.restate(row, task, ABSENT, status)
            task.row = row
        self.restatus((task,), status)

    def place_batch(self, tasks: Sequence[Task], rows: Sequence[int], status: int) -> None:
        """Move equal pending tasks of one job to rows that a kernel has charged for them already."""
        on_row = self.nodes.tasks
        for task, row in zip(tasks, rows, strict=True):
            task.row = row
            on_row[row][task.key] = task
        self.restatus(tasks, status)

    def unplace_batch(self, tasks: Sequence[Task]) -> None:
        """Undo `place_batch`: set equal tasks of one job and status to Pending and take their charge off their rows.

        Same as `move` for each, at once.
        """
        first, on_row = tasks[0], self.nodes.tasks
        self.nodes.charge_all([task.row for task in tasks], first.cls, NODE_MOVES[first.status][ABSENT])
        for task in tasks:
            on_row[task.row].pop(task.key, None)
            task.row = -1
        self.restatus(tasks, PENDING)

    def restatus(self, tasks: Sequence[Task], status: int) -> None:
        """Change the status of equal tasks of one job and status, whose rows are set and charged already."""
        first = tasks[0]
        old, job = first.status, first.job
        for task in tasks:
            task.status = status
        self.version += 1
        if job is None:
            self.totals.forget()
        if job is None or old == status:
            return
        self._shift(job, tasks, old, status)
        if old in ALLOCATED_SET and status in ALLOCATED_SET:  # no decision depends on which of these it is
            self.changed[job.key] = job
        else:
            self._note(job)

    def _shift(self, job: Job, tasks: Sequence[Task], old: int, status: int) -> None:
        """Count equal tasks of a job under another status, see `Job.shift`."""
        job.shift(tasks, old, status)
        if job.pending:
            self.with_pending[job.key] = job
        elif old == PENDING:
            self.with_pending.pop(job.key, None)

    # -- sums that depend on the whole job -----------------------------------------------------------------------------

    def settle(self) -> None:
        """Bring ``inqueue`` and ``elastic`` of queues up to date; O(jobs that changed since the last call)."""
        for job in self._unsettled.values():
            queue = job.queue
            if queue is None:
                continue
            self._unshare(job, queue)
            job.inqueue = self.reserved_of(job)
            if job.inqueue is not None:
                queue.inqueue += job.inqueue
            if job.allocated_count or job.counts[PIPELINED]:  # a job that holds nothing has nothing elastic
                job.elastic = self._elastic_of(job)
                queue.elastic += job.elastic
        self._unsettled.clear()

    def repair_job(self, job: Job) -> bool:
        """Recompute a job's counts, sums and index entries from its tasks; return whether any was wrong."""
        wrong = repair.repair_job(job)
        for index, belongs in (
            (self.with_pending, bool(job.pending)),
            (self.waiting_for_queue, (job.solo or job.group is not None) and job.is_waiting_for_queue),
        ):
            if (job.key in index) != belongs:
                wrong = True
                index.pop(job.key, None)
                if belongs:
                    index[job.key] = job
        if wrong:
            self._note(job)
        return wrong

    def repair_queue(self, queue: Queue) -> bool:
        """Recompute a queue's sums from those of its jobs; return whether any was wrong."""
        self.settle()
        return repair.repair_queue(queue, self.jobs_of(queue))

    def jobs_of(self, queue: Queue) -> list[Job]:
        """Return the jobs of a queue."""
        return [self.jobs[key] for key in queue.jobs]

    def _unshare(self, job: Job, queue: Queue) -> None:
        if job.inqueue is not None:
            queue.inqueue -= job.inqueue
            job.inqueue = None
        if job.elastic is not None:
            queue.elastic -= job.elastic
            job.elastic = None

    def reserved_of(self, job: Job) -> Vector | None:
        """Return what an enqueued job may still claim: its minimum less what it holds (spec plugins 5.1)."""
        if job.min_resources is None:
            return None
        if job.phase == PHASE_INQUEUE:
            return self.deduct_gated(job, _left(job))
        if job.phase == PHASE_RUNNING and job.allocated_count >= job.min_available:
            return self.deduct_gated(job, _left(job))
        return None

    def _elastic_of(self, job: Job) -> Vector:
        if job.min_resources is None:
            return job.used.copy()
        spare: Vector = np.maximum(job.used - job.min_resources, 0)
        return spare

    def deduct_gated(self, job: Job, amount: Vector) -> Vector:
        """Subtract the requests of gated tasks (other than by the queue gate), not below zero."""
        if not job.gated:
            return amount
        for task in job.tasks.values():
            if task.gated and not ingest.only_queue_gate(task):
                amount = (amount - task.cls.request).clip(min=0)
        return amount

    # -- width ---------------------------------------------------------------------------------------------------------

    def column(self, name: str) -> int:
        """Return the column of a resource, made when it is new."""
        column = self.dims.column(name)
        self._fit_width()
        return column

    def _fit_width(self) -> None:
        """Lengthen every vector when a new resource did not fit into the existing columns."""
        width = self.dims.width
        if width == self._width:
            return
        self._width = width
        self.nodes.grow_width()
        for cls in self.classes.values():
            grow_class(cls, self.dims)
        holders: list[Any] = [*self.jobs.values(), *self.queues.values()]
        for holder in holders:
            for name in ("used", "pending_request", "inqueue", "elastic"):
                vector = getattr(holder, name)
                if vector is not None:
                    setattr(holder, name, fit_width(vector, width))
        for job in self.jobs.values():
            if job.min_resources is not None:
                job.min_resources = fit_width(job.min_resources, width)


def _left(job: Job) -> Vector:
    assert job.min_resources is not None
    left: Vector = np.maximum(job.min_resources - job.used, 0)
    return left
