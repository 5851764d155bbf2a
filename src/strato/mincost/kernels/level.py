"""Augmenting paths of reduced cost zero, for many units within one price level.

In a full cluster nearly all machines are connected by arcs of reduced cost zero. Excess there has a path of cost zero
to a deficit, through many tasks that lose nothing by moving, and a search for each unit would scan the same tens of
thousands of arcs. Instead two trees grow towards each other over arcs of reduced cost zero: a *far* tree from the root
and from all nodes that can balance the unit, which is kept from unit to unit, and a *near* tree from the unit's node.
Neither has distances, and no potential changes, so any path found may be used at once.

Sending flow saturates arcs, which disconnects parts of the far tree. They are repaired lazily: when a path reaches a
node whose tree arc is saturated, the node looks for another neighbour in the tree; a node without one is removed from
the tree. So a path may be missed; `meeting`, which is exact, then serves the node.

Source: Boykov and Kolmogorov (2004) for the trees that are kept and mended.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from strato.machinecode import jit
from strato.mincost.arrays import Int
from strato.mincost.kernels.labels import FAR, Scratch
from strato.mincost.kernels.meeting import Gates
from strato.mincost.kernels.ways import go_over, room, step

if TYPE_CHECKING:
    from strato.mincost.arrays import Arrays, Int32s, Int64s

_CHUNK = 32
"""Number of arcs that one tree scans before the other one does."""
_MOST = 300_000
"""Most arcs that both may scan for one unit; about a tenth of a second."""
_LONGEST = 4096
"""Most arcs of a path in the far tree."""
_ORIGIN = FAR
_READ, _PHASE, _CURSOR, _NUMBER, _WORK, _NODE, _SERVED = 5, 6, 7, 8, 9, 10, 11
"""Indices in `Scratch.size`: nodes taken from the queue, position in the current node's arcs, the tree's number, arcs
it has scanned, the current node, and arcs that near trees have scanned."""


@jit()
def _begin(s: Scratch, number: Int) -> None:
    s.size[2] = s.size[_READ] = s.size[_WORK] = s.size[_SERVED] = 0
    s.size[_NODE], s.size[_NUMBER] = -1, number


@jit(inline="always")
def _join(s: Scratch, node: Int, arrival: Int) -> bool:
    """Add a node to a tree; return False if it is in it already, or the tree is full."""
    if s.stamp[node] == s.size[_NUMBER] or s.size[2] == len(s.done):
        return False
    s.stamp[node], s.arrival[node] = s.size[_NUMBER], arrival
    s.done[s.size[2]] = node
    s.size[2] += 1
    return True


@jit()
def plant(g: Arrays, gates: Gates, far: Scratch, excess: Int64s, root: Int, number: Int, outward: bool) -> None:
    """Begin a far tree at the root and at all nodes with a deficit, for `outward` units, else with excess."""
    _begin(far, number)
    _join(far, root, _ORIGIN)
    for node in range(len(excess)):
        if node != root and (excess[node] < 0 if outward else excess[node] > 0):
            _join(far, node, _ORIGIN)
    if not outward:
        return
    far.size[_READ] = 1  # the root's own arcs are read from the lists in `gates`, which are in order of memory
    potential = g.potential
    for i in range(len(gates.last)):
        arc = gates.last[i]
        tail = g.tail[arc]
        if g.flow[arc] < g.capacity[arc] and g.cost[arc] + potential[tail] == potential[root]:
            _join(far, tail, arc)
    for i in range(len(gates.exits)):
        arc = gates.exits[i]
        gate, tail = g.head[arc], g.tail[arc]
        only = g.row_start[gate]
        is_open = g.flow[only] < g.capacity[only] and g.cost[only] + potential[gate] == potential[root]
        if is_open and g.flow[arc] < g.capacity[arc] and g.cost[arc] + potential[tail] == potential[gate]:
            far.stamp[gate], far.arrival[gate] = number, only
            _join(far, tail, arc)


@jit()
def _grow(g: Arrays, s: Scratch, other: Scratch, forward: bool, meets: Int64s) -> Int:
    """Scan a few arcs and add heads at reduced cost zero; write those in the other tree to `meets`.

    Returns how many these are, −1 when the tree cannot grow any more.
    """
    found, looked = 0, np.int64(0)
    heads, tails, costs, capacities, flows = g.head, g.tail, g.cost, g.capacity, g.flow
    potential, next_in, joined, number = g.potential, g.next_in, other.stamp, other.size[_NUMBER]
    while looked < _CHUNK and found == 0:
        if s.size[_NODE] < 0:
            if s.size[_READ] == s.size[2]:
                return -1
            node = s.done[s.size[_READ]]
            s.size[_READ] += 1
            s.size[_NODE], s.size[_PHASE], s.size[_CURSOR] = node, 0, g.row_start[node]
        node, arc = s.size[_NODE], s.size[_CURSOR]
        base = potential[node]
        if s.size[_PHASE] == 0:
            end = min(g.row_start[node] + g.row_length[node], arc + _CHUNK)
            looked += end - arc
            while arc < end:
                head, arrival = heads[arc], arc if forward else -1 - arc
                left = capacities[arc] - flows[arc] if forward else flows[arc]
                if left > 0 and costs[arc] + base == potential[head] and _join(s, head, arrival):
                    meets[found] = head
                    found += joined[head] == number
                arc += 1
            if arc == g.row_start[node] + g.row_length[node]:
                s.size[_PHASE], arc = 1, np.int64(g.first_in[node])
        else:
            end = looked + _CHUNK
            while arc >= 0 and looked < end:
                looked += 1
                if forward and flows[arc] == 0:
                    arc = np.int64(-1)
                    break
                tail, arrival = tails[arc], -1 - arc if forward else arc
                left = flows[arc] if forward else capacities[arc] - flows[arc]
                if left > 0 and costs[arc] + potential[tail] == base and _join(s, tail, arrival):
                    meets[found] = tail
                    found += joined[tail] == number
                arc = np.int64(next_in[arc])
            if arc < 0:
                s.size[_NODE] = -1
        s.size[_CURSOR] = arc
    s.size[_WORK] += looked
    return found


@jit()
def _is_rooted(g: Arrays, far: Scratch, excess: Int64s, root: Int, node: Int, without: Int, outward: bool) -> bool:
    """Whether all arcs of a node's path in the far tree have room, and the path avoids the node `without`."""
    for _ in range(_LONGEST):
        if node == without or far.stamp[node] != far.size[_NUMBER]:
            return False
        arrival = far.arrival[node]
        if arrival == _ORIGIN:
            return bool(node == root or (excess[node] < 0 if outward else excess[node] > 0))
        if room(g, arrival) == 0:
            return False
        node = step(g, arrival, not outward)
    return False


@jit()
def _adopt(g: Arrays, far: Scratch, excess: Int64s, root: Int, node: Int, outward: bool) -> bool:
    """Connect a node of the far tree to another neighbour in it; return False if there is none."""
    potential, number = g.potential, far.size[_NUMBER]
    for arc in range(g.row_start[node], g.row_start[node] + g.row_length[node]):
        head, arrival = np.int64(g.head[arc]), arc if outward else -1 - arc
        is_near = far.stamp[head] == number and g.cost[arc] + potential[node] == potential[head]
        if is_near and room(g, arrival) > 0 and _is_rooted(g, far, excess, root, head, node, outward):
            far.arrival[node] = arrival
            return True
    link = np.int64(g.first_in[node])
    while link >= 0 and not (outward and g.flow[link] == 0):
        tail, over = np.int64(g.tail[link]), -1 - link if outward else link
        is_near = far.stamp[tail] == number and g.cost[link] + potential[tail] == potential[node]
        if is_near and room(g, over) > 0 and _is_rooted(g, far, excess, root, tail, node, outward):
            far.arrival[node] = over
            return True
        link = np.int64(g.next_in[link])
    return False


@jit()
def _mend(g: Arrays, far: Scratch, excess: Int64s, root: Int, meet: Int, way: Int32s, outward: bool) -> Int:
    """Repair a node's path in the far tree; write its nodes to `way` and return how many, 0 if there is no path."""
    length, node = 0, np.int64(meet)
    while length < len(way):
        arrival = far.arrival[node]
        if arrival == _ORIGIN and (node == root or (excess[node] < 0 if outward else excess[node] > 0)):
            way[length] = node
            return length + 1
        if arrival != _ORIGIN and room(g, arrival) > 0:
            after = step(g, arrival, not outward)
            if far.stamp[after] == far.size[_NUMBER]:
                way[length] = node
                length += 1
                node = after
                continue
        while not _adopt(g, far, excess, root, node, outward):
            far.stamp[node] = 0
            if length == 0:
                return 0
            length -= 1
            node = np.int64(way[length])
    return 0


@jit()
def _send(
    g: Arrays, near: Scratch, far: Scratch, excess: Int64s, root: Int, origin: Int, way: Int32s, count: Int
) -> None:
    """Send what fits from the origin along the near tree to the last node shared with `way`, and on along `way`."""
    outward = excess[origin] > 0
    number = near.size[_NUMBER]
    node = np.int64(way[0])
    while True:
        near.settled[node] = number
        if node == origin:
            break
        node = step(g, near.arrival[node], outward)
    first = 0
    for i in range(count):
        if near.settled[way[i]] == number:
            first = i
    end = np.int64(way[count - 1])
    amount = abs(excess[origin])
    if end != root:
        amount = min(amount, abs(excess[end]))
    for turn in range(2):
        node = np.int64(way[first])
        while node != origin:
            arrival = near.arrival[node]
            amount = go_over(g, near, arrival, amount, turn)
            node = step(g, arrival, outward)
        for i in range(first, count - 1):
            arrival = far.arrival[way[i]]
            amount = go_over(g, near, arrival, amount, turn)
    taken = amount if outward else -amount
    excess[origin] -= taken
    excess[end] += taken


@jit()
def settle_price(g: Arrays, source: Int) -> None:
    """Lower the potential of a node without entering flow until its cheapest arc has reduced cost zero."""
    entering = g.first_in[source]
    if entering >= 0 and g.flow[entering] > 0:
        return
    best = FAR
    for arc in range(g.row_start[source], g.row_start[source] + g.row_length[source]):
        if g.flow[arc] < g.capacity[arc]:
            best = min(best, g.cost[arc] + g.potential[source] - g.potential[g.head[arc]])
    if best < FAR:
        g.potential[source] -= best


@jit()
def serve(g: Arrays, near: Scratch, far: Scratch, excess: Int64s, root: Int, origin: Int, number: Int) -> bool:
    """Send units from or to a node out of balance on a path of reduced cost zero; return False if none is found.

    Args:
        g: The network; `flow` is mutated.
        near: Scratch of the tree from this node.
        far: Scratch of the tree that `plant` began, for this direction and the current potentials.
        excess: int64 per node, mutated.
        root: The node that gives and takes any amount.
        origin: The node out of balance.
        number: Number of the near tree; no node may have this stamp yet.
    """
    outward = excess[origin] > 0
    meets, way = np.empty(2 * _CHUNK, np.int64), np.empty(_LONGEST, np.int32)
    _begin(near, number)
    _join(near, origin, _ORIGIN)
    if far.stamp[origin] == far.size[_NUMBER]:
        count = _mend(g, far, excess, root, origin, way, outward)
        if count > 0:
            _send(g, near, far, excess, root, origin, way, count)
            return True
    before, ended, sent = far.size[_WORK], False, False
    while not sent and near.size[_WORK] + far.size[_WORK] - before < _MOST:
        if ended or near.size[_WORK] + far.size[_SERVED] <= far.size[_WORK]:
            found = _grow(g, near, far, outward, meets)
            if found < 0:
                break
        else:
            found = _grow(g, far, near, not outward, meets)
            ended = bool(found < 0)
        for i in range(found):
            if far.stamp[meets[i]] == far.size[_NUMBER]:
                count = _mend(g, far, excess, root, meets[i], way, outward)
                if count > 0:
                    _send(g, near, far, excess, root, origin, way, count)
                    sent = True
                    break
    far.size[_SERVED] += near.size[_WORK]
    near.size[3] += near.size[_WORK] + far.size[_WORK] - before
    return sent
