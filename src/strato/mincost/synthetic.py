"""Seeded Quincy-shaped networks: what benchmarks and tests solve, in the sizes of the literature.

Tasks read one to three blocks with three replicas each; a task prefers the machines and the racks that
hold at least a tenth of its input and can otherwise go anywhere through the cluster aggregator, or wait
through its job's unscheduled aggregator. Prices are those of the Quincy policy (`models.quincy`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from strato.mincost.arrays import Int64s
from strato.mincost.network import Network

OFFSET = 2_592_000
"""Added to every task arc: the longest runtime in seconds (30 days), so that staying never costs less than 0."""
MACHINES_PER_RACK = 40
REPLICAS = 3
RACK_PRICE, CORE_PRICE = 1, 2
"""Cost of a GB within a rack and across racks."""
LARGEST_INPUT_GB = 39


@dataclass(frozen=True, slots=True)
class Shape:
    """Sizes of a synthetic cluster.

    Attributes:
        machines: Number of machines, 40 to a rack.
        tasks: Number of tasks, each one unit of supply.
        fill: Tasks per slot; 0.9 leaves a tenth of the slots free, 1.03 makes some tasks wait.
        running: Share of the tasks that run already, on a machine drawn from their preferences.
    """

    machines: int = 12_500
    tasks: int = 150_000
    fill: float = 0.9
    running: float = 0.0
    seed: int = 1


@dataclass(frozen=True, slots=True)
class Synthetic:
    """A network with the places of its parts: node numbers of tasks, machines and the sink."""

    network: Network
    tasks: range
    machines: range
    sink: int


def draw_inputs(shape: Shape, count: int, rng: np.random.Generator) -> tuple[Int64s, Int64s, Int64s, Int64s]:
    """Draw where the input of `count` tasks lies.

    Returns:
        (row, target, cost, worst): preference arcs as task row, target (machine number, or machines +
        rack number) and cost; and per task the price of running without any local data.
    """
    racks = -(-shape.machines // MACHINES_PER_RACK)
    blocks = np.where(rng.random(count) < 0.5, 1, rng.integers(2, 4, count))
    size = rng.integers(1, LARGEST_INPUT_GB + 1, count)
    row = np.repeat(np.arange(count), blocks * REPLICAS)
    block = np.concatenate([np.repeat(np.arange(b), REPLICAS) for b in (1, 2, 3)])
    starts = np.array([0, 0, 3, 9])
    first = np.cumsum(blocks * REPLICAS) - blocks * REPLICAS
    block = block[np.arange(len(row)) - first[row] + starts[blocks[row]]]
    machine = rng.integers(0, shape.machines, len(row))
    rack = machine // MACHINES_PER_RACK
    rack_keys, machine_keys = row * racks + rack, row * shape.machines + machine
    on_rack = np.unique(rack_keys * 4 + block) // 4  # a block counts once per rack
    racks_with, rack_blocks = np.unique(on_rack, return_counts=True)
    on_machine = np.unique(machine_keys * 4 + block) // 4
    machines_with, machine_blocks = np.unique(on_machine, return_counts=True)
    rack_of = np.searchsorted(
        racks_with, machines_with // shape.machines * racks + machines_with % shape.machines // MACHINES_PER_RACK
    )
    task_m, task_r = machines_with // shape.machines, racks_with // racks

    def transfer(task: Int64s, in_rack: Int64s, in_machine: Int64s) -> Int64s:
        share = RACK_PRICE * (in_rack - in_machine) + CORE_PRICE * (blocks[task] - in_rack)
        return share * size[task] // blocks[task]

    cost_m = transfer(task_m, rack_blocks[rack_of], machine_blocks)
    cost_r = transfer(task_r, rack_blocks, np.zeros_like(rack_blocks))
    return (
        np.concatenate([task_m, task_r]),
        np.concatenate([machines_with % shape.machines, shape.machines + racks_with % racks]),
        np.concatenate([cost_m, cost_r]) + OFFSET,
        CORE_PRICE * size + OFFSET,
    )


def quincy_network(shape: Shape) -> Synthetic:
    """Build the network: tasks first, then machines, racks, jobs, the cluster aggregator and the sink."""
    rng = np.random.default_rng(shape.seed)
    n, machines = shape.tasks, shape.machines
    racks = -(-machines // MACHINES_PER_RACK)
    jobs = max(1, round(n / 80.4))
    row, target, cost, anywhere = draw_inputs(shape, n, rng)
    job = np.sort(rng.integers(0, jobs, n))
    waiting = OFFSET + CORE_PRICE * LARGEST_INPUT_GB + rng.integers(0, 1800, jobs)[job]
    slots = np.diff(np.round(np.linspace(0, n / shape.fill, machines + 1)).astype(np.int64))
    m0, r0, j0 = n, n + machines, n + machines + racks
    cluster, sink = j0 + jobs, j0 + jobs + 1
    runs = np.flatnonzero(rng.random(n) < shape.running)
    host = rng.integers(0, machines, len(runs))
    stay = OFFSET - rng.integers(1, 3600, len(runs)) + anywhere[runs] - OFFSET
    tasks = np.arange(n)
    rack_slots = np.bincount(np.arange(machines) // MACHINES_PER_RACK, slots, racks).astype(np.int64)
    tail = np.concatenate(
        [
            row,
            tasks,
            tasks,
            runs,
            np.full(racks, cluster),
            r0 + np.arange(machines) // 40,
            m0 + np.arange(machines),
            j0 + np.arange(jobs),
        ]
    )
    head = np.concatenate(
        [
            m0 + target,
            np.full(n, cluster),
            j0 + job,
            m0 + host,
            r0 + np.arange(racks),
            m0 + np.arange(machines),
            np.full(machines, sink),
            np.full(jobs, sink),
        ]
    )
    zero = np.zeros
    cost = np.concatenate([cost, anywhere, waiting, stay, zero(racks + machines + machines + jobs, np.int64)])
    job_size = np.bincount(job, minlength=jobs)
    capacity = np.concatenate([np.ones(len(row) + 2 * n + len(runs), np.int64), rack_slots, slots, slots, job_size])
    supply = zero(sink + 1, np.int64)
    supply[:n], supply[sink] = 1, -n
    network = Network.from_arcs(supply, tail, head, cost, capacity)
    return Synthetic(network, range(n), range(m0, m0 + machines), sink)
