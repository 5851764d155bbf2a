"""Replays: every task of a small trace runs to its end, the same way each time."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from strato.errors import InvalidInput
from strato.mincost.graph import FlowScheduler
from strato.mincost.models.octopus import Octopus
from strato.mincost.simulate import Measures, read_trace, replay
from strato.mincost.world import FlowWorld


def write_trace(folder: Path) -> None:
    machines = [f"0,m{i},0,x,0.5,0.5" for i in range(3)] + ["5000000,m0,1,x,0.5,0.5"]
    tasks = [f"{i * 1000000},,j{i % 2},{i},,0,u,0,{i % 3},0.1,0.1" for i in range(8)]
    runtimes = [f"j{i % 2},{i},{(i + 2) * 1000000}" for i in range(8)]
    for name, lines in (("machine_events", machines), ("task_events", tasks), ("task_runtimes", runtimes)):
        (folder / f"{name}.csv").write_text("\n".join(lines) + "\n")


def run(folder: Path) -> Measures:
    world = FlowWorld()
    flow = FlowScheduler(world, Octopus(world, random.Random(1)))
    return replay(flow, read_trace(folder, slots=2), lambda: 0.0)


def test_all_tasks_complete_and_a_replay_is_reproducible(tmp_path: Path) -> None:
    write_trace(tmp_path)
    measures = run(tmp_path)
    assert measures.completed == 8
    assert measures.placed >= 8
    assert measures.report() == run(tmp_path).report()


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"task_runtimes\.csv: cannot be read"):
        run(tmp_path)
