"""CPU/memory (10): the model of the Kubernetes fork; least requested + balanced + soft rules.

Tasks of equal requests and constraints form a class. A class has one arc per machine and level: level i is
what the (i + 1)-th task of the class would cost there, so prices are convex and a burst spreads. Levels
belong to the class, not to the machine; what two classes together overdraw is caught by checking the real
request vectors (`FlowScheduler(check_vectors=True)`).

Not repeated from the original: integer division that made pod affinity 0 or 1000, required
anti-affinity that failed on any pod of the namespace.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from strato.flow.models.base import Arcs, CostModel, arcs, join
from strato.flow.network import Int64s
from strato.flow.world import Machine, Task, columns

WAITING = 2_560_000
SCALE = 1000
MOST_LEVELS = 50
DEFAULT_TOLERATIONS = 2
"""What Kubernetes adds to every pod."""


class CpuMemory(CostModel):
    """Requests against capacity, machine by machine."""

    name, number = "cpu", 10

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type] # hands the base's arguments through
        self._example: dict[Hashable, Task] = {}

    def task_to_unscheduled(self, tasks: Sequence[Task], now: float) -> Int64s:
        """Waiting costs more than any placement."""
        return np.full(len(tasks), WAITING, np.int64)

    def preemption(self, tasks: Sequence[Task], now: float) -> Int64s:
        """Evicting costs as much as waiting, so that running tasks stay."""
        return np.full(len(tasks), WAITING, np.int64)

    def class_of(self, task: Task) -> tuple[Hashable, ...]:
        """Key of the class: equal keys mean equal arcs."""
        r = task.request
        return (
            "cpu",
            r.cpu,
            r.ram,
            r.ephemeral,
            task.selectors,
            task.preferred,
            task.near,
            task.apart,
            task.owner,
            task.tolerations if len(task.tolerations) > DEFAULT_TOLERATIONS else (),
        )

    def task_arcs(self, tasks: Sequence[Task], now: float) -> Arcs:
        """To the task's class."""
        keys = [self.class_of(task) for task in tasks]
        self._example.update(zip(keys, tasks, strict=True))
        return arcs(range(len(tasks)), [self.world.class_target(key) for key in keys], 0)

    def class_arcs(self, classes: Sequence[int], demand: Int64s) -> Arcs:
        """To every machine that fits, one arc per level that can be used."""
        parts = []
        for row, target in enumerate(classes):
            task = self._example.get(self.world.class_key(target))
            if task is not None:
                parts.append(self._levels(row, task, int(demand[row])))
        return join(parts)

    def _levels(self, row: int, task: Task, demand: int) -> Arcs:
        hosts = [(i, m) for i, m in self.world.present() if m.free > 0 and is_allowed(task, m)]
        if not hosts or demand == 0:
            return arcs([], [], [])
        machines = [m for _, m in hosts]
        soft = self._soft(task, machines)
        levels = min(MOST_LEVELS, max(1, 2 + 4 * demand // len(hosts)))
        level = np.arange(levels)[:, None]
        fits = level < np.array([m.free for m in machines])
        used = []
        for name in ("cpu", "ram", "ephemeral"):
            request, room = getattr(task.request, name), columns(machines, name)
            if request:
                fits &= (level + 1) * request < room
            capacity = np.array([getattr(m.capacity, name) for m in machines], np.int64)
            used.append((capacity - room + level * request) / np.maximum(capacity, 1))
        if task.apart and any(s.matches(task.labels) for s in task.apart):
            fits &= level < 1  # a task that repels its own kind: one per machine
        cost = price(used[0], used[1]) + soft
        which, host = np.nonzero(fits)
        index = np.array([i for i, _ in hosts], np.int64)
        return arcs(np.full(len(which), row), index[host], cost[which, host])

    def _soft(self, task: Task, machines: list[Machine]) -> Int64s:
        """Node affinity, untolerated soft taints and avoidance: 0 … 1000 each, 0 is best."""
        weights = np.array(
            [sum(p.weight for p in task.preferred if all(s.matches(m.labels) for s in p.selectors)) for m in machines],
            np.int64,
        )
        affinity = SCALE - SCALE * weights // max(1, int(weights.max(initial=0)))
        marks = np.array(
            [
                sum(
                    t.effect == "PreferNoSchedule" and not any(x.tolerates(t) for x in task.tolerations)
                    for t in m.taints
                )
                for m in machines
            ],
            np.int64,
        )
        taints = SCALE * marks // max(1, int(marks.max(initial=0)))
        avoid = np.array([SCALE if task.owner and task.owner in m.avoids else 0 for m in machines], np.int64)
        return affinity + taints + avoid


def price(
    cpu_ratio: np.ndarray[tuple[int, ...], np.dtype[np.float64]],
    memory_ratio: np.ndarray[tuple[int, ...], np.dtype[np.float64]],
) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    """Least requested plus balance: 0 on an empty machine, 1000 on a full and balanced one."""
    used = (np.floor(SCALE * cpu_ratio) + np.floor(SCALE * memory_ratio)) // 2
    mean = (cpu_ratio + memory_ratio) / 2
    balance = np.floor(SCALE * ((cpu_ratio - mean) ** 2 + (memory_ratio - mean) ** 2) / 2)
    return (used + balance).astype(np.int64)


def is_allowed(task: Task, machine: Machine) -> bool:
    """Tell whether a machine meets the hard rules: selectors, affinity, anti-affinity, taints."""
    if not all(s.matches(machine.labels) for s in task.selectors):
        return False
    residents = machine.tasks.values()
    if not all(any(s.matches(r.labels) for r in residents) for s in task.near):
        return False
    if any(s.matches(r.labels) for s in task.apart for r in residents):
        return False
    if any(s.matches(task.labels) for r in residents for s in r.apart):
        return False  # symmetry: a resident that repels the newcomer
    hard = [t for t in machine.taints if t.effect in {"NoSchedule", "NoExecute"}]
    return all(any(x.tolerates(t) for x in task.tolerations) for t in hard)
