"""The worked example of docs/cost-models.md runs as it is printed, and its configuration is accepted."""

from __future__ import annotations

import random
import re
from pathlib import Path

from strato.mincost.graph import FlowScheduler
from strato.mincost.models import load
from strato.mincost.world import FlowWorld, Machine, Task, Vector
from strato.scheduler.config import parse_config

DOC = (Path(__file__).parents[2] / "docs" / "cost-models.md").read_text()


def block(language: str) -> str:
    found = re.search(rf"^```{language}\n(.*?)^```$", DOC, re.DOTALL | re.MULTILINE)
    assert found is not None
    return found[1]


def engine(tmp_path: Path, *machines: Machine) -> FlowScheduler:
    path = tmp_path / "reluctant.py"
    path.write_text(block("python"))
    world = FlowWorld()
    flow = FlowScheduler(world, load(f"{path}:Reluctant")(world, random.Random(1)))
    for machine in machines:
        flow.add_machine(machine)
    return flow


ROOM = Vector(cpu=1000, ram=1000)
RESERVED = Machine("kept", slots=1, capacity=ROOM, labels={"reserved": ""})


def test_a_reserved_machine_is_taken_after_301_seconds(tmp_path: Path) -> None:
    for waited, want in ((301.0, []), (302.0, [(1, "kept")])):  # 1000 + 301 against 1 + 1300: a tie moves nobody
        flow = engine(tmp_path, RESERVED)
        flow.submit(Task(1, "j"), 0.0)
        assert [(d.task, d.machine) for d in flow.round(waited).deltas] == want


def test_an_ordinary_machine_is_taken_at_once(tmp_path: Path) -> None:
    flow = engine(tmp_path, RESERVED, Machine("plain", slots=1, capacity=ROOM))
    flow.submit(Task(1, "j"), 0.0)
    assert [(d.task, d.machine) for d in flow.round(0.0).deltas] == [(1, "plain")]


def test_the_configuration_that_turns_evictions_on_is_accepted() -> None:
    args = parse_config(block("yaml")).action_args["flow"]
    assert (args.preemption, args.migration, args.min_gain) == (True, True, 0.5)
