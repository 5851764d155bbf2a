"""Octopus (6): spread load over machines by the number of tasks they run.

Prices are flat within a round, so a burst piles up on the emptiest machines; spreading happens across
rounds. The models `net` and `cpu` have rising price levels instead.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from strato.mincost.arrays import Int64s
from strato.mincost.models.base import CLUSTER, Arcs, CostModel, arcs, join
from strato.mincost.world import Task

WAITING, PER_TASK = 1_000_000, 100


class Octopus(CostModel):
    """One aggregator; a machine costs 100 per task it runs."""

    name, number = "octopus", 6

    def task_to_unscheduled(self, tasks: Sequence[Task], now: float) -> Int64s:
        """Waiting costs a million."""
        return np.full(len(tasks), WAITING, np.int64)

    def task_arcs(self, tasks: Sequence[Task], now: float) -> Arcs:
        """To the cluster aggregator, 1."""
        return arcs(range(len(tasks)), [self.world.class_target(CLUSTER)] * len(tasks), 1)

    def class_arcs(self, classes: Sequence[int], demand: Int64s) -> Arcs:
        """To every machine, 100 per running task."""
        parts = []
        for row in range(len(classes)):
            found = self.to_all_machines(row)
            running = [len(m.tasks) for i in found.target.tolist() if (m := self.world.machines[i]) is not None]
            parts.append(found._replace(cost=PER_TASK * np.array(running, np.int64)))
        return join(parts)
