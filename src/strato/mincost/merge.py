"""Merging: an equal problem with fewer nodes and arcs, and the way back to a flow of the given one.

- *Equal tasks*: sources nothing enters, whose arcs have room for their whole supply, and whose arcs are
  the same up to one constant on all costs, become one source of their total supply.
- *Equal leaves*: a node with one arc in and one arc out (a PU of a machine) is contracted into one arc,
  and parallel arcs of equal cost become one of their total capacity.

The optimum stays the same once `Reduced.offset` is added. Fifty equal tasks to a group make every solver
15–28 times faster. Arcs with lower bounds are left as they are.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from strato.mincost.arrays import Int64s
from strato.mincost.dimacs import Instance


@dataclass(frozen=True, slots=True)
class Reduced:
    """A smaller problem.

    Attributes:
        instance: The problem to solve.
        offset: Its optimum plus this is the given problem's.
        expand: Turns a flow of it into one of the given problem, of the same cost.
    """

    instance: Instance
    offset: int
    expand: Callable[[Int64s], Int64s]


def merge(given: Instance) -> Reduced:
    """Merge equal leaves, then equal tasks. O(arcs log arcs)."""
    leaves = merge_leaves(given)
    tasks = merge_tasks(leaves.instance)
    return Reduced(tasks.instance, tasks.offset, lambda flow: leaves.expand(tasks.expand(flow)))


def merge_tasks(given: Instance) -> Reduced:
    """Merge equal tasks into sources of their total supply."""
    order = np.lexsort((given.cost, given.head, given.tail))
    nodes = len(given.supply)
    count = np.bincount(given.tail, minlength=nodes)
    start = np.cumsum(count) - count
    blocked = np.bincount(given.head, minlength=nodes) > 0
    tight = (given.lower > 0) | (given.capacity < given.supply[given.tail])
    blocked |= np.bincount(given.tail[tight], minlength=nodes) > 0
    groups: dict[tuple[bytes, bytes], list[int]] = defaultdict(list)
    for node in np.flatnonzero((given.supply > 0) & ~blocked & (count > 0)).tolist():
        row = order[start[node] : start[node] + count[node]]
        cost = given.cost[row]
        groups[given.head[row].tobytes(), (cost - cost.min()).tobytes()].append(node)
    several = [np.array(group) for group in groups.values() if len(group) > 1]
    keep_node = np.ones(nodes, np.bool_)
    supply, capacity, offset = given.supply.copy(), given.capacity.copy(), 0
    for group in several:
        rows = order[start[group][:, None] + np.arange(count[group[0]])]
        shift = given.cost[rows[:, 0]] - given.cost[rows[0, 0]]
        offset += int(shift @ given.supply[group])
        keep_node[group[1:]] = False
        supply[group[0]] = given.supply[group].sum()
        capacity[rows[0]] = supply[group[0]]
    keep_arc = keep_node[given.tail]
    number = np.cumsum(keep_node) - 1
    kept = np.flatnonzero(keep_arc)
    instance = Instance(
        supply[keep_node],
        number[given.tail[kept]],
        number[given.head[kept]],
        given.lower[kept],
        capacity[kept],
        given.cost[kept],
    )

    def expand(flow: Int64s) -> Int64s:
        out = np.zeros(len(given.tail), np.int64)
        out[kept] = flow
        for group in several:
            rows = order[start[group][:, None] + np.arange(count[group[0]])]
            ends = np.cumsum(given.supply[group])
            begins = ends - given.supply[group]
            upto = np.cumsum(out[rows[0]])
            since = upto - out[rows[0]]
            # Number the units of the group: each arc carries a range of them, and each task owns a range.
            share = np.minimum(ends[:, None], upto) - np.maximum(begins[:, None], since)
            out[rows] = np.maximum(share, 0)
        return out

    return Reduced(instance, offset, expand)


def merge_leaves(given: Instance) -> Reduced:
    """Contract nodes with one arc in and one out, and sum up parallel arcs of equal cost."""
    nodes, arcs = len(given.supply), len(given.tail)
    into = np.bincount(given.head, minlength=nodes)
    out_of = np.bincount(given.tail, minlength=nodes)
    leaf = (given.supply == 0) & (into == 1) & (out_of == 1)
    leaf[given.tail[given.lower > 0]] = leaf[given.head[given.lower > 0]] = False
    leaf[given.head[leaf[given.tail]]] = False  # a chain of leaves is contracted at every other node
    second = np.full(nodes, -1, np.int64)
    second[given.tail] = np.arange(arcs)
    first = np.flatnonzero(~leaf[given.tail])
    then = np.where(leaf[given.head[first]], second[given.head[first]], -1)
    through = then >= 0
    head = np.where(through, given.head[then], given.head[first])
    cost = given.cost[first] + np.where(through, given.cost[then], 0)
    capacity = np.minimum(given.capacity[first], np.where(through, given.capacity[then], given.capacity[first]))
    lower, tail = given.lower[first], given.tail[first]
    alone = np.where(lower > 0, np.arange(len(first)) + 1, 0)
    _, group = np.unique(np.stack([tail, head, cost, alone]), axis=1, return_inverse=True)
    group = group.reshape(-1)
    sample = np.full(int(group.max(initial=-1)) + 1, -1, np.int64)
    sample[group[::-1]] = np.arange(len(first))[::-1]
    total = np.zeros(len(sample), np.int64)
    np.add.at(total, group, capacity)
    number = np.cumsum(~leaf) - 1
    instance = Instance(
        given.supply[~leaf], number[tail[sample]], number[head[sample]], lower[sample], total, cost[sample]
    )
    order = np.argsort(group, kind="stable")

    def expand(flow: Int64s) -> Int64s:
        room = capacity[order]
        ends = np.cumsum(room)
        firsts = np.searchsorted(group[order], np.arange(len(sample)))
        base = (ends - room)[firsts][group[order]]
        share = np.clip(flow[group[order]] - (ends - room - base), 0, room)
        part = np.zeros(len(first), np.int64)
        part[order] = share
        out = np.zeros(arcs, np.int64)
        out[first] = part
        out[then[through]] = part[through]
        return out

    return Reduced(instance, 0, expand)
