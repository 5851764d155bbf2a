"""The PodGroup of a training job (spec training F)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

import msgspec

from strato.api import usage
from strato.api.core import PodSpec
from strato.api.frameworks import JobShape
from strato.api.kubeflow import SchedulingPolicy, TrainingJob
from strato.api.quantity import parse
from strato.api.volcano.scheduling import ELASTIC_ANNOTATION, QUEUE_ANNOTATION, PodGroup, PodGroupSpec
from strato.controllers.owners import controller_reference

DEFAULT_QUEUE: Final = "default"


def desired(
    shape: JobShape,
    job: TrainingJob,
    present: PodGroup | None,
    priority_of: Callable[[str], int],
    done: Mapping[str, int] = MappingProxyType({}),
) -> PodGroupSpec:
    """Return the desired spec of the group; an existing group keeps its queue.

    Args:
        shape: The job with its defaults.
        job: The job as it was read.
        present: Its group, if it has one.
        priority_of: Returns the value of a priority class.
        done: Number of replicas by role that have succeeded and whose pods are gone. They get no pods any more, so a
            ``minMember`` that includes them would keep the others from ever starting.
    """
    policy = shape.spec.run_policy.scheduling_policy or SchedulingPolicy()
    members = shape.least if policy.min_available is None else policy.min_available
    members = max(min(members, 1), members - sum(done.values()))
    own = policy.queue or job.metadata.annotation(QUEUE_ANNOTATION) or DEFAULT_QUEUE
    resources = policy.min_resources
    return PodGroupSpec(
        min_member=members,
        queue=(present.spec.queue if present is not None else "") or own,
        priority_class_name=policy.priority_class,
        min_resources=_smallest(shape, members, priority_of, done) if resources is None else resources,
    )


def _smallest(
    shape: JobShape, members: int, priority_of: Callable[[str], int], done: Mapping[str, int]
) -> Mapping[str, str]:
    """Return the requests of the first ``members`` pods, by descending priority; among equal ones the leader first."""
    total: usage.Usage = {}
    for role, spec in sorted(
        shape.roles.items(), key=lambda item: -priority_of(item[1].template.spec.priority_class_name)
    ):
        left = (1 if spec.replicas is None else spec.replicas) - done.get(role, 0)
        count = min(members, left)
        usage.add(total, _asks(spec.template.spec), count)
        members -= count
    return usage.to_json(total)


def _asks(spec: PodSpec) -> usage.Usage:
    """Return the requests of a pod's containers; a container without any counts with its limits."""
    asked: usage.Usage = {}
    for container in spec.containers:
        amounts = container.resources.requests or container.resources.limits
        usage.add(asked, {name: parse(amount) for name, amount in amounts.items()})
    return asked


def body(shape: JobShape, job: TrainingJob, spec: PodGroupSpec) -> dict[str, Any]:
    """Return the group to create, with the job's annotations and one for elastic jobs."""
    kind = shape.framework.kind
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {
            "name": shape.name,
            "namespace": shape.namespace,
            "annotations": {
                **(job.metadata.annotations or {}),
                **({ELASTIC_ANNOTATION: "true"} if shape.is_elastic else {}),
            },
            "ownerReferences": [controller_reference(kind.api_version, kind.name, job.metadata)],
        },
        "spec": msgspec.to_builtins(spec),
    }


def patch(group: PodGroup, spec: PodGroupSpec) -> dict[str, Any] | None:
    """Return the merge patch for the members of a group's spec that the job sets, None when they are up to date."""
    changes: dict[str, Any] = {}
    if group.spec.min_member != spec.min_member:
        changes["minMember"] = spec.min_member
    if group.spec.queue != spec.queue:
        changes["queue"] = spec.queue
    if group.spec.priority_class_name != spec.priority_class_name:
        changes["priorityClassName"] = spec.priority_class_name or None
    if not usage.same(group.spec.min_resources, spec.min_resources):
        gone = dict.fromkeys(set(group.spec.min_resources or {}) - set(spec.min_resources or {}))
        changes["minResources"] = {**gone, **(spec.min_resources or {})}
    return {"spec": changes} if changes else None


def is_waiting(group: PodGroup | None) -> bool:
    """Return whether the scheduler has not admitted the group yet, so that no pods may be created."""
    return group is None or group.status.phase in ("", "Pending")


def names_other_scheduler(shape: JobShape, scheduler: str) -> bool:
    """Return whether a template names a scheduler other than the one that schedules gangs."""
    names = {spec.template.spec.scheduler_name for spec in shape.roles.values()}
    return bool(names - {"", scheduler})
