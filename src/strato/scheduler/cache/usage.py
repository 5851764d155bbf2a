"""Measured usage of nodes: averages from a metrics system, as of the last poll."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

WINDOW: Final = "10m"
"""The window of the averages, and the key they are kept under (spec volcano-plugins 22)."""

PROMETHEUS, ADAPTOR, ELASTICSEARCH = "prometheus", "prometheus_adaptor", "elasticsearch"
METRICS_TYPES: Final = (PROMETHEUS, ADAPTOR, ELASTICSEARCH)
"""Sources that the configuration's ``metrics.type`` may name."""


class NodeUsage(NamedTuple):
    """Averages of one node.

    Attributes:
        cpu, memory: Percent by window.
        at: When they were read, in seconds since the epoch; 0 for never.
    """

    cpu: Mapping[str, float]
    memory: Mapping[str, float]
    at: float


class Usages:
    """The last known usage of every node.

    Attributes:
        by_node: By node name.
        version: Grows with every poll.
        interval_seconds: Polling interval; the numbers do not include pods that started since the last poll.
    """

    def __init__(self) -> None:
        self.by_node: dict[str, NodeUsage] = {}
        self.version = 0
        self.interval_seconds = 30.0

    def take(self, usages: Mapping[str, NodeUsage]) -> None:
        """Take the results of a poll; nodes missing in them keep their last values with the old ``at``."""
        self.by_node.update(usages)
        self.version += 1
