"""Which taints follow from a node's conditions, and how long a pod tolerates its node's taints. Pure.

Source: Kubernetes' taint-based eviction.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Final

from strato.api.core import Node, Taint, Toleration
from strato.api.nodeselection import tolerates

NOT_READY: Final = "node.kubernetes.io/not-ready"
UNREACHABLE: Final = "node.kubernetes.io/unreachable"
UNSCHEDULABLE: Final = "node.kubernetes.io/unschedulable"
_PRESSURES: Final = {
    "MemoryPressure": "node.kubernetes.io/memory-pressure",
    "DiskPressure": "node.kubernetes.io/disk-pressure",
    "PIDPressure": "node.kubernetes.io/pid-pressure",
    "NetworkUnavailable": "node.kubernetes.io/network-unavailable",
}
MANAGED: Final = frozenset({NOT_READY, UNREACHABLE, UNSCHEDULABLE, *_PRESSURES.values()})
"""Keys of the taints that the node lifecycle controller adds and removes; it leaves all others alone."""

NO_SCHEDULE: Final = "NoSchedule"
NO_EXECUTE: Final = "NoExecute"


def wanted_taints(node: Node) -> frozenset[tuple[str, str]]:
    """Return key and effect of the managed taints a node should have."""
    wanted: set[tuple[str, str]] = set()
    ready = node.status.condition("Ready")
    if ready is not None and ready.status != "True":
        key = UNREACHABLE if ready.status == "Unknown" else NOT_READY
        wanted |= {(key, NO_SCHEDULE), (key, NO_EXECUTE)}
    for condition in node.status.conditions:
        if condition.status == "True" and condition.type in _PRESSURES:
            wanted.add((_PRESSURES[condition.type], NO_SCHEDULE))
    if node.spec.unschedulable:
        wanted.add((UNSCHEDULABLE, NO_SCHEDULE))
    return frozenset(wanted)


def present_taints(node: Node) -> frozenset[tuple[str, str]]:
    """Return key and effect of the managed taints a node has."""
    return frozenset((taint.key, taint.effect) for taint in node.spec.taints if taint.key in MANAGED)


def seconds_to_stay(tolerations: Sequence[Toleration], taints: Iterable[Taint]) -> float:
    """Return how long a pod may stay under NoExecute taints: 0 is not at all, infinity for ever."""
    stay = math.inf
    for taint in taints:
        if taint.effect != NO_EXECUTE:
            continue
        matching = [t for t in tolerations if tolerates((t,), taint)]
        if not matching:
            return 0.0
        limits = [max(0, t.toleration_seconds) for t in matching if t.toleration_seconds is not None]
        if limits:
            stay = min(stay, *limits)
    return stay
