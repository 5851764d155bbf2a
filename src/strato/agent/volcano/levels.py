"""QoS levels of pods by the annotation ``volcano.sh/qos-level``, and the names of lent resources."""

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
"""Highest level whose pods may use lent resources."""
_CRITICAL_PRIORITY: Final = 2_000_000_000
_CRITICAL_CLASSES: Final = ("system-node-critical", "system-cluster-critical")
_STATIC_POD: Final = "kubernetes.io/config.source"
_MIRROR_POD: Final = "kubernetes.io/config.mirror"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceNames:
    """Names of the extended resources under which unused resources are lent."""

    cpu: str = "kubernetes.io/batch-cpu"
    """Name of lent CPU, in millicores."""
    memory: str = "kubernetes.io/batch-memory"
    """Name of lent memory, in bytes."""

    def of(self, resource: str) -> str:
        """Return the name for ``cpu`` or ``memory``."""
        return self.cpu if resource == "cpu" else self.memory


DEFAULT_NAMES: Final = ResourceNames()


def qos_level(pod: Pod) -> int:
    """Return a pod's level: 2 latency critical, 1 latency sensitive, -1 best effort, 0 without the annotation."""
    return _LEVELS.get(pod.metadata.annotation(QOS_LEVEL), 0)


def normalised(level: int) -> int:
    """Return the level for memory and network, which only distinguish -1 (offline pods) and 0 (others)."""
    return -1 if level < 0 else 0


def is_offline(pod: Pod) -> bool:
    """Return whether a pod is offline: it runs on resources that others leave, and may be evicted for these."""
    return qos_level(pod) < 0


def may_borrow(level: int) -> bool:
    """Return whether pods of a level may use lent resources."""
    return level <= _MOST_THAT_BORROW


def is_critical(pod: Pod) -> bool:
    """Return whether a pod is critical for its node or cluster; such pods are never evicted."""
    annotations = pod.metadata.annotations or {}
    if _MIRROR_POD in annotations or annotations.get(_STATIC_POD, "api") != "api":
        return True
    return (pod.spec.priority or 0) >= _CRITICAL_PRIORITY or pod.spec.priority_class_name in _CRITICAL_CLASSES


def lent_amount(amounts: ResourceList, name: str) -> int | None:
    """Return the requested amount of a lent resource as an integer; None if not requested."""
    try:
        return max(0, value(amounts[name])) if name in amounts else None
    except InvalidQuantity:
        return None


def uses_lent(containers: Iterable[Container], names: ResourceNames) -> bool:
    """Return whether any container requests lent resources."""
    return any(
        name in amounts
        for one in containers
        for amounts in (one.resources.requests, one.resources.limits)
        for name in (names.cpu, names.memory)
    )


def requested(pod: Pod, resource: str, names: ResourceNames) -> int:
    """Return a pod's request of ``cpu`` (millicores) or ``memory`` (bytes), of the lent one if it requests that."""
    amounts = effective_requests(pod.spec)
    lent = amounts.get(names.of(resource))
    if lent is not None:
        return value(str(lent))
    own = amounts.get(resource)
    if own is None:
        return 0
    return milli(str(own)) if resource == "cpu" else value(str(own))
