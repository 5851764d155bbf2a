"""Net (8): spread tasks over machines by network bandwidth, with prices that rise within a round.

A machine's price levels are nodes of their own with one unit each: level i is open to a class while
i + 1 of its requests fit, at a price that rises by one request per level.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from strato.mincost.arrays import Int64s
from strato.mincost.models.base import Arcs, CostModel, arcs, join
from strato.mincost.world import Machine, Selector, Task

WAITING, OFFSET = 2_560_000, 1_280_000


class Net(CostModel):
    """Network bandwidth as the scarce resource."""

    name, number = "net", 8

    def task_to_unscheduled(self, tasks: Sequence[Task], now: float) -> Int64s:
        """Waiting costs more than any level."""
        return np.full(len(tasks), WAITING, np.int64)

    def task_arcs(self, tasks: Sequence[Task], now: float) -> Arcs:
        """To the class of equal selectors and request."""
        keys = [self.world.class_target(("net", t.selectors, t.request.net_rx)) for t in tasks]
        return arcs(range(len(tasks)), keys, 0)

    def class_arcs(self, classes: Sequence[int], demand: Int64s) -> Arcs:
        """Classes to levels, levels to their machine."""
        parts = []
        for row, target in enumerate(classes):
            key = self.world.class_key(target)
            if isinstance(key, tuple) and key[0] == "level":
                machine = self.world.machines[key[1]]
                if machine is not None and key[2] < self.world.capacity_of(machine):
                    parts.append(arcs([row], [key[1]], 0, 1))
            elif isinstance(key, tuple):
                parts.append(self._levels(row, key[1], key[2]))
        return join(parts)

    def available_rx(self, machine: Machine) -> int:
        """Receive bandwidth less the latest measured use; without one, less what running tasks requested."""
        sample = self.statistics.latest(machine.id)
        return machine.capacity.net_rx - sample.net_rx if sample else machine.available.net_rx

    def _levels(self, row: int, selectors: tuple[Selector, ...], request: int) -> Arcs:
        targets, costs = [], []
        for index, machine in self.world.present():
            if not all(s.matches(machine.labels) for s in selectors):
                continue
            available = self.available_rx(machine)
            for level in range(self.settings.levels):
                if (level + 1) * request > available:
                    break
                targets.append(self.world.class_target(("level", index, level)))
                costs.append((level + 1) * request - available + OFFSET)
        return arcs([row] * len(targets), targets, costs)
