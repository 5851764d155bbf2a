"""One point of the flow engine's curves, measured in a process of its own: ``python -m benchmarks.flow_point JSON``.

The JSON says what to measure (``{"what": "curve", "machines": 12500, "fill": 0.9}``, ``{"what": "pinned"}``,
``{"what": "cpu model"}``, ``{"what": "or-tools", …}`` or ``{"what": "lemon", …}``); the last line printed is the
answer.
Seconds are of the process's CPU, which a busy machine disturbs least.
"""

from __future__ import annotations

import json
import random
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from strato.mincost import certificate
from strato.mincost.graph import FlowScheduler
from strato.mincost.models.cpu import CpuMemory
from strato.mincost.network import Network
from strato.mincost.solver import Kernel, Solver
from strato.mincost.synthetic import Shape, Synthetic, quincy_network
from strato.mincost.world import FlowWorld, Machine, Task, Vector

TASKS_PER_MACHINE = 12
ROUNDS = {100: 7, 1000: 15}
"""Changes of a round, and how many rounds the median and the worst are of."""
Answer = dict[str, object]


def shaped(machines: int, fill: float) -> Synthetic:
    return quincy_network(Shape(machines, machines * TASKS_PER_MACHINE, fill))


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


def warm_up() -> None:
    """Compile, and touch every path once."""
    for fill in (0.9, 1.03):
        synthetic = quincy_network(Shape(200, 2400, fill))
        solver, rng = Solver(), np.random.default_rng(1)
        solver.solve(synthetic.network)
        exchange(synthetic, 20, rng)
        solver.solve(synthetic.network)
    Solver((Kernel.PATHS, Kernel.SCALING)).solve(quincy_network(Shape(40, 400)).network)


def curve(machines: int, fill: float) -> Answer:
    """Solve from scratch, then round after round with changes."""
    warm_up()
    synthetic = shaped(machines, fill)
    solver, rng = Solver(), np.random.default_rng(3)
    start = time.process_time()
    solution = solver.solve(synthetic.network)
    found: Answer = {"cold": time.process_time() - start, "cost": solution.objective}
    assert certificate.certify(synthetic.network).ok
    for count, rounds in ROUNDS.items():
        edits, solves = [], []
        for _ in range(rounds):
            edits.append(exchange(synthetic, count, rng))
            start = time.process_time()
            solver.solve(synthetic.network)
            solves.append(time.process_time() - start)
        assert certificate.certify(synthetic.network).ok
        update, solve = statistics.median(edits), statistics.median(solves)
        found |= {
            f"round {count}": update + solve,
            f"worst {count}": max(solves),
            f"update {count}": update,
            f"update share {count}": update / (update + solve),
        }
    found["peak_gib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return found


def pinned(machines: int, waiting: int) -> Answer:
    """Only waiting tasks are in the network; machines have the free slots. The median of nine."""
    warm_up()
    solver, seconds = Solver(), []
    for seed in range(9):
        synthetic = quincy_network(Shape(machines, waiting, waiting / (machines * 4 / 3), seed=seed + 1))
        start = time.process_time()
        solver.solve(synthetic.network)
        seconds.append(time.process_time() - start)
    return {"cold": statistics.median(seconds), "worst": max(seconds)}


def cpu_model(machines: int, classes: int, tasks: int) -> Answer:
    """One round of the CPU/memory model: prices, network, solution, decisions and vectors."""
    for size in (50, machines):
        world, rng = FlowWorld(), random.Random(2)
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
    return {"cold": seconds}


def ortools(machines: int, fill: float) -> Answer:
    from ortools.graph.python import min_cost_flow

    network = shaped(machines, fill).network
    g, used = network.arrays, network.slots_in_use()
    solver = min_cost_flow.SimpleMinCostFlow()
    solver.add_arcs_with_capacity_and_unit_cost(g.tail[used], g.head[used], g.capacity[used], g.cost[used])
    solver.set_nodes_supplies(np.arange(network.node_count), g.supply)
    start = time.process_time()
    solver.solve()
    return {"cold": time.process_time() - start, "cost": solver.optimal_cost()}


def lemon(machines: int, fill: float) -> Answer:
    """Return the better of LEMON's network simplex and cost scaling; nothing when LEMON is not installed."""
    if shutil.which("g++") is None or not Path("/usr/include/lemon/network_simplex.h").exists():
        return {}
    network = shaped(machines, fill).network
    with tempfile.TemporaryDirectory() as folder:
        binary, problem = Path(folder) / "lemon", Path(folder) / "problem.min"
        source = Path(__file__).with_name("lemon_flow.cc")
        subprocess.run(["g++", "-O3", "-DNDEBUG", "-o", binary, source], check=True)
        _write(network, problem)
        done = subprocess.run([binary, problem], capture_output=True, text=True, check=True)
    answers = [line.split() for line in done.stdout.splitlines()]
    name, seconds, cost = min(answers, key=lambda answer: float(answer[1]))
    return {"cold": float(seconds), "cost": int(cost), "algorithm": name}


def _write(network: Network, path: Path) -> None:
    g, used = network.arrays, network.slots_in_use()
    with path.open("w") as out:
        out.write(f"p min {network.node_count} {len(used)}\n")
        nodes = np.flatnonzero(g.supply)
        np.savetxt(out, np.stack([nodes + 1, g.supply[nodes]], 1), "n %d %d")
        arcs = [g.tail[used] + 1, g.head[used] + 1, np.zeros(len(used), np.int64), g.capacity[used], g.cost[used]]
        np.savetxt(out, np.stack(arcs, 1), "a %d %d %d %d %d")


KINDS: dict[str, Callable[..., Answer]] = {
    "curve": curve,
    "pinned": pinned,
    "cpu model": cpu_model,
    "or-tools": ortools,
    "lemon": lemon,
}


def main() -> None:
    asked = json.loads(sys.argv[1])
    print(json.dumps(KINDS[asked.pop("what")](**asked)))


if __name__ == "__main__":
    main()
