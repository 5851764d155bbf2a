"""The quota usage of a pod, which gives the keys and amounts of ``minResources``.

Source: volcano-controllers A10, last rule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from strato.api.core import Container, PodSpec, ResourceRequirements
from strato.api.pods import effective_requests
from strato.api.quantity import NANO, Quantity, parse
from strato.lru import LruCache

Usage = dict[str, Quantity]

_LIMITED = frozenset({"cpu", "memory", "ephemeral-storage"})
_NATIVE = "kubernetes.io/"


_Amounts = tuple[tuple[tuple[str, str | int | float], ...], tuple[tuple[str, str | int | float], ...]]
"""Requests and limits."""


class _Shape(NamedTuple):
    """The part of a pod's spec that determines its usage; a cluster has few shapes, and thousands of pods of each."""

    containers: tuple[_Amounts, ...]
    init_containers: tuple[tuple[str, _Amounts], ...]
    overhead: tuple[tuple[str, str | int | float], ...]
    level: _Amounts | None


_Shapes = tuple[tuple[_Shape, int], ...]


def pod_usage(spec: PodSpec) -> Mapping[str, Quantity]:
    """Return the quota usage of one pod; missing requests are set to the limits, as an API server does."""
    return _usage_of(_shape(spec))


def total_json(pods: Iterable[tuple[PodSpec, int]]) -> Mapping[str, str]:
    """Return the total usage of pods, given as specs with their numbers, as canonical text."""
    key = tuple((_shape(spec), count) for spec, count in pods)
    known = _totals.get(key)
    if known is None:
        total: Usage = {}
        for shape, count in key:
            add(total, _usage_of(shape), count)
        known = _totals.put(key, to_json(total))
    return known


def _shape(spec: PodSpec) -> _Shape:
    level = spec.resources
    return _Shape(
        tuple(_amounts(container.resources) for container in spec.containers),
        tuple((container.restart_policy, _amounts(container.resources)) for container in spec.init_containers),
        tuple(spec.overhead.items()),
        None if level is None else _amounts(level),
    )


def _amounts(resources: ResourceRequirements) -> _Amounts:
    return tuple(resources.requests.items()), tuple(resources.limits.items())


def _usage_of(shape: _Shape) -> Usage:
    return _usages.get(shape) or _usages.put(shape, _worked_out(shape))


_usages: LruCache[_Shape, Usage] = LruCache(8 << 20, lambda shape, _: 4 * len(repr(shape)))
_totals: LruCache[tuple[tuple[_Shape, int], ...], Mapping[str, str]] = LruCache(
    8 << 20, lambda key, _: 4 * len(repr(key))
)
"""Cache of the whole process; that is safe for pure arithmetic, and several rooms use it."""


def _worked_out(shape: _Shape) -> Usage:
    usage: Usage = {"pods": Quantity(NANO), "count/pods": Quantity(NANO)}
    for name, amount in effective_requests(_spec(shape, _defaulted)).items():
        usage[name] = amount
        if _NATIVE not in name:  # of resources in its own domain, Kubernetes charges only those without a prefix
            usage[f"requests.{name}"] = amount
    for name, amount in effective_requests(_spec(shape, _limits_only)).items():
        if name in _LIMITED:
            usage[f"limits.{name}"] = amount
    return usage


def _spec(shape: _Shape, change: Callable[[_Amounts], ResourceRequirements]) -> PodSpec:
    """Return a spec of that shape with every container's resources changed."""
    return PodSpec(
        containers=tuple(Container(resources=change(amounts)) for amounts in shape.containers),
        init_containers=tuple(
            Container(restart_policy=policy, resources=change(amounts)) for policy, amounts in shape.init_containers
        ),
        overhead=dict(shape.overhead),
        resources=None if shape.level is None else change(shape.level),
    )


def _defaulted(amounts: _Amounts) -> ResourceRequirements:
    requests, limits = amounts
    return ResourceRequirements(requests={**dict(limits), **dict(requests)}, limits=dict(limits))


def _limits_only(amounts: _Amounts) -> ResourceRequirements:
    return ResourceRequirements(requests=dict(amounts[1]))


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
    """Return whether two resource lists have the same amounts, in whatever notation."""
    if one is None or other is None:
        return not one and not other
    return one.keys() == other.keys() and all(
        one[name] == other[name] or parse(one[name]) == parse(other[name]) for name in one
    )
