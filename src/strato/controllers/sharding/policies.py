"""How a scheduler's nodes are chosen: filters, scores and limits. Pure.

Source: volcano-controllers Part I, Assignment.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Self

import msgspec


@dataclass(frozen=True, slots=True)
class NodeMetrics:
    """The values of a node that policies read."""

    name: str
    labels: Mapping[str, str]
    cpu_ratio: float | None
    """Requested share of the cpu capacity in [0, 1]; None when unknown."""


class ShardPolicy:
    """Base of policies; its methods accept every node with the same score unless overridden."""

    name: ClassVar[str]
    scores: ClassVar[bool] = False
    weight: float = 1.0

    @classmethod
    def from_arguments(cls, arguments: Mapping[str, Any], weight: float) -> Self:
        """Build it from its arguments.

        Raises:
            ValueError: An argument is of the wrong type or out of range.
        """
        try:
            return msgspec.convert({**arguments, "weight": weight}, cls, strict=False)
        except msgspec.ValidationError as error:
            raise ValueError(str(error)) from error

    def passes(self, node: NodeMetrics) -> bool:
        """Return whether the scheduler may have the node."""
        return True

    def score(self, node: NodeMetrics) -> float:
        """Return the node's score; the scheduler gets nodes of higher scores first."""
        return 0.0

    def select(self, nodes: Sequence[NodeMetrics]) -> Sequence[NodeMetrics]:
        """Return the nodes that the scheduler gets, out of those sorted best first."""
        return nodes


@dataclass(frozen=True, kw_only=True)
class AllocationRate(ShardPolicy):
    """Accepts nodes whose requested share of cpu lies in a range; prefers fuller ones."""

    name: ClassVar[str] = "allocation-rate"
    scores: ClassVar[bool] = True
    minCPUUtil: float = 0.0
    maxCPUUtil: float = 0.0
    weight: float = 1.0

    def __post_init__(self) -> None:
        if not 0 <= self.minCPUUtil <= self.maxCPUUtil <= 1:
            raise ValueError(f"minCPUUtil {self.minCPUUtil} to maxCPUUtil {self.maxCPUUtil} is no range within 0 and 1")

    def passes(self, node: NodeMetrics) -> bool:
        """Return whether the ratio, rounded to two decimals, lies in the range."""
        return node.cpu_ratio is not None and self.minCPUUtil <= round(node.cpu_ratio, 2) <= self.maxCPUUtil

    def score(self, node: NodeMetrics) -> float:
        """Return the place in the range, 0 to 1."""
        width = self.maxCPUUtil - self.minCPUUtil
        if width <= 0:
            return 1.0
        return ((node.cpu_ratio or 0.0) - self.minCPUUtil) / width


@dataclass(frozen=True, kw_only=True)
class Warmup(ShardPolicy):
    """Prefers nodes with a label."""

    name: ClassVar[str] = "warmup"
    scores: ClassVar[bool] = True
    warmupLabel: str = "node.volcano.sh/warmup"
    warmupLabelValue: str = "true"
    weight: float = 1.0

    def score(self, node: NodeMetrics) -> float:
        """Return 1 for a warm node."""
        return float(node.labels.get(self.warmupLabel) == self.warmupLabelValue)


@dataclass(frozen=True, kw_only=True)
class NodeLimit(ShardPolicy):
    """Bounds the number of nodes."""

    name: ClassVar[str] = "node-limit"
    min_nodes: int = 0
    max_nodes: int = 0
    weight: float = 1.0

    @classmethod
    def from_arguments(cls, arguments: Mapping[str, Any], weight: float) -> Self:
        """Build it from its arguments."""
        try:
            low, high = int(arguments.get("minNodes", 0)), int(arguments.get("maxNodes", 0))
        except (TypeError, ValueError):
            raise ValueError("minNodes and maxNodes are whole numbers") from None
        return cls(min_nodes=low, max_nodes=high, weight=weight)

    def select(self, nodes: Sequence[NodeMetrics]) -> Sequence[NodeMetrics]:
        """Return the best nodes, at most as many as the limit."""
        return nodes[: self.max_nodes] if self.max_nodes > 0 else nodes


POLICIES: Final[Mapping[str, type[ShardPolicy]]] = {
    policy.name: policy for policy in (AllocationRate, Warmup, NodeLimit)
}
"""Every policy by name."""
