"""Placement: locality, equipment and priority together; the model to start from on a Kubernetes cluster.

Builds on the CPU/memory model and adds what hardware labels say:

- *equipment as declared*: a task that asks for a disk kind (``ssd``) may only go where the machine's label
  ``disk`` says so; a task that asks for none pays for occupying rare equipment, so cheap disks go first;
- *near its data*: machines in the zone, region or rack of a task's input cost less;
- *priority*: waiting costs more per step of priority, and evicting a running task costs its own waiting
  price and what it would lose, so a preemption happens only with proven gain; moving one costs what it would lose,
  so that a better place alone moves nobody.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace

import numpy as np

from strato.mincost.arrays import Int64s
from strato.mincost.models.base import Arcs
from strato.mincost.models.cpu import WAITING, CpuMemory, Hosts, Levels
from strato.mincost.world import Machine, Selector, Task

PRIORITY_STEP = 10_000
FINE_PRIORITIES = 1_000_000
"""Above this, priorities count in thousands: Kubernetes' go up to 2·10⁹, and prices must stay below 2⁴⁰."""
EVICTION_GAIN = 5_000
"""A preemption must gain at least this much."""
RARE_EQUIPMENT = 300
"""Price of putting a task that needs no special disk on a machine that has one."""
FAR = {"same rack": 200, "same zone": 400, "same region": 700, "elsewhere": 1000}
ZONE, REGION, DISK = "topology.kubernetes.io/zone", "topology.kubernetes.io/region", "disk"
PLAIN_DISKS = frozenset({"", "hdd"})


class Placement(CpuMemory):
    """CPU and memory, equipment, distance to data, and priority."""

    name, number = "placement", -1

    def task_to_unscheduled(self, tasks: Sequence[Task], now: float) -> Int64s:
        """Grows with priority and, by one a second, with the wait."""
        return np.array(
            [WAITING + steps(t.priority) * PRIORITY_STEP + int(t.waiting_seconds(now)) for t in tasks], np.int64
        )

    def preemption(self, tasks: Sequence[Task], now: float) -> Int64s:
        """The price of waiting, what has run already, and the least gain."""
        return self.task_to_unscheduled(tasks, now) + _restart(tasks, now)

    def task_arcs(self, tasks: Sequence[Task], now: float) -> Arcs:
        """As CPU/memory; a running task loses by a move what it loses by an eviction, but for the wait."""
        found = super().task_arcs(tasks, now)
        running = np.flatnonzero([task.machine is not None for task in tasks])
        if not running.size:
            return found
        lost = np.zeros(len(tasks), np.int64)
        lost[running] = _restart([tasks[i] for i in running.tolist()], now)
        return found._replace(cost=found.cost + lost[found.row])

    def class_of(self, task: Task) -> tuple[Hashable, ...]:
        """As CPU/memory, and where the data are and which disk is asked for."""
        places = tuple(sorted({name for _, holders in task.inputs for name in holders}))
        return (*super().class_of(task), task.disk, places)

    def _priced(self, task: Task, hosts: Hosts, demand: int) -> Levels:
        if task.disk:
            task = replace(task, selectors=(*task.selectors, Selector(DISK, "In", (task.disk,))))
        return super()._priced(task, hosts, demand)

    def extra_cost(self, task: Task, hosts: Hosts) -> Int64s:
        """The soft rules of CPU/memory, rare equipment, and distance to the input."""
        total = super().extra_cost(task, hosts)
        if not task.disk:
            total += [RARE_EQUIPMENT * (m.labels.get(DISK, "") not in PLAIN_DISKS) for m in hosts.machines]
        if task.inputs:
            total += [self._fetch(task, m) for m in hosts.machines]
        return total

    def _fetch(self, task: Task, machine: Machine) -> int:
        total = sum(size for size, _ in task.inputs)
        fetch = sum(
            size * min((self._distance(name, machine) for name in holders), default=FAR["elsewhere"])
            for size, holders in task.inputs
        )
        return fetch // max(1, total)

    def _distance(self, holder: str, machine: Machine) -> int:
        if holder == machine.id:
            return 0
        index = self.world.machine_index.get(holder)
        other = self.world.machines[index] if index is not None else None
        if other is None:
            return FAR["elsewhere"]
        if other.rack and other.rack == machine.rack:
            return FAR["same rack"]
        for label, distance in ((ZONE, "same zone"), (REGION, "same region")):
            if machine.labels.get(label) and machine.labels.get(label) == other.labels.get(label):
                return FAR[distance]
        return FAR["elsewhere"]


def _restart(tasks: Sequence[Task], now: float) -> Int64s:
    """Return what starting running tasks anew costs: what they have done, and the least gain."""
    lost = [min(PRIORITY_STEP // 2, int(task.run_seconds(now))) for task in tasks]
    return np.array(lost, np.int64) + EVICTION_GAIN


def steps(priority: int) -> int:
    """Return the price steps of a priority: itself, in thousands where it is very large or very small."""
    beyond = max(0, abs(priority) - FINE_PRIORITIES) // 1000
    size = min(abs(priority), FINE_PRIORITIES) + beyond
    return size if priority >= 0 else -size
