"""Time the flow engine on Quincy-shaped networks, with OR-tools on the same instance in the same run.

    python benchmarks/flow.py [--machines N] [--fill 0.9] [--cold-only] [--kernels paths,scaling]

Prints one line per measurement. Load on the machine shows in both columns; compare within a run.
"""

from __future__ import annotations

import argparse
import resource
import time

import numpy as np

from strato.flow import certificate
from strato.flow.network import Network
from strato.flow.solver import Kernel, Solver
from strato.flow.synthetic import Shape, Synthetic, quincy_network

TASKS_PER_MACHINE = 12


def oracle_seconds(network: Network) -> tuple[float, int]:
    from ortools.graph.python import min_cost_flow

    g = network.arrays
    used = network.slots_in_use()
    solver = min_cost_flow.SimpleMinCostFlow()
    solver.add_arcs_with_capacity_and_unit_cost(g.tail[used], g.head[used], g.capacity[used], g.cost[used])
    solver.set_nodes_supplies(np.arange(network.node_count), g.supply)
    start = time.perf_counter()
    solver.solve()
    return time.perf_counter() - start, solver.optimal_cost()


def exchange(synthetic: Synthetic, count: int, rng: np.random.Generator) -> float:
    """Let tasks leave and as many arrive with the arcs of others; return seconds of the edit."""
    network = synthetic.network
    tasks = np.arange(len(synthetic.tasks))
    leave, like = rng.choice(tasks, count, replace=False), rng.choice(tasks, count, replace=False)
    g = network.arrays
    rows = [slice(int(g.row_start[t]), int(g.row_start[t] + g.row_length[t])) for t in like]
    heads, costs = [np.concatenate([column[r] for r in rows]) for column in (g.head, g.cost)]
    offsets = np.concatenate([[0], np.cumsum(g.row_length[like])])
    start = time.perf_counter()
    network.remove_nodes(leave)
    arrived = network.add_nodes(count, supply=1)
    network.set_rows(arrived, offsets, heads, costs, np.ones(len(heads), np.int64))
    return time.perf_counter() - start


def pinned(machines: int, waiting: int) -> None:
    """Only waiting tasks are in the network; machines have the free slots."""
    synthetic = quincy_network(Shape(machines=machines, tasks=waiting, fill=waiting / (machines * 4 / 3)))
    solver = Solver()
    start = time.perf_counter()
    solver.solve(synthetic.network)
    print(f"pinned, {waiting} waiting: {1000 * (time.perf_counter() - start):8.1f} ms")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--machines", type=int, default=12_500)
    parser.add_argument("--fill", type=float, action="append")
    parser.add_argument("--cold-only", action="store_true")
    parser.add_argument("--kernels", default="")
    options = parser.parse_args()
    kernels = tuple(Kernel(name) for name in options.kernels.split(",") if name) or None
    Solver((Kernel.PATHS, Kernel.SIMPLEX, Kernel.SCALING)).solve(quincy_network(Shape(40, 400)).network)  # compile
    rng = np.random.default_rng(3)
    for fill in options.fill or [0.9]:
        shape = Shape(options.machines, options.machines * TASKS_PER_MACHINE, fill)
        synthetic = quincy_network(shape)
        solver = Solver(kernels)
        start = time.perf_counter()
        solution = solver.solve(synthetic.network)
        ours = time.perf_counter() - start
        theirs, optimum = oracle_seconds(synthetic.network)
        assert solution.objective == optimum, "the objectives differ"
        print(
            f"cold {fill:.0%}: {ours:.3f} s ({solution.winner.value}), OR-tools {theirs:.3f} s, {theirs / ours:5.1f} x"
        )
        if options.cold_only:
            continue
        for count in (10, 100, 1000):
            edits, rounds = [], []
            for _ in range(3):
                edits.append(exchange(synthetic, count, rng))
                start = time.perf_counter()
                solution = solver.solve(synthetic.network)
                rounds.append(time.perf_counter() - start)
            assert certificate.certify(synthetic.network).ok
            print(
                f"warm {fill:.0%}, {count:5d} changes: {1000 * min(rounds):8.1f} … {1000 * max(rounds):.1f} ms "
                f"({solution.winner.value}), edit {1000 * min(edits):6.1f} ms"
            )
    pinned(options.machines, 1000)
    pinned(options.machines, 1000)
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GiB (with OR-tools)")


if __name__ == "__main__":
    main()
