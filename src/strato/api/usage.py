"""What a pod counts for in quotas: the keys and amounts of ``minResources``.

Source: volcano-controllers A10, last rule.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from msgspec.structs import replace

from strato.api.core import Container, PodSpec, ResourceRequirements
from strato.api.pods import effective_requests
from strato.api.quantity import NANO, Quantity, parse

Usage = dict[str, Quantity]

_LIMITED = frozenset({"cpu", "memory", "ephemeral-storage"})


_SHAPES = 1024
"""How many shapes of pods are remembered; a cluster has few, and thousands of pods of each."""


@dataclass(frozen=True, slots=True)
class _Shape:
    """What the usage of a pod follows from, to find it by."""

    key: Hashable
    spec: PodSpec = field(compare=False)


def pod_usage(spec: PodSpec) -> Mapping[str, Quantity]:
    """Return the quota usage of one pod; requests that are absent default to limits, as a server defaults them."""
    return _usage_of(_shape(spec))


def total_json(pods: Iterable[tuple[PodSpec, int]]) -> Mapping[str, str]:
    """Return what pods use together, so many of each, as canonical text."""
    return _total_of(tuple((_shape(spec), count) for spec, count in pods))


def _shape(spec: PodSpec) -> _Shape:
    level = spec.resources
    key = (
        tuple(_amounts(container.resources) for container in spec.containers),
        tuple((container.restart_policy, _amounts(container.resources)) for container in spec.init_containers),
        tuple(spec.overhead.items()),
        None if level is None else _amounts(level),
    )
    return _Shape(key, spec)


def _amounts(resources: ResourceRequirements) -> Hashable:
    return tuple(resources.requests.items()), tuple(resources.limits.items())


@lru_cache(_SHAPES)
def _total_of(pods: tuple[tuple[_Shape, int], ...]) -> Mapping[str, str]:
    total: Usage = {}
    for shape, count in pods:
        add(total, _usage_of(shape), count)
    return to_json(total)


@lru_cache(_SHAPES)
def _usage_of(shape: _Shape) -> Usage:
    spec = shape.spec
    usage: Usage = {"pods": Quantity(NANO), "count/pods": Quantity(NANO)}
    for name, amount in effective_requests(_mapped(spec, _defaulted)).items():
        usage[name] = amount
        usage[f"requests.{name}"] = amount
    for name, amount in effective_requests(_mapped(spec, _limits_only)).items():
        if name in _LIMITED:
            usage[f"limits.{name}"] = amount
    return usage


def add(total: Usage, more: Mapping[str, Quantity], count: int = 1) -> None:
    """Add ``count`` times ``more`` to ``total``, in place."""
    if count <= 0:
        return
    for name, amount in more.items():
        scaled = amount * count
        total[name] = total[name] + scaled if name in total else scaled


def to_json(usage: Usage) -> dict[str, str]:
    """Return the amounts as canonical text."""
    return {name: str(amount) for name, amount in usage.items()}


def same(one: Mapping[str, str | int | float] | None, other: Mapping[str, str | int | float] | None) -> bool:
    """Return whether two resource lists hold the same amounts, however written."""
    if one is None or other is None:
        return not one and not other
    return one.keys() == other.keys() and all(
        one[name] == other[name] or parse(one[name]) == parse(other[name]) for name in one
    )


def _defaulted(resources: ResourceRequirements) -> ResourceRequirements:
    return ResourceRequirements(requests={**resources.limits, **resources.requests}, limits=resources.limits)


def _limits_only(resources: ResourceRequirements) -> ResourceRequirements:
    return ResourceRequirements(requests=resources.limits)


def _mapped(spec: PodSpec, change: Callable[[ResourceRequirements], ResourceRequirements]) -> PodSpec:
    """Return the spec with every container's resources changed."""

    def changed(containers: tuple[Container, ...]) -> tuple[Container, ...]:
        return tuple(replace(container, resources=change(container.resources)) for container in containers)

    return replace(
        spec,
        containers=changed(spec.containers),
        init_containers=changed(spec.init_containers),
        resources=None if spec.resources is None else change(spec.resources),
    )
