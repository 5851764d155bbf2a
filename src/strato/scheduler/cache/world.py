"""`World`: everything the scheduler knows, kept current event by event; what a cycle decides on.

The world is the snapshot: a cycle works on it in place and leaves it as its plan says (bound tasks in Binding, evicted
ones in Releasing, all else undone). Nothing is copied, so a cycle costs what it touches. What follows from where tasks
are, `strato.scheduler.cache.accounts` keeps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from strato.api.core import Node, Pod, ResourceQuota
from strato.api.meta import Object
from strato.api.scheduling import PriorityClass
from strato.api.selectors import from_label_selector
from strato.api.volcano.scheduling import PodGroup, PodGroupSpec
from strato.api.volcano.scheduling import Queue as QueueView
from strato.api.volcano.shard import NodeShard
from strato.api.volcano.topology import HyperNode
from strato.scheduler.cache import ingest
from strato.scheduler.cache.accounts import FLOW_SCHEDULER, Accounts, NamespaceQuotas
from strato.scheduler.cache.neighbours import Neighbours
from strato.scheduler.model.jobs import PHASE_INQUEUE, PHASE_RUNNING, Job, Layout, Task
from strato.scheduler.model.ledger import ABSENT, NODE_MOVES, UNCHARGED
from strato.scheduler.model.queues import Queue
from strato.scheduler.model.resources import Vector
from strato.scheduler.model.tasks import (
    ALLOCATED_SET,
    COMPLETED_SET,
    FAILED,
    PENDING,
    RELEASING,
    SUCCEEDED,
    TaskClass,
    grow_class,
)
from strato.units import duration_seconds

ALLOCATED_HYPERNODE = "volcano.sh/job-allocated-hypernode"
"""Annotation of a PodGroup: the domain its placed tasks lie in."""

_SLA_KEYS = ("volcano.sh/sla-waiting-time", "sla-waiting-time")


class World(Accounts):
    """Nodes, tasks, jobs and queues, as the API tells of them."""

    # -- sessions ------------------------------------------------------------------------------------------------------

    def when_closed(self, change: Callable[[], None]) -> None:
        """Make a change now, or after the session that decides on this world and waits for an answer from outside."""
        if self.waiting_changes is None:
            change()
        else:
            self.waiting_changes.append(change)

    def close(self) -> None:
        """End a session; what waited for that is done now."""
        changes, self.waiting_changes = self.waiting_changes, None
        for change in changes or ():
            change()

    # -- pods ----------------------------------------------------------------------------------------------------------

    def hold(self, task: Task) -> None:
        """Leave a pending task out of decisions, as one with scheduling gates is, until `release`."""
        if not task.gated:
            self.held[task.key] = task
            task.gated = True
            self._regate(task, 1)

    def release(self, task: Task) -> None:
        """Let a task that was held be decided about again."""
        if self.held.get(task.key) is not task:
            return
        del self.held[task.key]
        if self.tasks.get(task.key) is task:
            task.gated = False
            self._regate(task, -1)
            self._open()

    def _regate(self, task: Task, number: int) -> None:
        self.version += 1
        job = task.job
        if job is not None:
            job.gated += number
            self._note(job)

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
        old = task.pod
        if not node and (task.status in ALLOCATED_SET or old.spec.node_name):
            return  # decided, and being written; or read before it was
        status = ingest.status_of(pod)
        if status != task.status and task.status == RELEASING:
            if old.metadata.deletion_timestamp is not None and meta.deletion_timestamp is None:
                return  # read before it was deleted, which is for good
            if status not in COMPLETED_SET and self.evictions.awaits(key, meta.uid):
                status = RELEASING  # until the API confirms or refuses
        same_spec = old.metadata.generation == meta.generation != 0 or task.row >= 0
        if same_spec and old.metadata.annotations == meta.annotations and old.metadata.labels == meta.labels:
            task.pod = pod
            if task.nominated != pod.status.nominated_node_name:
                task.nominated = pod.status.nominated_node_name
                if task.job is not None:
                    self.dirty_jobs[task.job.key] = None
            if pod.status.resource_claim_statuses != old.status.resource_claim_statuses:
                self._open()  # a claim was made from its template
            row = self._row_for(task, node, status)
            if status != task.status or row != task.row:
                if row != task.row or NODE_MOVES[task.status][status] is not UNCHARGED.node:
                    self.openings += 1
                if status == SUCCEEDED and self.runtimes.on:
                    self.runtimes.note(task)
                self.move(task, status, row)
        else:
            task = self._replace(task, pod, key, status)
        if status == RELEASING:
            if meta.deletion_timestamp is not None:
                self.evictions.confirm(key)
        elif status in COMPLETED_SET:
            self._dirty(self.evictions.end(key))

    def _replace(self, task: Task, pod: Pod, key: str, status: int) -> Task:
        """Put a new task in the place of one whose pod changed in what makes up a task."""
        reservation = task.reservation
        self._drop_task(task)
        self._add_pod(pod, key)
        new = self.tasks[key]
        if reservation is not None:
            self.reservations.add(new, reservation)
        if status != new.status:
            self.move(new, status, new.row)
        self.evictions.replace(new)
        return new

    def _row_for(self, task: Task, node: str, status: int) -> int:
        if not node or status in (SUCCEEDED, FAILED):
            return -1
        if task.row >= 0 and self.nodes.names[task.row] == node:
            return task.row
        return self.nodes.row(node)

    def _add_pod(self, pod: Pod, key: str) -> None:
        cls = self._class_of(pod)
        task = Task(pod, key, cls, ingest.order_of(pod))
        ingest.fill_task(task, pod)
        self.tasks[key] = task
        if cls.pairwise:
            self.pairwise.setdefault(cls, {})[key] = task
        if cls.uses_claims:
            self._claiming += 1
            self.volumes.use(task)
        status = task.status = ingest.status_of(pod)
        row = task.row = self._row_for(task, pod.spec.node_name, status)
        if row >= 0:
            self.nodes.restate(row, task, ABSENT, status)
        group = ingest.group_of(pod)
        if group:
            self._join(task, self._job(f"{task.namespace}/{group}"))
        elif pod.spec.scheduler_name in self.solo and self.is_ours(pod):
            self._join(task, self._solo_job(task))
        if status == PENDING and row < 0 and self.gangs_are_whole and _lacks_members(task.job):
            self.version += 1
            return
        self._open()

    def _class_of(self, pod: Pod) -> TaskClass:
        """Return the class of a pod, made when it is new."""
        spec, met = self._class_met
        if pod.spec is spec and met is not None:  # informers let the pods of one template share their spec
            return met
        key = ingest.class_key(pod)
        cls = self.classes.get(key)
        if cls is None:
            cls = ingest.make_class(self._classes_made, pod, self.dims)
            self._fit_width()
            grow_class(cls, self.dims)
            self._classes_made += 1
            self.classes[key] = cls
        if not cls.pairwise and pod.spec.affinity is None:  # else labels and namespace tell classes apart as well
            self._class_met = pod.spec, cls
        return cls

    def remove_pod(self, key: str) -> None:
        """Forget a pod; what it held is free."""
        task = self.tasks.get(key)
        if task is not None:
            self._drop_task(task)
            self._dirty(self.evictions.end(key))

    def _dirty(self, key: str) -> None:
        """Note that something changed for a pod; a decision about its job may hang on it."""
        task = self.tasks.get(key) if key else None
        if task is not None and task.job is not None:
            self.dirty_jobs[task.job.key] = None

    def _drop_task(self, task: Task) -> None:
        key = task.key
        del self.tasks[key]
        if task.row >= 0:
            self.nodes.restate(task.row, task, task.status, ABSENT)
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

    def begin_eviction(self, task: Task, beneficiary: str) -> None:
        """Note that a leaving task is to be evicted; until the API says so it counts among its neighbours again."""
        self.evictions.begin(task, beneficiary)
        if task.row >= 0:
            self.nodes.touch(task.row)

    def refuse_eviction(self, key: str, uid: str, now: float) -> None:
        """Let a victim go on that cannot be evicted."""
        if not self.evictions.awaits(key, uid):
            return
        task = self.tasks[key]
        self._dirty(self.evictions.refuse(key, uid, now))
        if task.status == RELEASING:
            self.move(task, ingest.status_of(task.pod), task.row)
        self._open()

    def _join(self, task: Task, job: Job) -> None:
        """Count a new task, which has its status and place, among those of its job."""
        task.job = job
        key = task.key
        job.tasks[key] = task
        job.gated += task.gated
        annotations = task.pod.metadata.annotations
        if annotations and annotations.get(ingest.QUEUE_GATE) == "true":
            self.queue_gated[key] = task
        self._shift(job, (task,), ABSENT, task.status)
        if job.layout is not None:
            job.layout.add(task)
        if task.pod.spec.scheduler_name == FLOW_SCHEDULER:
            self.for_flow.add(job.key)
        self._note(job)

    def _leave(self, task: Task, job: Job) -> None:
        del job.tasks[task.key]
        job.gated -= task.gated
        if self.queue_gated:
            self.queue_gated.pop(task.key, None)
        if job.layout is not None:
            job.layout.remove(task)
        self._shift(job, (task,), task.status, ABSENT)
        task.job = None
        self._note(job)
        if not job.tasks and job.group is None:
            self._forget_job(job)

    def pairwise_members(self) -> list[Task]:
        """Return one task of every class with rules about other pods; its class stands for the others."""
        return [next(iter(members.values())) for members in self.pairwise.values()]

    # -- jobs and queues -----------------------------------------------------------------------------------------------

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
        self.dirty_jobs[job.key] = None
        self._exit_queue(job)

    def set_group(self, group: PodGroup) -> None:
        """Take a PodGroup as the API has it now.

        Raises:
            ValueError: A quantity in it cannot be read; the world is as before.
        """
        meta, spec = group.metadata, group.spec
        known = self.jobs.get(f"{meta.namespace}/{meta.name}")
        if known is not None and known.phase == group.status.phase and _same_group(known.group, group):
            self._take_status(known, group)  # our own status coming back, mostly
            return
        least, columns = self._minimum_of(spec)
        job = self._job(f"{meta.namespace}/{meta.name}")
        old = job.group
        self._take_status(job, group)
        job.uid, job.created = meta.uid, meta.creation_timestamp or ""
        job.min_available = spec.min_member
        if job.min_task != spec.min_task_member:
            job.min_task = spec.min_task_member
            job.track_roles()
        self._lay_out(job, old)
        job.min_resources, job.min_columns = least, columns
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

    def _minimum_of(self, spec: PodGroupSpec) -> tuple[Vector | None, tuple[int, ...]]:
        """Return what a group needs to begin, and of what; groups of one template are read once.

        Raises:
            ValueError: A quantity or a selector in it cannot be read.
        """
        met, width, found = self._minimum_met
        if (met is spec or met == spec) and width == self.dims.width:
            return found
        amounts = self.dims.parse(spec.min_resources) if spec.min_resources is not None else None
        for policy in spec.sub_group_policy:
            from_label_selector(policy.label_selector)
        self._fit_width()
        found = None, ()
        if amounts is not None:
            found = self.dims.vector(amounts), tuple([c for c, amount in amounts.items() if amount > 0])
        self._minimum_met = spec, self.dims.width, found
        return found

    def _take_status(self, job: Job, group: PodGroup) -> None:
        job.group = group
        self.status_dirty[job.key] = None
        said = group.status.conditions
        job.conditions = {c.type: (c.status, c.reason, c.message) for c in said} if said else {}

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
        self.dirty_jobs[key] = None
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

    def take_phase(self, job: Job, phase: str) -> None:
        """Set the phase a job's status has at the end of a cycle."""
        if job.phase != phase:
            if job.phase != PHASE_INQUEUE or phase != PHASE_RUNNING or job.allocated_count < job.min_available:
                self._unsettled[job.key] = job  # else it may claim what it might before
            job.phase = phase
            self.dirty_jobs[job.key] = None
            self.index_phase(job)

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
        queue.jobs[job.key] = None
        if job.tasks:
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
                self.dirty_jobs[job.key] = None
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

    # -- claims, namespaces, and what only plugins look at -------------------------------------------------------------

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
            self.neighbours = Neighbours(self.nodes, self.evictions)
            self._open()

    def remove_namespace(self, name: str) -> None:
        """Forget a namespace."""
        self.namespaces.pop(name, None)

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


def _lacks_members(job: Job | None) -> bool:
    """Whether a job's group is not known yet, or has fewer pods that count than it needs to begin."""
    return job is not None and not job.solo and (job.group is None or job.valid < job.min_available)


def _same_group(old: PodGroup | None, new: PodGroup) -> bool:
    """Whether two versions of a group differ in status only, as after our own writes."""
    if old is None:
        return False
    a, b = old.metadata, new.metadata
    same_spec = old.spec is new.spec or old.spec == new.spec
    return same_spec and a.uid == b.uid and a.annotations == b.annotations and a.labels == b.labels


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
