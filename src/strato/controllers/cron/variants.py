"""What differs between Volcano's cron jobs and Kubernetes'.

Source: volcano-controllers Part G; batch/v1 CronJob.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from strato.api import batch as kube
from strato.api import catalog
from strato.api.kinds import Kind
from strato.api.meta import Object
from strato.api.volcano import batch as volcano
from strato.controllers.cron.plan import End, JobEnd

_VOLCANO_OUTCOMES = {"Completed": JobEnd.SUCCEEDED, "Failed": JobEnd.FAILED, "Terminated": JobEnd.OTHER}
_KUBE_OUTCOMES = {"Complete": JobEnd.SUCCEEDED, "Failed": JobEnd.FAILED}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reasons:
    """Reasons of the events that differ."""

    orphaned: str
    stale: str
    bad_zone: str
    forbidden: str
    replaced: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CronVariant:
    """One kind of cron job."""

    cron: type[Object]
    cron_kind: Kind
    job: type[Object]
    job_kind: Kind
    end_of: Callable[[Any], End | None]
    """Returns how a job ended, None while it has not."""
    scheduled_annotation: str
    """Key of the annotation that holds a job's scheduled time."""
    reasons: Reasons


def _volcano_end(job: volcano.Job) -> End | None:
    state = job.status.state
    outcome = _VOLCANO_OUTCOMES.get(state.phase)
    return None if outcome is None else End(outcome, state.last_transition_time or "")


def _kube_end(job: kube.Job) -> End | None:
    for condition in job.status.conditions:
        outcome = _KUBE_OUTCOMES.get(condition.type)
        if outcome is not None and condition.status == "True":
            return End(outcome, job.status.completion_time or condition.last_transition_time or "")
    return None


VOLCANO = CronVariant(
    cron=volcano.CronJob,
    cron_kind=catalog.VCCRONJOB,
    job=volcano.Job,
    job_kind=catalog.VCJOB,
    end_of=_volcano_end,
    scheduled_annotation="volcano.sh/cronjob-scheduled-timestamp",
    reasons=Reasons(
        orphaned="OrphanedJob",
        stale="StaleReference",
        bad_zone="InvalidTimeZone",
        forbidden="ForbidConcurrent",
        replaced="ReplaceConcurrent",
    ),
)
"""batch.volcano.sh CronJobs, which make Volcano Jobs."""

KUBERNETES = CronVariant(
    cron=kube.CronJob,
    cron_kind=catalog.CRONJOB,
    job=kube.Job,
    job_kind=catalog.JOB,
    end_of=_kube_end,
    scheduled_annotation="batch.kubernetes.io/cronjob-scheduled-timestamp",
    reasons=Reasons(
        orphaned="UnexpectedJob",
        stale="MissingJob",
        bad_zone="UnknownTimeZone",
        forbidden="JobAlreadyActive",
        replaced="",
    ),
)
"""batch CronJobs, which make batch Jobs."""
