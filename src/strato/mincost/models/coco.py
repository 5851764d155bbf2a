"""CoCo (5): several resource dimensions at once, and interference between neighbours.

Each dimension is normalised to 1000 and they add up; priority adds 1000 per step. A class is a job; all
its tasks are assumed to ask for the same. Reservations are strict: what does not fit has no arc.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from strato.mincost.arrays import Int64s
from strato.mincost.models.base import Arcs, CostModel, arcs, join, waited_tenths
from strato.mincost.world import Machine, Task, TaskType, Vector

OMEGA = 1000
PENALTY = {  # resident: what a turtle, sheep, rabbit or devil newcomer adds
    TaskType.TURTLE: {TaskType.TURTLE: 50, TaskType.SHEEP: 50, TaskType.RABBIT: 50, TaskType.DEVIL: 50},
    TaskType.SHEEP: {TaskType.TURTLE: 10, TaskType.SHEEP: 50, TaskType.RABBIT: 100, TaskType.DEVIL: 200},
    TaskType.RABBIT: {TaskType.TURTLE: 10, TaskType.SHEEP: 50, TaskType.RABBIT: 200, TaskType.DEVIL: 1000},
    TaskType.DEVIL: {TaskType.TURTLE: 10, TaskType.SHEEP: 200, TaskType.RABBIT: 1000, TaskType.DEVIL: 200},
}


class Coco(CostModel):
    """Fit in every dimension, then the least interference and load."""

    name, number = "coco", 5
    wait_multiplier = 1
    """Price of a tenth of a second's wait."""

    def task_to_unscheduled(self, tasks: Sequence[Task], now: float) -> Int64s:
        """Above anything a placement can cost: 1000 and the request per dimension, priority, and the wait."""
        machines = [m for _, m in self.world.present()]
        smallest = _extreme(machines, min)
        fixed = [sum(OMEGA + part for part in _shares(t.request, smallest)) + 2 + t.priority * OMEGA for t in tasks]
        return np.array(fixed, np.int64) + waited_tenths(tasks, now) * self.wait_multiplier

    def task_arcs(self, tasks: Sequence[Task], now: float) -> Arcs:
        """To the job's class: priority, and the request as a share of the largest machine."""
        largest = _extreme([m for _, m in self.world.present()], max)
        costs = [t.priority * OMEGA + sum(_shares(t.request, largest)) for t in tasks]
        targets = [self.world.class_target(("coco", t.job)) for t in tasks]
        return arcs(range(len(tasks)), targets, costs)

    def class_arcs(self, classes: Sequence[int], demand: Int64s) -> Arcs:
        """To machines whose room holds the request, as often as it fits."""
        first: dict[str, Task] = {}
        for task in self.world.tasks.values():
            if task.machine is None or self.world.preemption:
                first.setdefault(task.job, task)
        present = self.world.present()
        parts = []
        for row, target in enumerate(classes):
            key = self.world.class_key(target)
            example = first.get(str(key[1])) if isinstance(key, tuple) else None
            if example is None:
                continue
            found = []
            for index, machine in present:
                times = min(
                    _times(example.request, machine.available), self.world.capacity_of(machine), int(demand[row])
                )
                if times > 0:
                    found.append((index, interference(example.type, machine) + load(machine), times))
            parts.append(arcs([row] * len(found), [f[0] for f in found], [f[1] for f in found], [f[2] for f in found]))
        return join(parts)


def interference(newcomer: TaskType, machine: Machine) -> int:
    """Penalties of the residents for the newcomer, growing exponentially with how busy the machine is."""
    busy = len(machine.tasks)
    if busy == 0:
        return 0
    score = sum(PENALTY[resident.type][newcomer] for resident in machine.tasks.values())
    return score // busy + int((math.exp(busy / max(1, machine.slots)) - 1) * score / max(1, machine.slots - 1))


def load(machine: Machine) -> int:
    """Used share of every dimension × 1000."""
    return sum(_shares(machine.used, machine.capacity))


def _shares(amount: Vector, of: Vector) -> list[int]:
    return [OMEGA * a // c if c > 0 else 0 for a, c in zip(amount.values(), of.values(), strict=True)]


def _times(request: Vector, room: Vector) -> int:
    fits = [r // a for a, r in zip(request.values(), room.values(), strict=True) if a > 0]
    return max(0, min(fits)) if fits else 1 << 31


def _extreme(machines: Sequence[Machine], pick: Callable[[tuple[int, ...]], int]) -> Vector:
    if not machines:
        return Vector()
    return Vector(*(pick(column) for column in zip(*(m.capacity.values() for m in machines), strict=True)))
