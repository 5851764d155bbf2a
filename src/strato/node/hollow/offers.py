"""The capacity, labels and taints of hollow nodes, given directly or by a shape (`strato.node.shapes`)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from strato.node.shapes import NodeShape

CAPACITY: Final = {"cpu": "32", "memory": "256Gi", "pods": "110", "ephemeral-storage": "100Gi"}
"""Default capacity of a hollow node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HollowOffer:
    """Capacity, labels and taints of a hollow node, and how often it fails."""

    capacity: Mapping[str, str] = field(default_factory=dict)
    """Resource name → quantity, over the default `CAPACITY`."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Labels besides those that a kubelet sets."""
    cpu_overcommit_factor: float = 1.0
    """Factor by which its cpu is amplified. Range [1, 10]."""
    taints: tuple[Mapping[str, str], ...] = ()
    """Taints with which it registers."""
    mtbf_seconds: float = math.inf
    """Mean time between failures; infinite: it does not fail by itself."""
    mttr_seconds: float = 3600.0
    """Mean time to repair: how long it is down after a failure."""


def offers(
    names: Iterable[str], shapes: Iterable[NodeShape], labels: Mapping[str, str] | None = None
) -> dict[str, HollowOffer]:
    """Return the offers of nodes by name, in the order of the shapes, as many of each shape as it says.

    Args:
        names: Names of the nodes; at least as many as the shapes have nodes.
        shapes: The shapes.
        labels: Labels of all nodes, besides those of their shapes.
    """
    return dict(zip(names, _offers(shapes, labels or {}), strict=False))


def _offers(shapes: Iterable[NodeShape], labels: Mapping[str, str]) -> Iterator[HollowOffer]:
    for shape in shapes:
        known: dict[tuple[tuple[str, str], ...], HollowOffer] = {}
        for index in range(shape.count):
            key = tuple(shape.labels_of(index).items())
            offer = known.get(key)
            if offer is None:
                offer = known[key] = HollowOffer(
                    capacity=shape.resources,
                    labels={**dict(key), **labels},
                    cpu_overcommit_factor=shape.cpu_overcommit_factor,
                    taints=shape.taints,
                    mtbf_seconds=shape.mtbf_seconds,
                    mttr_seconds=shape.mttr_seconds,
                )
            yield offer
