"""Views of batch/v1. Volcano's Job and CronJob are in `strato.api.volcano.batch`."""

from __future__ import annotations

from strato.api.core.pod import PodTemplateSpec
from strato.api.meta import Condition, Object, ObjectMeta, View
from strato.api.shapes import LabelSelector, ObjectReference


class ExitCodes(View, frozen=True, kw_only=True):
    """``onExitCodes``: ``In`` or ``NotIn`` these values, of one container or of any."""

    container_name: str | None = None
    operator: str = "In"
    values: tuple[int, ...] = ()


class PodConditionPattern(View, frozen=True, kw_only=True):
    """``onPodConditions[]``."""

    type: str = ""
    status: str = "True"


class PodFailureRule(View, frozen=True, kw_only=True):
    """One rule: ``FailJob``, ``FailIndex``, ``Ignore`` or ``Count`` on what it matches."""

    action: str = ""
    on_exit_codes: ExitCodes | None = None
    on_pod_conditions: tuple[PodConditionPattern, ...] = ()


class PodFailurePolicy(View, frozen=True, kw_only=True):
    """What to do about failed pods; the first rule that matches applies."""

    rules: tuple[PodFailureRule, ...] = ()


class SuccessRule(View, frozen=True, kw_only=True):
    """Indexes that must succeed, or how many of them."""

    succeeded_indexes: str | None = None
    succeeded_count: int | None = None


class SuccessPolicy(View, frozen=True, kw_only=True):
    """When an indexed job is complete before all of its indexes are."""

    rules: tuple[SuccessRule, ...] = ()


class JobSpec(View, frozen=True, kw_only=True):
    """``spec``."""

    parallelism: int = 1
    completions: int | None = None
    completion_mode: str = "NonIndexed"
    backoff_limit: int = 6
    backoff_limit_per_index: int | None = None
    max_failed_indexes: int | None = None
    pod_failure_policy: PodFailurePolicy | None = None
    success_policy: SuccessPolicy | None = None
    pod_replacement_policy: str = ""
    managed_by: str | None = None
    active_deadline_seconds: int | None = None
    ttl_seconds_after_finished: int | None = None
    suspend: bool = False
    manual_selector: bool = False
    selector: LabelSelector | None = None
    template: PodTemplateSpec = PodTemplateSpec()


class UncountedTerminatedPods(View, frozen=True, kw_only=True):
    """Uids of pods that ended and still have the tracking finalizer; the counts beside do not contain them."""

    succeeded: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()


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
    failed_indexes: str | None = None
    uncounted_terminated_pods: UncountedTerminatedPods | None = None
    """None until the controller has processed the job, and for jobs of controllers without tracking."""


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
