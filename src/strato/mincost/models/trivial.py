"""Trivial (0): waiting costs 5, anywhere costs 2, a few random machines and the task's class cost 0."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from strato.mincost.arrays import Int64s
from strato.mincost.models.base import CLUSTER, Arcs, CostModel, arcs, join
from strato.mincost.world import Task

WAITING, ANYWHERE = 5, 2


class Trivial(CostModel):
    """Every machine is as good as any other."""

    name, number = "trivial", 0

    def task_to_unscheduled(self, tasks: Sequence[Task], now: float) -> Int64s:
        """Waiting costs 5."""
        return np.full(len(tasks), WAITING, np.int64)

    def preemption(self, tasks: Sequence[Task], now: float) -> Int64s:
        """Evicting costs nothing."""
        return np.zeros(len(tasks), np.int64)

    def task_arcs(self, tasks: Sequence[Task], now: float) -> Arcs:
        """To the class of the binary (0), the cluster (2) and some random machines (0)."""
        world, machines = self.world, [i for i, _ in self.world.present()]
        everywhere = world.class_target(CLUSTER)
        parts = [arcs(range(len(tasks)), [everywhere] * len(tasks), ANYWHERE)]
        for row, task in enumerate(tasks):
            some = self.rng.sample(machines, min(self.settings.preference_arcs, len(machines)))
            targets = [world.class_target(("binary", task.binary)), *some]
            parts.append(arcs([row] * len(targets), targets, 0))
        return join(parts)

    def class_arcs(self, classes: Sequence[int], demand: Int64s) -> Arcs:
        """The cluster reaches every machine; a binary's class has no arcs of its own."""
        everywhere = self.world.class_target(CLUSTER)
        return join([self.to_all_machines(row) for row, c in enumerate(classes) if c == everywhere])
