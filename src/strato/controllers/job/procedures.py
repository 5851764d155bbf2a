"""The two procedures of a job, kill and sync: the steps around the pure decisions.

Source: volcano-controllers A6, A7.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from strato.api.meta import Key
from strato.api.volcano.batch import Job
from strato.api.volcano.scheduling import PodGroup
from strato.client.cluster import Cluster, PatchType
from strato.clock import Clock
from strato.controllers.job import group as groups
from strato.controllers.job import status as statuses
from strato.controllers.job import terms
from strato.controllers.job.effects import JobEffects, JobError, NameTaken
from strato.controllers.job.intent import is_restart, note, unfinished
from strato.controllers.job.kill import KillPlan, plan_full_kill, plan_target_kill
from strato.controllers.job.plugins.base import PluginRefusal
from strato.controllers.job.plugins.registry import UnknownPlugin, controlled_key
from strato.controllers.job.pods import revision_of
from strato.controllers.job.record import JobRecord
from strato.controllers.job.requests import Target
from strato.controllers.job.seen import Seen
from strato.controllers.job.states import (
    Counts,
    Operation,
    Outcome,
    Procedure,
    Transition,
    after_restart,
    after_sync_running,
    is_out_of_tries,
    stay,
)
from strato.controllers.job.status import Status
from strato.controllers.job.sync import plan_pods
from strato.controllers.job.telemetry import JobMetrics
from strato.controllers.job.terms import Phase
from strato.controllers.parallel import off_loop
from strato.controllers.recorder import Recorder
from strato.errors import AlreadyExists, NotFound, StratoError


class Procedures:
    """See the module. One instance serves all jobs; what it learns goes into the record it is given."""

    def __init__(
        self,
        cluster: Cluster,
        clock: Clock,
        effects: JobEffects,
        recorder: Recorder,
        metrics: JobMetrics,
        seen: Seen,
        *,
        is_busy: Callable[[], bool],
    ) -> None:
        self._cluster = cluster
        self._clock = clock
        self._effects = effects
        self._recorder = recorder
        self._metrics = metrics
        self._seen = seen
        self._is_busy = is_busy

    async def carry_out(self, record: JobRecord, operation: Operation, action: str, target: Target) -> None:
        """Do what an action means in the job's phase.

        Raises:
            StratoError: A step failed; all of it may be done again.
        """
        job = record.job
        if operation.procedure is not Procedure.SYNC:
            record.agenda.counters_due = None  # a kill writes its own counters; nothing is held back any more
        if job is None or job.metadata.deletion_timestamp is not None:
            record.agenda.counters_due = None
            return
        if operation.procedure is Procedure.SYNC:
            await self._sync(record, operation.transition)
        elif operation.procedure is Procedure.KILL_TARGET:
            plan = plan_target_kill(record.tasks, action, target)
            if plan is None and unfinished(job) is not None:
                plan = KillPlan((), 0)  # its pods went before it was counted
            if plan is not None:
                await self._note_restart(record, operation, action, target)
                await self._kill(record, plan, operation.transition, full=False)
        else:
            await self._note_restart(record, operation, action, target)
            await self._kill_all(record, operation)

    # Kill

    async def delete_marked(self, record: JobRecord) -> None:
        """Delete pods that were marked to go and are still there.

        Raises:
            StratoError: One could not be deleted.
        """
        marked = [pod for pod in record.pods() if pod.out_of_sync and not pod.terminating]
        if not marked:
            return
        failures = await self._effects.delete_pods(record, marked)
        if failures:
            raise failures[0]

    async def _note_restart(self, record: JobRecord, operation: Operation, action: str, target: Target) -> None:
        job = _job(record)
        patch = note(job, action, target) if is_restart(operation) else None
        if patch is not None:
            meta = job.metadata
            record.set_job(await self._cluster.patch(Job, meta.name, meta.namespace, patch))

    async def _kill_all(self, record: JobRecord, operation: Operation) -> None:
        job = _job(record)
        plan = plan_full_kill(
            record.pods(),
            operation.procedure,
            retry_count=job.status.retry_count,
            max_retry=job.spec.max_retry,
        )
        if operation.transition is stay and _is_settled(record, plan) and self.current_group(record) is None:
            return
        await self._kill(record, plan, operation.transition, full=True)

    async def _kill(self, record: JobRecord, plan: KillPlan, transition: Transition, *, full: bool) -> None:
        job = _job(record)
        failures = await self._effects.kill_pods(record, plan.delete)
        if failures:
            self._warn(job, "FailedDelete", f"Error deleting pods: {failures[0]}")
            raise failures[0]
        gone = sum(pod.name not in _pods_of(record, pod.task) for pod in plan.delete)
        terminating = plan.terminating + len(plan.delete) - gone
        job = _job(record)
        # Pods that go on still need their host names and keys; only a full kill takes those away.
        controlled = await self._remove_plugin_objects(record, job) if full else dict(job.status.controlled_resources)
        old = statuses.to_json(job.status)
        version = job.status.version + 1 if full else job.status.version
        new = statuses.killed(old, terminating, version, controlled)
        counts = Counts(terminating=terminating, status_min_available=job.status.min_available)
        outcome = transition(record.facts, counts, job.status.retry_count)
        if outcome is not None:
            new = statuses.stamped(statuses.moved(new, outcome), self._clock.now())
            self._metrics.ended(job, outcome.phase)
        new = statuses.with_running_duration(new, job.metadata)
        if full:
            await self._delete_group(record)
        await self._write_status(record, new)  # last: who finds it written need not do any of this again

    async def _remove_plugin_objects(self, record: JobRecord, job: Job) -> dict[str, str]:
        """Remove what plugins made; returns what remains controlled."""
        controlled = dict(job.status.controlled_resources)
        for plugin in record.plugins.active:
            key = controlled_key(plugin)
            if key in controlled:
                for view, name in plugin.removed(job):
                    await self._effects.remove(view, name, job)
                del controlled[key]
        record.plugins_fresh = False
        return controlled

    async def _delete_group(self, record: JobRecord) -> None:
        group = self.current_group(record)
        if group is None:
            return
        with suppress(NotFound):  # somebody may be faster
            await self._cluster.delete(PodGroup, group.metadata.name, group.metadata.namespace, uid=group.metadata.uid)
        record.drop_group(group.metadata.uid, ours=True)

    # Sync

    async def _sync(self, record: JobRecord, transition: Transition) -> None:
        job = _job(record)
        queue = self._seen.queues.get(Key("", job.spec.queue))
        if queue is None:
            raise JobError(f"queue {job.spec.queue!r} of job {record.key} is not found")
        forwarded = bool(queue.spec.extend_clusters)
        if forwarded and job.metadata.annotation(terms.JOB_FORWARDING) != "true":
            change = {"metadata": {"annotations": {terms.JOB_FORWARDING: "true"}}}
            record.set_job(await self._cluster.patch(Job, job.metadata.name, job.metadata.namespace, change))
        controlled, group = await self._prepare(record)
        job = _job(record)
        self._report_group(record, group)
        if group is None or not groups.is_admitted(group):
            await self._wait_for_admission(record, transition, controlled)
            return
        fails_next = transition is after_restart and is_out_of_tries(record.facts, job.status.retry_count)
        if not fails_next:
            await self._sync_pods(record, group, forwarded=forwarded)
        await self._write_synced(record, transition, controlled)

    async def _prepare(self, record: JobRecord) -> tuple[Mapping[str, str], PodGroup | None]:
        """Bring everything beside the pods up to date.

        Returns:
            ``controlledResources`` as it should be, and the PodGroup.
        """
        job = _job(record)
        controlled: Mapping[str, str] = job.status.controlled_resources
        if job.status.state.phase in ("", Phase.PENDING):
            controlled = await self._initiate(record)
        elif not record.plugins_fresh:
            for plugin in record.plugins.active:
                for wanted in plugin.refreshed(job):
                    await self._effects.ensure(wanted, job.metadata.namespace)
            record.plugins_fresh = True
        group = self._fitting_group(record)
        if group is None:
            await self._step(record, "PodGroupError", "Failed to create or update PodGroup", self._ensure_group(record))
            group = self.current_group(record)
        return controlled, group

    async def _initiate(self, record: JobRecord) -> Mapping[str, str]:
        job = _job(record)
        if not job.status.state.phase:
            await self._step(record, "JobStatusError", "Failed to initialize job status", self._first_status(record))
        if record.plugins.are_none:
            record.plugins_fresh = True
        else:
            await self._step(record, "PluginError", "Execute plugin when job add failed", self._add_plugins(record))
        held = _job(record).status.controlled_resources
        if record.plugins.are_none and not job.spec.volumes:
            return held
        controlled = dict(held)
        controlled.update((controlled_key(p), p.name) for p in record.plugins.active if p.tracked)
        if job.spec.volumes:
            claims = await self._step(record, "PVCError", "Failed to create PVC", self._ensure_claims(record))
            controlled.update(claims)
        return controlled

    async def _first_status(self, record: JobRecord) -> None:
        job = _job(record)
        status = {**statuses.to_json(job.status), "minAvailable": job.spec.min_available}
        status["state"] = {**status.get("state", {}), "phase": Phase.PENDING}
        await self._write_status(record, statuses.stamped(status, self._clock.now()))

    async def _add_plugins(self, record: JobRecord) -> None:
        job = _job(record)
        record.plugins.check()
        for plugin in record.plugins.active:
            if controlled_key(plugin) in job.status.controlled_resources:
                if not record.plugins_fresh:
                    for wanted in plugin.refreshed(job):
                        await self._effects.ensure(wanted, job.metadata.namespace)
                continue
            objects = (
                await off_loop(self._clock, partial(plugin.objects, job))
                if plugin.computes_long
                else plugin.objects(job)
            )
            for wanted in objects:
                await self._effects.ensure(wanted, job.metadata.namespace)
        record.plugins_fresh = True

    async def _ensure_claims(self, record: JobRecord) -> dict[str, str]:
        record.set_job(await self._effects.name_claims(_job(record)))
        return await self._effects.ensure_claims(_job(record))

    def _fitting_group(self, record: JobRecord) -> PodGroup | None:
        """Return the PodGroup if it is there and known to be as it should be."""
        wanted = record.wanted_group
        if wanted is None or wanted.fits is None:
            return None
        group = self.current_group(record)
        return group if group is not None and group.spec == wanted.fits else None

    async def _ensure_group(self, record: JobRecord) -> None:
        job = _job(record)
        wanted = record.wanted_group
        if wanted is None:
            wanted = record.wanted_group = record.form.group(job, self._seen.priority_of)
        group = self.current_group(record)
        if group is None:
            body = groups.build_group(job, wanted.spec)
            try:
                group = await self._cluster.create(PodGroup, body, job.metadata.namespace)
            except AlreadyExists:
                group = await self._cluster.get(PodGroup, groups.group_name(job), job.metadata.namespace)
            if not record.put_group(group) and record.group is None:  # else the watch was faster, with a newer state
                raise JobError(f"the PodGroup of job {record.key} is still being deleted")
            return
        patch = groups.group_patch(group, wanted.spec)
        if patch is not None:
            meta = group.metadata
            group = await self._cluster.patch(PodGroup, meta.name, meta.namespace, patch)
            record.put_group(group)
        wanted.fits = group.spec

    def current_group(self, record: JobRecord) -> PodGroup | None:
        """Return the job's PodGroup; one of the job's own name (of old versions) is honoured."""
        job = _job(record)
        known = record.group
        if known is not None:
            meta = known.metadata
            if meta.key in self._seen.groups or revision_of(self._seen.groups.resource_version) < revision_of(
                meta.resource_version
            ):
                return known
            record.drop_group(meta.uid)  # it came and went while the watch was away
        for key in (groups.group_key(job), record.key):
            found = self._seen.groups.get(key)
            if found is not None and record.put_group(found):
                return found
        return None

    def _report_group(self, record: JobRecord, group: PodGroup | None) -> None:
        newest = groups.newest_condition(group) if group is not None else None
        if newest is None or newest[0] == "Scheduled":
            record.group_warning = ""
            return
        message = f"PodGroup {record.key.namespace}:{record.key.name} {newest[0].lower()}, reason: {newest[1]}"
        if message != record.group_warning:
            record.group_warning = message
            self._warn(_job(record), "PodGroupPending", message)

    async def _wait_for_admission(
        self, record: JobRecord, transition: Transition, controlled: Mapping[str, str]
    ) -> None:
        """No pods before the scheduler admits the group; the phase rule sees the stored counters."""
        record.agenda.counters_due = None
        job = _job(record)
        status = job.status
        counts = Counts(
            pending=status.pending,
            running=status.running,
            succeeded=status.succeeded,
            failed=status.failed,
            terminating=status.terminating,
            unknown=status.unknown,
            task_succeeded={name: state.phase.get("Succeeded", 0) for name, state in status.task_status_count.items()},
            status_min_available=status.min_available,
        )
        outcome = transition(record.facts, counts, status.retry_count)
        if outcome is None and (not controlled or controlled == status.controlled_resources):
            return
        old = statuses.to_json(status)
        new = {**old, "controlledResources": dict(controlled)} if controlled else old
        if outcome is not None:
            new = statuses.stamped(statuses.moved(new, outcome), self._clock.now())
            self._metrics.ended(job, outcome.phase)
        if new != old:
            await self._write_status(record, new)

    async def _sync_pods(self, record: JobRecord, group: PodGroup, *, forwarded: bool) -> None:
        self.check_assumed(record)
        job = _job(record)
        plan = plan_pods(job, record.tasks)
        failures: list[StratoError] = []
        if plan.create:
            try:
                blueprints = await self._effects.blueprints(record, group.metadata.name, forwarded=forwarded)
            except PluginRefusal as refusal:
                self._warn(job, "FailedCreate", f"Error creating pods: {refusal}")
                raise
            for task, indexes in plan.create:
                failures += await self._effects.create_pods(
                    record, blueprints[task.name or terms.DEFAULT_TASK], indexes
                )
                self._metrics.created(job, len(indexes), self._clock.now())
            record.blueprints = None  # a built pod is kilobytes; a restart reads the templates again
        if failures:
            self._warn(job, "FailedCreate", f"Error creating pods: {failures[0]}")
            raise next((f for f in failures if not isinstance(f, NameTaken)), failures[0])
        if plan.delete:
            failures = await self._effects.delete_pods(record, plan.delete)
            if failures:
                self._warn(job, "FailedDelete", f"Error deleting pods: {failures[0]}")
                raise failures[0]

    def check_assumed(self, record: JobRecord) -> None:
        """Forget created pods that the watch has passed without seeing them: they are gone again."""
        seen = revision_of(self._seen.pods.resource_version)
        for task, name in list(record.assumed):
            pod = record.task(task).pods.get(name)
            if pod is None:
                record.assumed.pop((task, name), None)
            elif seen >= pod.revision and (record.key.namespace, name) not in self._seen.pods:
                record.drop_pod(task, name, pod.uid)

    async def _write_synced(self, record: JobRecord, transition: Transition, controlled: Mapping[str, str]) -> None:
        job = _job(record)
        old = statuses.to_json(job.status)
        if record.agenda.stirred and plan_pods(job, record.tasks).is_empty:
            record.agenda.stirred = False  # what moved while we wrote is counted here
        counts = record.counts()
        new = statuses.synced(old, counts, record.task_status_count(), job.spec.min_available, controlled)
        outcome = transition(record.facts, counts, job.status.retry_count)
        new = statuses.moved(new, outcome)
        if new == old:
            record.agenda.counters_due = None
            return
        if outcome is None and self._may_wait(record):
            return
        record.agenda.counters_due = None
        if outcome is not None:
            if outcome.phase in terms.FINISHED_PHASES and self._nothing_to_kill(record):
                await self._finish(record, outcome)
                return
            self._metrics.ended(job, outcome.phase)
        await self._write_status(record, statuses.stamped(new, self._clock.now()))

    def _nothing_to_kill(self, record: JobRecord) -> bool:
        status = _job(record).status
        plan = plan_full_kill(
            record.pods(),
            Procedure.KILL_UNFINISHED,
            retry_count=status.retry_count,
            max_retry=_job(record).spec.max_retry,
        )
        return not plan.delete and not plan.terminating

    async def _finish(self, record: JobRecord, outcome: Outcome) -> None:
        """End a job whose pods have all ended: the last phase and what its kill would write, in one.

        With pods to kill the phase must be written first: a controller that starts between the two would take the
        missing pods for lost and make them again.
        """
        job = _job(record)
        controlled = await self._remove_plugin_objects(record, job)
        new = statuses.killed(statuses.to_json(job.status), 0, job.status.version + 1, controlled)
        new = statuses.stamped(statuses.moved(new, outcome), self._clock.now())
        new["minAvailable"] = job.spec.min_available
        self._metrics.ended(job, outcome.phase)
        await self._write_status(record, statuses.with_running_duration(new, job.metadata), ends=True)
        await self._delete_group(record)

    def _may_wait(self, record: JobRecord) -> bool:
        """Hold back a write of mere counters for a moment: while pods start, a change of phase soon makes it void."""
        is_pending = _job(record).status.state.phase == Phase.PENDING
        return record.agenda.may_hold_counters(self._clock.monotonic(), is_pending=is_pending, is_busy=self._is_busy())

    # Shared

    async def _write_status(self, record: JobRecord, status: Status, *, ends: bool = False) -> None:
        """Write the status.

        Args:
            record: The job's.
            status: What to write.
            ends: Whoever writes it does all that its phase asks for.
        """
        job = _job(record)
        operations: list[dict[str, Any]] = [
            {"op": "test", "path": "/metadata/uid", "value": job.metadata.uid},
            {"op": "add", "path": "/status", "value": status},
        ]
        meta = job.metadata
        before, after = job.status.state.phase, statuses.phase_of(status)
        record.moving_to = after
        try:
            written = await self._cluster.patch(
                Job, meta.name, meta.namespace, operations, patch_type=PatchType.JSON, subresource="status"
            )
            if record.job is None or record.job.metadata.uid != meta.uid:
                return
            is_news = record.set_job(written)  # the phase is none, whether the watch or the answer tells of it first
        finally:
            record.moving_to = None
        if is_news or not (ends or self._goes_on(record, before, after)):
            record.agenda.dirty = True

    def _goes_on(self, record: JobRecord, before: str, after: str) -> bool:
        """Return whether a phase just written leaves nothing to do that the sync that wrote it has not done."""
        if before == after or (not before and after == Phase.PENDING):
            return True
        if before not in ("", Phase.PENDING) or after != Phase.RUNNING or not record.plugins_fresh:
            return False
        follows = after_sync_running(record.facts, record.counts(), _job(record).status.retry_count)
        return follows is None

    async def _step(self, record: JobRecord, reason: str, message: str, step: Any) -> Any:
        """Await a step of the initiation; a failure is told on the job."""
        try:
            return await step
        except (StratoError, UnknownPlugin) as error:
            self._warn(_job(record), reason, f"{message}, err: {error}")
            raise

    def _warn(self, job: Job, reason: str, message: str) -> None:
        self._recorder.event(job, "Warning", reason, message)


def _job(record: JobRecord) -> Job:
    """Return the record's job.

    Raises:
        JobError: It was deleted while we worked on it.
    """
    if record.job is None:
        raise JobError(f"job {record.key} was deleted")
    return record.job


def _pods_of(record: JobRecord, task: str) -> Mapping[str, object]:
    found = record.tasks.get(task)
    return found.pods if found is not None else {}


def _is_settled(record: JobRecord, plan: KillPlan) -> bool:
    """Return whether a kill in a final phase would change nothing but the version.

    Volcano counts the version up on every event of a finished job, and on each start of the controller.
    """
    job = _job(record)
    status = job.status
    if plan.delete or plan.terminating:
        return False
    counters = (status.pending, status.running, status.succeeded, status.failed, status.terminating, status.unknown)
    held = any(controlled_key(plugin) in status.controlled_resources for plugin in record.plugins.active)
    return not any(counters) and not held and not status.task_status_count
