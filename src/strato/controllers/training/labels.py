"""Labels of the objects that training jobs own (spec training B4)."""

from __future__ import annotations

from typing import Final

from strato.api.core import Pod, Service
from strato.api.frameworks import Framework, JobShape

_PREFIX: Final = "training.kubeflow.org/"
JOB_NAME: Final = _PREFIX + "job-name"
OPERATOR_NAME: Final = _PREFIX + "operator-name"
REPLICA_TYPE: Final = _PREFIX + "replica-type"
REPLICA_INDEX: Final = _PREFIX + "replica-index"
JOB_ROLE: Final = _PREFIX + "job-role"


def of_replica(shape: JobShape, role: str, index: int) -> dict[str, str]:
    """Return the labels that select one replica: the selector of its service."""
    number = {} if role in shape.framework.unnumbered else {REPLICA_INDEX: str(index)}
    return {**of_job(shape), REPLICA_TYPE: role.lower(), **number}


def of_job(shape: JobShape) -> dict[str, str]:
    """Return the labels that select all objects of a job."""
    return {OPERATOR_NAME: shape.framework.controller, JOB_NAME: shape.name}


def of_pod(shape: JobShape, role: str, index: int) -> dict[str, str]:
    """Return the labels of a replica's pod."""
    master = {JOB_ROLE: "master"} if shape.is_master(role, index) else {}
    return {**of_replica(shape, role, index), **master}


def selector_text(framework: Framework, job: str, role: str) -> str:
    """Return the selector of a role's pods, as ``/scale`` and autoscalers read it."""
    values = {JOB_NAME: job, OPERATOR_NAME: framework.controller, REPLICA_TYPE: role.lower()}
    return ",".join(f"{name}={value}" for name, value in values.items())


def role_of(shape: JobShape, item: Pod | Service) -> str:
    """Return the role of an object; empty when the job has no such role."""
    lower = item.metadata.label(REPLICA_TYPE)
    return next((role for role in shape.roles if role.lower() == lower), "")


def index_of(shape: JobShape, item: Pod | Service) -> int | None:
    """Return the index of an object's replica; 0 for a role of a single pod, whose objects have no index label."""
    if role_of(shape, item) in shape.framework.unnumbered:
        return 0
    text = item.metadata.label(REPLICA_INDEX)
    return int(text) if text.isdecimal() and len(text) < 10 else None
