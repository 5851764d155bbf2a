"""The shipped model `placement`: distance, equipment, and preemption with proven gain."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strato.mincost.graph import DeltaType, FlowScheduler
from strato.mincost.models.placement import EVICTION_GAIN, FAR, PRIORITY_STEP, RARE_EQUIPMENT, Placement
from strato.mincost.world import FlowWorld, Machine, Task, Vector

ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
ROOM, SMALL = Vector(cpu=4000, ram=4000), Vector(cpu=1000, ram=10)


def engine(*machines: Machine, preemption: bool = False) -> FlowScheduler:
    world = FlowWorld(preemption=preemption)
    flow = FlowScheduler(world, Placement(world, random.Random(1)), check_vectors=True)
    for machine in machines:
        flow.add_machine(machine)
    return flow


def at(name: str, rack: str = "", zone: str = "", region: str = "", *, slots: int = 9, disk: str = "") -> Machine:
    labels = {key: value for key, value in ((ZONE, zone), (REGION, region), ("disk", disk)) if value}
    return Machine(name, slots=slots, capacity=ROOM, rack=rack, labels=labels)


PLACES = [
    at("data", "r1", "z1", "e", slots=0),
    at("rack", "r1", "z1", "e"),
    at("zone", "r2", "z1", "e"),
    at("region", "r3", "z2", "e"),
    at("away", "r4", "z3", "w"),
]


@pytest.mark.parametrize(
    ("there", "want"),
    [
        pytest.param(["rack", "zone", "region", "away"], "rack", id="the rack of the data before anything else"),
        pytest.param(["zone", "region", "away"], "zone", id="then their zone"),
        pytest.param(["region", "away"], "region", id="then their region"),
        pytest.param(["away"], "away", id="and anywhere rather than wait"),
    ],
)
def test_a_task_runs_near_its_data(there: list[str], want: str) -> None:
    flow = engine(*(place for place in reversed(PLACES) if place.id in ("data", *there)))
    flow.submit(Task(1, "j", request=SMALL, inputs=((100, ("data",)),)), 0.0)
    assert [(d.task, d.machine) for d in flow.round(0.0).deltas] == [(1, want)]


def test_distance_is_weighed_by_what_has_to_be_fetched() -> None:
    """Nine tenths lie in zone 1, one tenth on a machine far away."""
    flow = engine(*PLACES)
    task = Task(1, "j", request=SMALL, inputs=((90, ("data",)), (10, ("away",))))
    model: Any = flow.model
    found = {m.id: model._fetch(task, m) for m in PLACES}
    assert found["rack"] == (90 * FAR["same rack"] + 10 * FAR["elsewhere"]) // 100
    assert found["away"] == 90 * FAR["elsewhere"] // 100
    assert sorted(found, key=found.__getitem__) == ["data", "rack", "zone", "region", "away"]


def test_cheap_disks_go_first_and_declared_equipment_to_who_asks() -> None:
    flow = engine(at("fast", disk="ssd", slots=1), at("plain", disk="hdd", slots=1))
    flow.submit(Task(1, "j", request=SMALL), 0.0)
    flow.submit(Task(2, "j", request=SMALL, disk="ssd"), 0.0)
    assert {(d.task, d.machine) for d in flow.round(0.0).deltas} == {(1, "plain"), (2, "fast")}
    assert RARE_EQUIPMENT > 0
    flow.submit(Task(3, "j", request=SMALL, disk="nvme"), 0.0)
    assert flow.round(1.0).unscheduled == (3,)


def occupied(priority: int, started: float, *, slots: int = 1, capacity: Vector = ROOM) -> FlowScheduler:
    flow = engine(Machine("m", slots=slots, capacity=capacity), preemption=True)
    flow.submit(Task(1, "low", request=SMALL, priority=priority), started)
    flow.round(started)
    assert flow.world.tasks[1].machine == "m"
    return flow


@pytest.mark.parametrize(
    ("mine", "theirs", "ran", "goes"),
    [
        pytest.param(1, 0, 0.0, True, id="one step of priority is worth a fresh task"),
        pytest.param(1, 0, PRIORITY_STEP / 2, False, id="what has run long is worth as much as a step"),
        pytest.param(2, 0, PRIORITY_STEP / 2, True, id="two steps are worth more"),
        pytest.param(0, 0, 0.0, False, id="nobody goes for his equal"),
        pytest.param(0, 1, 0.0, False, id="nor for who matters less"),
    ],
)
def test_a_preemption_happens_only_with_proven_gain(mine: int, theirs: int, ran: float, goes: bool) -> None:
    flow = occupied(theirs, 0.0)
    flow.submit(Task(2, "high", request=SMALL, priority=mine), ran)
    kinds = [(d.type, d.task) for d in flow.round(ran).deltas]
    assert kinds == ([(DeltaType.PREEMPT, 1), (DeltaType.PLACE, 2)] if goes else [])
    assert 2 * EVICTION_GAIN == PRIORITY_STEP


def test_without_preemption_nobody_goes() -> None:
    flow = engine(Machine("m", slots=1, capacity=ROOM))
    flow.submit(Task(1, "low", request=SMALL), 0.0)
    flow.round(0.0)
    flow.submit(Task(2, "high", request=SMALL, priority=9), 0.0)
    assert flow.round(0.0).deltas == ()


def test_room_by_the_vectors_is_taken_over_like_a_slot() -> None:
    flow = occupied(0, 0.0, slots=9, capacity=Vector(cpu=1500, ram=4000))
    flow.submit(Task(2, "high", request=SMALL, priority=5), 1.0)
    assert [(d.type, d.task) for d in flow.round(1.0).deltas] == [(DeltaType.PREEMPT, 1), (DeltaType.PLACE, 2)]


def test_nobody_is_evicted_for_a_task_that_would_not_fit_after_all() -> None:
    flow = occupied(0, 0.0, slots=9, capacity=Vector(cpu=1500, ram=4000))
    flow.submit(Task(2, "high", request=Vector(cpu=1600, ram=10), priority=5), 1.0)
    assert flow.round(1.0).deltas == ()


def test_a_better_place_alone_moves_nobody_and_a_needed_one_does() -> None:
    flow = engine(at("fast", disk="ssd", slots=1), preemption=True)
    flow.submit(Task(1, "j", request=SMALL), 0.0)
    flow.round(0.0)
    flow.add_machine(at("plain", disk="hdd", slots=1))
    assert flow.round(1.0).deltas == ()
    flow.submit(Task(2, "j", request=SMALL, disk="ssd"), 2.0)
    assert {(d.type, d.task, d.machine) for d in flow.round(2.0).deltas} == {
        (DeltaType.MIGRATE, 1, "plain"),
        (DeltaType.PLACE, 2, "fast"),
    }


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 1 << 30))
def test_with_preemption_no_machine_exceeds_its_vectors_and_victims_matter_less(seed: int) -> None:
    rng = random.Random(seed)
    flow = engine(
        *(Machine(f"m{i}", slots=rng.randint(1, 4), capacity=Vector(cpu=3000, ram=3000)) for i in range(3)),
        preemption=True,
    )
    number = 0
    for step in range(4):
        for _ in range(rng.randint(1, 5)):
            number += 1
            request = Vector(cpu=rng.choice([500, 1000, 2000]), ram=rng.choice([100, 900]))
            flow.submit(Task(number, f"j{number % 3}", request=request, priority=rng.randint(0, 3)), 10.0 * step)
        found = flow.round(10.0 * step).deltas
        placed = [flow.world.tasks[d.task].priority for d in found if d.type is DeltaType.PLACE]
        for delta in found:
            if delta.type is DeltaType.PREEMPT:
                assert max(placed, default=-1) > flow.world.tasks[delta.task].priority
        for _, machine in flow.world.present():
            held = [task.request for task in machine.tasks.values()]
            assert len(held) <= machine.slots
            assert sum(r.cpu for r in held) <= machine.capacity.cpu
            assert sum(r.ram for r in held) <= machine.capacity.ram
