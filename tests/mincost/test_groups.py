"""Equal tasks as one source: who shares a node, and that merging changes neither the optimum nor who stays."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ortools.graph.python import min_cost_flow

from strato.mincost.graph import PURGE_ROUNDS, DeltaType, FlowScheduler
from strato.mincost.groups import NOWHERE, Groups
from strato.mincost.models import SHIPPED
from strato.mincost.models.quincy import GB
from strato.mincost.network import Network
from strato.mincost.solver import Solver
from strato.mincost.world import FlowWorld, Machine, Task, Vector

SINK, MACHINE, JOB = 0, 1, 2


def groups() -> tuple[Network, Groups]:
    network = Network()
    network.add_nodes(3)
    return network, Groups(network)


def settle(found: Groups, prices: dict[int, int], home: int = NOWHERE) -> None:
    """Give tasks an arc to the machine at a price, and one to wait."""
    tasks = list(prices)
    for task in tasks:
        found.enter(task)
    every = np.arange(len(tasks))
    row, head = np.concatenate([every, every]), np.repeat([MACHINE, JOB], len(tasks))
    cost = np.concatenate([np.array(list(prices.values()), np.int64), np.full(len(tasks), 9)])
    found.settle(tasks, np.full(len(tasks), home), row, head, cost)


def nodes_of(found: Groups) -> dict[int, int]:
    tasks, nodes, _ = found.units()
    return dict(zip(tasks, nodes.tolist(), strict=True))


def test_tasks_with_equal_arcs_are_one_source_of_their_number() -> None:
    network, found = groups()
    settle(found, {1: 5, 2: 5, 3: 6})
    node = nodes_of(found)
    assert node[1] == node[2] != node[3]
    assert network.arrays.supply[[node[1], node[3]]].tolist() == [2, 1]


def test_a_group_whose_prices_change_alike_keeps_its_node_and_flow() -> None:
    network, found = groups()
    settle(found, {1: 5, 2: 5})
    node = nodes_of(found)[1]
    network.arrays.flow[network.arc_of(node, JOB)] = 2
    settle(found, {1: 7, 2: 7})
    assert set(nodes_of(found).values()) == {node}
    assert network.arrays.flow[network.arc_of(node, JOB)] == 2
    assert network.arrays.cost[network.arc_of(node, MACHINE)] == 7


def test_who_changes_alone_moves_with_its_unit() -> None:
    network, found = groups()
    settle(found, {1: 5, 2: 5, 3: 5})
    old = nodes_of(found)[1]
    network.arrays.flow[network.arc_of(old, JOB)] = 3
    settle(found, {2: 6})
    node = nodes_of(found)
    assert node[1] == node[3] == old != node[2]
    assert network.arrays.supply[[old, node[2]]].tolist() == [2, 1]
    assert network.arrays.flow[network.arc_of(old, JOB)] == 2


def test_groups_that_exchange_their_prices_stay_apart() -> None:
    network, found = groups()
    settle(found, {1: 5, 2: 5, 3: 6})
    settle(found, {1: 6, 2: 6, 3: 5})
    node = nodes_of(found)
    assert node[1] == node[2] != node[3]
    assert [network.arrays.cost[network.arc_of(node[t], MACHINE)] for t in (1, 3)] == [6, 5]


def test_the_last_to_leave_takes_the_node_along() -> None:
    network, found = groups()
    settle(found, {1: 5, 2: 5})
    node = nodes_of(found)[1]
    assert found.leave(1)
    assert not found.leave(1)
    settle(found, {})
    assert network.arrays.supply[node] == 1
    found.leave(2)
    settle(found, {})
    assert not network.is_alive(node)
    assert found.units()[0] == []


def test_tasks_that_run_do_not_mix_with_those_that_wait() -> None:
    _, found = groups()
    settle(found, {1: 5})
    settle(found, {2: 5}, home=MACHINE)
    node = nodes_of(found)
    assert node[1] != node[2]


def unmerged(network: Network) -> int:
    """OR-tools' optimum when every unit of supply has a node and arcs of its own."""
    g = network.arrays
    solver = min_cost_flow.SimpleMinCostFlow()
    fresh, supply = network.node_count, g.supply.copy()
    for node in range(network.node_count):
        row = slice(int(g.row_start[node]), int(g.row_start[node] + g.row_length[node]))
        head, cost, capacity = g.head[row], g.cost[row], g.capacity[row]
        for _ in range(max(0, int(supply[node]))):
            solver.add_arcs_with_capacity_and_unit_cost(np.full(len(head), fresh), head, np.ones(len(head)), cost)
            solver.set_node_supply(fresh, 1)
            fresh += 1
        if supply[node] <= 0:
            solver.add_arcs_with_capacity_and_unit_cost(np.full(len(head), node), head, capacity, cost)
            solver.set_node_supply(node, int(supply[node]))
    assert solver.solve() == solver.OPTIMAL
    return int(solver.optimal_cost())


@pytest.mark.parametrize("preemption", [False, True], ids=["preemption off", "preemption on"])
@settings(max_examples=25, deadline=None)
@given(st.data(), st.sampled_from(["octopus", "quincy", "cpu", "placement", "coco"]))
def test_merged_rounds_have_the_optimum_of_single_tasks(preemption: bool, data: st.DataObject, name: str) -> None:
    world = FlowWorld(preemption=preemption)
    flow = FlowScheduler(world, SHIPPED[name](world, random.Random(1)), Solver(check=True), refresh_seconds=3.0)
    for i in range(4):
        flow.add_machine(Machine(f"m{i}", slots=3, capacity=Vector(cpu=8000, ram=8000), rack=f"r{i % 2}"))
    number, now = 0, 0.0
    for _ in range(data.draw(st.integers(2, 6))):
        now += 1.0
        for _ in range(data.draw(st.integers(0, 3))):
            job, size = data.draw(st.integers(0, 2)), data.draw(st.integers(1, 4))
            for _ in range(size):
                number += 1
                inputs = ((job * 5 * GB, (f"m{job}",)),)
                request = Vector(cpu=500 + 500 * job, ram=1000)
                flow.submit(Task(number, f"j{job}", "b", request, inputs=inputs), now)
        for gone in data.draw(st.lists(st.sampled_from(sorted(world.tasks) or [0]), max_size=3, unique=True)):
            if gone in world.tasks:
                flow.complete(gone, now)
        flow.round(now)
        solved = flow.round(now, apply=False).solution.objective
        assert solved == unmerged(flow.network)
        tasks, nodes, _ = flow._tasks.units()
        assert sorted(tasks) == sorted(flow._tasks)
        assert flow.network.arrays.supply[np.unique(nodes)].tolist() == np.unique(nodes, return_counts=True)[1].tolist()
        assert int(flow.network.arrays.supply.sum()) == 0


def test_of_equal_tasks_those_that_came_first_are_placed() -> None:
    world = FlowWorld()
    flow = FlowScheduler(world, SHIPPED["cpu"](world, random.Random(1)))
    flow.add_machine(Machine("m", slots=3, capacity=Vector(cpu=9000, ram=9000)))
    for number in (91, 7, 55, 3, 12):
        flow.submit(Task(number, "j", "b", Vector(cpu=100, ram=100)), 0.0)
    assert [delta.task for delta in flow.round(1.0).deltas] == [91, 7, 55]
    assert flow.network.node_count < 10


def test_classes_nobody_belongs_to_any_more_are_dropped() -> None:
    world = FlowWorld()
    flow = FlowScheduler(world, SHIPPED["cpu"](world, random.Random(1)))
    flow.add_machine(Machine("m", slots=50, capacity=Vector(cpu=99_000, ram=99_000)))
    for number in range(40):
        flow.submit(Task(number, "j", "b", Vector(cpu=100 + number, ram=100)), 0.0)
        flow.round(float(number))
    assert len(flow._class_node) <= PURGE_ROUNDS


def test_equal_running_tasks_stay_when_an_equal_place_appears() -> None:
    world = FlowWorld(preemption=True)
    flow = FlowScheduler(world, SHIPPED["octopus"](world, random.Random(1)))
    flow.add_machine(Machine("a", slots=4))
    for number in range(4):
        flow.submit(Task(number, "j"), 0.0)
    assert {delta.type for delta in flow.round(1.0).deltas} == {DeltaType.PLACE}
    flow.add_machine(Machine("b", slots=4))
    flow.submit(Task(9, "j"), 2.0)
    assert [(delta.type, delta.task, delta.machine) for delta in flow.round(2.0).deltas] == [(DeltaType.PLACE, 9, "b")]
