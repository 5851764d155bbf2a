"""The PodGroup of an MPI job of kubeflow.org/v2beta1 (spec training I2). Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from strato.api import mpioperator, usage
from strato.api.core import PodSpec
from strato.api.frameworks import LAUNCHER, WORKER, JobShape
from strato.api.kubeflow import SchedulingPolicy, TrainingJob
from strato.api.quantity import parse
from strato.api.volcano.scheduling import QUEUE_ANNOTATION, PodGroup, PodGroupSpec


def desired(
    shape: JobShape, job: TrainingJob, present: PodGroup | None, priority_of: Callable[[str], int]
) -> PodGroupSpec:
    """Return the desired spec of the group; an existing group keeps its queue."""
    policy = shape.spec.run_policy.scheduling_policy or SchedulingPolicy()
    members = policy.min_available
    if members is None:
        # a launcher that is created after its workers are ready is not part of their gang
        waits = shape.spec.launcher_creation_policy == mpioperator.WHEN_READY
        members = shape.count(WORKER) + (0 if waits and shape.count(WORKER) else 1)
    classes = (shape.roles[role].template.spec.priority_class_name for role in shape.roles)
    resources = policy.min_resources
    if resources is None and members:
        resources = _smallest(shape, members, priority_of)
    return PodGroupSpec(
        min_member=members,
        queue=(present.spec.queue if present is not None else "")
        or policy.queue
        or job.metadata.annotation(QUEUE_ANNOTATION),
        priority_class_name=policy.priority_class or next(filter(None, classes), ""),
        min_resources=resources,
    )


def _smallest(shape: JobShape, members: int, priority_of: Callable[[str], int]) -> Mapping[str, str]:
    """Return the requests of ``members`` pods; if there are more, the role of lower priority counts ``members - 1``.

    With equal priorities that role is the workers.
    """
    counts = {role: shape.count(role) for role in (LAUNCHER, WORKER) if role in shape.roles}
    if sum(counts.values()) > members:
        lowest = min(reversed(counts), key=lambda role: priority_of(_spec(shape, role).priority_class_name))
        counts[lowest] = max(0, members - 1)
    total: usage.Usage = {}
    for role, count in counts.items():
        for container in _spec(shape, role).containers:
            asked = {**container.resources.limits, **container.resources.requests}
            usage.add(total, {name: parse(amount) for name, amount in asked.items()}, count)
    return usage.to_json(total)


def _spec(shape: JobShape, role: str) -> PodSpec:
    return shape.roles[role].template.spec
