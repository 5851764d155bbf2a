"""Synthetic load for replays: machines in racks, batch jobs that read files of a distributed file system.

A file's size follows the original simulator's law for block counts (half of all files have one block, the rest is
log-uniform). Blocks lie as HDFS puts them: the first replica of every block on the machine that wrote the file, the
other two on machines of one other rack. A job's tasks arrive together; jobs arrive as a Poisson process whose rate
keeps the cluster at the wanted share of its slots.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from strato.errors import InvalidInput, Problem
from strato.mincost.simulate import TraceEvent
from strato.mincost.world import Machine, Task

MACHINES_PER_RACK = 30
BLOCK_BYTES = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadOptions:
    """What to draw.

    Attributes:
        machines: Machines, 30 to a rack.
        slots: Tasks a machine can run.
        tasks: Tasks in all.
        tasks_per_job: Mean number of tasks of a job.
        mean_seconds: Mean runtime of a task (exponential).
        use: Share of the slots that run tasks on average.
        most_blocks: Largest number of blocks of a file.
        seed: Same seed, same load.
    """

    machines: int = 100
    slots: int = 4
    tasks: int = 2000
    tasks_per_job: int = 20
    mean_seconds: float = 60.0
    use: float = 0.6
    most_blocks: int = 16
    seed: int = 1


def draw(load: WorkloadOptions) -> list[TraceEvent]:
    """Draw the events of a load, in order of time.

    Raises:
        InvalidInput: A size that makes no load, all of them listed.
    """
    problems = [
        Problem(name, f"{getattr(load, name)} is below 1")
        for name in ("machines", "slots", "tasks", "tasks_per_job", "most_blocks")
        if getattr(load, name) < 1
    ]
    if not 0 < load.use <= 1:
        problems.append(Problem("use", f"{load.use} is no share of the slots; write a number above 0 and up to 1"))
    if problems:
        raise InvalidInput("the load", problems)
    rng = random.Random(load.seed)
    racks = [f"rack-{i // MACHINES_PER_RACK}" for i in range(load.machines)]
    events = [
        TraceEvent(0.0, i, "machine", Machine(f"m{i}", slots=load.slots, rack=racks[i]), name=f"m{i}")
        for i in range(load.machines)
    ]
    now, made, job = 0.0, 0, 0
    per_job = load.mean_seconds * load.tasks_per_job / (load.machines * load.slots * load.use)
    while made < load.tasks:
        job += 1
        now += rng.expovariate(1.0 / per_job)
        for _ in range(min(load.tasks - made, 1 + int(rng.expovariate(1.0 / load.tasks_per_job)))):
            made += 1
            task = Task(made, f"job-{job}", binary=f"job-{job}", inputs=_file(rng, racks, load.most_blocks))
            runtime = 1.0 + rng.expovariate(1.0 / load.mean_seconds)
            events.append(TraceEvent(now, len(events), "task", task=task, runtime_seconds=runtime))
    return events


def _file(rng: random.Random, racks: list[str], most: int) -> tuple[tuple[int, tuple[str, ...]], ...]:
    """Draw one file: size and holders of each block."""
    share = rng.random()
    blocks = 1 if share < 0.5 else max(1, round(most ** ((share - 0.5) / 0.5)))
    writer = rng.randrange(len(racks))
    found = []
    for _ in range(blocks):
        others = [i for i in range(len(racks)) if racks[i] != racks[writer]] or list(range(len(racks)))
        second = rng.choice(others)
        near = [i for i in range(len(racks)) if racks[i] == racks[second] and i != second] or [second]
        found.append((BLOCK_BYTES, tuple(f"m{i}" for i in (writer, second, rng.choice(near)))))
    return tuple(found)
