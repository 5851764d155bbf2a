"""Quincy's policy with Firmament's cost model: prices of a small example, and the cheapest placement of its tasks.

The papers (Quincy, SOSP'09; Firmament, OSDI'16, figure 5) draw an example of two jobs with five tasks on four machines
in two racks, but print no prices. The reference prices are computed by hand from the formulas of Firmament's cost
model, the reference optimum by trying every placement.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from random import Random
from typing import Final

from strato.mincost.graph import FlowScheduler
from strato.mincost.models.base import CLUSTER
from strato.mincost.models.quincy import GB, OFFSET, Quincy
from strato.mincost.solver import Solver
from strato.mincost.world import FlowWorld, Machine, Task
from strato.sim.papers.outcome import Cell, Reproduction
from strato.sim.papers.work import ReproductionOptions

_RACKS: Final = {"m0": "r0", "m1": "r0", "m2": "r1", "m3": "r1"}
_INPUTS: Final[Mapping[str, tuple[tuple[int, tuple[str, ...]], ...]]] = {
    "T0,0": ((8, ("m0", "m2")), (2, ("m1",))),
    "T0,1": ((10, ("m0",)),),
    "T0,2": ((6, ("m1",)), (6, ("m3",))),
    "T1,0": ((20, ("m2",)),),
    "T1,1": ((4, ("m2", "m3")), (1, ("m0",))),
}
"""Task → the blocks of its input: size in GB, and the machines that hold it."""
_WAITED_SECONDS: Final = 30.0
_PREFERENCE: Final = 0.1

_BY_HAND: Final[Mapping[tuple[str, str], int]] = {
    ("T0,0", "m0"): 2,  # 2 GB from m1 in the rack
    ("T0,0", "m1"): 8,  # 8 GB from m0 in the rack
    ("T0,0", "m2"): 4,  # 2 GB across racks
    ("T0,1", "m0"): 0,
    ("T0,2", "m1"): 12,  # 6 GB across racks
    ("T0,2", "m3"): 12,
    ("T1,0", "m2"): 0,
    ("T1,1", "m0"): 8,  # 4 GB across racks
    ("T1,1", "m2"): 2,  # 1 GB across racks
    ("T1,1", "m3"): 2,
}
"""Prices of a task on machines that hold at least a tenth of its input, without the offset."""


def reproduce(work: ReproductionOptions) -> Reproduction:
    """Compare our prices of the example, and the cost of our placement, with the reference."""
    flow = example()
    names = list(_INPUTS)
    priced = prices(flow)
    cells = [
        _cell(f"price {task} → {machine}", priced.get((task, machine)), reference)
        for (task, machine), reference in _BY_HAND.items()
    ]
    cells.append(_cell("arcs to machines", len(priced), len(_BY_HAND)))
    flow.round(now=_WAITED_SECONDS)
    placed = {names[task.id]: task.machine for task in flow.world.tasks.values()}
    ours = sum(cost_of(task, machine) for task, machine in placed.items())
    waiting = sum(machine is None for machine in placed.values())
    cells += [_cell("least cost of all tasks", ours, cheapest()), _cell("tasks that wait", waiting, 1)]
    return Reproduction(
        name="quincy",
        title="Quincy's policy on two jobs of five tasks, four machines of one slot in two racks",
        source="prices worked out by hand from Firmament's cost model; the optimum by trying every placement",
        unit="Firmament's price (GB within the rack × 1, across racks × 2, seconds of waiting × 0.5)",
        cells=tuple(cells),
        notes=("Placed: " + ", ".join(f"{task} on {machine or 'no machine'}" for task, machine in placed.items()),),
    )


def example() -> FlowScheduler:
    """Return the cluster with all tasks submitted."""
    world = FlowWorld()
    flow = FlowScheduler(world, Quincy(world, Random(0)), Solver(check=True))
    for machine, rack in _RACKS.items():
        flow.add_machine(Machine(machine, slots=1, rack=rack))
    for number, (name, blocks) in enumerate(_INPUTS.items()):
        inputs = tuple((size * GB, holders) for size, holders in blocks)
        flow.submit(Task(number, name.partition(",")[0], inputs=inputs), 0.0)
    return flow


def prices(flow: FlowScheduler) -> dict[tuple[str, str], int]:
    """Return the price of each task on each machine that it has an arc to, without the offset."""
    names, machines = list(_INPUTS), list(_RACKS)
    tasks = list(flow.world.tasks.values())
    arcs = flow.model.task_arcs(tasks, _WAITED_SECONDS)
    anywhere = flow.world.class_target(CLUSTER)
    return {
        (names[tasks[tail].id], machines[target]): cost - OFFSET
        for tail, target, cost in zip(arcs.row.tolist(), arcs.target.tolist(), arcs.cost.tolist(), strict=True)
        if target != anywhere and 0 <= target < len(machines)
    }


def cost_of(task: str, machine: str | None) -> int:
    """Return Firmament's price of running a task on a machine, or of its wait if that is None, without the offset."""
    if machine is None:
        return int(_WAITED_SECONDS * 0.5)
    blocks, rack = _INPUTS[task], _RACKS[machine]
    here = sum(size for size, holders in blocks if machine in holders)
    near = sum(size for size, holders in blocks if rack in {_RACKS[holder] for holder in holders})
    total = sum(size for size, _ in blocks)
    if here >= _PREFERENCE * total:
        return (near - here) + 2 * (total - near)
    return _through_rack(task, near, total, rack)


def _through_rack(task: str, near: int, total: int, rack: str) -> int:
    """Return the price of a machine that the task has no arc to: that of its rack's arc, else of the cluster's.

    A rack that holds at least a tenth of the input has an arc, with the price of its worst machine; the arc to the
    cluster has the price of the worst machine of all.
    """
    worst = {name: _worst_of(task, name) for name in set(_RACKS.values())}
    return worst[rack] if near >= _PREFERENCE * total else max(worst.values())


def _worst_of(task: str, rack: str) -> int:
    blocks = _INPUTS[task]
    near = sum(size for size, holders in blocks if rack in {_RACKS[holder] for holder in holders})
    total = sum(size for size, _ in blocks)
    members = [machine for machine, its in _RACKS.items() if its == rack]
    least = min(sum(size for size, holders in blocks if machine in holders) for machine in members)
    return (near - least) + 2 * (total - near)


def cheapest() -> int:
    """Return the least total price over all placements with at most one task on a machine."""
    names = list(_INPUTS)
    places = [*_RACKS, *[None] * len(names)]
    return min(
        sum(cost_of(task, machine) for task, machine in zip(names, chosen, strict=True))
        for chosen in set(itertools.permutations(places, len(names)))
    )


def _cell(row: str, ours: float | None, reference: float) -> Cell:
    return Cell(row=row, column="", ours=float("nan") if ours is None else ours, reference=reference, tolerance=0.0)
