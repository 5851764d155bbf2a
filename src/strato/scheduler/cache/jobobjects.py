"""`JobObjects`: makes jobs of PodGroups and of pods without one, and keeps queues and priority classes."""

from __future__ import annotations

from collections.abc import Mapping

from strato.api.scheduling import PriorityClass
from strato.api.selectors import from_label_selector
from strato.api.volcano.scheduling import ELASTIC_ANNOTATION, PodGroup, PodGroupSpec
from strato.api.volcano.scheduling import Queue as QueueView
from strato.scheduler.cache import ingest
from strato.scheduler.cache.clusterobjects import ClusterObjects
from strato.scheduler.model.jobs import PHASE_INQUEUE, PHASE_RUNNING, Job, Layout, Task
from strato.scheduler.model.queues import Queue
from strato.scheduler.model.resources import Vector
from strato.units import duration_seconds

ALLOCATED_HYPERNODE = "volcano.sh/job-allocated-hypernode"
"""Annotation of a PodGroup: the domain its placed tasks lie in."""

_SLA_KEYS = ("volcano.sh/sla-waiting-time", "sla-waiting-time")


class JobObjects(ClusterObjects):
    """Takes PodGroups, queues and priority classes as the API has them."""

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
        self.eviction_rounds.undo(job.key)
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
            self._take_status(known, group)  # mostly the watch event of a status that this scheduler wrote
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
        job.gives_back = ingest.go_bool(meta.annotation(ELASTIC_ANNOTATION)) is True
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
        self._schedulable_changed()

    def _minimum_of(self, spec: PodGroupSpec) -> tuple[Vector | None, tuple[int, ...]]:
        """Return a group's ``minResources``, and their columns; cached, because groups of one template are equal.

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
        found = group.status.conditions
        job.conditions = {c.type: (c.status, c.reason, c.message) for c in found} if found else {}

    def _lay_out(self, job: Job, old: PodGroup | None) -> None:
        """Split a job into sub-jobs as its group's policies say; again when these or the topology have changed."""
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
        """Forget a PodGroup; its pods are not scheduled until it is created again."""
        job = self.jobs.get(key)
        if job is None:
            return
        job.group = None
        job.phase = ""
        self.dirty_jobs[key] = None
        self._forget_layout(job)
        self._exit_queue(job)
        self.waiting_for_queue.pop(key, None)
        self._schedulable_changed()
        if not job.tasks:
            self._forget_job(job)

    def set_phase(self, job: Job, phase: str) -> None:
        """Set a job's phase as decided; the reports write it to the API once the plan is applied."""
        job.phase = phase
        self.index_phase(job)
        self._note(job)
        self.version += 1

    def take_phase(self, job: Job, phase: str) -> None:
        """Set the phase a job's status has at the end of a cycle."""
        if job.phase != phase:
            if job.phase != PHASE_INQUEUE or phase != PHASE_RUNNING or job.allocated_count < job.min_available:
                self._unsettled[job.key] = job  # a full gang that goes from Inqueue to Running keeps its claim
            job.phase = phase
            self.dirty_jobs[job.key] = None
            self.index_phase(job)

    def index_phase(self, job: Job) -> None:
        """Update `waiting_for_queue` to a job's phase."""
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
        self._schedulable_changed()

    def remove_queue(self, name: str) -> None:
        """Forget a Queue; jobs that name it wait until it is created again."""
        queue = self.queues.get(name)
        if queue is None:
            return
        queue.view = None
        if not queue.jobs:
            del self.queues[name]
        self._schedulable_changed()

    def set_priority_class(self, view: PriorityClass) -> None:
        """Take a PriorityClass and update the priorities of all jobs."""
        self.priority_classes[view.metadata.name] = view
        self._reprioritize()

    def remove_priority_class(self, name: str) -> None:
        """Forget a PriorityClass and update the priorities of all jobs."""
        if self.priority_classes.pop(name, None) is not None:
            self._reprioritize()

    def _reprioritize(self) -> None:
        for job in self.jobs.values():
            if job.group is not None:
                self._set_priority(job)
                self.dirty_jobs[job.key] = None
        self._schedulable_changed()


def _same_group(old: PodGroup | None, new: PodGroup) -> bool:
    """Whether two versions of a group differ in status only, as after a status that this scheduler wrote."""
    if old is None:
        return False
    a, b = old.metadata, new.metadata
    same_spec = old.spec is new.spec or old.spec == new.spec
    return same_spec and a.uid == b.uid and a.annotations == b.annotations and a.labels == b.labels


def _waiting_seconds(annotations: Mapping[str, str]) -> float | None:
    for key in _SLA_KEYS:
        if key in annotations:
            try:
                seconds = duration_seconds(annotations[key])
            except ValueError:
                return None
            return seconds if seconds > 0 else None
    return None
