"""`World`: everything the scheduler knows, kept current event by event; what a cycle decides on.

The world is the snapshot: a cycle works on it in place and leaves it as its plan says (bound tasks in Binding, evicted
ones in Releasing, all else undone). Nothing is copied, so a cycle costs what it touches. One primitive, `World.move`,
changes a task's status or place and keeps every column, count and sum current.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from strato.api.core import Node, Pod, ResourceQuota
from strato.api.meta import Object
from strato.api.scheduling import PriorityClass
from strato.api.selectors import from_label_selector
from strato.api.volcano.scheduling import PodGroup
from strato.api.volcano.scheduling import Queue as QueueView
from strato.api.volcano.shard import NodeShard
from strato.api.volcano.topology import HyperNode
from strato.scheduler.cache import ingest
from strato.scheduler.cache.jobs import PHASE_INQUEUE, PHASE_RUNNING, Job, Queue
from strato.scheduler.cache.memory import UsageMemory
from strato.scheduler.cache.neighbours import Neighbours
from strato.scheduler.cache.nodelabels import NodeLabels
from strato.scheduler.cache.nodes import NodeTable
from strato.scheduler.cache.resources import Dimensions, Vector, fit_width
from strato.scheduler.cache.runtimes import RunTimes
from strato.scheduler.cache.subjobs import Layout
from strato.scheduler.cache.tasks import (
    ALLOCATED,
    ALLOCATED_SET,
    BINDING,
    BOUND,
    FAILED,
    HOLDS_RESOURCES,
    PENDING,
    PIPELINED,
    RELEASING,
    RUNNING,
    SUCCEEDED,
    UNKNOWN,
    Task,
    TaskClass,
    grow_class,
)
from strato.scheduler.cache.usage import Usages
from strato.scheduler.claims.devices import Devices
from strato.scheduler.claims.reservations import Reservations
from strato.scheduler.claims.volumes import Volumes
from strato.scheduler.shards import Shards
from strato.scheduler.topology.hypernodes import HyperNodes, Tree
from strato.units import duration_seconds

DEFAULT_QUEUE = "default"
DEFAULT_SCHEDULER = "default-scheduler"
FLOW_SCHEDULER = "poseidon"
"""Pods that name it are placed by the action `flow`, also where the configuration has `allocate`."""

_HELD = {ALLOCATED: 1, BINDING: 1, BOUND: 1, RUNNING: 1, UNKNOWN: 1, PIPELINED: 2, RELEASING: 3}
_PLACE = tuple(_HELD.get(s, 0) for s in range(10))
"""By status: how a task with a node is accounted there. Equal numbers mean that nothing on the node changes."""

ALLOCATED_HYPERNODE = "volcano.sh/job-allocated-hypernode"
"""Annotation of a PodGroup: the domain its placed tasks lie in."""

_SLA_KEYS = ("volcano.sh/sla-waiting-time", "sla-waiting-time")


@dataclass(slots=True)
class NamespaceQuotas:
    """ResourceQuotas of a namespace by name."""

    by_name: dict[str, ResourceQuota] = field(default_factory=dict)


class World:
    """Nodes, tasks, jobs and queues.

    Args:
        names: Values of ``spec.schedulerName`` this scheduler serves; empty serves every pod (dry runs of bare
            manifests).
        default_queue: Queue of groups that name none.
        solo: Scheduler names whose pods become one-pod jobs of their own when they have no group. Pods of other names
            wait for the group that a controller makes for them.

    Attributes:
        with_pending: Jobs that have pending tasks.
        for_flow: Keys of the jobs whose pods name `FLOW_SCHEDULER`.
        pairwise: Tasks whose class has rules about other pods, by class.
        namespaces: Labels of namespaces.
        neighbours: How many pods of what kind run where.
        labels: Node selectors over all nodes at once.
        reservations: Volumes and devices that placed tasks were given.
        volumes: Claims for storage and what serves them.
        devices: Claims for devices and what serves them.
        memories: What plugins remember of past use, by plugin.
        runtimes: How long pods run.
        shards: Which nodes are ours when several schedulers share the cluster.
        hyper_nodes: The network domains the nodes lie in.
        laid_out: Jobs that are split into sub-jobs or ask for a network topology.
        recovered: The domains when it was last checked where those jobs lie.
        objects: Objects kept as they are for the plugins that look them up, by view and key (``namespace/name``).
        memory: What plugins remember between sessions, by plugin.
        usages: What nodes really use, as last measured.
        waiting_for_queue: Jobs whose group has not been enqueued.
        changed: Jobs whose group status may have to be written again.
        version: Grows with every change.
        openings: Grows with every change that may let something be placed; a pod that merely goes on (Binding to
            Bound to Running) does not count, nor one whose gang is still incomplete.
        gangs_are_whole: Whether no pod of an incomplete gang is placed; it is when the plugin gang is configured.
    """

    def __init__(
        self,
        names: Iterable[str] = (),
        default_queue: str = DEFAULT_QUEUE,
        solo: Iterable[str] = (DEFAULT_SCHEDULER, FLOW_SCHEDULER),
    ) -> None:
        self.names = frozenset(names)
        self.solo = frozenset(solo)
        self.default_queue = default_queue
        self.dims = Dimensions()
        self.nodes = NodeTable(self.dims)
        self.tasks: dict[str, Task] = {}
        self.jobs: dict[str, Job] = {}
        self.queues: dict[str, Queue] = {}
        self.priority_classes: dict[str, PriorityClass] = {}
        self.quotas: dict[str, NamespaceQuotas] = {}
        self.classes: dict[Hashable, TaskClass] = {}
        self.with_pending: dict[str, Job] = {}
        self.queue_gated: dict[str, Task] = {}
        """By key, tasks of jobs whose pods ask to be held at a gate until their queue has room for them."""
        self.for_flow: set[str] = set()
        self.waiting_for_queue: dict[str, Job] = {}
        self.changed: dict[str, Job] = {}
        self.version = 0
        self.openings = 0
        self.gangs_are_whole = False
        self.pairwise: dict[TaskClass, dict[str, Task]] = {}
        self.namespaces: dict[str, Mapping[str, str]] = {}
        self.neighbours = Neighbours(self.nodes)
        self.shards = Shards(self.nodes)
        self.hyper_nodes = HyperNodes(self.nodes)
        self.laid_out: dict[str, Job] = {}
        self.recovered: Tree | None = None
        self.objects: dict[type[Object], dict[str, Object]] = {}
        self.memory: dict[str, Any] = {}
        self.usages = Usages()
        self.labels = NodeLabels(self.nodes)
        self.reservations = Reservations()
        self.volumes = Volumes(self.reservations)
        self.devices = Devices(self.reservations, self.labels)
        self._claiming = 0
        self.memories: dict[str, UsageMemory] = {}
        self.runtimes = RunTimes()
        self._unsettled: dict[str, Job] = {}
        self._classes_made = 0
        self._width = self.dims.width

    # -- pods ----------------------------------------------------------------------------------------------------------

    def is_ours(self, pod: Pod) -> bool:
        """Whether this scheduler places the pod."""
        return not self.names or pod.spec.scheduler_name in self.names

    def set_pod(self, pod: Pod) -> None:
        """Take a pod as the API has it now.

        Raises:
            ValueError: A quantity in the pod cannot be read; the world is as before.
        """
        meta = pod.metadata
        key = f"{meta.namespace}/{meta.name}"
        task = self.tasks.get(key)
        if task is not None and task.uid != meta.uid:
            self.remove_pod(key)
            task = None
        if task is None:
            if pod.spec.node_name or self.is_ours(pod):
                self._add_pod(pod, key)
            return
        node = pod.spec.node_name
        if not node and task.status in ALLOCATED_SET:
            return
        status = ingest.status_of(pod)
        old = task.pod
        same_spec = old.metadata.generation == meta.generation != 0 or task.row >= 0
        if same_spec and old.metadata.annotations == meta.annotations and old.metadata.labels == meta.labels:
            task.pod = pod
            task.nominated = pod.status.nominated_node_name
            if pod.status.resource_claim_statuses != old.status.resource_claim_statuses:
                self._open()  # a claim was made from its template
            row = self._row_for(task, node, status)
            if status != task.status or row != task.row:
                if row != task.row or _PLACE[status] != _PLACE[task.status]:
                    self.openings += 1
                if status == SUCCEEDED and self.runtimes.on:
                    self.runtimes.note(task)
                self.move(task, status, row)
            return
        reservation = task.reservation
        self.remove_pod(key)
        self._add_pod(pod, key)
        if reservation is not None:
            self.tasks[key].reservation, reservation.task = reservation, self.tasks[key]

    def _row_for(self, task: Task, node: str, status: int) -> int:
        if not node or status in (SUCCEEDED, FAILED):
            return -1
        if task.row >= 0 and self.nodes.names[task.row] == node:
            return task.row
        return self.nodes.row(node)

    def _add_pod(self, pod: Pod, key: str) -> None:
        cls_key = ingest.class_key(pod)
        cls = self.classes.get(cls_key)
        if cls is None:
            cls = ingest.make_class(self._classes_made, pod, self.dims)
            self._fit_width()
            grow_class(cls, self.dims)
            self._classes_made += 1
            self.classes[cls_key] = cls
        task = Task(pod, key, cls, ingest.order_of(pod))
        ingest.fill_task(task, pod)
        self.tasks[key] = task
        if cls.pairwise:
            self.pairwise.setdefault(cls, {})[key] = task
        if cls.uses_claims:
            self._claiming += 1
            self.volumes.use(task)
        group = ingest.group_of(pod)
        if group:
            self._join(task, self._job(f"{task.namespace}/{group}"))
        elif pod.spec.scheduler_name in self.solo and self.is_ours(pod):
            self._join(task, self._solo_job(task))
        status = ingest.status_of(pod)
        node = pod.spec.node_name
        row = self._row_for(task, node, status)
        if status != PENDING or row >= 0:
            self.move(task, status, row)
        elif self.gangs_are_whole and _lacks_members(task.job):
            self.version += 1
            return
        self._open()

    def _open(self) -> None:
        self.version += 1
        self.openings += 1

    def remove_pod(self, key: str) -> None:
        """Forget a pod; what it held is free."""
        task = self.tasks.pop(key, None)
        if task is None:
            return
        if task.row >= 0:
            self.nodes.remove(task.row, task, task.status)
        if task.cls.pairwise:
            members = self.pairwise[task.cls]
            del members[key]
            if not members:
                del self.pairwise[task.cls]
        if task.cls.uses_claims:
            self._claiming -= 1
            self.volumes.unuse(task)
            task.reservation = None
        job = task.job
        if job is not None:
            self._leave(task, job)
        self._open()

    def pairwise_members(self) -> list[Task]:
        """Return one task of every class with rules about other pods; its class stands for the others."""
        return [next(iter(members.values())) for members in self.pairwise.values()]

    def set_storage(self, view: Object) -> None:
        """Take an object that `strato.scheduler.claims.volumes` keeps as the API has it now."""
        if self.volumes.put(view):
            self._open_for_claims()

    def remove_storage(self, view: type[Object], key: str) -> None:
        """Forget an object that `strato.scheduler.claims.volumes` keeps, by name or ``namespace/name``."""
        self.volumes.remove(view, key)
        self._open_for_claims()

    def set_device(self, view: Object) -> None:
        """Take an object that `strato.scheduler.claims.devices` keeps as the API has it now."""
        if self.devices.put(view):
            self._open_for_claims()

    def remove_device(self, view: type[Object], key: str) -> None:
        """Forget an object that `strato.scheduler.claims.devices` keeps, by name or ``namespace/name``."""
        self.devices.remove(view, key)
        self._open_for_claims()

    def _open_for_claims(self) -> None:
        if self._claiming:
            self._open()

    def set_namespace(self, name: str, labels: Mapping[str, str]) -> None:
        """Take a namespace's labels; pod affinity may select by them."""
        if self.namespaces.get(name) != labels:
            self.namespaces[name] = labels
            self.neighbours = Neighbours(self.nodes)
            self._open()

    def remove_namespace(self, name: str) -> None:
        """Forget a namespace."""
        self.namespaces.pop(name, None)

    def _join(self, task: Task, job: Job) -> None:
        task.job = job
        job.tasks[task.key] = task
        job.counts[PENDING] += 1
        job.pending[task.key] = task
        job.gated += task.gated
        if task.pod.metadata.annotations and task.pod.metadata.annotation(ingest.QUEUE_GATE) == "true":
            self.queue_gated[task.key] = task
        if task.cls.best_effort:
            job.pending_best_effort += 1
        if job.min_task:
            job.count_role(task, PENDING, 1)
        if job.layout is not None:
            job.layout.add(task)
        job.pending_request += task.cls.request
        if job.queue is not None:
            job.queue.pending_request += task.cls.request
        self.with_pending[job.key] = job
        if task.pod.spec.scheduler_name == FLOW_SCHEDULER:
            self.for_flow.add(job.key)
        self._note(job)

    def _leave(self, task: Task, job: Job) -> None:
        del job.tasks[task.key]
        status, request = task.status, task.cls.request
        job.counts[status] -= 1
        job.gated -= task.gated
        if self.queue_gated:
            self.queue_gated.pop(task.key, None)
        if job.min_task:
            job.count_role(task, status, -1)
        if job.layout is not None:
            job.layout.remove(task)
        if status == PENDING:
            del job.pending[task.key]
            if task.cls.best_effort:
                job.pending_best_effort -= 1
            job.pending_request -= request
            if job.queue is not None:
                job.queue.pending_request -= request
            if not job.pending:
                self.with_pending.pop(job.key, None)
        elif HOLDS_RESOURCES[status]:
            job.used -= request
            if job.queue is not None:
                job.queue.used -= request
        task.job = None
        self._note(job)
        if not job.tasks and job.group is None:
            self._forget_job(job)

    def move(self, task: Task, status: int, row: int = -1) -> None:
        """Change a task's status and place; the only way tasks change. ``row`` -1 means no node."""
        old, old_row = task.status, task.row
        if old_row == row >= 0 and _PLACE[old] and _PLACE[status]:
            if _PLACE[old] != _PLACE[status]:
                self.nodes.restate(row, task, old, status)
        elif old_row != row or _PLACE[old] != _PLACE[status]:
            if old_row >= 0 and _PLACE[old]:
                self.nodes.remove(old_row, task, old)
            if row >= 0 and _PLACE[status]:
                self.nodes.add(row, task, status)
        task.status, task.row = status, row
        self.version += 1
        job = task.job
        if job is None or old == status:
            return
        self._shift(job, task, old, status)
        self._note(job)

    def _shift(self, job: Job, task: Task, old: int, status: int) -> None:
        cls = task.cls
        job.counts[old] -= 1
        job.counts[status] += 1
        if job.min_task:
            job.count_role(task, old, -1)
            job.count_role(task, status, 1)
        if task.sub is not None:
            task.sub.count(task, old, -1)
            task.sub.count(task, status, 1)
        if old == PENDING:
            del job.pending[task.key]
            if not job.pending:
                self.with_pending.pop(job.key, None)
            job.pending_best_effort -= cls.best_effort
            job.pending_request -= cls.request
            if job.queue is not None:
                job.queue.pending_request -= cls.request
        elif status == PENDING:
            job.pending[task.key] = task
            self.with_pending[job.key] = job
            job.pending_best_effort += cls.best_effort
            job.pending_request += cls.request
            if job.queue is not None:
                job.queue.pending_request += cls.request
        held, holds = HOLDS_RESOURCES[old], HOLDS_RESOURCES[status]
        if held != holds:
            amount = cls.request if holds else -cls.request
            job.used += amount
            if job.queue is not None:
                job.queue.used += amount

    def place_batch(self, tasks: Sequence[Task], rows: Sequence[int], status: int) -> None:
        """Move equal pending tasks of one job to rows whose columns have been charged already (by a kernel)."""
        first = tasks[0]
        job, cls, count = first.job, first.cls, len(tasks)
        on_row = self.nodes.tasks
        for task, row in zip(tasks, rows, strict=True):
            task.status, task.row = status, row
            on_row[row][task.key] = task
        self.version += 1
        if job is None:
            return
        pending = job.pending
        if len(pending) == count:
            pending.clear()
            self.with_pending.pop(job.key, None)
        else:
            for task in tasks:
                del pending[task.key]
        job.counts[PENDING] -= count
        job.counts[status] += count
        job.pending_best_effort -= cls.best_effort * count
        if job.min_task:
            for task in tasks:
                job.count_role(task, PENDING, -1)
                job.count_role(task, status, 1)
        _count_parts(job, tasks, PENDING, status)
        amount = cls.request * count if count > 1 else cls.request
        job.pending_request -= amount
        job.used += amount
        if job.queue is not None:
            job.queue.pending_request -= amount
            job.queue.used += amount
        self._note(job)

    def unplace_batch(self, tasks: Sequence[Task]) -> None:
        """Undo `place_batch`: equal tasks of one job and status lose their rows, which are given back what they held.

        Same as moving each to pending, in one go.
        """
        first = tasks[0]
        job, cls, status, count = first.job, first.cls, first.status, len(tasks)
        self.nodes.charge([task.row for task in tasks], cls, -1, pipelined=status == PIPELINED)
        on_row = self.nodes.tasks
        for task in tasks:
            on_row[task.row].pop(task.key, None)
            task.status, task.row = PENDING, -1
        self.version += 1
        if job is None:
            return
        job.pending.update((task.key, task) for task in tasks)
        self.with_pending[job.key] = job
        job.counts[status] -= count
        job.counts[PENDING] += count
        job.pending_best_effort += cls.best_effort * count
        if job.min_task:
            for task in tasks:
                job.count_role(task, status, -1)
                job.count_role(task, PENDING, 1)
        _count_parts(job, tasks, status, PENDING)
        amount = cls.request * count
        job.pending_request += amount
        job.used -= amount
        if job.queue is not None:
            job.queue.pending_request += amount
            job.queue.used -= amount
        self._note(job)

    def restatus(self, tasks: Sequence[Task], status: int) -> None:
        """Change the status of tasks of one job and status where nothing on the nodes changes."""
        first = tasks[0]
        old, job = first.status, first.job
        for task in tasks:
            task.status = status
        self.version += 1
        if job is None:
            return
        job.counts[old] -= len(tasks)
        job.counts[status] += len(tasks)
        if job.min_task:
            for task in tasks:
                job.count_role(task, old, -1)
                job.count_role(task, status, 1)
        _count_parts(job, tasks, old, status)
        self._note(job)

    def _note(self, job: Job) -> None:
        self.changed[job.key] = job
        self._unsettled[job.key] = job

    # -- jobs ----------------------------------------------------------------------------------------------------------

    def _job(self, key: str) -> Job:
        job = self.jobs.get(key)
        if job is None:
            job = self.jobs[key] = Job(key, self.dims)
        return job

    def _solo_job(self, task: Task) -> Job:
        job = self._job(f"{task.namespace}/pod:{task.name}")
        if not job.solo:
            job.solo = True
            job.min_available = 1
            job.phase = PHASE_INQUEUE
            job.uid, job.created = task.uid, task.pod.metadata.creation_timestamp or ""
            job.priority = task.priority if task.pod.spec.priority is not None else 0
            job.queue_name = self.default_queue
            self._enter_queue(job)
        return job

    def _forget_job(self, job: Job) -> None:
        for index in (self.jobs, self.with_pending, self.waiting_for_queue, self.changed, self._unsettled):
            index.pop(job.key, None)
        self.for_flow.discard(job.key)
        self._exit_queue(job)

    def set_group(self, group: PodGroup) -> None:
        """Take a PodGroup as the API has it now.

        Raises:
            ValueError: A quantity in it cannot be read; the world is as before.
        """
        meta, spec = group.metadata, group.spec
        amounts = self.dims.parse(spec.min_resources) if spec.min_resources is not None else None
        for policy in spec.sub_group_policy:
            from_label_selector(policy.label_selector)
        self._fit_width()
        job = self._job(f"{meta.namespace}/{meta.name}")
        old = job.group
        job.group = group
        job.conditions = {c.type: (c.status, c.reason, c.message) for c in group.status.conditions}
        if old is not None and job.phase == group.status.phase and _same_group(old, group):
            return
        job.uid, job.created = meta.uid, meta.creation_timestamp or ""
        job.min_available = spec.min_member
        if job.min_task != spec.min_task_member:
            job.min_task = spec.min_task_member
            job.track_roles()
        self._lay_out(job, old)
        job.min_resources = None if amounts is None else self.dims.vector(amounts)
        job.min_columns = () if amounts is None else tuple(c for c, amount in amounts.items() if amount > 0)
        preemptable = meta.annotation(ingest.PREEMPTABLE_KEY) or meta.label(ingest.PREEMPTABLE_KEY)
        job.preemptable = ingest.go_bool(preemptable) is True
        job.waiting_seconds = _waiting_seconds(meta.annotations or {})
        job.phase = group.status.phase
        self._set_priority(job)
        queue_name = spec.queue or self.default_queue
        if job.queue_name != queue_name or job.queue is None:
            self._exit_queue(job)
            job.queue_name = queue_name
            self._enter_queue(job)
        self.index_phase(job)
        self._note(job)
        self._open()

    def _lay_out(self, job: Job, old: PodGroup | None) -> None:
        """Split a job as its group says; again when the policy or the topology changed."""
        assert job.group is not None
        spec = job.group.spec
        if spec.network_topology is None and not spec.sub_group_policy:
            self._forget_layout(job)
            return
        same = old is not None and (old.spec.network_topology, old.spec.sub_group_policy) == (
            spec.network_topology,
            spec.sub_group_policy,
        )
        if job.layout is None or not same:
            job.layout = Layout(job)
            self.laid_out[job.key] = job
            job.layout.allocated = job.group.metadata.annotation(ALLOCATED_HYPERNODE)
        job.layout.written = job.group.metadata.annotation(ALLOCATED_HYPERNODE)

    def _forget_layout(self, job: Job) -> None:
        if job.layout is not None:
            job.layout = None
            del self.laid_out[job.key]
            for task in job.tasks.values():
                task.sub = None

    def remove_group(self, key: str) -> None:
        """Forget a PodGroup; its pods are left alone until it comes back."""
        job = self.jobs.get(key)
        if job is None:
            return
        job.group = None
        job.phase = ""
        self._forget_layout(job)
        self._exit_queue(job)
        self.waiting_for_queue.pop(key, None)
        self._open()
        if not job.tasks:
            self._forget_job(job)

    def set_phase(self, job: Job, phase: str) -> None:
        """Set a job's phase as decided; it is written to the API by whoever applies the plan."""
        job.phase = phase
        self.index_phase(job)
        self._note(job)
        self.version += 1

    def index_phase(self, job: Job) -> None:
        """Keep `waiting_for_queue` in step with a job's phase."""
        if job.is_waiting_for_queue:
            self.waiting_for_queue[job.key] = job
        else:
            self.waiting_for_queue.pop(job.key, None)

    def _set_priority(self, job: Job) -> None:
        name = job.group.spec.priority_class_name if job.group is not None else ""
        chosen = self.priority_classes.get(name) if name else None
        if chosen is not None:
            job.priority = chosen.value
            return
        job.priority = next((c.value for c in self.priority_classes.values() if c.global_default), 0)

    def _enter_queue(self, job: Job) -> None:
        queue = self._queue(job.queue_name)
        job.queue = queue
        queue.jobs[job.key] = job
        queue.used += job.used
        queue.pending_request += job.pending_request
        self._unsettled[job.key] = job

    def _exit_queue(self, job: Job) -> None:
        queue = job.queue
        if queue is None:
            return
        queue.jobs.pop(job.key, None)
        queue.used -= job.used
        queue.pending_request -= job.pending_request
        self._unshare(job, queue)
        job.queue = None

    def _queue(self, name: str) -> Queue:
        queue = self.queues.get(name)
        if queue is None:
            queue = self.queues[name] = Queue(name, self.dims)
        return queue

    def set_queue(self, view: QueueView) -> None:
        """Take a Queue as the API has it now.

        Raises:
            ValueError: A quantity in it cannot be read; the world is as before.
        """
        spec = view.spec
        capability = self.dims.parse(spec.capability)
        deserved = self.dims.parse(spec.deserved)
        guarantee = self.dims.parse(spec.guarantee.resource)
        self._fit_width()
        queue = self._queue(view.metadata.name)
        old = queue.view
        queue.view = view
        same = old is not None and old.spec == view.spec and old.status.state == view.status.state
        if same and old is not None and old.metadata.annotations == view.metadata.annotations:
            return
        queue.capability, queue.deserved, queue.guarantee = capability, deserved, guarantee
        self._open()

    def remove_queue(self, name: str) -> None:
        """Forget a Queue; jobs that name it wait until it comes back."""
        queue = self.queues.get(name)
        if queue is None:
            return
        queue.view = None
        if not queue.jobs:
            del self.queues[name]
        self._open()

    def set_priority_class(self, view: PriorityClass) -> None:
        """Take a PriorityClass; priorities of jobs follow."""
        self.priority_classes[view.metadata.name] = view
        self._reprioritize()

    def remove_priority_class(self, name: str) -> None:
        """Forget a PriorityClass; priorities of jobs follow."""
        if self.priority_classes.pop(name, None) is not None:
            self._reprioritize()

    def _reprioritize(self) -> None:
        for job in self.jobs.values():
            if job.group is not None:
                self._set_priority(job)
        self._open()

    def set_quota(self, quota: ResourceQuota) -> None:
        """Take a ResourceQuota as the API has it now."""
        self.quotas.setdefault(quota.metadata.namespace, NamespaceQuotas()).by_name[quota.metadata.name] = quota
        self._open()

    def remove_quota(self, namespace: str, name: str) -> None:
        """Forget a ResourceQuota."""
        if namespace in self.quotas:
            self.quotas[namespace].by_name.pop(name, None)
            self._open()

    # -- what only plugins look at -------------------------------------------------------------------------------------

    def keep(self, view: Object) -> None:
        """Take an object that no part of the world reads, for plugins."""
        self.objects.setdefault(type(view), {})[str(view.key)] = view
        self._open()

    def unkeep(self, view_type: type[Object], key: str) -> None:
        """Forget such an object."""
        if self.objects.get(view_type, {}).pop(key, None) is not None:
            self._open()

    def set_hyper_node(self, view: HyperNode) -> None:
        """Take a HyperNode: a network domain.

        Raises:
            ValueError: A label selector in it cannot be read.
        """
        if self.hyper_nodes.set_view(view):
            self._open()

    def remove_hyper_node(self, name: str) -> None:
        """Forget a HyperNode."""
        if self.hyper_nodes.remove(name):
            self._open()

    def set_shard(self, view: NodeShard) -> None:
        """Take a NodeShard: which nodes which scheduler may use."""
        if self.shards.set_shard(view):
            self._open()

    def remove_shard(self, name: str) -> None:
        """Forget a NodeShard."""
        if self.shards.remove_shard(name):
            self._open()

    # -- nodes ---------------------------------------------------------------------------------------------------------

    def set_node(self, node: Node) -> None:
        """Take a node as the API has it now.

        Raises:
            ValueError: A quantity in it cannot be read; the world is as before.
        """
        row = self.nodes.row_of.get(node.metadata.name)
        old = self.nodes.facts[row] if row is not None else None
        if old is not None and _same_to_us(old, node):
            self.nodes.facts[row or 0] = node
            return
        allocatable = self.dims.parse(node.status.allocatable)
        _oversubscribe(allocatable, node)
        self._fit_width()
        self.nodes.set_node(node, allocatable)
        self._open()

    def remove_node(self, name: str) -> None:
        """Forget a node; pods on it keep their place until they go."""
        self.nodes.remove_node(name)
        self._open()

    # -- sums that need a look at the job ------------------------------------------------------------------------------

    def settle(self) -> None:
        """Bring ``inqueue`` and ``elastic`` of queues up to date; costs the jobs that changed since the last call."""
        for job in self._unsettled.values():
            queue = job.queue
            if queue is None:
                continue
            self._unshare(job, queue)
            job.inqueue = self.reserved_of(job)
            if job.inqueue is not None:
                queue.inqueue += job.inqueue
            job.elastic = self._elastic_of(job)
            queue.elastic += job.elastic
        self._unsettled.clear()

    def _unshare(self, job: Job, queue: Queue) -> None:
        if job.inqueue is not None:
            queue.inqueue -= job.inqueue
            job.inqueue = None
        if job.elastic is not None:
            queue.elastic -= job.elastic
            job.elastic = None

    def reserved_of(self, job: Job) -> Vector | None:
        """Return what an admitted job may still claim: its minimum less what it has (spec plugins 5.1)."""
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
        return (job.used - job.min_resources).clip(min=0)

    def deduct_gated(self, job: Job, amount: Vector) -> Vector:
        """Subtract the requests of gated tasks (other than by the queue gate), not below zero."""
        if not job.gated:
            return amount
        for task in job.tasks.values():
            if task.gated and not only_queue_gate(task):
                amount = (amount - task.cls.request).clip(min=0)
        return amount

    def column(self, name: str) -> int:
        """Return the column of a resource, made when it is new."""
        column = self.dims.column(name)
        self._fit_width()
        return column

    # -- width ---------------------------------------------------------------------------------------------------------

    def _fit_width(self) -> None:
        """Lengthen every vector when a resource was seen that no column was left for."""
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


def _count_parts(job: Job, tasks: Sequence[Task], old: int, new: int) -> None:
    """Keep the counts of sub-jobs in step; nothing to do for jobs that are not split."""
    if job.layout is not None and job.layout.split:
        for task in tasks:
            if task.sub is not None:
                task.sub.count(task, old, -1)
                task.sub.count(task, new, 1)


def _lacks_members(job: Job | None) -> bool:
    """Whether a job's group is not known yet, or has fewer pods that count than it needs to begin."""
    return job is not None and not job.solo and (job.group is None or job.valid < job.min_available)


def _left(job: Job) -> Vector:
    assert job.min_resources is not None
    return (job.min_resources - job.used).clip(min=0)


def waits_for_queue(task: Task) -> bool:
    """Whether nothing but the queue-admission gate, which the scheduler takes away, holds a task."""
    return only_queue_gate(task) and task.pod.metadata.annotation(ingest.QUEUE_GATE) == "true"


def only_queue_gate(task: Task) -> bool:
    """Whether the queue-admission gate is the task's only scheduling gate."""
    gates = task.pod.spec.scheduling_gates
    return len(gates) == 1 and gates[0].name == ingest.QUEUE_GATE


def _same_group(old: PodGroup, new: PodGroup) -> bool:
    """Whether two versions of a group differ in status only, as after our own writes."""
    a, b = old.metadata, new.metadata
    return old.spec == new.spec and a.uid == b.uid and a.annotations == b.annotations and a.labels == b.labels


def _same_to_us(old: Node, new: Node) -> bool:
    """Whether two versions of a node (a heartbeat, say) differ in nothing the scheduler reads."""
    a, b = old.metadata, new.metadata
    return (
        a.labels == b.labels
        and a.annotations == b.annotations
        and old.spec == new.spec
        and old.status.allocatable == new.status.allocatable
        and old.status.images == new.status.images
        and a.uid == b.uid
    )


def _oversubscribe(allocatable: dict[int, int], node: Node) -> None:
    """Add what the node agent offers beyond the allocatable (spec scheduler-core 6)."""
    for column, key in ((0, "volcano.sh/oversubscription-cpu"), (1, "volcano.sh/oversubscription-memory")):
        text = node.metadata.annotation(key)
        if text:
            try:
                allocatable[column] = allocatable.get(column, 0) + int(float(text))
            except ValueError:
                continue


def _waiting_seconds(annotations: Mapping[str, str]) -> float | None:
    for key in _SLA_KEYS:
        if key in annotations:
            try:
                seconds = duration_seconds(annotations[key])
            except ValueError:
                return None
            return seconds if seconds > 0 else None
    return None
