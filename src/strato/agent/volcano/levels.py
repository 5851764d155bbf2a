"""Which pods are offline and which are not: the annotation ``volcano.sh/qos-level``; and the resources lent to them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from strato.api.core import Pod
from strato.api.core.container import Container
from strato.api.pods import effective_requests
from strato.api.quantity import InvalidQuantity, milli, value
from strato.api.shapes import ResourceList

QOS_LEVEL: Final = "volcano.sh/qos-level"
_LEVELS: Final = {"LC": 2, "HLS": 2, "LS": 1, "BE": -1}
_MOST_THAT_BORROW: Final = 1
"""Pods of a higher level do not use lent resources."""
_CRITICAL_PRIORITY: Final = 2_000_000_000
_CRITICAL_CLASSES: Final = ("system-node-critical", "system-cluster-critical")
_STATIC_POD: Final = "kubernetes.io/config.source"
_MIRROR_POD: Final = "kubernetes.io/config.mirror"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceNames:
    """Under which names a node's unused resources are lent."""

    cpu: str = "kubernetes.io/batch-cpu"
    """Counted in millicores."""
    memory: str = "kubernetes.io/batch-memory"
    """Counted in bytes."""

    def of(self, resource: str) -> str:
        """Return the name for ``cpu`` or ``memory``."""
        return self.cpu if resource == "cpu" else self.memory


DEFAULT_NAMES: Final = ResourceNames()


def qos_level(pod: Pod) -> int:
    """Return a pod's level: 2 latency critical, 1 latency sensitive, -1 best effort, 0 where nothing is said."""
    return _LEVELS.get(pod.metadata.annotation(QOS_LEVEL), 0)


def normalised(level: int) -> int:
    """Return the level that memory and network know: -1 for offline pods, 0 for all others."""
    return -1 if level < 0 else 0


def is_offline(pod: Pod) -> bool:
    """Tell whether a pod runs on what others leave, and may be evicted for them."""
    return qos_level(pod) < 0


def may_borrow(level: int) -> bool:
    """Tell whether pods of a level may use lent resources."""
    return level <= _MOST_THAT_BORROW


def is_critical(pod: Pod) -> bool:
    """Tell whether a pod belongs to its node or cluster: none of these is ever evicted."""
    annotations = pod.metadata.annotations or {}
    if _MIRROR_POD in annotations or annotations.get(_STATIC_POD, "api") != "api":
        return True
    return (pod.spec.priority or 0) >= _CRITICAL_PRIORITY or pod.spec.priority_class_name in _CRITICAL_CLASSES


def lent_amount(amounts: ResourceList, name: str) -> int | None:
    """Return a whole amount of a lent resource; None: it is not asked for."""
    try:
        return max(0, value(amounts[name])) if name in amounts else None
    except InvalidQuantity:
        return None


def uses_lent(containers: Iterable[Container], names: ResourceNames) -> bool:
    """Tell whether any container asks for lent resources."""
    return any(
        name in amounts
        for one in containers
        for amounts in (one.resources.requests, one.resources.limits)
        for name in (names.cpu, names.memory)
    )


def requested(pod: Pod, resource: str, names: ResourceNames) -> int:
    """Return what a pod asks for of ``cpu`` (millicores) or ``memory`` (bytes), of the lent one if it asks for that."""
    amounts = effective_requests(pod.spec)
    lent = amounts.get(names.of(resource))
    if lent is not None:
        return value(str(lent))
    own = amounts.get(resource)
    if own is None:
        return 0
    return milli(str(own)) if resource == "cpu" else value(str(own))
