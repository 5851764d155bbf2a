"""The graph manager and the cost models: events, decisions, ties, gangs, vectors."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strato.errors import UsageError
from strato.mincost.graph import DeltaType, FlowScheduler
from strato.mincost.models import SHIPPED, load
from strato.mincost.models.base import CostModel, arcs
from strato.mincost.models.cpu import CpuMemory
from strato.mincost.models.octopus import Octopus
from strato.mincost.models.quincy import GB, OFFSET, Quincy
from strato.mincost.network import NetworkError
from strato.mincost.solver import Solver
from strato.mincost.world import FlowWorld, Machine, Task, Vector

ROOM = Vector(cpu=8000, ram=8000, net_rx=8000)
SMALL = Vector(cpu=1000, ram=1000, net_rx=100)


def scheduler(model: type[CostModel] = Octopus, machines: int = 3, slots: int = 2, **options: bool) -> FlowScheduler:
    world = FlowWorld(preemption=options.pop("preemption", False))
    flow = FlowScheduler(world, model(world, random.Random(1)), Solver(check=True), **options)
    for i in range(machines):
        flow.add_machine(Machine(f"m{i}", slots=slots, capacity=ROOM, rack=f"r{i % 2}"))
    return flow


def task(number: int, job: str = "j", **fields: object) -> Task:
    return Task(number, job, binary="b", request=SMALL, **fields)  # type: ignore[arg-type] # fields of Task by name


@pytest.mark.parametrize("name", [n for n in SHIPPED if n not in {"void", "whare"}])
@pytest.mark.parametrize("preemption", [False, True], ids=["preemption off", "preemption on"])
def test_every_model_places_what_fits_and_keeps_slots(name: str, preemption: bool) -> None:
    flow = scheduler(SHIPPED[name], preemption=preemption)
    for i in range(8):
        flow.submit(task(i), now=0.0)
    first = flow.round(now=10.0)
    assert all(len(m.tasks) <= m.slots for _, m in flow.world.present())
    assert sum(d.type is DeltaType.PLACE for d in first.deltas) + len(first.unscheduled) == 8
    if name not in {"trivial", "random", "sjf"}:
        assert len(first.unscheduled) == 2


@pytest.mark.parametrize("name", ["octopus", "cpu", "quincy", "placement"])
def test_a_tie_never_moves_a_task(name: str) -> None:
    flow = scheduler(SHIPPED[name], machines=6, preemption=True)
    for i in range(6):
        flow.submit(task(i), now=0.0)
    flow.round(now=1.0)
    assert flow.round(now=1.5).deltas == ()


def test_completion_frees_the_slot_for_who_waits() -> None:
    flow = scheduler(machines=1, slots=1)
    flow.submit(task(1), 0.0)
    flow.submit(task(2), 0.0)
    (placed,) = flow.round(1.0).deltas
    flow.complete(placed.task, 2.0)
    (then,) = flow.round(2.0).deltas
    assert {placed.task, then.task} == {1, 2}


def test_a_removed_machine_sends_its_tasks_back() -> None:
    flow = scheduler(machines=2, slots=1)
    flow.submit(task(1), 0.0)
    (delta,) = flow.round(1.0).deltas
    flow.remove_machine(delta.machine)
    (again,) = flow.round(2.0).deltas
    assert again.machine != delta.machine
    assert again.type is DeltaType.PLACE


def test_decisions_that_events_made_void_are_dropped() -> None:
    flow = scheduler()
    flow.submit(task(1), 0.0)
    flow.submit(task(2), 0.0)
    found = flow.round(1.0, apply=False)
    flow.remove(1)
    assert [d.task for d in flow.apply(found.deltas, 1.0)] == [2]


def test_gang_below_its_minimum_is_not_placed_and_leaves_its_room_to_others() -> None:
    flow = scheduler(machines=1, slots=3)
    for i in range(4):
        flow.submit(task(i, "gang", gang_minimum=4), 0.0)
    flow.submit(task(9, "single"), 0.0)
    assert [d.task for d in flow.round(1.0).deltas] == [9]
    flow.add_machine(Machine("more", slots=3, capacity=ROOM))
    assert len(flow.round(2.0).deltas) == 4


def test_real_request_vectors_are_checked() -> None:
    flow = scheduler(CpuMemory, machines=1, slots=10, check_vectors=True)
    flow.submit(Task(1, "a", request=Vector(cpu=5000, ram=1)), 0.0)
    flow.submit(Task(2, "b", request=Vector(cpu=6000, ram=1)), 0.0)
    found = flow.round(1.0)
    assert len(found.deltas) == len(found.unscheduled) == 1


def test_cpu_model_spreads_a_burst_within_one_round() -> None:
    flow = scheduler(CpuMemory, machines=3, slots=10)
    for i in range(6):
        flow.submit(task(i), 0.0)
    flow.round(1.0)
    assert [len(m.tasks) for _, m in flow.world.present()] == [2, 2, 2]


def test_quincy_prices_follow_the_data() -> None:
    flow = scheduler(Quincy)
    model = flow.model
    assert isinstance(model, Quincy)
    reader = task(1, inputs=((10 * GB, ("m0",)),))
    data = model.locality(reader)
    assert [model.transfer(data, i) for i in range(3)] == [0, 20, 10]
    flow.submit(reader, 0.0)
    (delta,) = flow.round(10.0).deltas
    assert delta.machine == "m0"
    assert model.task_to_unscheduled([task(2, submitted=0.0)], 10.0).tolist() == [OFFSET + 5]


@pytest.mark.parametrize("name", list(SHIPPED))
@settings(max_examples=25, deadline=None)
@given(
    steps=st.lists(st.floats(0, 1e6), min_size=2, max_size=6),
    priorities=st.lists(st.integers(0, 2_000_000_000), min_size=1, max_size=3),
)
def test_waiting_price_never_falls(name: str, steps: list[float], priorities: list[int]) -> None:
    flow = scheduler(SHIPPED[name])
    waiting = [task(i, priority=priority) for i, priority in enumerate(priorities)]
    prices = [flow.model.task_to_unscheduled(waiting, now).tolist() for now in itertools.accumulate(steps)]
    assert all(a <= b for early, late in itertools.pairwise(prices) for a, b in zip(early, late, strict=True))


@settings(max_examples=40, deadline=None)
@given(
    gangs=st.lists(st.tuples(st.integers(1, 6), st.integers(0, 6)), min_size=1, max_size=5),
    machines=st.integers(1, 4),
    name=st.sampled_from(["octopus", "cpu", "placement"]),
)
def test_gangs_are_placed_whole_or_not_at_all(gangs: list[tuple[int, int]], machines: int, name: str) -> None:
    flow = scheduler(SHIPPED[name], machines=machines, slots=3, check_vectors=True)
    number = 0
    for job, (size, minimum) in enumerate(gangs):
        for _ in range(size):
            number += 1
            flow.submit(task(number, f"j{job}", gang_minimum=min(size, minimum)), 0.0)
    flow.round(1.0)
    for job, (size, minimum) in enumerate(gangs):
        placed = sum(t.machine is not None for t in flow.world.job_tasks(f"j{job}"))
        assert placed == 0 or placed >= min(size, minimum)


@settings(max_examples=40, deadline=None)
@given(st.data(), st.booleans(), st.sampled_from(["octopus", "quincy", "cpu", "net", "placement", "coco"]))
def test_random_events_keep_slots_and_warm_equals_cold(data: st.DataObject, preemption: bool, name: str) -> None:
    flow = scheduler(SHIPPED[name], preemption=preemption)
    number, now = 0, 0.0
    for _ in range(data.draw(st.integers(3, 12))):
        now += 1.0
        event = data.draw(st.sampled_from(["submit", "submit", "complete", "evict", "machine", "lose", "round"]))
        known = list(flow.world.tasks)
        if event == "submit":
            number += 1
            flow.submit(task(number, f"j{number % 3}", priority=number % 4), now)
        elif event == "complete" and known:
            flow.complete(data.draw(st.sampled_from(known)), now)
        elif event == "evict" and known:
            flow.evict(data.draw(st.sampled_from(known)), now)
        elif event == "machine":
            flow.add_machine(Machine(f"x{now}", slots=1, capacity=ROOM, rack="r0"))
        elif event == "lose" and flow.world.machine_index:
            flow.remove_machine(data.draw(st.sampled_from(list(flow.world.machine_index))))
        elif event == "round":
            flow.round(now)
        assert all(len(m.tasks) <= m.slots for _, m in flow.world.present())
    warm = flow.round(now, apply=False).solution.objective
    flow.network.arrays.flow[:] = 0
    flow.network.arrays.potential[:] = 0
    flow.network.lists_valid = False
    assert Solver(check=True).solve(flow.network).objective == warm


@pytest.mark.parametrize(
    ("event", "message"),
    [
        (lambda f: f.submit(task(1), 1.0), "task 1: was submitted already"),
        (lambda f: f.complete(7, 1.0), "task 7: is unknown"),
        (lambda f: f.remove_machine("nope"), "machine 'nope': is unknown"),
        (lambda f: f.add_machine(Machine("m0")), "machine 'm0': exists already"),
    ],
    ids=["a task twice", "an unknown task", "an unknown machine", "a machine twice"],
)
def test_bad_events_are_refused_and_change_nothing(event: object, message: str) -> None:
    flow = scheduler()
    flow.submit(task(1), 0.0)
    with pytest.raises(NetworkError) as caught:
        event(flow)  # type: ignore[operator] # a row of the table
    assert message in str(caught.value)
    assert len(flow.round(1.0).deltas) == 1


def test_models_load_by_name_number_and_file(tmp_path: Path) -> None:
    assert load("6") is load("octopus") is Octopus
    path = f"{tmp_path}/mine.py"
    text = "from strato.mincost.models.octopus import Octopus\nclass Mine(Octopus):\n    name = 'mine'\n"
    Path(path).write_text(text)
    assert load(f"{path}:Mine").name == "mine"
    with pytest.raises(UsageError, match="unknown"):
        load("nope")


def test_a_model_of_an_installed_package_loads_by_its_entry_point(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = tmp_path / "mine-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[strato.cost_models]\nmine = mine_model:Mine\n")
    text = "from strato.mincost.models.void import Void\nclass Mine(Void):\n    name = 'mine'\n"
    (tmp_path / "mine_model.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert load("mine").name == "mine"


WRONG = [
    pytest.param("task_to_unscheduled", lambda _: np.full(1, 5), "gives 1 prices where 2 belong", id="too few prices"),
    pytest.param("task_to_unscheduled", lambda _: np.array([1, np.nan]), "gives nan as number 1", id="no number"),
    pytest.param("task_to_unscheduled", lambda _: ["a", "b"], "no row of numbers", id="words"),
    pytest.param("task_arcs", lambda _: 1 // 0, "raises ZeroDivisionError", id="an error of its own"),
    pytest.param("task_arcs", lambda _: [1, 2], "gives list where Arcs belong", id="no arcs"),
    pytest.param("task_arcs", lambda _: arcs([0, 2], [0, 0], 1), "arc 1 the row 2; it must be 0 to 1", id="a row"),
    pytest.param("task_arcs", lambda _: arcs([0], [7], 1), "arc 0 the target 7", id="a machine that is not there"),
    pytest.param("task_arcs", lambda _: arcs([0], [-99], 1), "arc 0 the target -99", id="a class that is not there"),
    pytest.param("task_arcs", lambda _: arcs([0], [0], 1 << 50), "task 1: has an arc of cost", id="overflowing cost"),
    pytest.param("class_arcs", lambda _: arcs([0], [0], 0, -4), "arc 0 the capacity -4", id="negative capacity"),
    pytest.param("machine_to_sink", lambda _: arcs([0], [0], 0)._replace(cost=[]), "differ in length", id="columns"),
]


@pytest.mark.parametrize(("method", "answer", "message"), WRONG)
def test_a_cost_model_that_is_wrong_is_named_and_harms_nothing(
    method: str, answer: Callable[[object], object], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow = scheduler()
    for number in (1, 2):
        flow.submit(task(number), 0.0)
    with monkeypatch.context() as patch:
        patch.setattr(flow.model, method, lambda *_: answer(None))
        with pytest.raises(NetworkError, match="cost model octopus") as caught:
            flow.round(1.0)
    assert message in str(caught.value)
    assert len(flow.round(2.0).deltas) == 2


def test_costs_below_zero_are_prices_like_others() -> None:
    flow = scheduler()
    flow.model.task_to_unscheduled = lambda tasks, _: np.full(len(tasks), -7)  # type: ignore[method-assign] # a policy
    flow.model.task_arcs = lambda tasks, _: arcs(range(len(tasks)), [1] * len(tasks), -9)  # type: ignore[method-assign]  # a double
    for number in (1, 2, 3):
        flow.submit(task(number), 0.0)
    found = flow.round(1.0)
    assert [delta.machine for delta in found.deltas] == ["m1", "m1"]
    assert found.solution.objective == -9 - 9 - 7
