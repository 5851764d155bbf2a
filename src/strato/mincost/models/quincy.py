"""Quincy (3): run tasks near their input; waiting costs more the longer it lasts.

Differences from the original, on purpose: re-pricing after machines come or go takes the maximum over a
rack's machines in every case, and repairs the worst price when the worst machine leaves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from strato.mincost.arrays import Int64s
from strato.mincost.models.base import CLUSTER, Arcs, CostModel, arcs, join, repeat
from strato.mincost.world import Task

GB = 1_000_000_000
OFFSET = 2_592_000
"""Keeps prices positive: more than the longest task's seconds."""
TOP_PRIORITY, TOP_PRIORITY_PRICE = 1000, 100
LARGEST_INPUT_GB = 39
Inputs = tuple[tuple[int, tuple[str, ...]], ...]


@dataclass(frozen=True, slots=True)
class QuincySettings:
    """Parameters of Quincy.

    Attributes:
        wait_factor: Price of a second's wait.
        preference_ratio: Share of the input a machine or rack must hold for an arc of its own.
        rack_price: Price of a GB from within the rack.
        core_price: Price of a GB from another rack.
        no_delay: Add 39 GB across racks to waiting, so that nothing waits for locality.
    """

    wait_factor: float = 0.5
    preference_ratio: float = 0.1
    rack_price: int = 1
    core_price: int = 2
    no_delay: bool = False


@dataclass(slots=True)
class _Locality:
    """Bytes of a task's input per machine and per rack, counted in distinct blocks."""

    total: int
    machines: dict[int, int]
    racks: dict[str, int]


class Quincy(CostModel):
    """Data locality within a three-level network."""

    name, number = "quincy", 3
    options = QuincySettings()

    def task_to_unscheduled(self, tasks: Sequence[Task], now: float) -> Int64s:
        """Seconds unscheduled in total × the wait factor."""
        extra = LARGEST_INPUT_GB * self.options.core_price if self.options.no_delay else 0
        return np.array(
            [
                OFFSET + TOP_PRIORITY_PRICE
                if t.priority == TOP_PRIORITY
                else OFFSET + extra + int(t.waiting_seconds(now) * self.options.wait_factor)
                for t in tasks
            ],
            np.int64,
        )

    def continuation(self, tasks: Sequence[Task], now: float) -> Int64s:
        """Transfer to where the task runs, less the seconds it has run already."""
        costs, known = [], dict[Inputs, _Locality]()
        for task in tasks:
            data = known.get(task.inputs)
            if data is None:
                data = known[task.inputs] = self.locality(task)
            index = self.world.machine_index[task.machine or ""]
            costs.append(self.transfer(data, index) + OFFSET - int(task.run_seconds(now)))
        return np.array(costs, np.int64)

    def task_arcs(self, tasks: Sequence[Task], now: float) -> Arcs:
        """To machines and racks with a tenth of the input, and anywhere at the worst price; equal inputs cost once."""
        size = {rack: len(members) for rack, members in self._rack_machines().items()}
        first: dict[Inputs, int] = {}
        kind = [first.setdefault(task.inputs, len(first)) for task in tasks]
        example = dict(zip(kind, tasks, strict=True))
        return repeat([self._arcs_of(example[k], size) for k in range(len(first))], kind)

    def class_arcs(self, classes: Sequence[int], demand: Int64s) -> Arcs:
        """Cluster → rack → machine, free, with the slots below."""
        world, racks = self.world, self._rack_machines()
        room = {i: world.capacity_of(m) for i, m in world.present()}
        parts = []
        for row, target in enumerate(classes):
            key = world.class_key(target)
            if key == CLUSTER:
                slots = [sum(room[i] for i in members) for members in racks.values()]
                parts.append(arcs([row] * len(racks), [world.class_target(("rack", r)) for r in racks], 0, slots))
            elif isinstance(key, tuple) and key[0] == "rack":
                members = racks.get(key[1], [])
                parts.append(arcs([row] * len(members), members, 0, [room[i] for i in members]))
        return join(parts)

    def locality(self, task: Task) -> _Locality:
        """Count the task's input where it lies; a block counts once per rack."""
        found = _Locality(0, {}, {})
        for size, holders in task.inputs:
            found.total += size
            indices = {i for name in holders if (i := self.world.machine_index.get(name)) is not None}
            for index in indices:
                found.machines[index] = found.machines.get(index, 0) + size
            for rack in {self._rack(i) for i in indices}:
                found.racks[rack] = found.racks.get(rack, 0) + size
        return found

    def transfer(self, data: _Locality, machine: int) -> int:
        """Price of fetching what is not on the machine: from its rack, or across racks."""
        return self._fetch(data, data.racks.get(self._rack(machine), 0), data.machines.get(machine, 0))

    def _fetch(self, data: _Locality, in_rack: int, here: int) -> int:
        options = self.options
        return (options.rack_price * (in_rack - here) + options.core_price * (data.total - in_rack)) // GB

    def _arcs_of(self, task: Task, rack_size: Mapping[str, int]) -> tuple[list[int], list[int]]:
        """Return targets and prices of a task's arcs."""
        data, least = self.locality(task), self.options.preference_ratio
        targets, costs = [], []
        by_rack: dict[str, list[int]] = {rack: [] for rack in data.racks}
        for index, held in data.machines.items():
            by_rack[self._rack(index)].append(held)
            if held >= least * data.total:
                targets.append(index)
                costs.append(self.transfer(data, index) + OFFSET)
        anywhere = 0 if len(data.racks) == len(rack_size) else self.options.core_price * data.total // GB
        for rack, held in data.racks.items():
            here = min(by_rack[rack]) if len(by_rack[rack]) == rack_size[rack] else 0
            worst = self._fetch(data, held, here)
            anywhere = max(anywhere, worst)
            if held >= least * data.total:
                targets.append(self.world.class_target(("rack", rack)))
                costs.append(worst + OFFSET)
        targets.append(self.world.class_target(CLUSTER))
        costs.append(anywhere + OFFSET)
        return targets, costs

    def _rack(self, index: int) -> str:
        machine = self.world.machines[index]
        return machine.rack if machine is not None else ""

    def _rack_machines(self) -> dict[str, list[int]]:
        racks: dict[str, list[int]] = {}
        for index, machine in self.world.present():
            racks.setdefault(machine.rack, []).append(index)
        return racks
