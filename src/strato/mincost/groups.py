"""Equal tasks as one source: which node of the network stands for which tasks, and with how many units.

Tasks whose arcs are the same (heads and prices, the one to wait included) and that run on the same machine, or nowhere,
are interchangeable: any integral flow of their common source splits into one path a task. A source of supply n with the
same arcs then has the same optimum (in units of one task), and a round's solution costs by such groups, not by tasks.

Arcs of a source have room for any supply, so that a group that grows or shrinks keeps its row. If prices change equally
for all tasks of a group, as waiting prices do with time, the group keeps its node and its flow; a task whose arcs
change alone moves to another group.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

import numpy as np

from strato.mincost.arrays import Int64s
from strato.mincost.network import Network

NOWHERE = -1
"""In place of a machine's node, for a task that does not run."""
ROOM = 1 << 31
"""Capacity of a task's arcs: more than there are tasks."""
_NONE = -1
_Key = tuple[int, bytes]


class Groups:
    """The tasks that take part in rounds, grouped by the node that represents them."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._node: dict[int, int] = {}
        """Node of each task, `_NONE` until its arcs are known."""
        self._members: dict[int, dict[int, None]] = {}
        """Tasks of each node, in order of arrival; together the tasks in `_node` that have a node."""
        self._key: dict[int, _Key] = {}
        self._at: dict[_Key, int] = {}
        """Nodes by key: the inverse of `_key`."""
        self._shrunk: set[int] = set()
        """Nodes that lost members since supplies were last set."""

    def __contains__(self, task: object) -> bool:
        return task in self._node

    def __len__(self) -> int:
        return len(self._node)

    def __iter__(self) -> Iterator[int]:
        return iter(self._node)

    def enter(self, task: int) -> None:
        """Add a task; it has no arcs before `settle`."""
        self._node.setdefault(task, _NONE)

    def leave(self, task: int) -> bool:
        """Remove a task, whose unit `settle` withdraws; return whether it took part."""
        node = self._node.pop(task, None)
        if node is None:
            return False
        self._part(task, node)
        return True

    def member(self, node: int) -> int | None:
        """Return one of the tasks that a node represents."""
        return next(iter(self._members.get(node, ())), None)

    def units(self) -> tuple[list[int], Int64s, Int64s]:
        """Return all tasks that have a node, the node of each, and the node each runs on (or `NOWHERE`)."""
        counts = [len(members) for members in self._members.values()]
        nodes = np.fromiter(self._members, np.int64, len(self._members))
        homes = np.fromiter((self._key[node][0] for node in self._members), np.int64, len(self._members))
        return list(chain.from_iterable(self._members.values())), np.repeat(nodes, counts), np.repeat(homes, counts)

    def settle(self, tasks: Sequence[int], homes: Int64s, row: Int64s, head: Int64s, cost: Int64s) -> int:
        """Give tasks these arcs, and nodes the supplies of their groups.

        Args:
            tasks: Tasks that take part, each at most once.
            homes: The machine's node each runs on, or `NOWHERE`.
            row: Of each arc, the position of its task in `tasks`.
            head: … its head.
            cost: … its unit cost.

        Returns:
            The number of arcs of the network that changed.
        """
        order = np.lexsort((cost, head, row))
        arcs = np.stack([head[order], cost[order]], axis=1)
        offsets = np.zeros(len(tasks) + 1, np.int64)
        np.cumsum(np.bincount(row, minlength=len(tasks)), out=offsets[1:])
        begins, packed, width = (offsets * arcs.itemsize * 2).tolist(), arcs.tobytes(), len(tasks)
        keys = [(home, packed[begins[i] : begins[i + 1]]) for i, home in zip(range(width), homes.tolist(), strict=True)]
        self._rename(tasks, keys)
        sample: dict[int, int] = {}
        fresh: dict[_Key, list[int]] = {}
        for i, (task, key) in enumerate(zip(tasks, keys, strict=True)):
            node = self._at.get(key)
            if node is None:
                fresh.setdefault(key, []).append(i)
            else:
                self._move(task, node)
                sample.setdefault(node, i)
        for key, node in zip(fresh, self._network.add_nodes(len(fresh)).tolist(), strict=True):
            self._key[node], self._at[key], self._members[node] = key, node, {}
            for i in fresh[key]:
                self._move(tasks[i], node)
            sample[node] = fresh[key][0]
        self._set_supplies(sample)
        rows = np.fromiter(sample.values(), np.int64, len(sample))
        ends = np.concatenate([[0], np.cumsum(offsets[rows + 1] - offsets[rows])])
        picked = np.arange(ends[-1]) + np.repeat(offsets[rows] - ends[:-1], np.diff(ends))
        capacity = np.full(len(picked), ROOM)
        return self._network.set_rows(list(sample), ends, arcs[picked, 0], arcs[picked, 1], capacity)

    def _rename(self, tasks: Sequence[int], keys: Sequence[_Key]) -> None:
        """Give groups whose members are all in ``tasks`` their new key, if it is free, so that they keep their node."""
        asked: dict[int, list[int]] = {}
        for i, task in enumerate(tasks):
            asked.setdefault(self._node[task], []).append(i)
        whole = [(node, mine[0]) for node, mine in asked.items() if len(mine) == len(self._members.get(node, ()))]
        for node, _ in whole:
            del self._at[self._key.pop(node)]
        for node, first in whole:
            if keys[first] not in self._at:
                self._key[node], self._at[keys[first]] = keys[first], node

    def _move(self, task: int, node: int) -> None:
        old = self._node[task]
        if old != node:
            self._part(task, old)
            self._node[task] = node
            self._members[node][task] = None

    def _part(self, task: int, node: int) -> None:
        if node != _NONE:
            del self._members[node][task]
            self._shrunk.add(node)

    def _set_supplies(self, touched: dict[int, int]) -> None:
        """Drop nodes without members, withdraw units of those that left, and set supplies."""
        empty = [node for node in self._shrunk if not self._members[node]]
        for node in empty:
            del self._members[node]
            key = self._key.pop(node, None)
            if key is not None:
                del self._at[key]
        self._network.remove_nodes(empty)
        nodes = [*touched, *(self._shrunk - touched.keys()).difference(empty)]
        self._shrunk.clear()
        self._network.set_supply(nodes, [len(self._members[node]) for node in nodes])
        self._network.withdraw_surplus(nodes)
