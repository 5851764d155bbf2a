"""Random (1): prices drawn anew each time, to stress solvers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from strato.mincost.arrays import Int64s
from strato.mincost.models.base import CLUSTER, Arcs, CostModel, arcs, join
from strato.mincost.world import Task


class RandomPrices(CostModel):
    """Waiting X/2 … X, preferences up to X/3, classes to machines up to X/2, for X the largest price.

    A task keeps its waiting price, so that it does not fall while the task waits.
    """

    name, number = "random", 1

    def task_to_unscheduled(self, tasks: Sequence[Task], now: float) -> Int64s:
        """Between half the largest price and the largest price."""
        half = self.settings.max_arc_cost // 2
        return np.array([half + self._fixed(task) % half + 1 for task in tasks], np.int64)

    def preemption(self, tasks: Sequence[Task], now: float) -> Int64s:
        """Evicting costs nothing."""
        return np.zeros(len(tasks), np.int64)

    def task_arcs(self, tasks: Sequence[Task], now: float) -> Arcs:
        """To the cluster, below the price of waiting; to the binary's class; to random machines."""
        world, machines = self.world, [i for i, _ in self.world.present()]
        waiting = self.task_to_unscheduled(tasks, now).tolist()
        parts = []
        for row, task in enumerate(tasks):
            some = self.rng.sample(machines, min(self.settings.preference_arcs, len(machines)))
            costs = [self.rng.randrange(waiting[row]), self._upto(3), *(self._upto(3) for _ in some)]
            targets = [world.class_target(CLUSTER), world.class_target(("binary", task.binary)), *some]
            parts.append(arcs([row] * len(targets), targets, costs))
        return join(parts)

    def class_arcs(self, classes: Sequence[int], demand: Int64s) -> Arcs:
        """The cluster reaches all machines, a binary's class some."""
        parts = []
        everywhere = self.world.class_target(CLUSTER)
        for row, target in enumerate(classes):
            found = self.to_all_machines(row)
            if target != everywhere:
                keep = sorted(
                    self.rng.sample(range(len(found.row)), min(self.settings.class_preference_arcs, len(found.row)))
                )
                found = Arcs(*(column[keep] for column in found))
            parts.append(found._replace(cost=np.array([self._upto(2) for _ in found.row], np.int64)))
        return join(parts)

    def _upto(self, share: int) -> int:
        return self.rng.randrange(max(1, self.settings.max_arc_cost // share)) + 1

    @staticmethod
    def _fixed(task: Task) -> int:
        return (task.id * 6364136223846793005 + 1442695040888963407) % (1 << 63)
