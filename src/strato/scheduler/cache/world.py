"""`World`: the scheduler's view of the cluster, updated by every watch event; a cycle decides on it.

The world is the snapshot: a cycle changes it in place and leaves it as its plan says (bound tasks in Binding, evicted
ones in Releasing, all else undone). Nothing is copied, so the cost of a cycle follows what it touches. The base class
`strato.scheduler.cache.accounts.Accounts` keeps the sums and indexes that follow from tasks' statuses and nodes.
"""

from __future__ import annotations

from collections.abc import Callable

from strato.api.core import Pod
from strato.api.pods import effective_spec
from strato.scheduler.cache import ingest
from strato.scheduler.cache.accounts import FLOW_SCHEDULER
from strato.scheduler.cache.jobobjects import JobObjects
from strato.scheduler.model.jobs import Job, Task
from strato.scheduler.model.ledger import ABSENT, NODE_MOVES, UNCHARGED
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


class World(JobObjects):
    """Nodes, tasks, jobs and queues, as the API has them."""

    # -- sessions ------------------------------------------------------------------------------------------------------

    def when_closed(self, change: Callable[[], None]) -> None:
        """Make a change now; if a session is waiting for an answer from outside, once that session is closed."""
        if self.waiting_changes is None:
            change()
        else:
            self.waiting_changes.append(change)

    def close(self) -> None:
        """End a session and make the changes that `when_closed` deferred."""
        changes, self.waiting_changes = self.waiting_changes, None
        for change in changes or ():
            change()

    # -- pods ----------------------------------------------------------------------------------------------------------

    def hold(self, task: Task) -> None:
        """Exclude a pending task from decisions until `release`, as if it had scheduling gates."""
        if not task.gated:
            self.held[task.key] = task
            task.gated = True
            self._regate(task, 1)

    def release(self, task: Task) -> None:
        """Include a task in decisions again that `hold` has excluded."""
        if self.held.get(task.key) is not task:
            return
        del self.held[task.key]
        if self.tasks.get(task.key) is task:
            task.gated = False
            self._regate(task, -1)
            self._schedulable_changed()

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
            return  # its bind is not visible in the API yet, or this view is older than the bind
        status = ingest.status_of(pod)
        if status != task.status and task.status == RELEASING:
            if old.metadata.deletion_timestamp is not None and meta.deletion_timestamp is None:
                return  # this view is older than the deletion, which cannot be undone
            if status not in COMPLETED_SET and self.evictions.awaits(key, meta.uid):
                status = RELEASING  # until the API confirms or refuses the eviction
        same_spec = old.metadata.generation == meta.generation != 0 or task.row >= 0
        if task.row >= 0 and meta.generation > 1 and not old.is_finished:
            same_spec = self._class_of(pod) is task.cls  # another class means that the pod is being resized in place
        if same_spec and old.metadata.annotations == meta.annotations and old.metadata.labels == meta.labels:
            task.pod = pod
            if task.nominated != pod.status.nominated_node_name:
                task.nominated = pod.status.nominated_node_name
                if task.job is not None:
                    self.dirty_jobs[task.job.key] = None
            if pod.status.resource_claim_statuses != old.status.resource_claim_statuses:
                self._schedulable_changed()  # a claim was made from its template
            row = self._row_for(task, node, status)
            if status != task.status or row != task.row:
                if row != task.row or NODE_MOVES[task.status][status] is not UNCHARGED.node:
                    self.schedulable_generation += 1
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
        """Replace a task whose pod changed in its spec, labels or annotations; keep reservation and eviction."""
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
            self.affinity.add(task)
        if cls.uses_claims:
            self._claiming += 1
            self.volumes.use(task)
        status = task.status = ingest.status_of(pod)
        row = task.row = self._row_for(task, pod.spec.node_name, status)
        if row >= 0:
            self.nodes.restate(row, task, ABSENT, status)
            if not self.is_ours(pod):
                self.totals.foreign[key] = task
                self.totals.forget()
        group = ingest.group_of(pod)
        if group:
            self._join(task, self._job(f"{task.namespace}/{group}"))
        elif pod.spec.scheduler_name in self.solo and self.is_ours(pod):
            self._join(task, self._solo_job(task))
        if status == PENDING and row < 0 and self.gangs_are_whole and _lacks_members(task.job):
            self.version += 1
            return
        self._schedulable_changed()

    def _class_of(self, pod: Pod) -> TaskClass:
        """Return the class of a pod, made when it is new."""
        last, met = self._class_met
        spec = effective_spec(pod)
        if spec is last and met is not None:  # informers share one spec object among the pods of a template
            return met
        key = ingest.class_key(pod, spec)
        cls = self.classes.get(key)
        if cls is None:
            cls = ingest.make_class(self._classes_made, pod, spec, self.dims)
            self._fit_width()
            grow_class(cls, self.dims)
            self._classes_made += 1
            self.classes[key] = cls
        if not cls.pairwise and pod.spec.affinity is None:  # else the class depends on labels and namespace too
            self._class_met = spec, cls
        return cls

    def remove_pod(self, key: str) -> None:
        """Forget a pod and free what it held."""
        task = self.tasks.get(key)
        if task is not None:
            self._drop_task(task)
            self._dirty(self.evictions.end(key))

    def _dirty(self, key: str) -> None:
        """Mark the job of a pod, given by key, dirty: an eviction for it has ended. An empty key marks none."""
        task = self.tasks.get(key) if key else None
        if task is not None and task.job is not None:
            self.dirty_jobs[task.job.key] = None

    def _drop_task(self, task: Task) -> None:
        key = task.key
        del self.tasks[key]
        if self.totals.foreign.pop(key, None) is not None:
            self.totals.forget()
        if task.row >= 0:
            self.nodes.restate(task.row, task, task.status, ABSENT)
        if task.cls.pairwise:
            self.affinity.remove(task)
        if task.cls.uses_claims:
            self._claiming -= 1
            self.volumes.unuse(task)
            task.reservation = None
        job = task.job
        if job is not None:
            self._leave(task, job)
        self._schedulable_changed()

    def begin_eviction(self, task: Task, beneficiary: str) -> None:
        """Note that the plan evicts a Releasing task.

        `Neighbours` counts it again from now on: it runs on its node until the API has deleted it.
        """
        self.evictions.begin(task, beneficiary)
        if task.row >= 0:
            self.nodes.touch(task.row)

    def refuse_eviction(self, key: str, uid: str, now: float) -> None:
        """Give a victim whose eviction the API refused the status of its pod again."""
        if not self.evictions.awaits(key, uid):
            return
        task = self.tasks[key]
        self._dirty(self.evictions.refuse(key, uid, now))
        if task.status == RELEASING:
            self.move(task, ingest.status_of(task.pod), task.row)
        self._schedulable_changed()

    def _join(self, task: Task, job: Job) -> None:
        """Add a new task, whose status and row are set, to a job and its counts."""
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

    def has_rules_about(self, task: Task) -> bool:
        """Whether affinity terms of other pods select this one."""
        return any(True for _ in self.affinity.about(task, self.namespaces))


def _lacks_members(job: Job | None) -> bool:
    """Whether a job's PodGroup is not known yet, or the job has fewer valid pods than its ``minMember``."""
    return job is not None and not job.solo and (job.group is None or job.valid < job.min_available)
