"""What to do for one MPI job of kubeflow.org/v2beta1, whose launcher is a Job (spec training I2). Pure.

The Job enforces back-off, deadline and time to live; the MPI job succeeds or fails with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from strato.api import mpioperator
from strato.api.batch import Job
from strato.api.core import Pod
from strato.api.frameworks import LAUNCHER, WORKER
from strato.api.kubeflow import ReplicaStatus
from strato.api.meta import Condition
from strato.controllers.training.draft import StatusDraft
from strato.controllers.training.mpi import group
from strato.controllers.training.record import LauncherPlan, Replica, TrainingPlan, TrainingRecord

_MESSAGE_MAX: Final = 1024
_EXCEEDED: Final = "BackoffLimitExceeded"


def plan(record: TrainingRecord) -> TrainingPlan:
    """Return the writes of the job's next step; none for a job that needs no step."""
    draft, planned = StatusDraft(record.shape, record.job, record.now), TrainingPlan()
    if not draft.conditions.has("Created"):
        draft.note("Created", "True", "Created", f"MPIJob {draft.qualified_name} is created.", "Normal")
    if not draft.conditions.is_finished:
        if record.shape.spec.run_policy.suspend:
            _suspend(record, draft, planned)
        else:
            _advance(record, draft, planned)
    if draft.conditions.is_finished:
        _end(record, draft, planned)
    planned.events += draft.events
    status = draft.to_status()
    planned.status = status if status != record.job.status else None
    return planned


def ended(launcher: Job) -> Condition | None:
    """Return the condition with which a Job has ended, None while it runs."""
    return next((one for one in launcher.status.conditions if _is_verdict(one)), None)


def _is_verdict(condition: Condition) -> bool:
    return condition.type in ("Complete", "Failed") and condition.status == "True"


def _suspend(record: TrainingRecord, draft: StatusDraft, planned: TrainingPlan) -> None:
    """Delete the workers; keep their service and lists of hosts."""
    planned.companions = record.companions_of(record.shape, record.pods)
    _delete(record, planned, record.pods)
    if record.launcher is None:
        planned.launch = LauncherPlan.CREATE_SUSPENDED
    elif not record.launcher.spec.suspend and ended(record.launcher) is None:
        planned.launch = LauncherPlan.SUSPEND
    draft.replicas = {LAUNCHER: _launcher_count(record), WORKER: ReplicaStatus()}
    draft.note("Suspended", "True", "Suspended", "MPIJob suspended", "Normal")
    draft.note("Running", "False", "Suspended", f"MPIJob {draft.qualified_name} is suspended.")


def _advance(record: TrainingRecord, draft: StatusDraft, planned: TrainingPlan) -> None:
    shape, launcher = record.shape, record.launcher
    verdict = ended(launcher) if launcher is not None else None
    if draft.conditions.holds("Suspended"):
        draft.note("Suspended", "False", "Resumed", "MPIJob resumed", "Normal")
        draft.start_time = draft.now
    draft.start_time = draft.start_time or draft.now
    names = [shape.object_name(WORKER, index) for index in range(shape.count(WORKER))]
    by_name = {pod.metadata.name: pod for pod in record.pods}
    workers = [by_name[name] for name in names if name in by_name]
    if verdict is None:
        if record.gang is not None:
            planned.group = group.desired(shape, record.job, record.group, record.gang.priority_of)
        planned.companions = record.companions_of(shape, record.pods)
        planned.create_pods = [Replica(WORKER, index) for index, name in enumerate(names) if name not in by_name]
        planned.delete_pods = _going(record, [pod for pod in record.pods if pod.metadata.name not in names])
        waits = shape.spec.launcher_creation_policy == mpioperator.WHEN_READY
        if not waits or sum(pod.is_ready for pod in workers) == len(names):
            planned.launch = _start(launcher)
    draft.replicas = {LAUNCHER: _launcher_count(record), WORKER: _worker_count(() if verdict else workers)}
    _judge(record, draft, verdict, workers)


def _start(launcher: Job | None) -> LauncherPlan | None:
    if launcher is None:
        return LauncherPlan.CREATE
    return LauncherPlan.RESUME if launcher.spec.suspend else None


def _judge(record: TrainingRecord, draft: StatusDraft, verdict: Condition | None, workers: Sequence[Pod]) -> None:
    """Set the conditions that say whether the job runs or has ended."""
    evicted = sum(pod.status.phase == "Failed" and pod.status.reason == "Evicted" for pod in workers)
    wanted, running = record.shape.count(WORKER), draft.count(WORKER).active
    if verdict is not None and verdict.type == "Complete":
        assert record.launcher is not None, "it has ended"
        draft.completion_time = record.launcher.status.completion_time
        draft.finish("Succeeded", f"MPIJob {draft.qualified_name} successfully completed.")
    elif verdict is not None:
        reason, message = _failure(record, draft, verdict)
        draft.finish("Failed", message, "Warning", reason=reason)
    elif evicted:
        text = f"{evicted}/{wanted} workers are evicted"
        draft.finish("Failed", text, "Warning", reason="MPIJobEvicted")
    elif draft.count(LAUNCHER).active and running == wanted:
        draft.note("Running", "True", "Running", f"MPIJob {draft.qualified_name} is running.", "Normal")


def _failure(record: TrainingRecord, draft: StatusDraft, verdict: Condition) -> tuple[str, str]:
    """Return why the launcher has failed; if it was retried, with the reason of its newest failed pod too."""
    reason = verdict.reason or "MPIJobFailed"
    message = verdict.message or f"MPIJob {draft.qualified_name} has failed"
    failed = [pod for pod in record.launcher_pods if pod.status.phase == "Failed"]
    if reason == _EXCEEDED and failed:
        newest = max(failed, key=lambda pod: pod.metadata.creation_timestamp or "")
        reason, message = f"{reason}/{newest.status.reason}", f"{message}: {newest.status.message}"
    return reason, message if len(message) <= _MESSAGE_MAX else f"{message[: _MESSAGE_MAX - 3]}..."


def _launcher_count(record: TrainingRecord) -> ReplicaStatus:
    launcher = record.launcher
    if launcher is None:
        return ReplicaStatus()
    verdict, failed = ended(launcher), launcher.status.failed
    if verdict is not None:
        return ReplicaStatus(succeeded=int(verdict.type == "Complete"), failed=failed)
    return ReplicaStatus(active=sum(pod.status.phase == "Running" for pod in record.launcher_pods), failed=failed)


def _worker_count(workers: Sequence[Pod]) -> ReplicaStatus:
    phases = [pod.status.phase for pod in workers]
    return ReplicaStatus(
        active=phases.count("Running"), succeeded=phases.count("Succeeded"), failed=phases.count("Failed")
    )


def _end(record: TrainingRecord, draft: StatusDraft, planned: TrainingPlan) -> None:
    """Clean up after a job by its ``cleanPodPolicy``; workers that stay keep their PodGroup."""
    draft.conditions.add_missing(
        "Running",
        "False",
        "MPIJobRunning",
        f"MPIJob {draft.qualified_name} is finished but Running condition was never set.",
    )
    planned.create_pods, planned.companions, planned.group, planned.launch = [], (), None, None
    policy = record.shape.clean_pod_policy
    if policy == "None":
        return
    if record.launcher is not None and ended(record.launcher) is None and not record.launcher.spec.suspend:
        planned.launch = LauncherPlan.SUSPEND  # a worker was evicted, for which the launcher would wait in vain
    left = [pod for pod in record.pods if policy == "All" or pod.status.phase in ("Running", "Pending", "")]
    planned.delete_pods = []
    _delete(record, planned, left)
    draft.replicas = {**draft.replicas, WORKER: ReplicaStatus()}


def _delete(record: TrainingRecord, planned: TrainingPlan, pods: Sequence[Pod]) -> None:
    planned.delete_pods += _going(record, pods)
    planned.delete_group = record.group is not None and record.group.metadata.deletion_timestamp is None


def _going(record: TrainingRecord, pods: Sequence[Pod]) -> list[Pod]:
    return [
        pod for pod in pods if pod.metadata.deletion_timestamp is None and pod.metadata.uid not in record.terminating
    ]
