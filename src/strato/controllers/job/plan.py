"""The plans of a job, kill and sync: from its record to the API calls that follow, step by step.

Source: volcano-controllers A6, A7.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from functools import partial
from random import Random
from typing import Any, Final

import msgspec

from strato.api import catalog
from strato.api.meta import Key, ObjectMeta
from strato.api.volcano.batch import Job, JobStatus
from strato.api.volcano.scheduling import PodGroup, PodGroupStatus
from strato.client.cluster import PatchType
from strato.clock import Clock, parse_time
from strato.controllers.job import group as groups
from strato.controllers.job import status as statuses
from strato.controllers.job import terms
from strato.controllers.job.bodies import Bodies
from strato.controllers.job.calls import Change, Compute, Create, Delete, Get, Plan, Set, ask
from strato.controllers.job.kill import KillPlan, plan_full_kill, plan_target_kill
from strato.controllers.job.listers import Listers
from strato.controllers.job.objects import JobError, ensure, ensure_claims, name_claims, remove
from strato.controllers.job.plugins.base import PluginRefusal
from strato.controllers.job.plugins.registry import UnknownPlugin, controlled_key
from strato.controllers.job.pods import revision_of
from strato.controllers.job.record import JobRecord
from strato.controllers.job.replicas import NameTaken, Replicas, delete_pods, kill_pods
from strato.controllers.job.requests import Target
from strato.controllers.job.restartintent import is_restart, note, unfinished
from strato.controllers.job.states import (
    Counts,
    Operation,
    Outcome,
    Procedure,
    Transition,
    after_restart,
    after_sync_running,
    has_exhausted_retries,
    stay,
)
from strato.controllers.job.status import Status, StatusCache, StatusWrite
from strato.controllers.job.sync import PodPlan, plan_pods
from strato.controllers.job.telemetry import JobMetrics
from strato.controllers.job.terms import Phase
from strato.controllers.recorder import Recorder
from strato.errors import AlreadyExists, NotFound, StratoError

_STATUS_PATCH: Final = b'[{"op":"test","path":"/metadata/uid","value":%b},{"op":"add","path":"/status","value":%b}]'
_INITIAL_STATUS: Final = PodGroupStatus(phase=Phase.PENDING)


class Planner:
    """See the module. One instance serves all jobs; results are put into the record it is given."""

    def __init__(
        self,
        clock: Clock,
        random: Random,
        recorder: Recorder,
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
        self._is_busy = is_busy
        self._bodies = Bodies()
        self._statuses = StatusCache()
        self._replicas = Replicas(random, listers.jobs, self._bodies)

    def plan(self, record: JobRecord, operation: Operation, action: str, target: Target) -> Plan[None]:
        """Plan what an action means in the job's phase.

        Raises:
            StratoError: A step failed; all of it may be done again.
        """
        job = record.job
        if operation.procedure is not Procedure.SYNC:
            record.schedule.counters_due = None  # a kill writes its own counters
        if job is None or job.metadata.deletion_timestamp is not None:
            record.schedule.counters_due = None
            return
        if operation.procedure is Procedure.SYNC:
            yield from self._sync(record, operation.transition)
        elif operation.procedure is Procedure.KILL_TARGET:
            plan = plan_target_kill(record.tasks, action, target)
            if plan is None and unfinished(job) is not None:
                plan = KillPlan((), 0)  # its pods were deleted, but the retry was not counted
            if plan is not None:
                yield from self._note_restart(record, operation, action, target)
                yield from self._kill(record, plan, operation.transition, full=False)
        else:
            yield from self._note_restart(record, operation, action, target)
            yield from self._kill_all(record, operation)

    # Kill

    def delete_marked(self, record: JobRecord) -> Plan[None]:
        """Delete pods that were marked out-of-sync and still exist.

        Raises:
            StratoError: One could not be deleted.
        """
        marked = [pod for pod in record.pods() if pod.out_of_sync and not pod.terminating]
        if not marked:
            return
        failures = yield from delete_pods(record, marked)
        if failures:
            raise failures[0]

    def _note_restart(self, record: JobRecord, operation: Operation, action: str, target: Target) -> Plan[None]:
        job = _job(record)
        patch = note(job, action, target) if is_restart(operation) else None
        if patch is not None:
            meta = job.metadata
            record.set_job((yield from ask(Change(Job, meta.namespace, meta.name, patch))))

    def _kill_all(self, record: JobRecord, operation: Operation) -> Plan[None]:
        job = _job(record)
        plan = plan_full_kill(
            record.pods(),
            operation.procedure,
            retry_count=job.status.retry_count,
            max_retry=job.spec.max_retry,
        )
        if operation.transition is stay and _is_noop(record, plan) and self.current_group(record) is None:
            return
        yield from self._kill(record, plan, operation.transition, full=True)

    def _kill(self, record: JobRecord, plan: KillPlan, transition: Transition, *, full: bool) -> Plan[None]:
        job = _job(record)
        failures = yield from kill_pods(record, plan.delete)
        if failures:
            self._warn(job, "FailedDelete", f"Error deleting pods: {failures[0]}")
            raise failures[0]
        gone = sum(pod.name not in _pods_of(record, pod.task) for pod in plan.delete)
        terminating = plan.terminating + len(plan.delete) - gone
        job = _job(record)
        controlled = dict(job.status.controlled_resources)
        if full:  # pods that go on still need their host names and keys
            controlled = yield from self._remove_plugin_objects(record, job)
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
            yield from self._delete_group(record)
        # last: a controller that finds it written need not do any of this again
        yield from self._write_status(record, statuses.written(new))

    def _remove_plugin_objects(self, record: JobRecord, job: Job) -> Plan[dict[str, str]]:
        """Remove what plugins made; returns what remains controlled."""
        controlled = dict(job.status.controlled_resources)
        for plugin in record.plugins.active:
            key = controlled_key(plugin)
            if key in controlled:
                for view, name in plugin.removed(job):
                    yield from remove(view, name, job)
                del controlled[key]
        record.plugins_fresh = False
        return controlled

    def _delete_group(self, record: JobRecord) -> Plan[None]:
        group = self.current_group(record)
        if group is None:
            return
        meta = group.metadata
        record.drop_group(meta.uid, ours=True)  # the watch may show it before the answer comes
        try:
            yield from ask(Delete(PodGroup, meta.namespace, meta.name, meta.uid))
        except NotFound:
            return  # already deleted
        except BaseException:
            record.drop_group(meta.uid)
            raise

    # Sync

    def _sync(self, record: JobRecord, transition: Transition) -> Plan[None]:
        job = _job(record)
        queue = self._listers.queues.get(Key("", job.spec.queue))
        if queue is None:
            raise JobError(f"queue {job.spec.queue!r} of job {record.key} is not found")
        forwarded = bool(queue.spec.extend_clusters)
        if forwarded and job.metadata.annotation(terms.JOB_FORWARDING) != "true":
            change = {"metadata": {"annotations": {terms.JOB_FORWARDING: "true"}}}
            record.set_job((yield from ask(Change(Job, job.metadata.namespace, job.metadata.name, change))))
        if not job.status.state.phase:
            _begin_status(record)
        controlled = yield from self._prepare(record)
        group = self._fitting_group(record)
        if group is None:
            ensured = self._ensure_group(record)
            yield from self._step(record, "PodGroupError", "Failed to create or update PodGroup", ensured)
            group = self.current_group(record)
        job = _job(record)
        self._report_group(record, group)
        if group is None or not groups.is_admitted(group):
            yield from self._wait_for_admission(record, transition, controlled)
            return
        fails_next = transition is after_restart and has_exhausted_retries(record.facts, job.status.retry_count)
        if not fails_next:
            self.check_assumed(record)
            pods = plan_pods(job, record.tasks)
            if not pods.is_empty:
                yield from self._sync_pods(record, pods, group, forwarded=forwarded)
        yield from self._write_synced(record, transition, controlled)

    def _prepare(self, record: JobRecord) -> Plan[Mapping[str, str]]:
        """Bring the objects of plugins and the claims up to date; returns ``controlledResources`` as it should be."""
        job = _job(record)
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
            added = self._add_plugins(record)
            yield from self._step(record, "PluginError", "Execute plugin when job add failed", added)
        controlled = dict(_job(record).status.controlled_resources)
        controlled.update((controlled_key(p), p.name) for p in record.plugins.active if p.tracked)
        if job.spec.volumes:
            claims = yield from self._step(record, "PVCError", "Failed to create PVC", self._ensure_claims(record))
            controlled.update(claims)
        return controlled

    def _add_plugins(self, record: JobRecord) -> Plan[None]:
        job = _job(record)
        record.plugins.check()
        for plugin in record.plugins.active:
            if controlled_key(plugin) in job.status.controlled_resources:
                if not record.plugins_fresh:
                    for wanted in plugin.refreshed(job):
                        yield from ensure(wanted, job.metadata.namespace)
                continue
            make = partial(plugin.objects, job)
            for wanted in (yield from ask(Compute(make))) if plugin.computes_long else make():
                yield from ensure(wanted, job.metadata.namespace)
        record.plugins_fresh = True

    def _ensure_claims(self, record: JobRecord) -> Plan[dict[str, str]]:
        record.set_job((yield from name_claims(_job(record), self._random)))
        return (yield from ensure_claims(_job(record)))

    def _fitting_group(self, record: JobRecord) -> PodGroup | None:
        """Return the PodGroup if it is there and known to be as it should be."""
        wanted = record.desired_group
        if wanted is None or wanted.fits is None:
            return None
        group = self.current_group(record)
        same = group is not None and (group.spec is wanted.fits or group.spec == wanted.fits)
        return group if same else None

    def _ensure_group(self, record: JobRecord) -> Plan[None]:
        job = _job(record)
        wanted = record.desired_group
        if wanted is None:
            wanted = record.desired_group = record.compiled.group(job, self._listers.priority_of)
        group = self.current_group(record)
        if group is None:
            namespace, name = groups.group_key(job)
            try:
                made = yield from ask(Create(catalog.PODGROUP, namespace, self._bodies.group(job, wanted)))
                meta = ObjectMeta(name=name, namespace=namespace, uid=made.uid, resource_version=made.resource_version)
                group = PodGroup(metadata=meta, spec=wanted.view, status=_INITIAL_STATUS)
            except AlreadyExists:
                group = yield from ask(Get(PodGroup, namespace, name))
            if not record.put_group(group) and record.group is None:  # else the watch has shown a newer state
                raise JobError(f"the PodGroup of job {record.key} is still being deleted")
            return
        patch = groups.group_patch(group, wanted.spec)
        if patch is not None:
            meta = group.metadata
            group = yield from ask(Change(PodGroup, meta.namespace, meta.name, patch))
            record.put_group(group)
        wanted.fits = group.spec

    def current_group(self, record: JobRecord) -> PodGroup | None:
        """Return the job's PodGroup; one of the job's own name (of old versions) is honoured."""
        job = _job(record)
        known = record.group
        if known is not None:
            meta, observed = known.metadata, self._listers.groups
            if (meta.namespace, meta.name) in observed:
                return known
            if revision_of(observed.resource_version) < revision_of(meta.resource_version):
                return known
            record.drop_group(meta.uid)  # created and deleted while the watch was interrupted
        for key in (groups.group_key(job), record.key):
            found = self._listers.groups.get(key)
            if found is not None and record.put_group(found):
                return found
        return None

    def _report_group(self, record: JobRecord, group: PodGroup | None) -> None:
        newest = groups.newest_condition(group) if group is not None and group.status.conditions else None
        if newest is None or newest[0] == "Scheduled":
            record.group_warning = ""
            return
        message = f"PodGroup {record.key.namespace}:{record.key.name} {newest[0].lower()}, reason: {newest[1]}"
        if message != record.group_warning:
            record.group_warning = message
            self._warn(_job(record), "PodGroupPending", message)

    def _wait_for_admission(
        self, record: JobRecord, transition: Transition, controlled: Mapping[str, str]
    ) -> Plan[None]:
        """No pods before the scheduler admits the group; the phase rule sees the stored counters."""
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
        new = old = statuses.to_json(status)
        if controlled and controlled != status.controlled_resources:
            new = {**old, "controlledResources": dict(controlled)}
        elif outcome is None and (not record.is_unwritten or self._may_wait(record)):
            if not record.is_unwritten:
                record.schedule.counters_due = None
            return
        record.schedule.counters_due = None
        if outcome is not None:
            new = statuses.stamped(statuses.moved(new, outcome), self._clock.now())
            self._metrics.ended(job, outcome.phase)
        yield from self._write_status(record, statuses.written(new))

    def _sync_pods(self, record: JobRecord, plan: PodPlan, group: PodGroup, *, forwarded: bool) -> Plan[None]:
        job = _job(record)
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
        """Drop created pods that the watch did not show up to their revision: they were deleted."""
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
        job, schedule = _job(record), record.schedule
        if schedule.pods_dirty and plan_pods(job, record.tasks).is_empty:
            schedule.pods_dirty = False  # what changed while we wrote is counted here
        counts, tasks = record.counts(), record.task_status_count()
        outcome = transition(record.facts, counts, job.status.retry_count)
        if outcome is None:
            known = statuses.counts_same(job.status, counts, tasks, job.spec.min_available, controlled)
            if known and not record.is_unwritten:
                schedule.counters_due = None
                return
            if self._may_wait(record):
                return
        schedule.counters_due = None
        if outcome is not None:
            if outcome.phase in terms.FINISHED_PHASES and self._nothing_to_kill(record):
                yield from self._finish(record, outcome)
                return
            self._metrics.ended(job, outcome.phase)
        now, minimum = self._clock.now(), job.spec.min_available

        def make() -> Status:
            new = statuses.synced(statuses.to_json(job.status), counts, tasks, minimum, controlled)
            return statuses.stamped(statuses.moved(new, outcome), now)

        counted = tuple([(name, tuple(of["phase"].items())) for name, of in tasks.items()])
        key = counted, counts.terminating, minimum, _sorted_items(controlled), outcome, now // 1
        yield from self._write_status(record, self._statuses.of(key, job.status, make))

    def _nothing_to_kill(self, record: JobRecord) -> bool:
        status = _job(record).status
        plan = plan_full_kill(
            record.pods(),
            Procedure.KILL_UNFINISHED,
            retry_count=status.retry_count,
            max_retry=_job(record).spec.max_retry,
        )
        return not plan.delete and not plan.terminating

    def _finish(self, record: JobRecord, outcome: Outcome) -> Plan[None]:
        """End a job whose pods have all ended: write the last phase and what its kill would write at once.

        With pods to kill the phase must be written first: a controller that starts between the two would create the
        missing pods again.
        """
        job = _job(record)
        controlled = yield from self._remove_plugin_objects(record, job)
        now, minimum = self._clock.now(), job.spec.min_available

        def make() -> Status:
            new = statuses.killed(statuses.to_json(job.status), 0, job.status.version + 1, controlled)
            new = statuses.stamped(statuses.moved(new, outcome), now)
            return statuses.with_running_duration({**new, "minAvailable": minimum}, job.metadata)

        self._metrics.ended(job, outcome.phase)
        key = job.metadata.creation_timestamp, minimum, _sorted_items(controlled), outcome, now // 1
        yield from self._write_status(record, self._statuses.of(key, job.status, make), ends=True)
        yield from self._delete_group(record)

    def _may_wait(self, record: JobRecord) -> bool:
        """Whether a write of mere counters is held back: while pods start, a change of phase soon supersedes it."""
        is_pending = _job(record).status.state.phase == Phase.PENDING
        return record.schedule.may_hold_counters(
            self._clock.monotonic(), is_pending=is_pending, is_busy=self._is_busy()
        )

    # Shared

    def _write_status(self, record: JobRecord, new: StatusWrite, *, ends: bool = False) -> Plan[None]:
        """Write the status.

        A write of mere counters may be repeated if an older watch event causes a sync, so its answer is not needed. All
        other writes wait for the answer, whose revision tells older watch events from later ones.

        Args:
            record: The job's.
            new: What to write.
            ends: Whether the plan that writes it also does all that its phase asks for.
        """
        job = _job(record)
        meta = job.metadata
        body = _STATUS_PATCH % (msgspec.json.encode(meta.uid), new.body)
        before, after = job.status.state.phase, new.status.state.phase
        may_repeat = after == before or (before == Phase.PENDING and after == Phase.RUNNING)
        changed = False
        record.moving_to = after
        try:
            if may_repeat:
                yield from ask(Set(catalog.VCJOB, meta.namespace, meta.name, body, PatchType.JSON, "status"))
                record.take_status(job, new.status)
            else:
                written = yield from ask(Change(Job, meta.namespace, meta.name, body, PatchType.JSON, "status"))
                changed = record.set_job(written)  # the watch or the answer shows the phase first
        finally:
            record.moving_to = None
        record.is_unwritten = False
        if changed or not (ends or self._goes_on(record, before, after)):
            record.schedule.dirty = True

    def _goes_on(self, record: JobRecord, before: str, after: str) -> bool:
        """Return whether a phase just written leaves nothing to do that the sync that wrote it has not done."""
        if before == after:
            return True
        if before not in ("", Phase.PENDING) or after != Phase.RUNNING or not record.plugins_fresh:
            return False
        follows = after_sync_running(record.facts, record.counts(), _job(record).status.retry_count)
        return follows is None

    def _step(self, record: JobRecord, reason: str, message: str, step: Any) -> Plan[Any]:
        """Run a step of the initiation; a failure is reported by an event on the job."""
        try:
            return (yield from step)
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


def _sorted_items(controlled: Mapping[str, str]) -> Hashable:
    return tuple(sorted(controlled.items())) if controlled else ()


def _begin_status(record: JobRecord) -> None:
    """Begin the status of a job that has none yet; it is written with the next status, or soon."""
    job = _job(record)
    status = {**statuses.to_json(job.status), "minAvailable": job.spec.min_available}
    status["state"] = {**status.get("state", {}), "phase": Phase.PENDING}
    since = parse_time(job.metadata.creation_timestamp) if job.metadata.creation_timestamp else 0.0
    record.begin_status(msgspec.convert(statuses.stamped(status, since), JobStatus))


def _pods_of(record: JobRecord, task: str) -> Mapping[str, object]:
    found = record.tasks.get(task)
    return found.pods if found is not None else {}


def _is_noop(record: JobRecord, plan: KillPlan) -> bool:
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
