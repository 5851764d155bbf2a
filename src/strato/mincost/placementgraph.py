"""`PlacementGraph`: a world as a network with a cost model's prices; only arcs whose prices change are rewritten."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter

import numpy as np

from strato.errors import Problem
from strato.mincost.answers import Answers
from strato.mincost.arrays import Int64s
from strato.mincost.groups import NOWHERE, Groups
from strato.mincost.models.base import CostModel
from strato.mincost.network import Network, NetworkError
from strato.mincost.world import FlowWorld, Machine, Task


class PlacementGraph:
    """Nodes for tasks, jobs, classes and machines, and the arcs between them."""

    def __init__(self, world: FlowWorld, model: CostModel) -> None:
        self.world, self.model = world, model
        self.network = Network()
        self._answers = Answers(model)
        self._sink = int(self.network.add_nodes(1)[0])
        self._tasks = Groups(self.network)
        self._job_node: dict[str, int] = {}
        self._job_size: dict[str, int] = {}
        self._class_node: dict[int, int] = {}
        self._machine_node: dict[int, int] = {}

    def _refresh_tasks(self, tasks: list[Task], now: float) -> int:
        none = np.zeros(0, np.int64)
        if not tasks:
            return self._tasks.settle((), none, none, none, none)
        found = self._answers.arcs(self.model.task_arcs, len(tasks), tasks, now)
        homes, head = self._homes_of(tasks), self._nodes_of(found.target)
        kept = (head >= 0) & (head != homes[found.row])
        price = self._answers.prices(self.model.task_to_unscheduled, len(tasks), tasks, now)
        return self._settle(tasks, homes, (found.row[kept], head[kept], found.cost[kept]), price, now)

    def _settle(
        self, tasks: Sequence[Task], homes: Int64s, arcs: tuple[Int64s, Int64s, Int64s], price: Int64s, now: float
    ) -> int:
        """Set the tasks' arcs (row, head, cost) and add those for waiting and staying; `price` is that of waiting."""
        hosts = np.flatnonzero(homes >= 0)
        stay: Int64s = np.zeros(0, np.int64)
        if len(hosts):
            runners = [tasks[i] for i in hosts.tolist()]
            price = price.copy()
            price[hosts] = self._answers.prices(self.model.preemption, len(runners), runners, now)
            stay = self._answers.prices(self.model.continuation, len(runners), runners, now)
        jobs = np.array([self._job_node[t.job] for t in tasks], np.int64)
        row = np.concatenate([arcs[0], hosts, np.arange(len(tasks))])
        head = np.concatenate([arcs[1], homes[hosts], jobs])
        cost = np.concatenate([arcs[2], stay, price])
        self._check_costs(cost, lambda arc: f"task {tasks[row[arc]].id}")
        return self._tasks.settle([t.id for t in tasks], homes, row, head, cost)

    def _homes_of(self, tasks: Sequence[Task]) -> Int64s:
        """Return the node of the machine each task runs on."""
        index, node = self.world.machine_index, self._machine_node
        return np.array([NOWHERE if t.machine is None else node[index[t.machine]] for t in tasks], np.int64)

    def _refresh_classes(self) -> int:
        """Re-price classes that tasks reach, and the classes those reach.

        Raises:
            NetworkError: Arcs of classes form a cycle; flow in it would belong to no task.
        """
        changed = 0
        leads: dict[int, set[int]] = {}
        fresh = list(self._class_node)
        seen: set[int] = set()
        demand = len(self._tasks)
        while fresh:
            seen.update(fresh)
            nodes = np.array([self._class_node[c] for c in fresh], np.int64)
            reach = self.network.demand_on(nodes, demand)
            found = self._answers.arcs(self.model.class_arcs, len(fresh), fresh, reach)
            for arc in np.flatnonzero(found.target < 0).tolist():
                leads.setdefault(fresh[found.row[arc]], set()).add(int(found.target[arc]))
            head = self._nodes_of(found.target)
            known = head >= 0
            changed += self._write(nodes, found.row[known], head[known], found.cost[known], found.capacity[known])
            fresh = [c for c in self._class_node if c not in seen]
        self._check_no_circle(leads)
        return changed

    def _check_no_circle(self, leads: Mapping[int, Iterable[int]]) -> None:
        try:
            TopologicalSorter(leads).prepare()
        except CycleError as error:
            circle = " -> ".join(repr(self.world.class_key(number)) for number in reversed(error.args[1]))
            where = f"cost model {self.model.name}"
            raise NetworkError([Problem(where, f"leads classes in a circle: {circle}")]) from None

    def purge_classes(self) -> int:
        """Drop classes that no arc leads to; return how many."""
        first = self.network.arrays.first_in
        idle = [c for c, node in self._class_node.items() if first[node] < 0]
        self.network.remove_nodes([self._class_node.pop(c) for c in idle])
        return len(idle)

    def _refresh_machines(self) -> int:
        indices = list(self._machine_node)
        found = self._answers.arcs(self.model.machine_to_sink, len(indices), indices)
        nodes = np.array([self._machine_node[i] for i in indices], np.int64)
        return self._write(nodes, found.row, np.full(len(found.row), self._sink), found.cost, found.capacity)

    def _refresh_jobs(self) -> int:
        jobs = list(self._job_node)
        idle = [job for job in jobs if not self._job_size.get(job)]
        self.network.remove_nodes([self._job_node.pop(job) for job in idle])
        jobs = list(self._job_node)
        nodes = np.array([self._job_node[job] for job in jobs], np.int64)
        size = np.array([self._job_size[job] for job in jobs], np.int64)
        cost = self._answers.prices(self.model.unscheduled_to_sink, len(jobs), jobs)
        return self._write(nodes, np.arange(len(jobs)), np.full(len(jobs), self._sink), cost, size)

    def _write(self, nodes: Int64s, row: Int64s, head: Int64s, cost: Int64s, capacity: Int64s) -> int:
        if len(nodes) == 0:
            return 0
        self._check_costs(cost, lambda arc: self._called(int(nodes[row[arc]])))
        order = np.argsort(row, kind="stable")
        offsets = np.zeros(len(nodes) + 1, np.int64)
        np.cumsum(np.bincount(row, minlength=len(nodes)), out=offsets[1:])
        return self.network.set_rows(nodes, offsets, head[order], cost[order], capacity[order])

    def _check_costs(self, cost: Int64s, whose: Callable[[int], str]) -> None:
        """Refuse prices whose sums along a path could overflow; `whose` names the tail of an arc."""
        if len(cost) and (int(cost.max()) >= 1 << 40 or int(cost.min()) <= -(1 << 40)):
            worst = int(np.argmax(np.abs(cost.astype(np.float64))))
            where = f"cost model {self.model.name}: {whose(worst)}"
            raise NetworkError([Problem(where, f"has an arc of cost {int(cost[worst])}, beyond ±2^40")])

    def _called(self, node: int) -> str:
        """Return the name of the task, job, class or machine of a node, for messages."""
        job = next((name for name, number in self._job_node.items() if number == node), None)
        if job is not None:
            return f"job {job}"
        machine = next((i for i, number in self._machine_node.items() if number == node), None)
        if machine is not None:
            return f"machine {self._at(machine).id!r}"
        target = next((c for c, number in self._class_node.items() if number == node), None)
        return f"class {self.world.class_key(target)!r}" if target is not None else f"node {node}"

    def _nodes_of(self, targets: Int64s) -> Int64s:
        """Translate arc targets into nodes; new classes get one, machines that left become −1."""
        unique, inverse = np.unique(targets, return_inverse=True)
        nodes = np.empty(len(unique), np.int64)
        for i, target in enumerate(unique.tolist()):
            if target >= 0:
                nodes[i] = self._machine_node.get(target, -1)
            else:
                if target not in self._class_node:
                    self._class_node[target] = int(self.network.add_nodes(1)[0])
                nodes[i] = self._class_node[target]
        return nodes[inverse]

    def _at(self, index: int) -> Machine:
        machine = self.world.machines[index]
        if machine is None:
            raise NetworkError([Problem(f"machine index {index}", "was removed")])
        return machine
