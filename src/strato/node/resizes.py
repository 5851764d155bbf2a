"""Resizes of pods that run: whether they fit the node, which containers restart, and how events tell of them. Pure.

Named after what a kubelet says of them; the texts are its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from strato.api.core import Container, Pod, PodSpec, ResourceRequirements
from strato.api.pods import effective_requests
from strato.api.quantity import Quantity, milli, parse, value
from strato.api.usage import add, same
from strato.node.podstatus import PodRecord, resources_json

DEFERRED, INFEASIBLE = "Deferred", "Infeasible"
_COUNTED = {"cpu": milli, "memory": value}
"""What may be resized, and in which units messages count it."""


class Pending(NamedTuple):
    """Why a resize is not begun."""

    reason: str
    message: str


def allocated_spec(spec: PodSpec, record: PodRecord) -> PodSpec:
    """Return a pod's spec with the resources that its node has given it and its containers."""
    given = {container.name: container.allocated for container in record.containers}
    return replace(
        spec,
        resources=record.resources,
        containers=tuple(replace(one, resources=given[one.name]) for one in spec.containers),
        init_containers=tuple(replace(one, resources=given[one.name]) for one in spec.init_containers),
    )


def verdict(wanted: PodSpec, others: Iterable[PodSpec], allocatable: Mapping[str, str]) -> Pending | None:
    """Return why a node cannot give a pod what it wants, None when it can.

    Args:
        wanted: The pod as it is to be.
        others: What the node has given its other pods.
        allocatable: What it has for all of them.
    """
    requests, used = effective_requests(wanted), dict.fromkeys(_COUNTED, Quantity(0))
    for name, count in _COUNTED.items():
        most = parse(allocatable.get(name, "0"))
        if name in requests and requests[name] > most:
            asked = f"requested: {count(str(requests[name]))}, capacity: {count(str(most))}"
            return Pending(INFEASIBLE, f"Node didn't have enough capacity: {name}, {asked}")
    for spec in others:
        add(used, {name: amount for name, amount in effective_requests(spec).items() if name in used})
    for name, count in _COUNTED.items():
        most = parse(allocatable.get(name, "0"))
        if name in requests and used[name] + requests[name] > most:
            needed, taken, all_ = (count(str(amount)) for amount in (requests[name], used[name], most))
            text = f"{name}, requested: {needed}, used: {taken}, capacity: {all_}"
            return Pending(DEFERRED, f"Node didn't have enough resource: {text}")
    return None


def needs_restart(container: Container, held: ResourceRequirements) -> bool:
    """Return whether the container's policy wants a restart when it gets its resources in place of those it has."""
    wanted = container.resources
    changed = {
        name
        for name in _COUNTED
        for new, old in ((wanted.requests, held.requests), (wanted.limits, held.limits))
        if not same({"": new.get(name, 0)}, {"": old.get(name, 0)})
    }
    return any(
        policy.restart_policy == "RestartContainer" and policy.resource_name in changed
        for policy in container.resize_policy
    )


def event_text(what: str, pod: Pod, error: str = "") -> str:
    """Return the message of an event: what became of a resize, and of which."""
    members = (("initContainers", pod.spec.init_containers), ("containers", pod.spec.containers))
    summary = {
        name: [{"name": one.name, "resources": resources_json(one.resources)} for one in containers]
        for name, containers in members
        if containers
    }
    body = {**summary, "generation": pod.metadata.generation, **({"error": error} if error else {})}
    return f"Pod resize {what}: {msgspec.json.encode(body).decode()}"
