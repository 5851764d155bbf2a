"""What a hollow node shows of itself in the API, by itself or by a shape (`strato.node.shapes`)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from strato.node.shapes import NodeShape

CAPACITY: Final = {"cpu": "32", "memory": "256Gi", "pods": "110", "ephemeral-storage": "100Gi"}
"""Of a hollow node, where nothing else is given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HollowOffer:
    """What a hollow node shows of itself in the API, and how often it fails."""

    capacity: Mapping[str, str] = field(default_factory=dict)
    """Resource name → quantity, beside what every hollow node has (`CAPACITY`)."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Beside what a kubelet sets."""
    cpu_overcommit_factor: float = 1.0
    """By which its cpu is amplified. Range [1, 10]."""
    taints: tuple[Mapping[str, str], ...] = ()
    """Which it registers with."""
    mtbf_seconds: float = math.inf
    """Mean time to its failure; infinite: it does not fail by itself."""
    mttr_seconds: float = 3600.0
    """Mean time that it is down then."""


def offers(
    names: Iterable[str], shapes: Iterable[NodeShape], labels: Mapping[str, str] | None = None
) -> dict[str, HollowOffer]:
    """Return the nodes of shapes one after the other, as many as there are of these.

    Args:
        names: Of the nodes; at least as many.
        shapes: Of them.
        labels: Of all of them, beside their shapes'.
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
