"""Handlers of watch events: they bring the records of jobs up to date and queue the jobs that have work.

A handler takes a few microseconds. An event that a policy may match becomes a request. Any other event marks its job
for a sync (`syncschedule` decides when it is due), unless that sync would find nothing to do.
"""

from __future__ import annotations

from typing import Any

from strato.api import catalog
from strato.api.core import Pod
from strato.api.meta import Key
from strato.api.volcano.batch import Job
from strato.api.volcano.scheduling import PodGroup
from strato.client.informer import Change, Informer
from strato.client.workqueue import WorkQueue
from strato.clock import Clock
from strato.controllers.job.compiledspec import CompiledSpecs
from strato.controllers.job.dependents import Dependents
from strato.controllers.job.group import is_admitted, job_of_group, newest_condition
from strato.controllers.job.podevents import pod_request
from strato.controllers.job.pods import PodState
from strato.controllers.job.record import JobRecord
from strato.controllers.job.requests import Request
from strato.controllers.job.syncschedule import COALESCING_SECONDS
from strato.controllers.job.telemetry import JobMetrics
from strato.controllers.job.terms import FINISHED_PHASES, JOB_NAME, TASK_SPEC, JobEvent


class JobEvents:
    """See the module.

    Args:
        coalescing_seconds: How often a job is synced while its pods keep changing.
    """

    def __init__(
        self,
        clock: Clock,
        queue: WorkQueue[Key],
        metrics: JobMetrics,
        dependents: Dependents,
        coalescing_seconds: float = COALESCING_SECONDS,
    ) -> None:
        self._clock = clock
        self._queue = queue
        self._metrics = metrics
        self._dependents = dependents
        self._compiled_specs = CompiledSpecs()
        self._coalescing = coalescing_seconds
        self.records: dict[Key, JobRecord] = {}

    def subscribe(self, jobs: Informer[Job], pods: Informer[Pod], groups: Informer[PodGroup]) -> None:
        """Add the handlers to the informers."""
        jobs.add_handler(self._on_job)
        pods.add_owned_handler(catalog.VCJOB, self._on_pod)
        groups.add_handler(self._on_group)

    def _record(self, key: Key) -> JobRecord:
        record = self.records.get(key)
        if record is None:
            record = self.records[key] = JobRecord(key, self._compiled_specs, self._coalescing)
        return record

    def _on_job(self, change: Change[Job]) -> None:
        key = change.key
        if self._dependents:
            self._wake_dependents(change)
        if change.new is None:
            self._metrics.forget(str(key))
            record = self.records.get(key)
            if record is not None and record.job is not None and record.job.metadata.uid == change.object.metadata.uid:
                record.drop_job()
                self._forget_if_empty(record)
            return
        record = self._record(key)
        is_new = record.job is None
        if record.set_job(change.new):
            self.sync_soon(record)
        if is_new and not record.policies.is_empty:
            for pod in list(record.pods()):  # informers showed these pods before the job: match its policies now
                self._on_pod_change(record, None, pod)

    def _wake_dependents(self, change: Change[Job]) -> None:
        """Sync the jobs that wait for this one, when its phase has changed or it was created or deleted."""
        old, new = change
        if old is not None and new is not None and old.status.state.phase == new.status.state.phase:
            return
        for key in self._dependents.take(change.key):
            record = self.records.get(key)
            if record is not None and record.job is not None:
                self.sync_soon(record)

    def _on_pod(self, change: Change[Pod]) -> None:
        old, new = change
        if old is None:
            if new is not None and self._is_just_made(new):
                return
        elif new is not None and _is_irrelevant(old, new):
            return
        pod = change.object
        state = PodState.from_view(pod)
        if state is None:
            return
        record = self._record_of(pod)
        if new is None:
            if record is not None:
                self._pod_gone(record, state)
            return
        if record is None:
            record = self._record(Key(pod.metadata.namespace, pod.metadata.annotation(JOB_NAME)))
        task = record.task(state.task)
        known = task.pods.get(state.name)
        if known is not None and known.uid != state.uid:
            known = None
        same = known is not None and known.looks_like(state)
        assumed = (state.task, state.name) in record.assumed
        if not record.put_pod(state) or (same and not assumed):
            return
        # the first watch event of a pod that we created may match a policy; the counters need no further sync, because
        # the sync that created the pod has counted it
        self._on_pod_change(record, None if assumed else known, state, counted=same)

    def _is_just_made(self, pod: Pod) -> bool:
        """Confirm an assumed pod whose first watch event has the revision of its create's answer.

        Returns False for any other pod, which must then be decoded; this check is much cheaper.
        """
        record = self._record_of(pod)
        if record is None or not record.assumed or not record.policies.is_empty:
            return False
        return record.confirm_pod(pod.metadata.annotation(TASK_SPEC), pod.metadata)

    def _record_of(self, pod: Pod) -> JobRecord | None:
        meta = pod.metadata
        annotations = meta.annotations
        # a plain tuple equals a `Key` and is cheaper to make
        key: Any = meta.namespace, annotations.get(JOB_NAME, "") if annotations else ""
        return self.records.get(key)

    def _pod_gone(self, record: JobRecord, state: PodState) -> None:
        known = record.drop_pod(state.task, state.name, state.uid)
        if record.job is None:
            self._forget_if_empty(record)
            return
        self._on_pod_change(record, known or state, None, known=known is not None)

    def _on_pod_change(
        self,
        record: JobRecord,
        old: PodState | None,
        new: PodState | None,
        *,
        known: bool = True,
        counted: bool = False,
    ) -> None:
        """Queue a request when some policy may match it; otherwise schedule a sync, unless the change is counted."""
        policies = record.policies
        state = new if new is not None else old
        assert state is not None
        if not policies.is_empty:
            task = record.task(state.task)
            request = pod_request(old, new, task, max_retry=self._max_retry(record, state.task), known=known)
            # an event that cancels a delayed action, also one that a queued request is about to add, becomes a request
            is_awaited = bool(request.event) and (policies.delayed or bool(record.delays))
            if is_awaited or policies.may_match(request.event, request.exit_code):
                record.requests.append(request)
                self._queue.add(record.key)
                return
        if not counted:
            # unless tasks depend on each other, a change of an existing pod creates no pods: its sync has low priority
            self._sync_later(record, low_priority=new is not None and not record.compiled.has_dependencies)

    def _max_retry(self, record: JobRecord, task: str) -> int:
        for spec in record.job.spec.tasks if record.job is not None else ():
            if spec.name == task:
                return spec.max_retry
        return 0

    def _on_group(self, change: Change[PodGroup]) -> None:
        group = change.object
        record = self.records.get(job_of_group(group))
        if record is None or record.job is None:
            return
        if change.new is None:
            is_ours = record.drop_group(group.metadata.uid)
            if not is_ours or record.job.status.state.phase not in FINISHED_PHASES:
                self.sync_soon(record)
            return
        before = record.group
        if not record.put_group(group):
            return
        phase = group.status.phase
        is_new = change.old is None or change.old.status.phase != phase
        if phase == "Unknown" and is_new and record.policies.may_match(JobEvent.UNKNOWN):
            record.requests.append(Request(event=JobEvent.UNKNOWN))
            self._queue.add(record.key)
        if _is_relevant(record, before, group):
            self.sync_soon(record)

    def sync_soon(self, record: JobRecord) -> None:
        """Mark a job dirty and queue it at once."""
        record.schedule.dirty = True
        self._queue.add(record.key)

    def _sync_later(self, record: JobRecord, *, low_priority: bool) -> None:
        """Schedule one sync for all changes of the job's pods within the coalescing time."""
        delay = record.schedule.mark_pods_dirty(self._clock.monotonic())
        if delay is not None:
            self._queue.add_after(record.key, delay, low_priority=low_priority)

    def _forget_if_empty(self, record: JobRecord) -> None:
        if record.is_empty:
            self.records.pop(record.key, None)


def _is_irrelevant(old: Pod, new: Pod) -> bool:
    """Return whether a pod's change (a binding, a condition) cannot matter to its job; cheaper than a `PodState`."""
    return (
        old.status.phase == new.status.phase
        and old.metadata.deletion_timestamp == new.metadata.deletion_timestamp
        and old.metadata.annotations == new.metadata.annotations
        and old.metadata.labels == new.metadata.labels
        and old.status.container_statuses == new.status.container_statuses
        and old.status.init_container_statuses == new.status.init_container_statuses
    )


def _is_relevant(record: JobRecord, before: PodGroup | None, group: PodGroup) -> bool:
    """Return whether a sync would see a change of the group: its admission, or a condition users are warned of."""
    if before is not None and before.metadata.uid != group.metadata.uid:
        return True
    if is_admitted(before) != is_admitted(group):
        return True
    if before is None or before.status.conditions == group.status.conditions:
        return False
    newest = newest_condition(group)
    return bool(record.group_warning) or (newest is not None and newest[0] != "Scheduled")
