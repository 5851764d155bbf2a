"""Resizes of running pods: whether they fit the node, which containers restart, and their events. Pure.

Reasons and messages are the kubelet's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from strato.api.core import Container, Pod, PodSpec, ResourceRequirements
from strato.api.usage import same
from strato.node.podstatus import PodRecord, resources_json
from strato.node.predicates import insufficient

DEFERRED, INFEASIBLE = "Deferred", "Infeasible"
_RESIZED = ("cpu", "memory")
"""The resources that may be resized."""


class Pending(NamedTuple):
    """Why the node does not begin a resize."""

    reason: str
    message: str


def allocated_spec(spec: PodSpec, record: PodRecord) -> PodSpec:
    """Return a pod's spec with the resources that its node has allocated to it and its containers."""
    given = {container.name: container.allocated for container in record.containers}
    return replace(
        spec,
        resources=record.resources,
        containers=tuple(replace(one, resources=given[one.name]) for one in spec.containers),
        init_containers=tuple(replace(one, resources=given[one.name]) for one in spec.init_containers),
    )


def verdict(wanted: PodSpec, others: Iterable[PodSpec], allocatable: Mapping[str, str]) -> Pending | None:
    """Return why a node cannot resize a pod, None when it can.

    Args:
        wanted: The pod's spec with the wanted resources.
        others: Specs of the node's other pods, with the resources allocated to them.
        allocatable: The node's allocatable amounts.
    """
    shortages = insufficient(wanted, others, allocatable, _RESIZED)
    for lacking in shortages:
        if lacking.is_never:
            asked = f"requested: {lacking.requested}, capacity: {lacking.capacity}"
            return Pending(INFEASIBLE, f"Node didn't have enough capacity: {lacking.resource}, {asked}")
    return Pending(DEFERRED, str(shortages[0])) if shortages else None


def needs_restart(container: Container, held: ResourceRequirements) -> bool:
    """Return whether the container's ``resizePolicy`` requires a restart for the change from its present resources."""
    wanted = container.resources
    changed = {
        name
        for name in _RESIZED
        for new, old in ((wanted.requests, held.requests), (wanted.limits, held.limits))
        if not same({"": new.get(name, 0)}, {"": old.get(name, 0)})
    }
    return any(
        policy.restart_policy == "RestartContainer" and policy.resource_name in changed
        for policy in container.resize_policy
    )


def event_text(what: str, pod: Pod, error: str = "") -> str:
    """Return the message of an event about a resize: its result, and the resources."""
    members = (("initContainers", pod.spec.init_containers), ("containers", pod.spec.containers))
    summary = {
        name: [{"name": one.name, "resources": resources_json(one.resources)} for one in containers]
        for name, containers in members
        if containers
    }
    body = {**summary, "generation": pod.metadata.generation, **({"error": error} if error else {})}
    return f"Pod resize {what}: {msgspec.json.encode(body).decode()}"
