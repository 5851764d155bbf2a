"""Whare-Map (4): learn which task class runs well on which kind of machine beside which neighbours.

Scores are picoseconds per instruction (PsPI), averaged per (task class, machine kind) and per (task
class, neighbours, machine kind). Not repeated from the original: a best case that was updated when the
new average was *larger*, and PU statistics that walked an empty list.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from strato.mincost.arrays import Int64s
from strato.mincost.models.base import CLUSTER, Arcs, CostModel, arcs, join, waited_tenths
from strato.mincost.world import Machine, Task

LOWER_BOUND, UNKNOWN = 96, 100
Neighbours = tuple[int, ...]


@dataclass(slots=True)
class _Average:
    total: int = 0
    count: int = 0

    @property
    def value(self) -> int:
        return self.total // self.count


@dataclass(slots=True)
class _Scores:
    """Average scores of one task class."""

    kinds: dict[str, _Average] = field(default_factory=dict)
    beside: dict[tuple[Neighbours, str], _Average] = field(default_factory=dict)
    best: int = 0
    worst: int = 0


class WhareMap(CostModel):
    """Prices are percent of the best average PsPI of the task's class."""

    name, number = "whare", 4

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type] # hands the base's arguments through
        self._scores: dict[str, _Scores] = {}

    def learn(self, task: Task, machine: Machine, pspi: int) -> None:
        """Count a measurement of a task on a machine."""
        scores = self._scores.setdefault(task.binary, _Scores())
        for average in (
            scores.kinds.setdefault(machine.kind, _Average()),
            scores.beside.setdefault((neighbours(machine), machine.kind), _Average()),
        ):
            average.total += pspi
            average.count += 1
        value = scores.kinds[machine.kind].value
        scores.best = value if scores.best == 0 else min(scores.best, value)
        scores.worst = max(scores.worst, value)

    def task_to_unscheduled(self, tasks: Sequence[Task], now: float) -> Int64s:
        """A bound above the best case, growing with the wait."""
        known = np.array([self._class_price(t.binary) for t in tasks], np.int64)
        return np.where(
            known > 0,
            LOWER_BOUND + 1 + np.maximum(waited_tenths(tasks, now), known + 1),
            np.maximum(UNKNOWN, waited_tenths(tasks, now)),
        )

    def preemption(self, tasks: Sequence[Task], now: float) -> Int64s:
        """Evicting costs nothing."""
        return np.zeros(len(tasks), np.int64)

    def task_arcs(self, tasks: Sequence[Task], now: float) -> Arcs:
        """To its class at 0, and to the cluster at the worst known price."""
        target = self.world.class_target
        own = [target(("whare", t.binary)) for t in tasks]
        worst = []
        for task in tasks:
            scores = self._scores.get(task.binary)
            worst.append(scores.worst * 100 // scores.best if scores and scores.best else 0)
        every = range(len(tasks))
        return join([arcs(every, own, 0), arcs(every, [target(CLUSTER)] * len(tasks), worst)])

    def class_arcs(self, classes: Sequence[int], demand: Int64s) -> Arcs:
        """Task classes to machine kinds and to their best machines; kinds and the cluster to machines."""
        parts = []
        for row, target in enumerate(classes):
            key = self.world.class_key(target)
            if key == CLUSTER:
                parts.append(self.to_all_machines(row))
            elif isinstance(key, tuple) and key[0] == "kind":
                found = self.to_all_machines(row)
                mine = np.array([self._machine(i).kind == key[1] for i in found.target.tolist()], np.bool_)
                parts.append(Arcs(*(column[mine] for column in found)))
            elif isinstance(key, tuple):
                parts.append(self._class_prices(row, str(key[1])))
        return join(parts)

    def machine_to_sink(self, indices: Sequence[int]) -> Arcs:
        """PU n costs n, so that PUs fill in order."""
        rows, costs = [], []
        for row, index in enumerate(indices):
            machine = self._machine(index)
            first = 0 if self.world.preemption else len(machine.tasks)
            slots = range(first, first + self.world.capacity_of(machine))
            rows += [row] * len(slots)
            costs += list(slots)
        return arcs(rows, [0] * len(rows), costs)

    def _class_prices(self, row: int, binary: str) -> Arcs:
        scores = self._scores.get(binary)
        if scores is None or not scores.best:
            return arcs([], [], [])
        slots: Counter[str] = Counter()
        near: list[tuple[int, int, int]] = []
        for index, machine in self.world.present():
            room = self.world.capacity_of(machine)
            slots[machine.kind] += room
            beside = scores.beside.get((neighbours(machine), machine.kind))
            if beside is not None and room and beside.value < scores.worst:
                near.append((beside.value * 100 // scores.best, index, room))
        near = sorted(near)[: self.settings.class_preference_arcs]
        kinds = [
            (self.world.class_target(("kind", k)), average.value * 100 // scores.best, slots[k])
            for k, average in scores.kinds.items()
            if slots[k]
        ]
        rows = [(target, cost, room) for cost, target, room in near] + kinds
        return arcs([row] * len(rows), [r[0] for r in rows], [r[1] for r in rows], [r[2] for r in rows])

    def _class_price(self, binary: str) -> int:
        scores = self._scores.get(binary)
        if scores is None or not scores.best:
            return 0
        values = [average.value for average in scores.kinds.values()]
        return sum(values) // len(values) * 100 // scores.best

    def _machine(self, index: int) -> Machine:
        machine = self.world.machines[index]
        return machine if machine is not None else Machine("")


def neighbours(machine: Machine) -> Neighbours:
    """Counts of idle slots, devils, rabbits, sheep and turtles on a machine: the neighbours of a new task."""
    counts = Counter(int(task.type) for task in machine.tasks.values())
    return (machine.free, counts[2], counts[1], counts[0], counts[3])
