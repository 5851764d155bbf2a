"""Jobs (one PodGroup each), their sub-jobs and tasks, with counts and sums that are updated when tasks move.

`Job.shift` updates the counts by status (and by role where there are minima) and the sums, so that no reader has to
loop over tasks.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from strato.api.core import Pod
from strato.api.volcano.scheduling import NetworkTopologySpec, PodGroup
from strato.scheduler.model.counts import Counts, Growth, RoleCounts, TaskCounts
from strato.scheduler.model.estimates import stated_seconds
from strato.scheduler.model.ledger import ABSENT, JOB_MOVES, UNCHARGED
from strato.scheduler.model.policies import SubGroupPolicy
from strato.scheduler.model.queues import Queue
from strato.scheduler.model.reasons import FitErrors
from strato.scheduler.model.reservation import PluginGrant, Reservation
from strato.scheduler.model.resources import Dimensions, Vector
from strato.scheduler.model.tasks import PENDING, STATUS_COUNT, STATUS_NAMES, TaskClass

PHASE_PENDING: Final = "Pending"
PHASE_INQUEUE: Final = "Inqueue"
PHASE_RUNNING: Final = "Running"
PHASE_UNKNOWN: Final = "Unknown"
PHASE_COMPLETED: Final = "Completed"


class Task:
    """One pod as the scheduler sees it.

    Attributes:
        pod: The pod, as the scheduler reads it; pods of a template may share one spec object.
        key: ``namespace/name`` of the pod.
        uid, namespace, name: Of the pod.
        cls: What equal pods share: requests, selectors, tolerations.
        priority: The pod's priority; 1 without one.
        preemption_policy: ``spec.preemptionPolicy``; with ``Never`` no pod is evicted for it.
        role: Name of the task of its job (``volcano.sh/task-spec``), empty without one.
        preemptable: Whether the pod may be evicted, by annotation or label; true without either.
        nominated: Name of the node its status nominates, else empty.
        status: Its status by number, which also indexes counts.
        row: Row of its node in the `NodeTable`, -1 without one.
        order: Sort key among tasks that no plugin orders (spec scheduler-core 10, CompareTask).
        gated: Has scheduling gates; never placed.
        job: The job it belongs to; None for pods of foreign schedulers, or without a group yet.
        sub: The sub-job it belongs to; None in jobs without sub-jobs and network topology.
        grants: By plugin, what it gave the task on its row.
        reservation: Volumes and devices reserved for it on its row.
        waiting_node: Name of the node the pod names while that node is unknown, else empty.
    """

    __slots__ = (
        "cls",
        "gated",
        "grants",
        "job",
        "key",
        "name",
        "namespace",
        "nominated",
        "order",
        "pod",
        "preemptable",
        "preemption_policy",
        "priority",
        "reservation",
        "role",
        "row",
        "status",
        "sub",
        "uid",
        "waiting_node",
    )

    def __init__(self, pod: Pod, key: str, cls: TaskClass, order: tuple[int, str, str]) -> None:
        meta = pod.metadata
        self.pod = pod
        self.key = key
        self.uid: str = meta.uid
        self.namespace: str = meta.namespace
        self.name: str = meta.name
        self.cls = cls
        self.order = order
        self.job: Job | None = None
        self.sub: SubJob | None = None
        self.status: int = PENDING
        self.row: int = -1
        self.reservation: Reservation | None = None
        self.grants: dict[str, PluginGrant] | None = None
        self.priority = 1
        self.preemption_policy = ""
        self.role = ""
        self.gated = False
        self.preemptable = True
        self.nominated = ""
        self.waiting_node = ""

    def grant(self, plugin: str, annotations: Mapping[str, str]) -> None:
        """Record what a plugin gives the task on its row, as annotations that are written with its bind."""
        self.grants = {**(self.grants or {}), plugin: PluginGrant(self.row, annotations)}

    def granted(self, plugin: str) -> Mapping[str, str]:
        """Return what a plugin gave the task on its row: as decided in this process, else by its bound pod."""
        found = self.grants.get(plugin) if self.grants is not None else None
        if found is not None and found.row == self.row:
            return found.annotations
        return (self.pod.metadata.annotations or {}) if self.pod.spec.node_name else {}

    def bind_annotations(self) -> dict[str, str] | None:
        """Return the annotations to write with its bind."""
        if self.grants is None:
            return None
        return {k: v for given in self.grants.values() if given.row == self.row for k, v in given.annotations.items()}

    @property
    def fit_key(self) -> int | str:
        """Key of tasks that fail for the same reasons: the class's number, or the task's key when it uses claims."""
        return self.key if self.cls.uses_claims else self.cls.number

    def __repr__(self) -> str:
        return f"Task({self.key} {STATUS_NAMES[self.status]} row={self.row})"


class PodVerdict(NamedTuple):
    """Why a pod was not placed, and where it may go later."""

    task: Task
    reason: str
    """``Unschedulable`` or ``Schedulable``."""
    message: str
    errors: FitErrors | None = None
    nominated: str = ""


class SubJob(TaskCounts):
    """A part of a job that is placed whole or not at all.

    Attributes:
        job: The job it is part of.
        tasks: Its tasks by key.
        match_index: Its label value where that is a number, else 0: sub-jobs equal otherwise are tried in this order.
        best_effort: Number of its pending tasks that request nothing; not kept where ``whole``.
        key: ``<job>/<policy>-<values>``, or the job's key for the tasks that no policy selects.
        policy: ``<job>/<policy>``, or the job's key; ``minSubGroups`` counts sub-jobs by it.
        whole: It is all of the job, which then has no policies.
        network: How far apart its tasks may be; None when that does not matter.
        allocated: Name of the domain its placed tasks lie in, as kept between cycles; empty when unknown.
        priority: Highest priority of any task it has had.
    """

    __slots__ = (
        "_min_available",
        "allocated",
        "best_effort",
        "counts",
        "job",
        "key",
        "match_index",
        "network",
        "policy",
        "priority",
        "tasks",
        "whole",
    )

    def __init__(
        self, job: Job, key: str, policy: str, minimum: int, network: NetworkTopologySpec | None, *, whole: bool = False
    ) -> None:
        self.job = job
        self.key = key
        self.policy = policy
        self.whole: bool = whole
        self.network = network
        self.match_index = 0
        self.priority = 0
        self.allocated = ""
        self._min_available = minimum
        self.best_effort = 0
        self.tasks: dict[str, Task] = job.tasks if whole else {}
        self.counts = job.counts if whole else [0] * STATUS_COUNT

    @property
    def min_available(self) -> int:
        """Tasks it needs to run at all."""
        return self.job.min_available if self.whole else self._min_available

    @property
    def pending_best_effort(self) -> int:
        """Pending tasks that request nothing."""
        return self.job.pending_best_effort if self.whole else self.best_effort

    def pending(self) -> list[Task]:
        """Return its pending tasks."""
        if self.whole:
            return list(self.job.pending.values())
        return [task for task in self.tasks.values() if task.status == PENDING]

    def count(self, task: Task, status: int, by: int) -> None:
        """Add to its count of a status; not for `ABSENT`, nor where it shares the counts of its job (``whole``)."""
        if not self.whole and status != ABSENT:
            self.counts[status] += by
            if status == PENDING and task.cls.best_effort:
                self.best_effort += by


class Layout:
    """How a job is split, and which network topology it asks for.

    Attributes:
        split: Whether there are policies.
        subs: The sub-jobs by key; those without tasks are gone.
        network: The whole job's topology, None without one.
        minimum: By policy key, how many of its sub-jobs must be ready.
        allocated: Name of the domain the job's placed tasks lie in; empty when unknown.
        written: The domain in the group's annotation.

    Raises:
        ValueError: A label selector cannot be read.
    """

    __slots__ = ("_job", "_policies", "allocated", "minimum", "network", "split", "subs", "written")

    def __init__(self, job: Job) -> None:
        assert job.group is not None
        spec = job.group.spec
        self._job = job
        self.network: NetworkTopologySpec | None = spec.network_topology
        self._policies = [SubGroupPolicy(job.key, policy) for policy in spec.sub_group_policy]
        self.split: bool = bool(self._policies)
        self.minimum: dict[str, int] = {f"{job.key}/{p.name}": p.min_sub_groups for p in spec.sub_group_policy}
        self.allocated = self.written = ""
        self.subs: dict[str, SubJob] = {}
        if not self.split:
            self.subs[job.key] = SubJob(job, job.key, job.key, 0, self.network, whole=True)
        for task in job.tasks.values():
            self.add(task)

    @property
    def topological(self) -> bool:
        """Whether the job or any part of it asks for a network topology."""
        return self.network is not None or any(p.spec.network_topology is not None for p in self._policies)

    def add(self, task: Task) -> None:
        """Add a task to its sub-job."""
        sub = self._find(task)
        task.sub = sub
        sub.priority = max(sub.priority, task.priority)
        if not sub.whole:
            sub.tasks[task.key] = task
            sub.count(task, task.status, 1)

    def remove(self, task: Task) -> None:
        """Remove a task from its sub-job, and the sub-job when it has no tasks left."""
        sub, task.sub = task.sub, None
        if sub is None or sub.whole:
            return
        del sub.tasks[task.key]
        sub.count(task, task.status, -1)
        if not sub.tasks:
            self.subs.pop(sub.key, None)

    def _find(self, task: Task) -> SubJob:
        labels = task.pod.metadata.labels or {}
        for policy in self._policies:
            values = policy.values(labels)
            if values is not None:
                return self._known(self._part(policy, values))
        if not self.split:
            return self.subs[self._job.key]
        return self._known(SubJob(self._job, self._job.key, self._job.key, 1, self.network))

    def _part(self, policy: SubGroupPolicy, values: list[str]) -> SubJob:
        spec, key = policy.spec, policy.sub_job_key(values)
        sub = SubJob(self._job, key, policy.key, spec.sub_group_size or 1, spec.network_topology)
        sub.match_index = int(values[0]) if values[0].lstrip("+-").isdecimal() else 0
        return sub

    def _known(self, sub: SubJob) -> SubJob:
        return self.subs.setdefault(sub.key, sub)

    # -- checks (spec scheduler-core 7.2) ------------------------------------------------------------------------------

    def enough(self) -> bool:
        """Whether every policy has its minimum of sub-jobs (CheckSubJobValid)."""
        return self._reached(self.subs.values())

    def enough_ready(self) -> bool:
        """Whether every policy has its minimum of sub-jobs ready."""
        return self._reached(sub for sub in self.subs.values() if sub.is_ready)

    def enough_pipelined(self) -> bool:
        """Whether every policy has its minimum of sub-jobs ready or expected to be."""
        return self._reached(sub for sub in self.subs.values() if sub.is_pipelined)

    def _reached(self, subs: Iterable[SubJob]) -> bool:
        if not any(self.minimum.values()):
            return True
        found: dict[str, int] = {}
        for sub in subs:
            found[sub.policy] = found.get(sub.policy, 0) + 1
        return all(found.get(policy, 0) >= minimum for policy, minimum in self.minimum.items())


class Job(RoleCounts):
    """A PodGroup and its tasks; the unit that is placed whole or not at all.

    Attributes:
        key: ``namespace/podgroup``; group-less pods of the default scheduler get ``namespace/pod:NAME``.
        group: The PodGroup, None while it is unknown.
        namespace, name: Of the group.
        uid, created: Of the group, or of the single pod: identity, and creation time as RFC 3339.
        queue_name: Name of its queue.
        queue: Its queue; None while the group is unknown.
        priority: By the group's PriorityClass.
        preemptable: Whether the group is marked preemptable by annotation or label.
        gives_back: Whether the group, by annotation, lets its tasks beyond its minimum be evicted before other pods.
        waiting_seconds: How long it may wait before the plugin sla enqueues it; None without a limit.
        pending: Every pending task by key.
        inqueue: What it may still claim once enqueued: its minimum less what it holds; None while it has no claim.
        elastic: What it holds beyond its minimum; None while it holds nothing.
        conditions: Of its group: status, reason and message by type.
        last_verdicts: The message common to all its pods at the last report, with the verdicts on these.
        min_columns: Columns of ``min_resources`` with an amount above 0.
        growth: How its pods arrived while it was incomplete; kept by `strato.scheduler.reporting.growth`.
        phase: The group's phase as last decided or read.
        tasks: Every task by key.
        counts: Number of tasks by status.
        pending_best_effort: Pending tasks that request nothing.
        role_counts: Per role (``volcano.sh/task-spec``) the counts; the pending best-effort ones are at the end.
        used: Σ requests of tasks that hold resources (allocated statuses and pipelined).
        pending_request: Σ requests of pending tasks.
        min_resources: The group's ``spec.minResources``; None when not given.
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
        "gives_back",
        "group",
        "growth",
        "inqueue",
        "key",
        "last_verdicts",
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
        "uid",
        "used",
        "waiting_seconds",
    )

    min_available: int
    pending_best_effort: int

    def __init__(self, key: str, dims: Dimensions) -> None:
        self.key = key
        self.namespace: str
        self.name: str
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
        self.gives_back = False
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
        self.last_verdicts: tuple[str, Sequence[PodVerdict]] | None = None

    @property
    def has_surplus(self) -> bool:
        """Whether it has more tasks than its minimum and its group gives these back."""
        return self.gives_back and self.ready > self.min_available

    def __repr__(self) -> str:
        return f"Job({self.key} {self.phase or '-'} {self.describe_counts()})"

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
        """The group's ``minResources`` as written; None when not given."""
        asked = self.group.spec.min_resources if self.group is not None else None
        return None if asked is None else tuple(asked.items())

    @property
    def stated_seconds(self) -> Hashable:
        """The run time its pending pods state, None without; the job's key when they state different ones."""
        stated = {(task.cls, task.role, stated_seconds(task.pod, self.group)) for task in self.pending.values()}
        return self.key if len(stated) > 1 else next((seconds for _, _, seconds in stated), None)

    def shift(self, tasks: Sequence[Task], old: int, status: int) -> None:
        """Move equal tasks to another status in the counts and sums of the job and its queue.

        `ABSENT` as old or new status adds or removes them.
        """
        count, cls, counts = len(tasks), tasks[0].cls, self.counts
        if old != ABSENT:
            counts[old] -= count
        if status != ABSENT:
            counts[status] += count
        if self.min_task:
            self.count_roles(tasks, old, status)
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

    def track_roles(self) -> None:
        """Rebuild the counts per role from the tasks; only kept while the group asks for minima."""
        self.role_counts = {}
        if self.min_task:
            for task in self.tasks.values():
                self.count_roles((task,), ABSENT, task.status)
