"""The CPU/memory model: what it leaves out of the network never matters."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strato.mincost.graph import FlowScheduler
from strato.mincost.models import cpu
from strato.mincost.models.placement import Placement
from strato.mincost.world import FlowWorld, Machine, Taint, Task, Vector


def everything(offers: list[cpu.Levels], wanted: list[int], free: Any) -> list[Any]:
    return [np.arange(len(offer.cost)) for offer in offers]


def objective(seed: int, model: type[cpu.CpuMemory]) -> int:
    rng = random.Random(seed)
    world = FlowWorld()
    flow = FlowScheduler(world, model(world, random.Random(1)))
    for i in range(rng.randint(1, 8)):
        room = Vector(cpu=1000 * rng.randint(1, 8), ram=1000 * rng.randint(1, 8), ephemeral=100)
        taints = (Taint("soft", "", "PreferNoSchedule"),) if rng.random() < 0.2 else ()
        labels = {"disk": rng.choice(["ssd", "hdd"])}
        flow.add_machine(Machine(f"m{i}", slots=rng.randint(0, 4), capacity=room, taints=taints, labels=labels))
    number = 0
    for c in range(rng.randint(1, 4)):
        request = Vector(cpu=rng.choice([0, 100, 900]), ram=rng.choice([0, 100, 900]))
        for _ in range(rng.randint(1, 6)):
            number += 1
            flow.submit(Task(number, f"j{c}", request=request, disk=rng.choice(["", "", "ssd"])), 0.0)
    return flow.round(0.0, apply=False).solution.objective


@settings(max_examples=80, deadline=None)
@given(seed=st.integers(0, 1 << 30))
@pytest.mark.parametrize("model", [cpu.CpuMemory, Placement])
def test_leaving_dear_places_out_keeps_the_optimum(model: type[cpu.CpuMemory], seed: int) -> None:
    found = objective(seed, model)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cpu, "cheapest", everything)
        assert objective(seed, model) == found


def test_many_classes_do_not_crowd_the_same_machines() -> None:
    world = FlowWorld()
    flow = FlowScheduler(world, cpu.CpuMemory(world, random.Random(1)), check_vectors=True)
    for i in range(100):
        flow.add_machine(Machine(f"m{i}", slots=110, capacity=Vector(cpu=4000, ram=4000)))
    for i in range(200):
        flow.submit(Task(i, "j", request=Vector(cpu=1000 + i % 20, ram=10)), 0.0)
    assert len(flow.round(0.0).deltas) == 200
