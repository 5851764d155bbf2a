"""Views of batch/v1. Volcano's Job and CronJob are in `strato.api.volcano.batch`."""

from __future__ import annotations

from strato.api.core.pod import PodTemplateSpec
from strato.api.meta import Condition, Object, ObjectMeta, View
from strato.api.shapes import LabelSelector, ObjectReference


class JobSpec(View, frozen=True, kw_only=True):
    """``spec``."""

    parallelism: int = 1
    completions: int | None = None
    completion_mode: str = "NonIndexed"
    backoff_limit: int = 6
    active_deadline_seconds: int | None = None
    ttl_seconds_after_finished: int | None = None
    suspend: bool = False
    manual_selector: bool = False
    selector: LabelSelector | None = None
    template: PodTemplateSpec = PodTemplateSpec()


class JobStatus(View, frozen=True, kw_only=True):
    """``status``."""

    conditions: tuple[Condition, ...] = ()
    start_time: str | None = None
    completion_time: str | None = None
    active: int = 0
    succeeded: int = 0
    failed: int = 0
    terminating: int | None = None
    ready: int | None = None
    completed_indexes: str = ""


class Job(Object, frozen=True, kw_only=True):
    """A Kubernetes job."""

    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()


class JobTemplateSpec(View, frozen=True, kw_only=True):
    """A job to be made."""

    metadata: ObjectMeta = ObjectMeta()
    spec: JobSpec = JobSpec()


class CronJobSpec(View, frozen=True, kw_only=True):
    """``spec``."""

    schedule: str = ""
    time_zone: str | None = None
    starting_deadline_seconds: int | None = None
    concurrency_policy: str = "Allow"
    suspend: bool = False
    job_template: JobTemplateSpec = JobTemplateSpec()
    successful_jobs_history_limit: int = 3
    failed_jobs_history_limit: int = 1


class CronJobStatus(View, frozen=True, kw_only=True):
    """``status``."""

    active: tuple[ObjectReference, ...] = ()
    last_schedule_time: str | None = None
    last_successful_time: str | None = None


class CronJob(Object, frozen=True, kw_only=True):
    """A Kubernetes cron job."""

    spec: CronJobSpec = CronJobSpec()
    status: CronJobStatus = CronJobStatus()
