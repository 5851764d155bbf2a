"""What to do for one TrainJob, from its record (spec training K). Pure.

All of its Jobs are created at once; a Job that depends on others is suspended until these have the status that it waits
for. When a Job fails, the ``failurePolicy`` of the JobSet decides whether all are restarted or the TrainJob fails.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec

from strato.api.batch import Job
from strato.api.meta import Condition
from strato.api.trainer import ATTEMPT, REPLICATED_JOB, JobSetFailureRule, StepStatus, TrainJob, TrainJobStatus
from strato.api.volcano.scheduling import PodGroup
from strato.clock import format_time, parse_time
from strato.controllers.training.events import JobEvent
from strato.controllers.training.mpi.plan import ended
from strato.controllers.training.trainer.rendering import PlannedJob, Rendering
from strato.controllers.training.trainer.steps import READY, Dependency

_EXCEEDED: Final = "TrainJob exceeded its active deadline"
_NOT_SUPPORTED: Final = "TrainingRuntimeNotSupported"
_SUCCEEDED: Final = ("AllJobsCompleted", "jobset completed successfully")
_FAILED: Final = ("FailedJobs", "jobset failed due to one or more job failures")
_NO_MORE_RESTARTS: Final = ("ReachedMaxRestarts", "jobset failed due to reaching max number of restarts")


@dataclass(frozen=True, slots=True)
class Restarts:
    """How often all Jobs of a TrainJob were restarted."""

    all: int = 0
    counted: int = 0
    """Restarts that count towards ``maxRestarts``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainJobRecord:
    """One TrainJob and the objects that it owns."""

    job: TrainJob
    rendering: Rendering | None
    """The objects to make for it; None while its runtime has not been read, and when that cannot be run."""
    problem: str
    """Why the runtime cannot be run; empty if it can."""
    jobs: Mapping[str, Job]
    """The Jobs that it owns, by name."""
    group: PodGroup | None
    restarts: Restarts
    now: float

    def present(self) -> Mapping[str, Job]:
        """Return the Jobs of the present attempt."""
        attempt = str(self.restarts.all)
        return {name: job for name, job in self.jobs.items() if job.metadata.label(ATTEMPT, "0") == attempt}


@dataclass(slots=True)
class TrainJobPlan:
    """The writes to make, in the order of the members."""

    restarts: Restarts | None = None
    """New number of restarts, written before the Jobs of the previous attempt are deleted."""
    status: TrainJobStatus | None = None
    """The new status; None when it is unchanged."""
    make_group: bool = False
    delete_group: bool = False
    delete: list[Job] = field(default_factory=list)
    make_companions: bool = False
    create: list[tuple[PlannedJob, bool]] = field(default_factory=list)
    """Jobs to create, and whether each is suspended."""
    suspend: list[str] = field(default_factory=list)
    resume: list[PlannedJob] = field(default_factory=list)
    events: list[JobEvent] = field(default_factory=list)
    again_seconds: float | None = None


class _Draft:
    """The status while the plan is being made."""

    def __init__(self, record: TrainJobRecord) -> None:
        self._now = format_time(record.now)
        self._before = record.job.status
        self.conditions = {one.type: one for one in record.job.status.conditions}
        self.steps = record.job.status.jobs_status
        self.events: list[JobEvent] = []

    def holds(self, type_: str) -> bool:
        return type_ in self.conditions and self.conditions[type_].status == "True"

    @property
    def is_finished(self) -> bool:
        return self.holds("Complete") or self.holds("Failed")

    def set(self, type_: str, status: str, reason: str, message: str, level: str = "Normal") -> None:
        known = self.conditions.get(type_)
        if known is not None and (known.status, known.reason, known.message) == (status, reason, message):
            return
        since = known.last_transition_time if known is not None and known.status == status else self._now
        self.conditions[type_] = Condition(
            type=type_, status=status, reason=reason, message=message, last_transition_time=since
        )
        self.events.append(JobEvent(level, reason, message))

    def to_status(self) -> TrainJobStatus:
        return msgspec.structs.replace(
            self._before, conditions=tuple(self.conditions.values()), jobs_status=tuple(self.steps)
        )


def plan(record: TrainJobRecord) -> TrainJobPlan:
    """Return the writes of a TrainJob's next step; none for one that needs no step."""
    draft, planned = _Draft(record), TrainJobPlan()
    if not draft.is_finished:
        if record.problem:
            draft.set("Failed", "True", _NOT_SUPPORTED, record.problem, "Warning")
        elif record.rendering is not None:
            _go_on(record, record.rendering, draft, planned)
    if draft.is_finished:
        left = _seconds_kept(record, draft)
        is_over = left is not None and left <= 0
        planned.delete = [job for job in record.jobs.values() if (is_over or ended(job) is None) and not _is_going(job)]
        planned.delete_group = record.group is not None
        planned.again_seconds = None if is_over else left
        draft.steps = tuple(msgspec.structs.replace(one, ready=0, active=0, suspended=0) for one in draft.steps)
    planned.events = draft.events
    status = draft.to_status()
    planned.status = status if status != record.job.status else None
    return planned


def _go_on(record: TrainJobRecord, rendering: Rendering, draft: _Draft, planned: TrainJobPlan) -> None:
    """Decide the conditions of a TrainJob and, unless it has ended, plan its Jobs."""
    is_suspended = record.job.spec.suspend
    if is_suspended:
        draft.set("Suspended", "True", "Suspended", "TrainJob is suspended")
    elif draft.holds("Suspended"):
        draft.set("Suspended", "False", "Resumed", "TrainJob is resumed")
    draft.steps = _steps(rendering, record.present(), is_suspended=is_suspended)
    restarts = _judge(record, rendering, draft)
    if draft.is_finished:
        return
    if not is_suspended and (left := _seconds_left(record, draft)) is not None:
        if left <= 0:
            draft.set("Failed", "True", "DeadlineExceeded", _EXCEEDED, "Warning")
            return
        planned.again_seconds = left
    if restarts is not None:
        planned.restarts = restarts
        planned.delete = [job for job in record.jobs.values() if not _is_going(job)]
        return
    current = record.present()
    planned.delete = [job for name, job in record.jobs.items() if name not in current and not _is_going(job)]
    planned.make_companions = True
    if rendering.group is not None:
        planned.make_group = not is_suspended and record.group is None
        planned.delete_group = is_suspended and record.group is not None
    for one in rendering.jobs:
        holds = is_suspended or not all(_is_met(other, rendering, current) for other in one.waits_for)
        present = current.get(one.name)
        if present is None:
            if one.name not in record.jobs:
                planned.create.append((one, holds))
        elif ended(present) is None and not _is_going(present):
            if is_suspended and not present.spec.suspend:
                planned.suspend.append(one.name)
            elif not holds and present.spec.suspend:
                planned.resume.append(one)


def _judge(record: TrainJobRecord, rendering: Rendering, draft: _Draft) -> Restarts | None:
    """Set the conditions if the TrainJob has ended; returns the new number of restarts if it is restarted instead."""
    present = record.present()
    failed = [(job, verdict) for job in present.values() if (verdict := ended(job)) and verdict.type == "Failed"]
    if failed:
        job, verdict = min(failed, key=lambda one: (one[1].last_transition_time or "", one[0].metadata.name))
        return _after_failure(record, rendering, draft, job, verdict)
    wanted = rendering.success.target_replicated_jobs
    counted = [one.name for one in rendering.jobs if not wanted or one.step in wanted]
    done = [name for name in counted if name in present and _is_complete(present[name])]
    is_any = rendering.success.operator == "Any"
    if (done and is_any) or len(done) == len(counted):
        draft.set("Complete", "True", *_SUCCEEDED)
    return None


def _after_failure(
    record: TrainJobRecord, rendering: Rendering, draft: _Draft, job: Job, verdict: Condition
) -> Restarts | None:
    policy, before = rendering.failure, record.restarts
    rule = _rule(policy.rules, job.metadata.label(REPLICATED_JOB), verdict.reason)
    action = rule.action if rule is not None else "RestartJobSet"
    first = f"(first failed job: {job.metadata.name}: {verdict.message})"
    if action == "RestartJobSetAndIgnoreMaxRestarts":
        return _restarted(draft, Restarts(before.all + 1, before.counted), first)
    if action == "RestartJobSet" and before.counted < policy.max_restarts:
        return _restarted(draft, Restarts(before.all + 1, before.counted + 1), first)
    is_limit = action == "RestartJobSet" and policy.max_restarts > 0
    reason, text = _NO_MORE_RESTARTS if is_limit else _FAILED
    draft.set("Failed", "True", reason, f"{text} {first}", "Warning")
    return None


def _restarted(draft: _Draft, restarts: Restarts, why: str) -> Restarts:
    draft.events.append(JobEvent("Warning", "Restarting", f"all jobs begin anew, for the {restarts.all}. time {why}"))
    return restarts


def _rule(rules: Iterable[JobSetFailureRule], step: str, reason: str) -> JobSetFailureRule | None:
    """Return the first rule that the failure of a step's Job for a reason matches."""
    for rule in rules:
        steps, reasons = rule.target_replicated_jobs, rule.on_job_failure_reasons
        if (not steps or step in steps) and (not reasons or reason in reasons):
            return rule
    return None


def _is_met(awaited: Dependency, rendering: Rendering, present: Mapping[str, Job]) -> bool:
    """Return whether all Jobs of a step have the status that a dependency waits for."""
    for one in rendering.jobs:
        if one.step == awaited.step:
            job = present.get(one.name)
            if job is None or not (_is_complete(job) or (awaited.status == READY and _is_ready(one, job))):
                return False
    return True


def _is_complete(job: Job) -> bool:
    verdict = ended(job)
    return verdict is not None and verdict.type == "Complete"


def _is_ready(planned: PlannedJob, job: Job) -> bool:
    return (job.status.ready or 0) + job.status.succeeded >= planned.pods


def _is_going(job: Job) -> bool:
    return job.metadata.deletion_timestamp is not None


def _steps(rendering: Rendering, present: Mapping[str, Job], *, is_suspended: bool) -> tuple[StepStatus, ...]:
    """Return the numbers of Jobs of each step by state; a Job that only waits for dependencies counts in none."""
    found: dict[str, StepStatus] = {}
    for one in rendering.jobs:
        step = found.setdefault(one.step, StepStatus(name=one.step))
        job = present.get(one.name)
        if job is None:
            continue
        verdict = ended(job)
        found[one.step] = StepStatus(
            name=step.name,
            ready=step.ready + (verdict is None and not job.spec.suspend and _is_ready(one, job)),
            succeeded=step.succeeded + (verdict is not None and verdict.type == "Complete"),
            failed=step.failed + (verdict is not None and verdict.type == "Failed"),
            active=step.active + (verdict is None and job.status.active > 0),
            suspended=step.suspended + (is_suspended and verdict is None and job.spec.suspend),
        )
    return tuple(found.values())


def _seconds_kept(record: TrainJobRecord, draft: _Draft) -> float | None:
    """Return the seconds until the Jobs of an ended TrainJob are deleted; None for never, and if there are none."""
    rendering = record.rendering
    if rendering is None or rendering.kept_seconds is None or not record.jobs:
        return None
    since = draft.conditions["Complete" if draft.holds("Complete") else "Failed"].last_transition_time
    return (parse_time(since) if since else record.now) + rendering.kept_seconds - record.now


def _seconds_left(record: TrainJobRecord, draft: _Draft) -> float | None:
    """Return the seconds until a TrainJob's deadline, None without one; it counts from creation or last resumption."""
    limit = record.job.spec.active_deadline_seconds
    if limit is None:
        return None
    resumed = draft.conditions.get("Suspended")
    since = resumed.last_transition_time if resumed is not None else record.job.metadata.creation_timestamp
    return (parse_time(since) if since else record.now) + limit - record.now
