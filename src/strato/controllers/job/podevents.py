"""Turn changes of pods into requests.

Source: volcano-controllers A1. One departure: when the first event of a pod shows it running or ended (after a restart
of the controller), its request says so; Volcano's says pending. So a restart of the controller neither misses a policy
about running or ended pods nor starts the timeout of a policy about pending ones.
"""

from __future__ import annotations

from strato.controllers.job.pods import PodState, TaskPods
from strato.controllers.job.requests import Request
from strato.controllers.job.terms import JobEvent


def pod_request(
    old: PodState | None, new: PodState | None, task: TaskPods, *, max_retry: int, known: bool = True
) -> Request:
    """Return the request that a change of a pod makes.

    Args:
        old: The state before, None when added.
        new: The state now, None when deleted.
        task: Counters of its task, with the change already counted.
        max_retry: The task's ``maxRetry``: restarts that make it failed (0 is read as 3, negative is never).
        known: Whether a deleted pod was in the cache.
    """
    pod = new if new is not None else old
    assert pod is not None
    event, exit_code = _event(old, new, task, max_retry, known)
    return Request(
        event=event,
        task=pod.task,
        pod=pod.name,
        pod_uid=pod.uid,
        partition=pod.partition,
        exit_code=exit_code,
        job_uid=pod.job_uid,
        job_version=pod.job_version,
    )


def _event(old: PodState | None, new: PodState | None, task: TaskPods, max_retry: int, known: bool) -> tuple[str, int]:
    if new is None:
        assert old is not None
        # A pod whose index is beyond the task's replicas was deleted by a scale down, not evicted.
        expected = old.out_of_sync or not known or old.index >= task.replicas
        return (JobEvent.OUT_OF_SYNC if expected else JobEvent.POD_EVICTED), 0
    if new.out_of_sync:
        return JobEvent.OUT_OF_SYNC, 0
    changed = old is None or old.phase != new.phase
    match new.phase:
        case "Failed" if changed:
            return JobEvent.POD_FAILED, new.exit_code
        case "Succeeded" if changed and 0 < task.replicas <= task.phases["Succeeded"]:
            return JobEvent.TASK_COMPLETED, 0
        case "Running" if changed:
            return JobEvent.POD_RUNNING, 0
        case "Pending" if changed:
            return JobEvent.POD_PENDING, 0
        case "Running" | "Pending" if has_failed(task, max_retry):
            return JobEvent.TASK_FAILED, 0
    return JobEvent.OUT_OF_SYNC, 0


def has_failed(task: TaskPods, max_retry: int) -> bool:
    """Return whether the containers of a task's live pods have restarted too often."""
    limit = max_retry if max_retry != 0 else 3
    return limit > 0 and task.replicas > 0 and task.restarts >= limit
