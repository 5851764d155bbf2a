"""SJF (2): shortest job first, by the average runtime of a task's class."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from strato.mincost.arrays import Int64s
from strato.mincost.models.base import CLUSTER, Arcs, CostModel, arcs, join, waited_tenths
from strato.mincost.world import Task


class ShortestJobFirst(CostModel):
    """Running costs the class's average runtime (ms) × 100; waiting the same, or more once it lasted."""

    name, number = "sjf", 2

    def task_to_unscheduled(self, tasks: Sequence[Task], now: float) -> Int64s:
        """The larger of the wait in tenths of a second and the average runtime × 100."""
        return np.maximum(waited_tenths(tasks, now), self._runtime(tasks) * 100)

    def preemption(self, tasks: Sequence[Task], now: float) -> Int64s:
        """Evicting costs nothing."""
        return np.zeros(len(tasks), np.int64)

    def task_arcs(self, tasks: Sequence[Task], now: float) -> Arcs:
        """To the cluster aggregator, average runtime × 100 + 1."""
        return arcs(range(len(tasks)), [self.world.class_target(CLUSTER)] * len(tasks), self._runtime(tasks) * 100 + 1)

    def class_arcs(self, classes: Sequence[int], demand: Int64s) -> Arcs:
        """To every machine with room."""
        return join([self.to_all_machines(row) for row in range(len(classes))])

    def _runtime(self, tasks: Sequence[Task]) -> Int64s:
        return np.array([self.statistics.average_runtime_ms(t.binary) for t in tasks], np.int64)
