"""Each cost model's worked numbers, computed by hand from its formulas."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from strato.mincost.graph import FlowScheduler
from strato.mincost.models import SHIPPED
from strato.mincost.models.base import CLUSTER, CostModel, arcs, join
from strato.mincost.models.coco import interference
from strato.mincost.models.cpu import price
from strato.mincost.models.quincy import GB, OFFSET, QuincySettings
from strato.mincost.network import NetworkError
from strato.mincost.stats import FinalReport, LoadSample
from strato.mincost.world import FlowWorld, Machine, Task, TaskType, Vector

ROOM = Vector(cpu=8000, ram=8000, net_rx=8000)
SMALL = Vector(cpu=1000, ram=1000, net_rx=100)


def engine(name: str) -> FlowScheduler:
    """Three machines of two slots in two racks; task 1 waits since 0, task 9 runs on m1 since 5."""
    world = FlowWorld(preemption=True)
    flow = FlowScheduler(world, SHIPPED[name](world, random.Random(1)))
    for i in range(3):
        flow.add_machine(Machine(f"m{i}", slots=2, capacity=ROOM, rack=f"r{i % 2}", kind="k"))
    reads = ((10 * GB, ("m0",)),)
    for number in (1, 9):
        flow.submit(Task(number, "j", binary="b", request=SMALL, inputs=reads, priority=3), 0.0)
    flow.place(9, "m1", 5.0)
    return flow


def waiting(model: CostModel, now: float = 10.0) -> Any:
    return model.task_to_unscheduled([model.world.tasks[1]], now).tolist()


def task_costs(model: CostModel) -> dict[Any, int]:
    found = model.task_arcs([model.world.tasks[1]], 10.0)
    pairs = zip(found.target.tolist(), found.cost.tolist(), strict=True)
    return {t if t >= 0 else model.world.class_key(t): c for t, c in pairs}


def class_costs(model: CostModel, key: Any) -> list[int]:
    model.task_arcs([model.world.tasks[1]], 10.0)
    return model.class_arcs([model.world.class_target(key)], np.array([1])).cost.tolist()


def sjf(model: CostModel) -> Any:
    before = waiting(model)
    model.statistics.add_report("b", FinalReport(2.0))
    return before, waiting(model), task_costs(model)[CLUSTER]


def quincy_without_delay(model: Any) -> Any:
    model.options = QuincySettings(no_delay=True)
    top = Task(5, "j", priority=1000)
    return waiting(model), model.task_to_unscheduled([top], 10.0).tolist()


def whare(model: Any) -> Any:
    """Two averages: 200 beside nobody, 400 elsewhere; the best case is the smaller one."""
    task, world = model.world.tasks[1], model.world
    unknown = waiting(model)
    model.learn(task, world.machine("m0"), 200)
    model.learn(task, Machine("x", kind="slow"), 400)
    return unknown, waiting(model, 0.0), task_costs(model)[CLUSTER]


def net(model: Any) -> Any:
    key = ("net", (), 100)
    first = class_costs(model, key)[:3]
    model.statistics.add_machine_sample("m0", LoadSample(1.0, net_rx=7850))
    return waiting(model), first, class_costs(model, key)[:2]


def cpu_prices(_: CostModel) -> Any:
    ratios = ((0.0, 0.0), (0.5, 0.25), (1.0, 1.0))
    return [int(price(np.array([c]), np.array([m]))[0]) for c, m in ratios]


def coco_neighbours(_: CostModel) -> Any:
    machine = Machine("m", slots=2, tasks={1: Task(1, "j", type=TaskType.RABBIT)})
    return [interference(kind, machine) for kind in (TaskType.TURTLE, TaskType.SHEEP, TaskType.DEVIL)]


NUMBERS: list[Any] = [
    pytest.param("trivial", waiting, [5], id="trivial: waiting"),
    pytest.param("trivial", lambda m: task_costs(m)[CLUSTER], 2, id="trivial: anywhere"),
    pytest.param("random", lambda m: 50_000_000 < waiting(m)[0] <= 100_000_000, True, id="random: upper half waits"),
    pytest.param("sjf", sjf, ([100], [200_000], 200_001), id="sjf: the longer of wait and class average"),
    pytest.param("quincy", waiting, [OFFSET + 5], id="quincy: half a unit per second"),
    pytest.param("quincy", quincy_without_delay, ([OFFSET + 83], [OFFSET + 100]), id="quincy: no delay, top priority"),
    pytest.param(
        "quincy",
        task_costs,
        {0: OFFSET, ("rack", "r0"): OFFSET + 10, CLUSTER: OFFSET + 20},
        id="quincy: machine, rack, anywhere",
    ),
    pytest.param(
        "quincy",
        lambda m: m.continuation([m.world.tasks[9]], 35.0).tolist(),
        [OFFSET + 20 - 30],
        id="quincy: staying costs the transfer less the seconds run",
    ),
    pytest.param("whare", whare, ([100], [97 + 151], 200), id="whare: percent of the best average"),
    pytest.param("coco", waiting, [6000 + 125 + 125 + 12 + 2 + 3000 + 100], id="coco: waiting"),
    pytest.param("coco", lambda m: task_costs(m)[("coco", "j")], 3000 + 125 + 125 + 12, id="coco: class"),
    pytest.param("coco", coco_neighbours, [16, 82, 1648], id="coco: beside a rabbit on one of two slots"),
    pytest.param("octopus", waiting, [1_000_000], id="octopus: waiting"),
    pytest.param("octopus", lambda m: class_costs(m, CLUSTER), [0, 100, 0], id="octopus: 100 a running task"),
    pytest.param("void", lambda m: (waiting(m), set(task_costs(m).values())), ([0], {0}), id="void: nothing"),
    pytest.param(
        "net", net, ([2_560_000], [1_272_100, 1_272_200, 1_272_300], [1_279_950, 1_272_200]), id="net: rising levels"
    ),
    pytest.param("cpu", waiting, [2_560_000], id="cpu: waiting"),
    pytest.param("cpu", cpu_prices, [0, 390, 1000], id="cpu: least requested and balance"),
    pytest.param("placement", waiting, [2_560_000 + 30_000 + 10], id="placement: priority and wait"),
]


@pytest.mark.parametrize(("name", "ask", "expected"), NUMBERS)
def test_worked_numbers(name: str, ask: Callable[[Any], Any], expected: Any) -> None:
    assert ask(engine(name).model) == expected


class Overpriced(SHIPPED["octopus"]):  # type: ignore[misc,name-defined] # a shipped model by its name
    """Asks too much for waiting until it is told not to."""

    name, dear = "overpriced", True

    def task_to_unscheduled(self, tasks: Any, now: float) -> Any:
        return super().task_to_unscheduled(tasks, now) << (30 if self.dear else 0)


def test_a_price_out_of_bounds_names_the_task_and_the_next_round_is_whole() -> None:
    world = FlowWorld()
    flow = FlowScheduler(world, Overpriced(world, random.Random(1)))
    flow.add_machine(Machine("m", slots=2, capacity=ROOM))
    flow.submit(Task(1, "j", request=SMALL), 0.0)
    with pytest.raises(NetworkError, match="cost model overpriced: task 1: has an arc of cost 10737"):
        flow.round(1.0)
    Overpriced.dear = False
    assert [d.task for d in flow.round(2.0).deltas] == [1]


class Circular(CostModel):
    """Sends its tasks to racks that send them to each other, until it is told not to."""

    name, mended = "circular", False

    def task_to_unscheduled(self, tasks: Any, now: float) -> Any:
        return np.full(len(tasks), 10)

    def task_arcs(self, tasks: Any, now: float) -> Any:
        return arcs(range(len(tasks)), [self.world.class_target("rack-a")] * len(tasks), 1, 1)

    def class_arcs(self, classes: Any, demand: Any) -> Any:
        keys = [self.world.class_key(number) for number in classes]
        found = [self.to_all_machines(row) for row, key in enumerate(keys) if key == "rack-b"]
        ways = {"rack-a": "rack-b"} if self.mended else {"rack-a": "rack-b", "rack-b": "rack-a"}
        rows = [row for row, key in enumerate(keys) if key in ways]
        found.append(arcs(rows, [self.world.class_target(ways[keys[row]]) for row in rows], 0, 9))
        return join(found)


def test_classes_in_a_circle_are_named_and_the_next_round_is_whole() -> None:
    world = FlowWorld()
    model = Circular(world, random.Random(1))
    flow = FlowScheduler(world, model)
    flow.add_machine(Machine("m", slots=2, capacity=ROOM))
    flow.submit(Task(1, "j", request=SMALL), 0.0)
    with pytest.raises(NetworkError, match=r"cost model circular: leads classes in a circle: 'rack-[ab]' -> 'rack-"):
        flow.round(1.0)
    model.mended = True
    assert [(d.task, d.machine) for d in flow.round(2.0).deltas] == [(1, "m")]


def test_priorities_of_kubernetes_stay_within_prices_and_in_order() -> None:
    prices = [
        engine("placement").model.task_to_unscheduled([Task(5, "j", priority=p)], 0.0)[0]
        for p in (-2_000_000_000, 0, 1000, 1_000_000, 1_000_000_000, 2_000_001_000)
    ]
    assert prices == sorted(set(prices))
    assert abs(int(prices[0])) < 1 << 40 > prices[-1]
