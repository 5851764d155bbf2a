"""batch/v1 Jobs on the embedded cluster: completions, indexes, backoff, deadlines, suspension, and time to live.

`jobtracking` counts pods, `jobpolicies` judges failures, `jobplan` decides what to do.

Source: batch/v1 Job.
"""

from __future__ import annotations

import asyncio
import string
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, ClassVar, Final

import msgspec

from strato.api import catalog
from strato.api.batch import Job
from strato.api.core import Pod
from strato.api.meta import Key
from strato.client.informer import Change
from strato.clock import format_time, parse_time
from strato.controllers.context import ControllerContext
from strato.controllers.kube import jobplan, jobtracking
from strato.controllers.kube.joborphans import JobOrphans
from strato.controllers.kube.jobplan import JobVerdict, PodCounts
from strato.controllers.kube.jobpolicies import INDEX_KEY, failure_annotations, index_of
from strato.controllers.kube.jobtracking import FINALIZER, Tracking, is_tracked
from strato.controllers.kube.ownedpods import OwnedPods, deletion_order, pod_body
from strato.controllers.ownwrites import OwnWrites
from strato.controllers.reconcile import KeyedController
from strato.errors import NotFound, StratoError

_LETTERS: Final = string.ascii_lowercase + string.digits
CONTROLLER: Final = "kubernetes.io/job-controller"
_OVER: Final = ("Complete", "Failed")


class KubeJobController(KeyedController):
    """See the module."""

    name: ClassVar[str] = "kube-job-controller"
    workers: ClassVar[int] = 8
    # MaxJobApiBackOff of Kubernetes; short, because a quota that refused pods may have room again
    longest_backoff_seconds: ClassVar[float] = 60.0

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._random = context.random
        self._jobs = context.informers.informer(Job)
        self._written: OwnWrites[Job] = OwnWrites()
        self._failures: defaultdict[str, dict[str, float]] = defaultdict(dict)
        """When this controller first saw each failed pod as failed, by uids of the job and the pod."""
        self._owned = OwnedPods(context, catalog.JOB, self.queue.add_after, finalizer=FINALIZER)
        self._orphans = JobOrphans(context)
        self._jobs.add_handler(self._on_job)

    def _on_job(self, change: Change[Job]) -> None:
        if change.new is not None:
            self.queue.add(change.key)
            return
        uid = change.object.metadata.uid
        self._written.forget(change.key)
        self._failures.pop(uid, None)
        for pod in self._tracked(uid):
            self._orphans.queue.add(pod.key)

    def _tracked(self, uid: str) -> list[Pod]:
        return [pod for pod in self._owned.all_of(uid) if is_tracked(pod)]

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(super().run())
            group.create_task(self._orphans.run())

    async def reconcile(self, key: Key) -> float | None:
        """Bring the job's pods and status up to date; returns the seconds until a pass that is due by time, if any."""
        job = self._written.newest(key, self._jobs.get(key))
        if job is None or job.spec.managed_by not in (None, CONTROLLER):
            return None  # deleted, or managed by another controller
        now, uid = self.clock.now(), job.metadata.uid
        is_over = jobplan.condition_true(job.status.conditions, *_OVER)
        if is_over or job.metadata.deletion_timestamp is not None:
            await self._owned.strip(uid, self._tracked(uid))
            return await self._remove_when_due(job) if is_over else None
        await self._owned.claim(job, lacks_finalizer=lambda pod: self._is_of_old(job, pod))
        counted = self._tally(job)
        started = self._started(job, now)
        ended = jobplan.decided(job.status) or jobplan.verdict(job, counted, now, started)
        if ended is not None:
            await self._owned.delete(uid, counted.active)
            await self._count(job, counted.without_active(), started, ended)
            return None
        refused: StratoError | None = None
        wait: float | None = None
        try:
            wait = await self._work(job, counted, now)
        # In a terminating namespace creates fail; still count the ended pods, so that they lose their finalizer.
        except StratoError as error:
            refused = error
        counted = self._tally(job)
        await self._count(job, counted, started, jobplan.verdict(job, counted, now, started))
        if refused is not None:
            raise refused
        deadline = job.spec.active_deadline_seconds
        if deadline is not None and started is not None and not job.spec.suspend:
            left = started + deadline - now
            wait = left if wait is None else min(wait, left)
        return wait

    def _tally(self, job: Job) -> PodCounts:
        pods = self._owned.all_of(job.metadata.uid)
        terminating_uids = [pod.metadata.uid for pod in pods if self._owned.is_terminating(pod)]
        return jobplan.tally(job, pods, terminating_uids)

    @staticmethod
    def _is_of_old(job: Job, pod: Pod) -> bool:
        """Return whether a pod lacks the finalizer because an older controller made it, and has not ended yet."""
        return job.status.uncounted_terminated_pods is None and not pod.is_finished and not is_tracked(pod)

    def _started(self, job: Job, now: float) -> float | None:
        if job.spec.suspend:
            return None
        return parse_time(job.status.start_time) if job.status.start_time else now

    async def _work(self, job: Job, counted: PodCounts, now: float) -> float | None:
        """Create and delete pods; returns the seconds for which the back-off of failures still delays new pods."""
        uid = job.metadata.uid
        planned = jobplan.steps(job, counted, sorted(counted.active, key=deletion_order))
        if planned.delete:
            # pods deleted as surplus are not counted, so they need no finalizer
            await self._owned.strip(uid, [pod for pod in planned.delete if is_tracked(pod)])
            await self._owned.delete(uid, planned.delete)
        if not planned.create:
            return None
        waits = self._waits(job, now)
        waits.setdefault(None, 0.0)
        due = [index for index in planned.create if max(waits[None], waits.get(index, 0.0)) <= 0]
        wait = min((one for one in waits.values() if one > 0), default=None)
        if not due:
            return wait
        whole = await self._cluster.get(catalog.JOB, job.metadata.name, job.metadata.namespace)
        template = whole["spec"]["template"]
        await self._owned.create(job.metadata, [self._body(job, template, index, counted) for index in due])
        return wait

    def _waits(self, job: Job, now: float) -> dict[int | None, float]:
        """Return the seconds for which failures delay new pods: by index if each has its own limit, else under None."""
        observed = self._failures[job.metadata.uid]
        per_index = job.spec.backoff_limit_per_index is not None
        failed: defaultdict[int | None, list[float]] = defaultdict(list)
        for pod in self._owned.all_of(job.metadata.uid):
            if pod.status.phase == "Failed":
                since = observed.setdefault(pod.metadata.uid, now)
                failed[index_of(pod) if per_index else None].append(since)
        return {index: max(since) + jobplan.backoff_seconds(len(since)) - now for index, since in failed.items()}

    def _body(self, job: Job, template: Mapping[str, Any], index: int | None, counted: PodCounts) -> dict[str, Any]:
        meta = job.metadata
        labels = {
            "batch.kubernetes.io/controller-uid": meta.uid,
            "batch.kubernetes.io/job-name": meta.name,
            "controller-uid": meta.uid,
            "job-name": meta.name,
        }
        if index is None:
            name = f"{meta.name}-"
            return pod_body(catalog.JOB, meta, template, labels=labels, generateName=name, finalizers=[FINALIZER])
        text = str(index)
        labels[INDEX_KEY] = text
        name = f"{meta.name}-{text}-{''.join(self._random.choices(_LETTERS, k=5))}"
        annotations = {INDEX_KEY: text, **failure_annotations(job.spec, counted.failures.by_index, index)}
        body = pod_body(
            catalog.JOB, meta, template, labels=labels, annotations=annotations, name=name, finalizers=[FINALIZER]
        )
        spec = body["spec"]
        spec.setdefault("hostname", f"{meta.name}-{text}")
        variable = {"name": "JOB_COMPLETION_INDEX", "value": text}
        for member in ("containers", "initContainers"):
            if spec.get(member):
                spec[member] = [{**one, "env": [*(one.get("env") or ()), variable]} for one in spec[member]]
        return body

    # Status

    async def _count(self, job: Job, counted: PodCounts, started: float | None, ended: JobVerdict | None) -> None:
        """Write the status, then remove the finalizers of the pods that it includes."""
        tracking = jobtracking.track(
            job,
            counted.tracked,
            counted.terminating_uids,
            jobtracking.carriers(job.spec, counted.tracked, counted.terminating_uids, counted.served_indexes),
            ends=ended is not None,
            fails=ended is not None and not ended.complete,
        )
        await self._write_status(job, counted, tracking, started, ended)
        await self._owned.strip(job.metadata.uid, tracking.strip)

    async def _write_status(
        self, job: Job, counted: PodCounts, tracking: Tracking, started: float | None, ended: JobVerdict | None
    ) -> None:
        now = format_time(self.clock.now())
        old = job.status
        is_over = ended is not None and not counted.active and not counted.terminating and tracking.is_settled
        status: dict[str, Any] = {
            "active": len(counted.active) or None,
            "ready": counted.ready,
            "terminating": counted.terminating,
            "succeeded": (counted.succeeded if jobplan.is_indexed(job.spec) else tracking.succeeded) or None,
            "failed": tracking.failed or None,
            "uncountedTerminatedPods": tracking.listed,
            "startTime": format_time(started) if started is not None else None,
            "completedIndexes": jobplan.format_indexes(counted.indexes) or None,
            "failedIndexes": self._failed_indexes(job, counted),
            "conditions": self._conditions(job, ended, is_over, now),
        }
        if is_over and ended is not None and ended.complete:
            status["completionTime"] = now
        before = {
            **dict.fromkeys(status),
            **msgspec.to_builtins(old),
            "ready": old.ready,
            "terminating": old.terminating,
            "uncountedTerminatedPods": jobtracking.listed_in(old),
        }
        if (
            all((before.get(name) or None) == (value or None) for name, value in status.items())
            and old.ready is not None
        ):
            return
        meta = job.metadata
        body = {"metadata": {"resourceVersion": meta.resource_version}, "status": status}
        try:
            written = await self._cluster.patch(Job, meta.name, meta.namespace, body, subresource="status")
        except NotFound:
            return
        if job.key in self._jobs:
            self._written.note(written)
        if ended is not None and jobplan.condition_true(written.status.conditions, *_OVER):
            kind = "Normal" if ended.complete else "Warning"
            reason = "Completed" if ended.complete else ended.reason
            self._recorder.event(job, kind, reason, "Job completed" if ended.complete else ended.message)
            self.queue.add(job.key)  # a finished job may have a time to live

    @staticmethod
    def _failed_indexes(job: Job, counted: PodCounts) -> str | None:
        """Return ``failedIndexes``; empty instead of None while no index has failed of a job that limits each index."""
        if job.spec.backoff_limit_per_index is None:
            return None
        return jobplan.format_indexes(counted.failures.indexes - counted.indexes)

    def _conditions(self, job: Job, ended: JobVerdict | None, is_over: bool, now: str) -> Sequence[dict[str, Any]]:
        conditions: list[dict[str, Any]] = [msgspec.to_builtins(one) for one in job.status.conditions]

        def put(type_: str, status: str, reason: str, message: str) -> None:
            known = next((one for one in conditions if one["type"] == type_), None)
            if known is not None and known["status"] == status:
                return
            if known is not None:
                conditions.remove(known)
            times = {"lastProbeTime": now, "lastTransitionTime": now}
            conditions.append({"type": type_, "status": status, **times, "reason": reason, "message": message})

        suspended = any(one["type"] == "Suspended" for one in conditions)
        if job.spec.suspend:
            put("Suspended", "True", "JobSuspended", "Job suspended")
        elif suspended:
            put("Suspended", "False", "JobResumed", "Job resumed")
        if ended is not None:
            put("SuccessCriteriaMet" if ended.complete else "FailureTarget", "True", ended.reason, ended.message)
            if is_over:
                put("Complete" if ended.complete else "Failed", "True", ended.reason, ended.message)
        return conditions

    async def _remove_when_due(self, job: Job) -> float | None:
        ttl = job.spec.ttl_seconds_after_finished
        if ttl is None:
            return None
        over = next((one for one in job.status.conditions if one.type in _OVER and one.status == "True"), None)
        if over is None or not over.last_transition_time:
            return None
        left = parse_time(over.last_transition_time) + ttl - self.clock.now()
        if left > 0:
            return left
        meta = job.metadata
        with suppress(NotFound):
            await self._cluster.delete(Job, meta.name, meta.namespace, uid=meta.uid, propagation="Foreground")
        return None
