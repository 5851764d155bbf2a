"""Views of batch.volcano.sh/v1alpha1: Job and CronJob (spec volcano-api 3 and 4)."""

from __future__ import annotations

from collections.abc import Mapping

from strato.api import batch
from strato.api.core.pod import PodTemplateSpec
from strato.api.core.volumes import PersistentVolumeClaimSpec
from strato.api.meta import Object, ObjectMeta, View
from strato.api.shapes import EMPTY
from strato.api.volcano.scheduling import NetworkTopologySpec


class LifecyclePolicy(View, frozen=True, kw_only=True):
    """What to do on an event or exit code (spec 2.2)."""

    action: str = ""
    event: str = ""
    events: tuple[str, ...] = ()
    exit_code: int | None = None
    timeout: str | None = None
    """A Go duration."""


class VolumeSpec(View, frozen=True, kw_only=True):
    """A claim mounted in every container of every task."""

    mount_path: str = ""
    volume_claim_name: str = ""
    volume_claim: PersistentVolumeClaimSpec | None = None


class PartitionPolicySpec(View, frozen=True, kw_only=True):
    """How a task is cut into sub-gangs."""

    total_partitions: int = 0
    partition_size: int = 0
    network_topology: NetworkTopologySpec | None = None
    min_partitions: int = 0


class DependsOn(View, frozen=True, kw_only=True):
    """Tasks that come first; iteration ``any`` or ``all``."""

    name: tuple[str, ...] = ()
    iteration: str = ""


class TaskSpec(View, frozen=True, kw_only=True):
    """One task of a job."""

    name: str = ""
    replicas: int = 0
    min_available: int | None = None
    template: PodTemplateSpec = PodTemplateSpec()
    policies: tuple[LifecyclePolicy, ...] = ()
    topology_policy: str = ""
    max_retry: int = 0
    depends_on: DependsOn | None = None
    partition_policy: PartitionPolicySpec | None = None


class JobSpec(View, frozen=True, kw_only=True):
    """``spec``."""

    scheduler_name: str = ""
    min_available: int = 0
    volumes: tuple[VolumeSpec, ...] = ()
    tasks: tuple[TaskSpec, ...] = ()
    policies: tuple[LifecyclePolicy, ...] = ()
    plugins: Mapping[str, tuple[str, ...] | None] = EMPTY
    running_estimate: str | None = None
    queue: str = ""
    max_retry: int = 0
    ttl_seconds_after_finished: int | None = None
    priority_class_name: str = ""
    min_success: int | None = None
    network_topology: NetworkTopologySpec | None = None


class JobState(View, frozen=True, kw_only=True):
    """``status.state``."""

    phase: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None


class TaskState(View, frozen=True, kw_only=True):
    """Pods of a task by phase."""

    phase: Mapping[str, int] = EMPTY


class JobCondition(View, frozen=True, kw_only=True):
    """When a phase was entered last."""

    status: str = ""
    last_transition_time: str | None = None


class JobStatus(View, frozen=True, kw_only=True):
    """``status``."""

    state: JobState = JobState()
    min_available: int = 0
    task_status_count: Mapping[str, TaskState] = EMPTY
    pending: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    terminating: int = 0
    unknown: int = 0
    version: int = 0
    retry_count: int = 0
    running_duration: str | None = None
    controlled_resources: Mapping[str, str] = EMPTY
    conditions: tuple[JobCondition, ...] = ()


class Job(Object, frozen=True, kw_only=True):
    """A Volcano job. Pod templates travel through creates as plain JSON, so writers read the job as a dict too."""

    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()


class JobTemplateSpec(View, frozen=True, kw_only=True):
    """The template of a job; the controller that makes the job reads the template's spec as JSON."""

    metadata: ObjectMeta = ObjectMeta()


class CronJobSpec(batch.CronJobSpec, frozen=True, kw_only=True):
    """``spec``: as of Kubernetes' own, with jobs of this group."""

    job_template: JobTemplateSpec = JobTemplateSpec()  # type: ignore[assignment]  # in the place of the other group's


class CronJob(Object, frozen=True, kw_only=True):
    """A Volcano cron job."""

    spec: CronJobSpec = CronJobSpec()
    status: batch.CronJobStatus = batch.CronJobStatus()
