"""The cron controller: a pass serves at most one scheduled time of one cron job, and computes when the next is due.

A job's name follows from its scheduled time, and the status is written with the resource version it was read at, so
that two passes that overlap (after a restart, or with a stale cache) make one job. Only the work queue holds when the
next pass is due; after a restart the first pass computes it again.

Source: volcano-controllers Part G.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import tzinfo
from typing import Any, ClassVar

from strato.api.meta import Key, Object
from strato.client.informer import Change
from strato.clock import format_time, parse_time
from strato.controllers.context import ControllerContext
from strato.controllers.cron import plan
from strato.controllers.cron.build import job_of
from strato.controllers.cron.plan import CronStatus, Due, OwnedJob
from strato.controllers.cron.schedule import InvalidSchedule, InvalidTimeZone, Schedule, find_zone, names_its_zone
from strato.controllers.cron.variants import KUBERNETES, VOLCANO, CronVariant
from strato.controllers.ownwrites import OwnWrites
from strato.controllers.reconcile import KeyedController
from strato.errors import AlreadyExists, ApiError, Conflict, NotFound, StratoError

_BY_CONTROLLER = "controller"


class CronController(KeyedController):
    """See the module."""

    workers: ClassVar[int] = 3
    variant: ClassVar[CronVariant]

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        variant = self.variant
        self._variant = variant
        self._written: OwnWrites[Any] = OwnWrites()
        self._owner = (variant.cron_kind.api_version, variant.cron_kind.name)
        self._crons: Any = context.informers.informer(variant.cron)
        self._jobs: Any = context.informers.informer(variant.job)
        self._jobs.add_index(_BY_CONTROLLER, _controller_uid)
        self._crons.add_handler(self._on_cron)
        self._jobs.add_handler(self._on_job, among=lambda changes: changes if len(self._crons) else ())

    # Events

    def _on_cron(self, change: Change[Any]) -> None:
        old, new = change.old, change.new
        if new is None:
            self._written.forget(change.key)
            return
        if old is None or old.metadata.uid != new.metadata.uid:
            self.queue.add(change.key)
        elif (old.spec.schedule, old.spec.time_zone) != (new.spec.schedule, new.spec.time_zone):
            self._on_new_schedule(new)
        elif old.metadata.generation != new.metadata.generation:
            self.queue.add(change.key)

    def _on_new_schedule(self, cron: Any) -> None:
        """Queue the new schedule's next time; times that it would have had before now are not caught up."""
        now = self.clock.now()
        try:
            due = Schedule(cron.spec.schedule, find_zone(cron.spec.time_zone)).next_after(now)
        except (InvalidSchedule, InvalidTimeZone) as error:
            self._warn(cron, "UnParseableCronJobSchedule", f"unparseable schedule for cronjob: {error}")
            return
        self.queue.add_after(cron.key, due - now + plan.RUN_DELAY_SECONDS)

    def _on_job(self, change: Change[Any]) -> None:
        owner = change.object.metadata.controller
        if owner is None or (owner.api_version, owner.kind) != self._owner:
            return
        old, new = change.old, change.new
        if old is None or new is None or self._variant.end_of(old) != self._variant.end_of(new):
            self.queue.add(Key(change.key.namespace, owner.name))

    # Work

    async def reconcile(self, key: Key) -> float | None:
        """Serve the scheduled time that has come, if any; returns the seconds until the next one."""
        cron = self._written.newest(key, self._crons.get(key))
        if cron is None or cron.metadata.deletion_timestamp is not None:
            return None
        status = CronStatus.from_view(cron.status)
        before = dict(status.to_json())
        try:
            again = await self._pass(cron, status)
        except StratoError:
            if status.to_json() != before:
                await self._write_status(cron, status)
            raise
        if status.to_json() != before:
            await self._write_status(cron, status)
        return again

    async def _pass(self, cron: Any, status: CronStatus) -> float | None:
        jobs = [OwnedJob(job, self._variant.end_of(job)) for job in self._jobs.index(_BY_CONTROLLER, cron.metadata.uid)]
        await self._tidy(cron, status, jobs)
        if cron.spec.suspend:
            return None
        spec = cron.spec
        try:
            if names_its_zone(spec.schedule):
                self._warn(cron, "UnsupportedSchedule", "CRON_TZ or TZ used in schedule; use timeZone instead")
                zone = find_zone(None)
            else:
                zone = find_zone(spec.time_zone)
        except InvalidTimeZone as error:
            self._warn(cron, self._variant.reasons.bad_zone, f"invalid timeZone: {error}")
            return None
        try:
            due = plan.find_due(
                Schedule(spec.schedule, zone),
                created=cron.metadata.creation_timestamp,
                last=status.last_schedule_time,
                deadline_seconds=spec.starting_deadline_seconds,
                now=self.clock.now(),
            )
        except (InvalidSchedule, InvalidTimeZone) as error:
            self._warn(cron, "InvalidSchedule", f"invalid schedule: {error}")
            return None
        await self._serve(cron, status, due, zone)
        return max(0.0, due.next_at - self.clock.now()) + plan.RUN_DELAY_SECONDS

    async def _tidy(self, cron: Any, status: CronStatus, jobs: Sequence[OwnedJob]) -> None:
        """Bring the list of active jobs and the history up to date."""
        kind = self._variant.job_kind
        for job in jobs:
            if job.end is not None:
                self._note_end(cron, status, job)
            elif not status.holds(job.uid):
                self._warn(
                    cron, self._variant.reasons.orphaned, f"saw a job that the controller did not create: {job.name}"
                )
                if await self._still_runs(job):
                    status.active.append(plan.reference(job.object, kind.api_version, kind.name))
        await self._drop_stale(cron, status, {job.uid for job in jobs})
        limits = cron.spec
        for job in plan.finished_to_delete(
            jobs, succeeded_limit=limits.successful_jobs_history_limit, failed_limit=limits.failed_jobs_history_limit
        ):
            await self._delete(cron, status, job.name, job.uid)

    def _note_end(self, cron: Any, status: CronStatus, job: OwnedJob) -> None:
        assert job.end is not None
        if status.holds(job.uid):
            status.drop(job.uid)
            condition = {plan.JobEnd.SUCCEEDED: "Complete", plan.JobEnd.FAILED: "Failed"}.get(
                job.end.outcome, "Terminated"
            )
            self._report(cron, "SawCompletedJob", f"Saw completed job: {job.name}, condition: {condition}")
        if job.end.outcome is plan.JobEnd.SUCCEEDED and job.end.at:
            known = status.last_successful_time
            if known is None or parse_time(known) < parse_time(job.end.at):
                status.last_successful_time = job.end.at

    async def _still_runs(self, job: OwnedJob) -> bool:
        meta = job.object.metadata
        try:
            fresh = await self._cluster.get(self._variant.job, meta.name, meta.namespace)
        except NotFound:
            return False
        return fresh.metadata.uid == meta.uid and self._variant.end_of(fresh) is None

    async def _drop_stale(self, cron: Any, status: CronStatus, owned: set[str]) -> None:
        for one in list(status.active):
            if one["uid"] in owned:
                continue
            try:
                fresh = await self._cluster.get(self._variant.job, one["name"], cron.metadata.namespace)
            except NotFound:
                gone = True
            else:
                gone = fresh.metadata.uid != one["uid"]
            if gone:
                self._warn(cron, self._variant.reasons.stale, f"active job went missing: {one['name']}")
                status.drop(one["uid"])

    async def _delete(self, cron: Any, status: CronStatus, name: str, uid: str) -> None:
        namespace = cron.metadata.namespace
        try:
            await self._cluster.delete(self._variant.job, name, namespace, uid=uid, propagation="Background")
        except NotFound:
            pass
        except Conflict as error:
            if await self._is_there(name, namespace, uid):  # False also when a newer job has taken its name
                raise error
        except ApiError as error:
            self._warn(cron, "FailedDelete", f"Deleted job: {error}")
            raise
        else:
            self._report(cron, "SuccessfulDelete", f"Deleted job {name}")
        status.drop(uid)

    async def _is_there(self, name: str, namespace: str, uid: str) -> bool:
        try:
            found = await self._cluster.get(self._variant.job, name, namespace)
        except NotFound:
            return False
        return bool(found.metadata.uid == uid)

    async def _serve(self, cron: Any, status: CronStatus, due: Due, zone: tzinfo) -> None:
        if due.at is None:
            return
        if due.missed > plan.MANY_MISSED:
            self._warn(
                cron,
                "TooManyMissedTimes",
                f"too many missed start times: {due.missed}. Set or decrease .spec.startingDeadlineSeconds "
                "or check clock skew",
            )
        time = format_time(due.at)
        if status.last_schedule_time == time or status.names(plan.job_name(cron.metadata.name, due.at)):
            return
        if not await self._may_run(cron, status):
            return
        await self._create(cron, status, due.at, zone)

    async def _may_run(self, cron: Any, status: CronStatus) -> bool:
        """Apply the concurrency policy."""
        policy, reasons = cron.spec.concurrency_policy, self._variant.reasons
        if not status.active:
            return True
        if policy == "Forbid":
            self._warn(
                cron,
                reasons.forbidden,
                "Not starting job because prior execution is running and concurrency policy is Forbid",
            )
            return False
        if policy == "Replace":
            if reasons.replaced:
                self._warn(cron, reasons.replaced, "Replacing the jobs that still run")
            for one in list(status.active):
                try:
                    await self._cluster.get(self._variant.job, one["name"], cron.metadata.namespace)
                except NotFound:
                    status.drop(one["uid"])
                    continue
                except ApiError as error:
                    self._warn(cron, "FailedGet", f"Get job: {error}")
                    raise
                await self._delete(cron, status, one["name"], one["uid"])
        return True

    async def _create(self, cron: Any, status: CronStatus, at: float, zone: tzinfo) -> None:
        meta, kind = cron.metadata, self._variant.job_kind
        whole = await self._cluster.get(self._variant.cron_kind, meta.name, meta.namespace)
        body = job_of(self._variant, meta, whole["spec"]["jobTemplate"], at, zone)
        job: Object
        try:
            job = await self._cluster.create(self._variant.job, body, meta.namespace)
        except AlreadyExists:
            found = await self._adoptable(cron, body["metadata"]["name"])
            status.last_schedule_time = format_time(at)
            if found is None:
                return
            job = found
        except ApiError as error:
            if any(cause.reason == "NamespaceTerminating" for cause in error.causes):
                self._warn(cron, "NamespaceTerminating", f"namespace {meta.namespace} is being deleted")
                return
            self._warn(cron, "FailedCreate", f"Error creating job: {error}")
            raise
        else:
            self._report(cron, "SuccessfulCreate", f"Created job {job.metadata.name}")
        status.active.append(plan.reference(job, kind.api_version, kind.name))
        status.last_schedule_time = format_time(at)

    async def _adoptable(self, cron: Any, name: str) -> Object | None:
        """Return the existing job of that name if this cron job owns it and it still runs."""
        job = await self._cluster.get(self._variant.job, name, cron.metadata.namespace)
        owner = job.metadata.controller
        if owner is None or owner.uid != cron.metadata.uid:
            self._warn(cron, "ForeignJob", f"job {name} exists and belongs to somebody else")
            return None
        return None if self._variant.end_of(job) is not None else job

    async def _write_status(self, cron: Any, status: CronStatus) -> None:
        meta = cron.metadata
        body = {"metadata": {"resourceVersion": meta.resource_version}, "status": status.to_json()}
        written = await self._cluster.patch(self._variant.cron, meta.name, meta.namespace, body, subresource="status")
        if cron.key in self._crons:
            self._written.note(written)

    def _report(self, cron: Any, reason: str, message: str) -> None:
        self._recorder.event(cron, "Normal", reason, message)

    def _warn(self, cron: Any, reason: str, message: str) -> None:
        self._recorder.event(cron, "Warning", reason, message)


class VolcanoCronController(CronController):
    """Cron jobs of batch.volcano.sh."""

    name: ClassVar[str] = "cronjob-controller"
    variant: ClassVar[CronVariant] = VOLCANO


class KubeCronController(CronController):
    """Cron jobs of batch."""

    name: ClassVar[str] = "kube-cronjob-controller"
    variant: ClassVar[CronVariant] = KUBERNETES


def _controller_uid(item: Object) -> Sequence[str]:
    owner = item.metadata.controller
    return () if owner is None else (owner.uid,)
