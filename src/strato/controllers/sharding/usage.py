"""The requested shares of every node, which pod and node events keep up to date.

Source: volcano-controllers Part I, "Utilisation".
"""

from __future__ import annotations

from typing import Final

from strato.api.core import Node, Pod
from strato.api.quantity import parse

MIRROR: Final = "kubernetes.io/config.mirror"
_RESOURCES: Final = ("cpu", "memory")
Ratios = tuple[float, float]
"""Cpu and memory."""


class ShardNodeUsage:
    """See the module. Costs a dictionary entry per node and per bound pod."""

    def __init__(self) -> None:
        self._capacity: dict[str, tuple[int, int]] = {}
        self._requested: dict[str, list[int]] = {}

    def put_node(self, node: Node) -> None:
        """Set a node's capacity."""
        capacity = node.status.capacity
        amounts = [parse(capacity[name]).nanos if name in capacity else 0 for name in _RESOURCES]
        self._capacity[node.metadata.name] = (amounts[0], amounts[1])

    def drop_node(self, name: str) -> None:
        """Forget a node's capacity; the requests of its pods are kept until these are deleted."""
        self._capacity.pop(name, None)

    def change_pod(self, old: Pod | None, new: Pod | None) -> set[str]:
        """Count a pod's change; returns the nodes whose requests changed."""
        touched: set[str] = set()
        before, after = _share(old), _share(new)
        if before == after:
            return touched
        for share, sign in ((before, -1), (after, 1)):
            if share is None:
                continue
            name, cpu, memory = share
            total = self._requested.setdefault(name, [0, 0, 0])
            total[0] += sign * cpu
            total[1] += sign * memory
            total[2] += sign
            if total[2] == 0:
                del self._requested[name]
            touched.add(name)
        return touched

    def ratios(self, name: str) -> Ratios | None:
        """Return a node's requested shares, at most 1; None when its capacity is unknown."""
        capacity = self._capacity.get(name)
        if capacity is None or not capacity[0]:
            return None
        cpu, memory, _ = self._requested.get(name, (0, 0, 0))
        return min(1.0, cpu / capacity[0]), min(1.0, memory / capacity[1]) if capacity[1] else 0.0


def _share(pod: Pod | None) -> tuple[str, int, int] | None:
    """Return node, cpu and memory of a pod; None for pods that do not count."""
    if pod is None or not pod.spec.node_name or pod.is_finished or pod.metadata.annotation(MIRROR):
        return None
    total = [0, 0]
    for container in pod.spec.containers:
        for place, name in enumerate(_RESOURCES):
            amount = container.resources.requests.get(name)
            if amount is not None:
                total[place] += parse(amount).nanos
    return pod.spec.node_name, total[0], total[1]
