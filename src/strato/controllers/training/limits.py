"""When a job has to end or to be deleted: back-off, deadline, time to live (spec training E2 and E3)."""

from __future__ import annotations

from collections.abc import Sequence

from strato.api.core import Pod
from strato.api.frameworks import JobShape
from strato.api.kubeflow import TrainingJob, TrainingJobStatus
from strato.clock import parse_time
from strato.controllers.training import labels
from strato.controllers.training.draft import StatusDraft


def container_restarts(shape: JobShape, pods: Sequence[Pod]) -> int:
    """Return the restarts of containers of running pods that may restart."""
    total = 0
    for pod in pods:
        role = labels.role_of(shape, pod)
        if pod.status.phase == "Running" and role and shape.restart_policy(role) != "Never":
            statuses = (*pod.status.container_statuses, *pod.status.init_container_statuses)
            total += sum(status.restart_count for status in statuses)
    return total


def is_past_backoff(shape: JobShape, pods: Sequence[Pod], status: TrainingJobStatus) -> bool:
    """Return whether the job has restarted too often.

    Both restarts of containers and replaced pods count; upstream does not count replaced pods. With the limit 0 the
    first failed pod fails the job.
    """
    limit = shape.spec.run_policy.backoff_limit
    if limit is None:
        return False
    replaced = status.replaced_pods.count if status.replaced_pods is not None else 0
    restarts = container_restarts(shape, pods) + replaced
    if limit == 0:
        failed = sum(pod.status.phase == "Failed" for pod in pods)
        known = sum(replica.failed for replica in status.replica_statuses.values())
        active = sum(pod.status.phase == "Running" for pod in pods)
        return restarts > 0 or (failed > known and active != shape.total)
    return restarts >= limit


def seconds_to_deadline(job: TrainingJob, now: float) -> float | None:
    """Return for how long the job may still run; None when for ever."""
    deadline, started = job.spec.run_policy.active_deadline_seconds, job.status.start_time
    if deadline is None or started is None:
        return None
    return parse_time(started) + deadline - now


def seconds_to_schedule(shape: JobShape, since: str | None, now: float) -> float | None:
    """Return for how long the job may still wait for its PodGroup; None when for ever.

    Args:
        shape: The job.
        since: When the job began to wait; None if it does not wait.
        now: Seconds since the epoch.
    """
    policy = shape.spec.run_policy.scheduling_policy
    if since is None or policy is None or policy.schedule_timeout_seconds is None:
        return None
    return parse_time(since) + policy.schedule_timeout_seconds - now


def check(draft: StatusDraft, job: TrainingJob, pods: Sequence[Pod], now: float) -> bool:
    """Fail the job if it has exceeded one of its limits; returns whether it has."""
    left = seconds_to_deadline(job, now)
    if is_past_backoff(draft.shape, pods, job.status):
        why = "it has reached the specified backoff limit"
    elif left is not None and left <= 0:
        why = "it was active longer than specified deadline"
    else:
        return False
    draft.finish("Failed", f"Job {job.metadata.name} has failed because {why}")
    return True


class MissingCompletionTime(ValueError):
    """The status of a finished job does not say when it ended, so its time to live has no beginning."""

    def __init__(self) -> None:
        super().__init__("job completion time is nil, cannot cleanup")


def seconds_to_removal(job: TrainingJob, status: TrainingJobStatus, now: float) -> float | None:
    """Return the seconds until a finished job is to be deleted; None when it has no time to live.

    Raises:
        MissingCompletionTime: The job's status does not say when it ended.
    """
    ttl = job.spec.run_policy.ttl_seconds_after_finished
    if ttl is None or job.spec.run_policy.suspend:
        return None
    if not any(one.type in ("Succeeded", "Failed") and one.status == "True" for one in status.conditions):
        return None
    if status.completion_time is None:
        raise MissingCompletionTime
    return parse_time(status.completion_time) + ttl - now
