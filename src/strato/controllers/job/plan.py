"""The plans of a job, kill and sync: they read its record and yield the API calls, step by step.

Source: volcano-controllers A6, A7.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from random import Random
from typing import Any

import msgspec

from strato.api import afterjobs
from strato.api.meta import Key
from strato.api.volcano.batch import Job
from strato.api.volcano.scheduling import PodGroup
from strato.client.events import EventRecorder
from strato.clock import Clock, format_time
from strato.controllers.job import group as groups
from strato.controllers.job import status as statuses
from strato.controllers.job import terms
from strato.controllers.job.bodies import Bodies
from strato.controllers.job.calls import PatchCall, Plan, ask
from strato.controllers.job.causes import UNCAUSED, Cause
from strato.controllers.job.dependents import Dependents
from strato.controllers.job.groupplan import GroupPlanner
from strato.controllers.job.kill import KillPlan, plan_full_kill, plan_target_kill
from strato.controllers.job.listers import Listers
from strato.controllers.job.objects import JobError, ensure, ensure_claims, name_claims
from strato.controllers.job.pluginobjects import add_plugin_objects, remove_plugin_objects
from strato.controllers.job.plugins.base import PluginRefusal
from strato.controllers.job.plugins.registry import UnknownPlugin, controlled_key
from strato.controllers.job.pods import revision_of
from strato.controllers.job.record import JobRecord
from strato.controllers.job.replicas import NameTaken, Replicas, delete_pods, kill_pods
from strato.controllers.job.requests import Target
from strato.controllers.job.restartintent import is_restart, note, unfinished
from strato.controllers.job.states import (
    Counts,
    NextPhase,
    PlannedProcedure,
    Procedure,
    Transition,
    after_restart,
    has_exhausted_retries,
    stay,
)
from strato.controllers.job.status import Status
from strato.controllers.job.statusplan import StatusPlanner
from strato.controllers.job.sync import PodPlan, plan_pods
from strato.controllers.job.telemetry import JobMetrics
from strato.controllers.job.terms import Phase
from strato.errors import StratoError


class Planner:
    """See the module. One instance serves all jobs; its methods put the results into the record they are given."""

    def __init__(
        self,
        clock: Clock,
        random: Random,
        recorder: EventRecorder,
        metrics: JobMetrics,
        listers: Listers,
        *,
        is_busy: Callable[[], bool],
    ) -> None:
        self._clock = clock
        self._random = random
        self._recorder = recorder
        self._metrics = metrics
        self._listers = listers
        bodies = Bodies()
        self._groups = GroupPlanner(listers, bodies, recorder)
        self._statuses = StatusPlanner(clock, is_busy)
        self._replicas = Replicas(random, listers.jobs, bodies)
        self.dependents = Dependents()
        """Jobs that wait for others."""

    def plan(
        self, record: JobRecord, operation: PlannedProcedure, action: str, target: Target, cause: Cause = UNCAUSED
    ) -> Plan[None]:
        """Plan the procedure that an action starts in the job's phase.

        Raises:
            StratoError: A step failed; the whole procedure can be repeated.
        """
        job = record.job
        if operation.procedure is not Procedure.SYNC:
            record.schedule.counters_due = None  # a kill writes all counters, those held back too
        if job is None or job.metadata.deletion_timestamp is not None:
            record.schedule.counters_due = None
            return
        if operation.procedure is Procedure.SYNC:
            yield from self._sync(record, operation.transition)
        elif operation.procedure is Procedure.KILL_TARGET:
            plan = plan_target_kill(record.tasks, action, target)
            if plan is None and unfinished(job) is not None:
                plan = KillPlan((), 0)  # a restart has deleted the pods, and its retry remains to be counted
            if plan is not None:
                yield from self._note_restart(record, operation, action, target)
                yield from self._kill(record, plan, operation.transition, cause, full=False)
        else:
            yield from self._note_restart(record, operation, action, target)
            yield from self._kill_all(record, operation, cause)

    # Kill

    def delete_marked(self, record: JobRecord) -> Plan[None]:
        """Delete pods that were marked out-of-sync and still exist.

        Raises:
            StratoError: A pod could not be deleted.
        """
        marked = [pod for pod in record.pods() if pod.out_of_sync and not pod.terminating]
        if not marked:
            return
        failures = yield from delete_pods(record, marked)
        if failures:
            raise failures[0]

    def _note_restart(self, record: JobRecord, operation: PlannedProcedure, action: str, target: Target) -> Plan[None]:
        job = record.require_job()
        patch = note(job, action, target) if is_restart(operation) else None
        if patch is not None:
            meta = job.metadata
            record.set_job((yield from ask(PatchCall(Job, meta.namespace, meta.name, patch))))

    def _kill_all(self, record: JobRecord, operation: PlannedProcedure, cause: Cause) -> Plan[None]:
        job = record.require_job()
        plan = plan_full_kill(
            record.pods(), operation.procedure, retry_count=job.status.retry_count, max_retry=job.spec.max_retry
        )
        if operation.transition is stay and _is_noop(record, plan) and self._groups.current(record) is None:
            return
        yield from self._kill(record, plan, operation.transition, cause, full=True)

    def _kill(
        self, record: JobRecord, plan: KillPlan, transition: Transition, cause: Cause, *, full: bool
    ) -> Plan[None]:
        job = record.require_job()
        failures = yield from kill_pods(record, plan.delete)
        if failures:
            self._warn(job, "FailedDelete", f"Error deleting pods: {failures[0]}")
            raise failures[0]
        gone = sum(pod.name not in _pods_of(record, pod.task) for pod in plan.delete)
        terminating = plan.terminating + len(plan.delete) - gone
        job = record.require_job()
        controlled = dict(job.status.controlled_resources)
        if full:  # after a partial kill the remaining pods still need the objects, such as host files and keys
            controlled = yield from remove_plugin_objects(record, job)
        old = statuses.to_json(job.status)
        version = job.status.version + 1 if full else job.status.version
        new = statuses.killed(old, terminating, version, controlled)
        counts = Counts(terminating=terminating, status_min_available=job.status.min_available)
        outcome = transition(record.facts, counts, job.status.retry_count)
        if outcome is not None and cause.explains(outcome.phase):
            outcome = msgspec.structs.replace(outcome, reason=cause.reason, message=cause.message)
        if outcome is not None:
            new = statuses.stamped(statuses.moved(new, outcome), self._clock.now())
            self._metrics.ended(job, outcome.phase)
        new = statuses.with_running_duration(new, job.metadata)
        if outcome is not None and outcome.phase in terms.FINISHED_PHASES:
            ended = record.counts()
            new = statuses.with_ended(new, ended.succeeded, ended.failed)
        elif job.status.state.phase in terms.FINISHED_PHASES:
            new = statuses.with_ended(new, job.status.succeeded, job.status.failed)
        if full:
            yield from self._groups.delete(record)
        # The status comes last: while it is not written, a controller that starts anew repeats the kill.
        yield from self._statuses.write(record, statuses.written(new))

    # Sync

    def _sync(self, record: JobRecord, transition: Transition) -> Plan[None]:
        job = record.require_job()
        queue = self._listers.queues.get(Key("", job.spec.queue))
        if queue is None:
            raise JobError(f"queue {job.spec.queue!r} of job {record.key} is not found")
        forwarded = bool(queue.spec.extend_clusters)
        if forwarded and job.metadata.annotation(terms.JOB_FORWARDING) != "true":
            change = {"metadata": {"annotations": {terms.JOB_FORWARDING: "true"}}}
            record.set_job((yield from ask(PatchCall(Job, job.metadata.namespace, job.metadata.name, change))))
        if not job.status.state.phase:
            self._statuses.begin(record)
        if job.metadata.annotations and (yield from self._waits_for_jobs(record)):
            return
        controlled = yield from self._prepare(record)
        group = self._groups.fitting(record)
        if group is None:
            ensured = self._groups.ensure(record)
            yield from self._step(record, "PodGroupError", "Failed to create or update PodGroup", ensured)
            group = self._groups.current(record)
        job = record.require_job()
        self._groups.report(record, group)
        if group is None or not groups.is_admitted(group):
            yield from self._wait_for_admission(record, transition, controlled)
            return
        fails_next = transition is after_restart and has_exhausted_retries(record.facts, job.status.retry_count)
        if not fails_next:
            self.check_assumed(record)
            pods = plan_pods(job, record.tasks, record.compiled.element_limit)
            if not pods.is_empty:
                yield from self._sync_pods(record, pods, group, forwarded=forwarded)
        yield from self._write_synced(record, transition, controlled)

    def _waits_for_jobs(self, record: JobRecord) -> Plan[bool]:
        """Return whether the job waits for other jobs, or is terminated because they ended otherwise.

        True ends the sync: such a job gets no PodGroup and no pods.
        """
        job = record.require_job()
        meta, status = job.metadata, job.status
        text = meta.annotation(afterjobs.AFTER)
        if not text or meta.annotation(afterjobs.RELEASED):
            return False
        try:
            wanted = afterjobs.parse_after(text)
        except ValueError as error:
            wanted = ()
            verdict = afterjobs.WaitVerdict(waits=True, message=f"annotation {afterjobs.AFTER}: {error}")
        else:
            verdict = afterjobs.decide(wanted, lambda name: self._listers.jobs.get(Key(meta.namespace, name)))
        if verdict.never:
            self._warn(job, afterjobs.NEVER_SATISFIED, verdict.message)
            outcome = NextPhase(Phase.TERMINATED, status.retry_count, afterjobs.NEVER_SATISFIED, verdict.message)
            new = statuses.stamped(statuses.moved(statuses.to_json(status), outcome), self._clock.now())
            self._metrics.ended(job, outcome.phase)
            yield from self._statuses.write(record, statuses.written(new), ends=True)
            return True
        if verdict.waits:
            self.dependents.add(record.key, [one.job for one in wanted])
        else:
            released = {"metadata": {"annotations": {afterjobs.RELEASED: format_time(self._clock.now())}}}
            record.set_job((yield from ask(PatchCall(Job, meta.namespace, meta.name, released))))
        if status.state.message != verdict.message:
            reason = afterjobs.WAITING if verdict.waits else ""
            new = statuses.with_reason(statuses.to_json(record.require_job().status), reason, verdict.message)
            yield from self._statuses.write(record, statuses.written(new))
        return verdict.waits

    def _prepare(self, record: JobRecord) -> Plan[Mapping[str, str]]:
        """Bring the objects of plugins and the claims up to date; returns the new ``controlledResources``."""
        job = record.require_job()
        held = job.status.controlled_resources
        if record.plugins.are_none:
            record.plugins_fresh = True
        if job.status.state.phase != Phase.PENDING:
            if not record.plugins_fresh:
                for plugin in record.plugins.active:
                    for wanted in plugin.refreshed(job):
                        yield from ensure(wanted, job.metadata.namespace)
                record.plugins_fresh = True
            return held
        if record.plugins.are_none and not job.spec.volumes:
            return held
        if not record.plugins.are_none:
            added = add_plugin_objects(record)
            yield from self._step(record, "PluginError", "Execute plugin when job add failed", added)
        controlled = dict(record.require_job().status.controlled_resources)
        controlled.update((controlled_key(p), p.name) for p in record.plugins.active if p.tracked)
        if job.spec.volumes:
            claims = yield from self._step(record, "PVCError", "Failed to create PVC", self._ensure_claims(record))
            controlled.update(claims)
        return controlled

    def _ensure_claims(self, record: JobRecord) -> Plan[dict[str, str]]:
        record.set_job((yield from name_claims(record.require_job(), self._random)))
        return (yield from ensure_claims(record.require_job()))

    def _wait_for_admission(
        self, record: JobRecord, transition: Transition, controlled: Mapping[str, str]
    ) -> Plan[None]:
        """Create no pods before the scheduler admits the group; apply the phase rule to the counters of the status."""
        job = record.require_job()
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
        new = old = statuses.to_json(status)
        if controlled and controlled != status.controlled_resources:
            new = {**old, "controlledResources": dict(controlled)}
        elif outcome is None and (not record.is_unwritten or self._statuses.may_wait(record)):
            if not record.is_unwritten:
                record.schedule.counters_due = None
            return
        record.schedule.counters_due = None
        if outcome is not None:
            new = statuses.stamped(statuses.moved(new, outcome), self._clock.now())
            self._metrics.ended(job, outcome.phase)
        yield from self._statuses.write(record, statuses.written(new))

    def _sync_pods(self, record: JobRecord, plan: PodPlan, group: PodGroup, *, forwarded: bool) -> Plan[None]:
        job = record.require_job()
        if plan.create:
            try:
                failures = yield from self._replicas.create(
                    record, plan.create, group.metadata.name, forwarded=forwarded
                )
            except PluginRefusal as refusal:
                self._warn(job, "FailedCreate", f"Error creating pods: {refusal}")
                raise
            self._metrics.created(job, sum(len(indexes) for _, indexes in plan.create), self._clock.now())
            if failures:
                self._warn(job, "FailedCreate", f"Error creating pods: {failures[0]}")
                raise next((f for f in failures if not isinstance(f, NameTaken)), failures[0])
        if plan.delete:
            failures = yield from delete_pods(record, plan.delete)
            if failures:
                self._warn(job, "FailedDelete", f"Error deleting pods: {failures[0]}")
                raise failures[0]

    def check_assumed(self, record: JobRecord) -> None:
        """Drop assumed pods that were deleted: the watch has passed their revision and does not have them."""
        if not record.assumed:
            return
        observed = revision_of(self._listers.pods.resource_version)
        for task, name in list(record.assumed):
            pod = record.task(task).pods.get(name)
            if pod is None:
                record.assumed.pop((task, name), None)
            elif observed >= pod.revision and (record.key.namespace, name) not in self._listers.pods:
                record.drop_pod(task, name, pod.uid)

    def _write_synced(self, record: JobRecord, transition: Transition, controlled: Mapping[str, str]) -> Plan[None]:
        job, schedule = record.require_job(), record.schedule
        if schedule.pods_dirty and plan_pods(job, record.tasks, record.compiled.element_limit).is_empty:
            schedule.pods_dirty = False  # the counters below include what changed while this sync sent its calls
        counts, tasks = record.counts(), record.task_status_count()
        outcome = transition(record.facts, counts, job.status.retry_count)
        if outcome is not None and outcome.phase == Phase.FAILED:
            outcome = _with_cause(record, outcome)
        if outcome is None:
            known = statuses.counts_same(job.status, counts, tasks, job.spec.min_available, controlled)
            if known and not record.is_unwritten:
                schedule.counters_due = None
                return
            if self._statuses.may_wait(record):
                return
        schedule.counters_due = None
        if outcome is not None:
            if outcome.phase in terms.FINISHED_PHASES and self._nothing_to_kill(record):
                yield from self._finish(record, outcome, counts)
                return
            self._metrics.ended(job, outcome.phase)
        now, minimum = self._clock.now(), job.spec.min_available

        def make() -> Status:
            new = statuses.synced(statuses.to_json(job.status), counts, tasks, minimum, controlled)
            return statuses.stamped(statuses.moved(new, outcome), now)

        counted = tuple([(name, tuple(of["phase"].items())) for name, of in tasks.items()])
        key = counted, counts.terminating, minimum, _sorted_items(controlled), outcome, now // 1
        yield from self._statuses.write(record, self._statuses.made.of(key, job.status, make))

    def _nothing_to_kill(self, record: JobRecord) -> bool:
        status = record.require_job().status
        plan = plan_full_kill(
            record.pods(),
            Procedure.KILL_UNFINISHED,
            retry_count=status.retry_count,
            max_retry=record.require_job().spec.max_retry,
        )
        return not plan.delete and not plan.terminating

    def _finish(self, record: JobRecord, outcome: NextPhase, counts: Counts) -> Plan[None]:
        """End a job whose pods have all ended: write its final phase and the status of its kill in one write.

        While pods remain to be killed, the phase must be written before the kill: else a controller that starts in
        between would find a running job that lacks pods, and would create them again.
        """
        job = record.require_job()
        controlled = yield from remove_plugin_objects(record, job)
        now, minimum = self._clock.now(), job.spec.min_available

        def make() -> Status:
            new = statuses.killed(statuses.to_json(job.status), 0, job.status.version + 1, controlled)
            new = statuses.with_ended(new, counts.succeeded, counts.failed)
            new = statuses.stamped(statuses.moved(new, outcome), now)
            return statuses.with_running_duration({**new, "minAvailable": minimum}, job.metadata)

        self._metrics.ended(job, outcome.phase)
        ended = counts.succeeded, counts.failed
        key = job.metadata.creation_timestamp, minimum, _sorted_items(controlled), outcome, ended, now // 1
        yield from self._statuses.write(record, self._statuses.made.of(key, job.status, make), ends=True)
        yield from self._groups.delete(record)

    # Shared

    def _step(self, record: JobRecord, reason: str, message: str, step: Any) -> Plan[Any]:
        """Run a step of a sync; a failure is recorded as an event on the job and raised again."""
        try:
            return (yield from step)
        except (StratoError, UnknownPlugin) as error:
            self._warn(record.require_job(), reason, f"{message}, err: {error}")
            raise

    def _warn(self, job: Job, reason: str, message: str) -> None:
        self._recorder.event(job, "Warning", reason, message)


def _sorted_items(controlled: Mapping[str, str]) -> Hashable:
    return tuple(sorted(controlled.items())) if controlled else ()


def _with_cause(record: JobRecord, outcome: NextPhase) -> NextPhase:
    """Return a failed outcome with its reason, when pods exceeded their deadline; else the outcome as it is."""
    late = sum(pod.timed_out for pod in record.pods())
    if not late:
        return outcome
    text = f"{late} pod{'s' if late > 1 else ''} ran longer than the time limit (activeDeadlineSeconds)"
    return msgspec.structs.replace(outcome, reason="DeadlineExceeded", message=text)


def _pods_of(record: JobRecord, task: str) -> Mapping[str, object]:
    found = record.tasks.get(task)
    return found.pods if found is not None else {}


def _is_noop(record: JobRecord, plan: KillPlan) -> bool:
    """Return whether a kill in a final phase would change nothing but the version.

    Such a kill is skipped. Volcano increments the version on every event of a finished job and on each start of its
    controller.
    """
    job = record.require_job()
    status = job.status
    if plan.delete or plan.terminating:
        return False
    counters = (status.pending, status.running, status.terminating, status.unknown)
    held = any(controlled_key(plugin) in status.controlled_resources for plugin in record.plugins.active)
    return not any(counters) and not held and not status.task_status_count
