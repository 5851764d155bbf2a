"""Build the job, with one pod, of a workflow's task, and derive the task's outcome from it. Pure.

An engine does retries itself and decides by exit codes, so a job is tried once, and an evicted pod ends it: the engine
then gets the outcome "interrupted", which is no failure of the command.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from strato.api import catalog
from strato.api.core import Pod
from strato.api.volcano.batch import Job

TASK: Final = "task"
"""Name of the job's only task, and of its container."""
ENGINE_LABEL: Final = "strato.dev/workflow-engine"
RUN_ANNOTATION: Final = "strato.dev/workflow-task"
"""Annotation of job and pod: the engine's name for the task."""
PREEMPTABLE: Final = "volcano.sh/preemptable"

_MOST_OF_NAME: Final = 40
_ENDED: Final = frozenset({"Completed", "Failed", "Terminated", "Aborted"})
_OUT_OF_MEMORY: Final = "OOMKilled"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """A file or directory mounted in the pod."""

    host_path: str
    container_path: str
    writable: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSettings:
    """Namespace, queue and settings common to all jobs."""

    namespace: str = "default"
    queue: str = ""
    """Queue of the jobs; empty for the cluster's default."""
    priority_class: str = ""
    claim: str = ""
    """Claim with the files; without one, pods mount directories of the node."""
    claim_root: str = "/"
    """Where that claim is mounted for the engine."""
    user: int | None = None
    group: int | None = None
    """Group id of the pods' processes; None uses the image's."""
    gpu_resource: str = "nvidia.com/gpu"
    keep_seconds: int = 3600
    """How long jobs are kept after their end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRequest:
    """One attempt at a task."""

    engine: str
    run_id: str
    """The engine's name for the task; any text."""
    unique: str
    """Suffix that makes the job's name unique; lower-case letters and digits."""
    image: str
    command: Sequence[str]
    working_dir: str
    cpu: int = 0
    memory_bytes: int = 0
    memory_limit_bytes: int = 0
    gpus: int = 0
    preemptable: bool = False
    privileged: bool = False
    mounts: Sequence[Mount] = field(default_factory=tuple)
    queue: str = ""
    """Queue of this job; empty for that of the settings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptOutcome:
    """The outcome of an attempt."""

    exit_code: int | None
    """None when it was interrupted: the pod was evicted or deleted."""
    message: str = ""


def job_name(request: TaskRequest) -> str:
    """Return a readable, valid and unique name for a job."""
    plain = re.sub(r"[^a-z0-9]+", "-", request.run_id.lower()).strip("-")[:_MOST_OF_NAME].strip("-")
    return "-".join(part for part in (request.engine, plain, request.unique) if part)


def task_job(request: TaskRequest, settings: JobSettings) -> dict[str, Any]:
    """Return the job of an attempt.

    Raises:
        ValueError: A file is not below the root of the claim.
    """
    origin = {RUN_ANNOTATION: request.run_id}
    volumes, mounts = _volumes(request.mounts, settings)
    container = {
        "name": TASK,
        "image": request.image,
        "command": list(request.command),
        "workingDir": request.working_dir,
        "resources": _resources(request, settings),
        "volumeMounts": mounts,
        **({"securityContext": {"privileged": True}} if request.privileged else {}),
    }
    identity = {"runAsUser": settings.user, "runAsGroup": settings.group}
    security = {name: number for name, number in identity.items() if number is not None}
    pod_spec = {
        "restartPolicy": "Never",
        "containers": [container],
        "volumes": volumes,
        **({"securityContext": security} if security else {}),
    }
    annotations = {**origin, **({PREEMPTABLE: "true"} if request.preemptable else {})}
    queue = request.queue or settings.queue
    return {
        "apiVersion": catalog.VCJOB.api_version,
        "kind": catalog.VCJOB.name,
        "metadata": {
            "name": job_name(request),
            "namespace": settings.namespace,
            "labels": {ENGINE_LABEL: request.engine},
            "annotations": origin,
        },
        "spec": {
            "minAvailable": 1,
            "maxRetry": 1,
            "schedulerName": "volcano",
            "ttlSecondsAfterFinished": settings.keep_seconds,
            **({"queue": queue} if queue else {}),
            **({"priorityClassName": settings.priority_class} if settings.priority_class else {}),
            "policies": [{"event": "PodEvicted", "action": "TerminateJob"}],
            "tasks": [
                {
                    "name": TASK,
                    "replicas": 1,
                    "template": {
                        "metadata": {"annotations": annotations, "labels": {ENGINE_LABEL: request.engine}},
                        "spec": pod_spec,
                    },
                }
            ],
        },
    }


def _resources(request: TaskRequest, settings: JobSettings) -> dict[str, dict[str, str]]:
    requests, limits = dict[str, str](), dict[str, str]()
    if request.cpu:
        requests["cpu"] = str(request.cpu)
    if request.memory_bytes:
        requests["memory"] = str(request.memory_bytes)
    if request.memory_limit_bytes:
        limits["memory"] = str(request.memory_limit_bytes)
    if request.gpus:
        requests[settings.gpu_resource] = limits[settings.gpu_resource] = str(request.gpus)
    return {"requests": requests, "limits": limits}


def _volumes(mounts: Sequence[Mount], settings: JobSettings) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    volumes: list[dict[str, Any]] = []
    mounted: list[dict[str, Any]] = []
    if settings.claim:
        volumes.append({"name": "files", "persistentVolumeClaim": {"claimName": settings.claim}})
    for number, mount in enumerate(mounts):
        name = "files" if settings.claim else f"file-{number}"
        one: dict[str, Any] = {"name": name, "mountPath": mount.container_path, "readOnly": not mount.writable}
        if settings.claim:
            one["subPath"] = _below(mount.host_path, settings.claim_root)
        else:
            volumes.append({"name": name, "hostPath": {"path": mount.host_path}})
        mounted.append(one)
    return volumes, mounted


def _below(path: str, root: str) -> str:
    prefix = root.rstrip("/") + "/"
    if not path.startswith(prefix):
        raise ValueError(f"{path} is not below {root}, where the claim is mounted; pods cannot see it")
    return path.removeprefix(prefix)


def outcome(job: Job, pod: Pod | None) -> AttemptOutcome | None:
    """Return the outcome of an attempt; None while it runs.

    A job ends a little after its pod; the outcome is the pod's exit code once the job has ended too.
    """
    state = job.status.state
    if state.phase not in _ENDED:
        return None
    ended = None if pod is None else next((one.state.terminated for one in pod.status.container_statuses), None)
    if pod is None or pod.status.reason == "Evicted" or ended is None:
        why = state.message or state.reason or (pod.status.message if pod is not None else "its pod is gone")
        return AttemptOutcome(exit_code=None, message=f"job {job.metadata.name} is {state.phase}: {why}")
    message = f"the container was ended: {ended.reason}" if ended.reason == _OUT_OF_MEMORY else ""
    if state.phase in ("Terminated", "Aborted") and ended.exit_code in (137, 143) and not message:
        return AttemptOutcome(
            exit_code=None, message=f"job {job.metadata.name} is {state.phase}: {state.message or state.reason}"
        )
    return AttemptOutcome(exit_code=ended.exit_code, message=message)


def waiting_reason(pod: Pod | None) -> str:
    """Return why a pod has not started, as reported by the scheduler or the node; empty if it has, or unknown."""
    if pod is None or pod.status.phase != "Pending":
        return ""
    waiting = next((one.state.waiting for one in pod.status.container_statuses if one.state.waiting), None)
    if waiting is not None and waiting.message:
        return f"{waiting.reason}: {waiting.message}"
    unscheduled = [one for one in pod.status.conditions if one.type == "PodScheduled" and one.status == "False"]
    return unscheduled[0].message if unscheduled else ""
