"""Time the flow engine on Quincy-shaped networks and the CPU model, next to OR-tools and LEMON on the same instances.

    python -m benchmarks.flow [--machines N …] [--fill 0.9 …] [--no-rivals]

Without options: everything at 12,500 machines, fills from 50 to 103 %, sizes from 1,250 to 50,000 machines. Seconds are
of the process's CPU (one thread works at a time here), which a busy machine disturbs least. LEMON takes part where its
headers (Debian: liblemon-dev) and a C++ compiler are.
"""

from __future__ import annotations

import argparse
import random
import resource
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.report import publish
from strato.flow import certificate
from strato.flow.graph import FlowScheduler
from strato.flow.models.cpu import CpuMemory
from strato.flow.network import Network
from strato.flow.solver import Kernel, Solver
from strato.flow.synthetic import Shape, Synthetic, quincy_network
from strato.flow.world import Machine, Task, Vector, World

TASKS_PER_MACHINE = 12
FILLS = (0.5, 0.7, 0.9, 0.97, 1.03)
SIZES = (1_250, 5_000, 12_500, 25_000, 50_000)
Row = dict[str, object]


def ortools_seconds(network: Network) -> tuple[float, int]:
    from ortools.graph.python import min_cost_flow

    g, used = network.arrays, network.slots_in_use()
    solver = min_cost_flow.SimpleMinCostFlow()
    solver.add_arcs_with_capacity_and_unit_cost(g.tail[used], g.head[used], g.capacity[used], g.cost[used])
    solver.set_nodes_supplies(np.arange(network.node_count), g.supply)
    start = time.process_time()
    solver.solve()
    return time.process_time() - start, solver.optimal_cost()


def lemon_seconds(network: Network) -> dict[str, tuple[float, int]]:
    """Return seconds and cost by algorithm; nothing when LEMON is not installed."""
    if shutil.which("g++") is None or not Path("/usr/include/lemon/network_simplex.h").exists():
        return {}
    g, used = network.arrays, network.slots_in_use()
    with tempfile.TemporaryDirectory() as folder:
        binary, problem = Path(folder) / "lemon", Path(folder) / "problem.min"
        source = Path(__file__).with_name("lemon_flow.cc")
        subprocess.run(["g++", "-O3", "-DNDEBUG", "-o", binary, source], check=True)
        with problem.open("w") as out:
            out.write(f"p min {network.node_count} {len(used)}\n")
            nodes = np.flatnonzero(g.supply)
            np.savetxt(out, np.stack([nodes + 1, g.supply[nodes]], 1), "n %d %d")
            arcs = [g.tail[used] + 1, g.head[used] + 1, np.zeros(len(used), np.int64), g.capacity[used], g.cost[used]]
            np.savetxt(out, np.stack(arcs, 1), "a %d %d %d %d %d")
        done = subprocess.run([binary, problem], capture_output=True, text=True, check=True)
    found = [line.split() for line in done.stdout.splitlines()]
    return {f"lemon {name}": (float(seconds), int(cost)) for name, seconds, cost in found}


def exchange(synthetic: Synthetic, count: int, rng: np.random.Generator) -> float:
    """Let tasks leave and as many arrive with the arcs of others; return seconds of the edit."""
    network = synthetic.network
    tasks = np.arange(len(synthetic.tasks))
    leave, like = rng.choice(tasks, count, replace=False), rng.choice(tasks, count, replace=False)
    g = network.arrays
    rows = [slice(int(g.row_start[t]), int(g.row_start[t] + g.row_length[t])) for t in like]
    heads, costs = [np.concatenate([column[r] for r in rows]) for column in (g.head, g.cost)]
    offsets = np.concatenate([[0], np.cumsum(g.row_length[like])])
    start = time.process_time()
    network.remove_nodes(leave)
    arrived = network.add_nodes(count, supply=1)
    network.set_rows(arrived, offsets, heads, costs, np.ones(len(heads), np.int64))
    return time.process_time() - start


def cold(machines: int, fill: float, *, rivals: bool) -> tuple[Row, Synthetic]:
    """Solve from scratch."""
    synthetic = quincy_network(Shape(machines, machines * TASKS_PER_MACHINE, fill))
    start = time.process_time()
    solution = Solver().solve(synthetic.network)
    ours = time.process_time() - start
    assert certificate.certify(synthetic.network).ok
    row: Row = {"what": "cold", "machines": machines, "fill": fill, "changes": 0, "seconds": ours}
    others = {"or-tools": ortools_seconds(synthetic.network)} | lemon_seconds(synthetic.network) if rivals else {}
    for name, (_, cost) in others.items():
        assert cost == solution.objective, f"{name} finds {cost}, we {solution.objective}"
    best = min(others.items(), key=lambda item: item[1][0], default=None)
    row["rivals"] = ", ".join(f"{name} {seconds:.2f}" for name, (seconds, _) in others.items())
    row["times best rival"] = best[1][0] / ours if best is not None else 0.0
    return row, synthetic


def rounds(synthetic: Synthetic, machines: int, fill: float) -> list[Row]:
    """Solve again after changes: the median of five rounds."""
    rng, solver = np.random.default_rng(3), Solver()
    solver.solve(synthetic.network)
    out: list[Row] = []
    for count in (10, 100, 1000):
        edits, solves = [], []
        for _ in range(5):
            edits.append(exchange(synthetic, count, rng))
            start = time.process_time()
            solver.solve(synthetic.network)
            solves.append(time.process_time() - start)
        assert certificate.certify(synthetic.network).ok
        out.append(_row("round", machines, fill, count, sorted(solves)[2]))
        out.append(_row("graph update", machines, fill, count, sorted(edits)[2]))
    return out


def pinned(machines: int, waiting: int) -> Row:
    """Only waiting tasks are in the network; machines have the free slots."""
    solver = Solver()
    for _ in range(3):
        synthetic = quincy_network(Shape(machines=machines, tasks=waiting, fill=waiting / (machines * 4 / 3)))
        start = time.process_time()
        solver.solve(synthetic.network)
        seconds = time.process_time() - start
    return _row("running tasks pinned", machines, 0.0, waiting, seconds)


def cpu_model(machines: int, classes: int, tasks: int) -> Row:
    """One round of the CPU/memory model: prices, network, solution, decisions and vectors."""
    for size in (50, machines):
        world, rng = World(), random.Random(2)
        flow = FlowScheduler(world, CpuMemory(world, random.Random(1)), check_vectors=True)
        for i in range(size):
            room = Vector(cpu=rng.choice([16_000, 32_000, 64_000]), ram=rng.choice([64, 128, 256]) << 30)
            flow.add_machine(Machine(f"m{i}", slots=110, capacity=room))
        for i in range(min(tasks, 10 * size)):
            request = Vector(cpu=100 + 10 * (i % classes), ram=(1 + i % classes % 7) << 28)
            flow.submit(Task(i, f"j{i // 50}", request=request), 0.0)
        start = time.process_time()
        found = flow.round(0.0, apply=False)
        seconds = time.process_time() - start
    assert len(found.deltas) == tasks, f"{len(found.deltas)} of {tasks} placed"
    return _row(f"CPU model, {classes} classes", machines, 0.0, tasks, seconds)


def _row(what: str, machines: int, fill: float, changes: int, seconds: float) -> Row:
    return {
        "what": what,
        "machines": machines,
        "fill": fill,
        "changes": changes,
        "seconds": seconds,
        "rivals": "",
        "times best rival": 0.0,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--machines", type=int, action="append", help="sizes at 90 %%; default 1,250 to 50,000")
    parser.add_argument("--fill", type=float, action="append", help="fills at 12,500 machines; default 0.5 to 1.03")
    parser.add_argument("--no-rivals", action="store_true", help="without OR-tools and LEMON")
    options = parser.parse_args()
    Solver((Kernel.PATHS, Kernel.SCALING)).solve(quincy_network(Shape(40, 400)).network)  # compile
    table: list[Row] = []
    memory = 0.0
    for fill in options.fill or FILLS:
        row, synthetic = cold(12_500, fill, rivals=False)
        table += [row, *rounds(synthetic, 12_500, fill)]
        memory = max(memory, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20)
    table += [pinned(12_500, 1000), cpu_model(10_000, 100, 10_000)]
    for size in options.machines or SIZES:
        table.append(cold(size, 0.9, rivals=False)[0])
    if not options.no_rivals:
        table += [cold(12_500, fill, rivals=True)[0] for fill in (0.9, 1.03)]
    publish("flow", table, f"peak memory of ours at 12,500 machines: {memory:.2f} GiB")


if __name__ == "__main__":
    main()
