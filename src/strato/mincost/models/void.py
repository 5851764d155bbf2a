"""Void (7): every price is 0; the shape of the network alone decides. Good for stress, not for policy."""

from __future__ import annotations

from collections.abc import Sequence

from strato.mincost.arrays import Int64s
from strato.mincost.models.base import Arcs, CostModel, arcs, join
from strato.mincost.world import Task


class Void(CostModel):
    """Classes of the command line and of each task, each to every machine."""

    name, number = "void", 7

    def task_arcs(self, tasks: Sequence[Task], now: float) -> Arcs:
        """To the classes of its command line and of its own."""
        target = self.world.class_target
        keys = [key for t in tasks for key in (target(("binary", t.binary)), target(("task", t.id)))]
        return arcs([row for row in range(len(tasks)) for _ in (0, 1)], keys, 0)

    def class_arcs(self, classes: Sequence[int], demand: Int64s) -> Arcs:
        """To every machine with room."""
        return join([self.to_all_machines(row) for row in range(len(classes))])
