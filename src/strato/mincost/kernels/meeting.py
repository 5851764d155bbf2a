"""Bidirectional shortest paths, for paths that a search from one end finds only after settling most of the network.

In an oversubscribed cluster nearly all machines are connected at reduced cost zero. A unit of excess has to displace
the one task that loses least by waiting, and a forward search settles everything at distance zero before it finds that
task. From the other end the task is near, as waiting costs it little more than its place does. So a second search
starts at the root and at the nodes with a deficit, against arc direction. Both alternate, a few arcs at a time, until
their radii add up to the length of the best path found. Potentials change by each node's distance to the radius; most
often only those around the root do.

*Gates* are nodes whose only arc leads to the root and never binds (the aggregators in which tasks wait). Their in-lists
are long and every backward search visits them, so `find_gates` lists the arcs into them once, in order of their tails.
A search begins with one pass over that list for the cheapest arcs (up to a horizon that is extended on demand).

Source: Pohl (1971) for the meeting rule; potentials as in `paths`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from strato.machinecode import jit
from strato.mincost.arrays import Int
from strato.mincost.kernels.labels import FAR, Scratch, begin_at, label, nearest
from strato.mincost.kernels.ways import go_over, step

if TYPE_CHECKING:
    from strato.mincost.arrays import Arrays, Int32s, Int64s

_CHUNK = 32
"""Number of arcs that one side scans before the other one does."""
_HORIZON = 16
"""Range of costs of the arcs into gates that the first pass takes; eight times as much in every further pass."""
_ORIGIN = FAR
"""Arrival of a node a backward search starts from."""
_NODE, _PHASE, _CURSOR, _RADIUS, _WORK, _HORIZON_AT = 5, 6, 7, 8, 9, 10
"""Indices in `Scratch.size`: the node being expanded, the position in its arcs, radius, work and horizon of the
search."""
_ROW, _LIST = 0, 1
DISTANCE = 12
"""Index in the forward `Scratch.size`: length of the path that a search has found."""


class Gates(NamedTuple):
    """The gates, and the arcs that end at them or at the root."""

    is_gate: npt.NDArray[np.bool_]
    nodes: Int32s
    exits: Int32s
    """Arcs into gates, in order of their tails."""
    last: Int32s
    """Arcs into the root from nodes that are no gates."""


@jit()
def no_gates() -> Gates:
    """Return a placeholder before `find_gates` has run."""
    none = np.empty(0, np.int32)
    return Gates(np.empty(0, np.bool_), none, none, none)


@jit()
def find_gates(g: Arrays, root: Int, excess: Int64s) -> Gates:
    """List the gates: nodes without supply and in balance. O(nodes + arcs)."""
    nodes = len(g.row_start)
    entering = np.zeros(nodes, np.int64)
    for node in range(nodes):
        for arc in range(g.row_start[node], g.row_start[node] + g.row_length[node]):
            entering[g.head[arc]] += min(g.capacity[arc], np.int64(1) << np.int64(40))
    is_gate = np.zeros(nodes, np.bool_)
    for node in range(nodes):
        only = g.row_start[node]
        if g.row_length[node] == 1 and g.head[only] == root and g.supply[node] == 0 and excess[node] == 0:
            is_gate[node] = node != root and entering[node] <= g.capacity[only]
    exits, last = np.empty(len(g.tail), np.int32), np.empty(len(g.tail), np.int32)
    found, direct = 0, 0
    for node in range(nodes):
        for arc in range(g.row_start[node], g.row_start[node] + g.row_length[node]):
            if is_gate[g.head[arc]]:
                exits[found] = arc
                found += 1
            elif g.head[arc] == root and not is_gate[node]:
                last[direct] = arc
                direct += 1
    return Gates(is_gate, np.flatnonzero(is_gate).astype(np.int32), exits[:found].copy(), last[:direct].copy())


@jit(inline="always")
def _is_open(g: Arrays, gates: Gates, node: Int) -> bool:
    """Whether a node is a gate whose arc has room; backward searches pass through these without settling them."""
    only = g.row_start[node]
    return bool(gates.is_gate[node] and g.flow[only] < g.capacity[only])


@jit(inline="always")
def _reach(s: Scratch, other: Scratch, number: Int, node: Int, distance: Int, arrival: Int, found: Int64s) -> None:
    """Label a node if the distance is smaller than before, and record the path if the other search has reached it."""
    if distance < found[0] and (s.stamp[node] != number or distance < s.distance[node]):
        label(s, number, node, distance, s.size[_RADIUS], arrival)
        if other.stamp[node] == number and distance + other.distance[node] < found[0]:
            found[0], found[1] = distance + other.distance[node], node


@jit()
def _look_out(g: Arrays, gates: Gates, s: Scratch, other: Scratch, number: Int, found: Int64s) -> None:
    """Label the tails of arcs into gates between the horizon and a further one."""
    horizon = s.size[_HORIZON_AT]
    potential, least = g.potential, FAR
    heads, tails, costs, capacities, flows, starts = g.head, g.tail, g.cost, g.capacity, g.flow, g.row_start
    for turn in range(2):
        for i in range(len(gates.exits)):
            arc = gates.exits[i]
            if flows[arc] < capacities[arc]:
                only = starts[heads[arc]]
                to_root = costs[only] - potential[heads[only]]
                distance = costs[arc] + potential[tails[arc]] + to_root
                if distance > horizon:
                    if turn == 0:
                        least = min(least, distance)
                    elif distance <= s.size[_HORIZON_AT]:
                        _reach(s, other, number, tails[arc], distance, arc, found)
        if least == FAR:
            s.size[_HORIZON_AT] = FAR
            return
        if turn == 0:
            s.size[_HORIZON_AT] = least + _HORIZON if horizon < 0 else least + 8 * max(horizon, np.int64(_HORIZON))


@jit()
def _grow(
    g: Arrays, gates: Gates, s: Scratch, other: Scratch, number: Int, forward: bool, by_gates: bool, found: Int64s
) -> None:
    """Scan a few arcs of the nearest nodes of one side."""
    heads, tails, costs, capacities, flows = g.head, g.tail, g.cost, g.capacity, g.flow
    potential, next_in = g.potential, g.next_in
    looked = np.int64(0)
    while looked < _CHUNK:
        node = s.size[_NODE]
        if node < 0:
            bound = found[0] - other.size[_RADIUS]
            node = nearest(s, number, min(bound, s.size[_HORIZON_AT] + 1))
            if node < 0 and s.size[_HORIZON_AT] + 1 < bound:
                s.size[_RADIUS] = max(s.size[_RADIUS], s.size[_HORIZON_AT])
                _look_out(g, gates, s, other, number, found)
                looked += len(gates.exits) // 8  # in order of memory, which costs an eighth of a scan along lists
                continue
            if node < 0:
                s.size[_RADIUS] = bound
                break
            s.size[_RADIUS] = s.distance[node]
            s.done[s.size[2]] = node
            s.size[2] += 1
            s.size[_NODE], s.size[_PHASE], s.size[_CURSOR] = node, _ROW, g.row_start[node]
        here = s.size[_RADIUS]
        base = here + potential[node] if forward else here - potential[node]
        arc = s.size[_CURSOR]
        if s.size[_PHASE] == _ROW:
            end = min(g.row_start[node] + g.row_length[node], arc + _CHUNK)
            looked += end - arc
            while arc < end:
                head = heads[arc]
                if forward and flows[arc] < capacities[arc]:
                    _reach(s, other, number, head, base + costs[arc] - potential[head], arc, found)
                elif not forward and flows[arc] > 0 and not (by_gates and _is_open(g, gates, head)):
                    _reach(s, other, number, head, base - costs[arc] + potential[head], -1 - arc, found)
                arc += 1
            if arc == g.row_start[node] + g.row_length[node]:
                s.size[_PHASE], arc = _LIST, np.int64(g.first_in[node])
        else:
            end = looked + _CHUNK
            while arc >= 0 and looked < end:
                looked += 1
                tail = tails[arc]
                if forward:
                    if flows[arc] == 0:
                        arc = np.int64(-1)
                        break
                    _reach(s, other, number, tail, base - costs[arc] - potential[tail], -1 - arc, found)
                elif flows[arc] < capacities[arc]:
                    _reach(s, other, number, tail, base + costs[arc] + potential[tail], arc, found)
                arc = np.int64(next_in[arc])
        s.size[_CURSOR] = arc
        if s.size[_PHASE] == _LIST and arc < 0:
            s.size[_NODE] = -1
    s.size[_WORK] += looked


@jit()
def _open(
    g: Arrays, gates: Gates, b: Scratch, f: Scratch, excess: Int64s, root: Int, number: Int, found: Int64s
) -> None:
    """Start a backward search at the root and at every node with a deficit."""
    b.size[0] = b.size[1] = 0
    b.stamp[root] = b.settled[root] = number
    b.distance[root], b.arrival[root] = 0, _ORIGIN
    b.done[0], b.size[2] = root, 1
    for node in range(len(excess)):
        if excess[node] < 0 and node != root:
            _reach(b, f, number, node, np.int64(0), _ORIGIN, found)
    base = g.potential[root]
    for i in range(len(gates.last)):
        arc = gates.last[i]
        if g.flow[arc] < g.capacity[arc]:
            _reach(b, f, number, g.tail[arc], g.cost[arc] + g.potential[g.tail[arc]] - base, arc, found)
    for arc in range(g.row_start[root], g.row_start[root] + g.row_length[root]):
        if g.flow[arc] > 0 and not _is_open(g, gates, g.head[arc]):
            _reach(b, f, number, g.head[arc], g.potential[g.head[arc]] - g.cost[arc] - base, -1 - arc, found)
    b.size[_HORIZON_AT] = -1


@jit()
def search_both(
    g: Arrays, gates: Gates, f: Scratch, b: Scratch, excess: Int64s, root: Int, origin: Int, number: Int
) -> bool:
    """Send units from or to a node out of balance along a shortest path; return False if there is none.

    Args:
        g: The network; `flow` and `potential` are mutated.
        gates: The result of `find_gates`.
        f: Scratch of the search along arcs.
        b: Scratch of the search against them.
        excess: int64 per node, mutated: units that have to leave (positive) or are missing.
        root: The node that gives and takes any amount.
        origin: A node with excess; one with a deficit when no node has excess.
        number: Number of this search; no node may have this stamp yet.
    """
    found = np.array([FAR, -1])
    outward = excess[origin] > 0
    for s in (f, b):
        s.size[_NODE], s.size[_RADIUS], s.size[_WORK], s.size[_HORIZON_AT] = -1, 0, 0, FAR
    begin_at(f, number, origin if outward else root)
    f.arrival[origin if outward else root] = _ORIGIN
    if outward:
        _open(g, gates, b, f, excess, root, number, found)
    else:
        begin_at(b, number, origin)
        b.arrival[origin] = _ORIGIN
    while f.size[_RADIUS] + b.size[_RADIUS] < found[0]:
        if f.size[_WORK] <= b.size[_WORK]:
            _grow(g, gates, f, b, number, True, outward, found)
        else:
            _grow(g, gates, b, f, number, False, outward, found)
    if found[0] == FAR:
        return False
    f.size[DISTANCE] = found[0]
    _move_potentials(g, gates, f, b, root, outward, found[0])
    _send(g, f, b, excess, root, number, found[1])
    f.size[3] += f.size[_WORK] + b.size[_WORK]
    return True


@jit()
def _move_potentials(g: Arrays, gates: Gates, f: Scratch, b: Scratch, root: Int, by_gates: bool, best: Int) -> None:
    back = min(b.size[_RADIUS], best)
    ahead = best - back
    potential = g.potential
    if by_gates:
        for i in range(len(gates.nodes)):
            gate = gates.nodes[i]
            if _is_open(g, gates, gate):
                distance = g.cost[g.row_start[gate]] + potential[gate] - potential[root]
                if distance < back:
                    potential[gate] += back - distance
    for i in range(f.size[2]):
        node = f.done[i]
        if f.distance[node] < ahead:
            potential[node] -= ahead - f.distance[node]
    for i in range(b.size[2]):
        node = b.done[i]
        if b.distance[node] < back:
            potential[node] += back - b.distance[node]


@jit()
def _send(g: Arrays, f: Scratch, b: Scratch, excess: Int64s, root: Int, number: Int, meet: Int) -> None:
    """Send what fits along the two halves of a path; at a gate the second half continues by its only arc."""
    amount = FAR
    for turn in range(2):
        first = np.int64(meet)
        while f.arrival[first] != _ORIGIN:
            arrival = f.arrival[first]
            amount = go_over(g, f, arrival, amount, turn)
            first = step(g, arrival, True)
        last = np.int64(meet)
        while True:
            arrival = np.int64(b.arrival[last] if b.stamp[last] == number else g.row_start[last])
            if arrival == _ORIGIN:
                break
            amount = go_over(g, f, arrival, amount, turn)
            last = step(g, arrival, False)
        if turn == 0:
            amount = min(amount, excess[first] if first != root else FAR)
            amount = min(amount, -excess[last] if last != root else FAR)
        else:
            excess[first] -= amount
            excess[last] += amount
