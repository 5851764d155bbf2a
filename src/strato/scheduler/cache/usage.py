"""How busy nodes really are: averages that a metrics system measured, as the last poll found them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

WINDOW: Final = "10m"
"""The window averages are asked for, and the key they are kept under (spec volcano-plugins 22)."""

PROMETHEUS, ADAPTOR, ELASTICSEARCH = "prometheus", "prometheus_adaptor", "elasticsearch"
METRICS_TYPES: Final = (PROMETHEUS, ADAPTOR, ELASTICSEARCH)
"""Sources that the configuration's ``metrics.type`` may name."""


class NodeUsage(NamedTuple):
    """Averages of one node.

    Attributes:
        cpu, memory: Percent by window.
        at: Seconds since the epoch when they were read; 0 for never.
    """

    cpu: Mapping[str, float]
    memory: Mapping[str, float]
    at: float


class Usages:
    """The last known usage of every node.

    Attributes:
        by_node: By node name.
        version: Grows with every poll.
        interval_seconds: How often the source is asked; pods that started since are not in its numbers yet.
    """

    def __init__(self) -> None:
        self.by_node: dict[str, NodeUsage] = {}
        self.version = 0
        self.interval_seconds = 30.0

    def take(self, usages: Mapping[str, NodeUsage]) -> None:
        """Take what a poll found; nodes it did not find keep their last values, which grow old."""
        self.by_node.update(usages)
        self.version += 1
