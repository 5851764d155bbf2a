"""From flow to decisions: which machine each task's unit goes through.

Any way of splitting a flow into paths is an optimal placement; this one never moves a task on a tie.
First every running task whose unit can be traced back from its present machine keeps it, then the rest
follow the flow forward. The flow on classes is acyclic in every network the graph manager builds; a
bound on path length turns a cyclic one into "unplaced" instead of an endless walk.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from strato.machinecode import jit
from strato.mincost._layout import link_all

if TYPE_CHECKING:
    from strato.mincost.arrays import Arrays, Int, Int64s
    from strato.mincost.network import Network

_LONGEST = 64


@jit()
def _entry(g: Arrays, task: Int, left: Int64s) -> int:
    """Return the task's cheapest arc that has flow left: earlier ones of equal tasks get places, the last ones wait."""
    best = -1
    for arc in range(g.row_start[task], g.row_start[task] + g.row_length[task]):
        if left[arc] > 0 and (best < 0 or g.cost[arc] < g.cost[best]):
            best = arc
    return int(best)


@jit()
def _trace_back(g: Arrays, machine: Int, goal: Int, left: Int64s, path: Int64s) -> int:
    """Find arcs with flow left from `goal` to `machine`, walking back depth-first; return their number."""
    depth = 0
    path[0] = g.first_in[machine]
    while depth >= 0:
        arc = path[depth]
        while arc >= 0 and g.flow[arc] > 0 and (left[arc] == 0 or g.supply[g.tail[arc]] > 0):
            arc = g.next_in[arc]
        if arc < 0 or g.flow[arc] == 0:
            depth -= 1
            if depth >= 0:
                path[depth] = g.next_in[path[depth]]
            continue
        path[depth] = arc
        if g.tail[arc] == goal:
            return depth + 1
        if depth + 1 == len(path):
            path[depth] = g.next_in[arc]
            continue
        depth += 1
        path[depth] = g.first_in[g.tail[arc]]
    return 0


@jit()
def _assign(g: Arrays, tasks: Int64s, current: Int64s, is_machine: npt.NDArray[np.bool_]) -> Int64s:
    left = g.flow.copy()
    ends = np.full(len(tasks), -1, np.int64)
    pointer = g.row_start.copy()
    path = np.empty(_LONGEST, np.int64)
    settled = np.zeros(len(tasks), np.bool_)
    for i in range(len(tasks)):
        if current[i] < 0:
            continue
        begin, end = g.row_start[tasks[i]], g.row_start[tasks[i]] + g.row_length[tasks[i]]
        for arc in range(begin, end):
            if left[arc] > 0 and g.head[arc] == current[i]:
                left[arc] -= 1
                ends[i], settled[i] = current[i], True
                break
        for arc in range(begin, end):
            if settled[i]:
                break
            if left[arc] == 0 or is_machine[g.head[arc]]:
                continue
            steps = _trace_back(g, current[i], g.head[arc], left, path)
            if steps > 0:
                left[arc] -= 1
                for k in range(steps):
                    left[path[k]] -= 1
                ends[i], settled[i] = current[i], True
    for i in range(len(tasks)):
        if settled[i]:
            continue
        node, arc = tasks[i], _entry(g, tasks[i], left)
        for _ in range(_LONGEST):
            if arc < 0:
                break
            left[arc] -= 1
            node = g.head[arc]
            if is_machine[node]:
                ends[i] = node
                break
            arc = pointer[node]
            end = g.row_start[node] + g.row_length[node]
            while arc < end and left[arc] == 0:
                arc += 1
            pointer[node] = arc
            if arc == end:
                arc = -1
    return ends


def assign(network: Network, tasks: Int64s, current: Int64s, is_machine: npt.NDArray[np.bool_]) -> Int64s:
    """Return the machine node of each task, −1 for those that wait.

    Args:
        network: A solved network.
        tasks: The node of each task, n times for a node with a supply of n; tasks at the end wait first.
        current: The machine node each task runs on, or −1.
        is_machine: Per node.
    """
    g = network.arrays
    if not network.lists_valid:
        link_all(g, network.node_count)
        network.lists_valid = True
    return _assign(g, tasks, current, is_machine)
