"""Shortest augmenting paths with local searches: the kernel for small changes and for spare capacity.

Problem: minimum-cost flow on a network whose flow may break supplies and whose potentials may break
optimality. Three steps:

1. *Repair* (one pass over the arcs): every arc with a negative reduced cost is filled, every arc with a
   positive one emptied. Now the flow obeys the optimality conditions, and the changes have become excess
   or deficit at a few nodes.
2. For every node with excess: Dijkstra on reduced costs of residual arcs until the nearest deficit *or
   the root* is settled; send flow; lower the potential of each settled node by how much nearer it is.
3. For every node with a deficit left: the same search against arc direction, until the root.

A search that scans too many arcs is given up; its node is served after all others, by `level` and `meeting`.

The root is the node with the largest demand (the sink of a scheduling network): it takes and gives any
amount in between, and is in balance at the end because all others are. Searches end at the first
target, so they stay local when there is spare capacity: a task whose best machine has room costs one
scan of its own arcs. Freed capacity (step 3) is never worth more than its price, which bounds the search.

Complexity: O(changes × (arcs + nodes log nodes)) worst case; in an uncontended cluster nearly constant
per change. Limits: path costs must fit int64 (`network.LARGEST_SCALED_COST`).

Source: successive shortest paths as in Ahuja, Magnanti, Orlin (1993), 9.7, with the partial potential
update of its exercise 9.22 and, from Jonker and Volgenant (1987), a stack for nodes at equal distance.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from strato.machinecode import jit
from strato.mincost._layout import change_flow
from strato.mincost.arrays import Int
from strato.mincost.kernels import INFEASIBLE, OPTIMAL, STOPPED
from strato.mincost.kernels.labels import FAR, Scratch, begin_at, label, nearest
from strato.mincost.kernels.level import plant, serve, settle_price
from strato.mincost.kernels.meeting import DISTANCE, find_gates, no_gates, search_both
from strato.mincost.kernels.ways import go_over, step

if TYPE_CHECKING:
    from strato.mincost.arrays import Arrays, Int64s

_CHECK_EVERY = 64
"""Number of searches between two checks of the stop flag."""
_HOPE = 2
"""Number of failures of `level.serve` in a row after which it is not tried any more."""


@jit()
def repair(g: Arrays, excess: Int64s) -> Int:
    """Make the flow obey the signs of the reduced costs; write the resulting imbalances to `excess`.

    Returns the cost of the flow.
    """
    heads, costs, capacities, flows = g.head, g.cost, g.capacity, g.flow
    starts, lengths, potential = g.row_start, g.row_length, g.potential
    excess[:] = g.supply
    total = np.int64(0)
    for node in range(len(g.row_start)):
        base = potential[node]
        for arc in range(starts[node], starts[node] + lengths[node]):
            head = heads[arc]
            reduced = costs[arc] + base - potential[head]
            flow = flows[arc]
            if reduced < 0:
                if flow < capacities[arc]:
                    change_flow(g, arc, capacities[arc] - flow)
            elif reduced > 0 and flow > 0:
                change_flow(g, arc, -flow)
            flow = flows[arc]
            if flow:
                excess[node] -= flow
                excess[head] += flow
                total += flow * costs[arc]
    return total


@jit()
def _search_forward(g: Arrays, s: Scratch, excess: Int64s, root: Int, source: Int, number: Int, most: Int) -> Int:
    """Find the nearest node that can take a unit of the source's excess, or −1; update potentials.

    Gives up, changing nothing, with −2 after looking at `most` arcs.
    """
    most += s.size[3]
    best, target = FAR, -1
    begin_at(s, number, source)
    heads, tails, costs, capacities, flows = g.head, g.tail, g.cost, g.capacity, g.flow
    potential, next_in, stamp, reached = g.potential, g.next_in, s.stamp, s.distance
    while True:
        node = nearest(s, number, best)
        if node < 0:
            break
        here = reached[node]
        if here >= best:
            break
        if s.size[3] > most:
            return -2
        s.done[s.size[2]] = node
        s.size[2] += 1
        base = here + potential[node]
        start = g.row_start[node]
        s.size[3] += g.row_length[node]
        for arc in range(start, start + g.row_length[node]):
            if flows[arc] < capacities[arc]:
                head = heads[arc]
                distance = base + costs[arc] - potential[head]
                if distance < best and (stamp[head] != number or distance < reached[head]):
                    if head == root or excess[head] < 0:
                        best, target = distance, head
                        s.arrival[head] = arc
                    else:
                        label(s, number, head, distance, here, arc)
        if best <= here:  # the arcs out of this node led to a target at no further distance
            break
        arc = g.first_in[node]
        while arc >= 0 and flows[arc] > 0:
            tail = tails[arc]
            s.size[3] += 1
            distance = base - costs[arc] - potential[tail]
            if distance < best and (stamp[tail] != number or distance < reached[tail]):
                if tail == root or excess[tail] < 0:
                    best, target = distance, tail
                    s.arrival[tail] = -1 - arc
                else:
                    label(s, number, tail, distance, here, -1 - arc)
            arc = next_in[arc]
        if best <= here:
            break
    if target >= 0:
        for i in range(s.size[2]):
            node = s.done[i]
            potential[node] -= best - reached[node]
    return target


@jit()
def _search_backward(g: Arrays, s: Scratch, excess: Int64s, root: Int, sink: Int, number: Int, most: Int) -> Int:
    """Find the nearest node that can give the sink a unit, or −1; give up as `_search_forward`; update potentials."""
    most += s.size[3]
    best, target = FAR, -1
    begin_at(s, number, sink)
    heads, tails, costs, capacities, flows = g.head, g.tail, g.cost, g.capacity, g.flow
    potential, next_in, stamp, reached = g.potential, g.next_in, s.stamp, s.distance
    while True:
        node = nearest(s, number, best)
        if node < 0:
            break
        here = reached[node]
        if here >= best:
            break
        if s.size[3] > most:
            return -2
        s.done[s.size[2]] = node
        s.size[2] += 1
        base = here - potential[node]
        start = g.row_start[node]
        s.size[3] += g.row_length[node]
        for arc in range(start, start + g.row_length[node]):
            if flows[arc] > 0:
                head = heads[arc]
                distance = base - costs[arc] + potential[head]
                if distance < best and (stamp[head] != number or distance < reached[head]):
                    if head == root or excess[head] > 0:
                        best, target = distance, head
                        s.arrival[head] = -1 - arc
                    else:
                        label(s, number, head, distance, here, -1 - arc)
        arc = g.first_in[node]
        while arc >= 0 and best > here:
            if flows[arc] < capacities[arc]:
                tail = tails[arc]
                distance = base + costs[arc] + potential[tail]
                if distance < best and (stamp[tail] != number or distance < reached[tail]):
                    if tail == root or excess[tail] > 0:
                        best, target = distance, tail
                        s.arrival[tail] = arc
                    else:
                        label(s, number, tail, distance, here, arc)
            s.size[3] += 1
            arc = next_in[arc]
        if best <= here:
            break
    if target >= 0:
        for i in range(s.size[2]):
            node = s.done[i]
            potential[node] += best - reached[node]
    return target


@jit()
def _send(g: Arrays, s: Scratch, excess: Int64s, root: Int, origin: Int, target: Int, forward: bool) -> None:
    """Send as much as fits between a search's origin and target along the arcs it arrived by."""
    amount = abs(excess[origin])
    if target != root:
        amount = min(amount, abs(excess[target]))
    for turn in range(2):
        node = np.int64(target)
        while node != origin:
            arrival = s.arrival[node]
            amount = go_over(g, s, arrival, amount, turn)
            node = step(g, arrival, forward)
    taken = amount if forward else -amount
    excess[origin] -= taken
    excess[target] += taken


@jit()
def _distances(g: Arrays, root: Int, near: Int64s, far: Int64s) -> Int:
    """Write each node's distance to the root through arcs that can bind, and through others; return what can bind."""
    nodes = len(g.row_start)
    entering = np.zeros(nodes, np.int64)
    for node in range(nodes):
        for arc in range(g.row_start[node], g.row_start[node] + g.row_length[node]):
            entering[g.head[arc]] += min(g.capacity[arc], np.int64(1) << np.int64(40))
    scarce = np.int64(0)
    for node in range(nodes):
        for arc in range(g.row_start[node], g.row_start[node] + g.row_length[node]):
            if g.head[arc] == root and g.capacity[arc] > 0:
                if g.capacity[arc] >= entering[node] + max(np.int64(0), g.supply[node]):
                    far[node] = min(far[node], g.cost[arc])
                else:
                    near[node] = min(near[node], g.cost[arc])
                    scarce += g.capacity[arc]
    for _ in range(16):
        moved = False
        for back in range(nodes):
            node = nodes - 1 - back
            for arc in range(g.row_start[node], g.row_start[node] + g.row_length[node]):
                head = g.head[arc]
                if g.capacity[arc] > 0 and head != root and node != root:
                    if near[head] < FAR and near[head] + g.cost[arc] < near[node]:
                        near[node] = near[head] + g.cost[arc]
                        moved = True
                    if far[head] < FAR and far[head] + g.cost[arc] < far[node]:
                        far[node] = far[head] + g.cost[arc]
                        moved = True
        if not moved:
            break
    return scarce


def price_scarcity(g: Arrays, root: int) -> None:
    """Set potentials that include a price of scarcity, for a network without flow whose supply exceeds its slots.

    Distinguishes arcs into the root whose capacity can bind (slots) from those that can take all units that can reach
    them (waiting). Finds one price on all slots at which as many units want a slot as there are, as if slots were all
    alike; potentials become the distances under that price. Searches then resolve local conflicts only, instead of
    finding this price again for every unit that has to wait. The price is a guess: `repair` makes any potentials valid.

    Mutates `potential`. O(arcs × length of paths).
    """
    units = g.supply[g.supply > 0].sum()
    near, far = (np.full(len(g.supply), FAR, np.int64) for _ in range(2))
    scarce = _distances(g, root, near, far)
    if units <= scarce:
        return
    torn = np.flatnonzero((g.supply > 0) & (near < FAR) & (far < FAR))
    torn = torn[np.argsort(near[torn] - far[torn], kind="stable")]  # sources that gain most from a slot first
    at = int(np.searchsorted(np.cumsum(g.supply[torn]), scarce, "right"))
    price = int(far[torn[at]] - near[torn[at]]) if at < len(torn) else 0
    if price <= 0:
        return
    distance = np.minimum(np.where(near < FAR, near + price, FAR), far)
    known = distance < FAR
    g.potential[:] = -np.where(known, distance, distance[known].max(initial=0))
    g.potential[root] = 0


@jit()
def _send_directly(g: Arrays, s: Scratch, excess: Int64s, root: Int, source: Int) -> bool:
    """Send a source's excess over its cheapest arc if the arc's head can pass it straight on; else return False.

    A search would find the same path first; this saves its bookkeeping for most tasks of a cluster with spare room.
    """
    potential, entering = g.potential, g.first_in[source]
    if entering >= 0 and g.flow[entering] > 0:  # the best path may push back flow that enters the source
        return False
    begin = g.row_start[source]
    end = begin + g.row_length[source]
    base, best = potential[source], FAR
    for arc in range(begin, end):
        if g.flow[arc] < g.capacity[arc]:
            best = min(best, base + g.cost[arc] - potential[g.head[arc]])
    for arc in range(begin, end):
        head = g.head[arc]
        if g.flow[arc] < g.capacity[arc] and base + g.cost[arc] - potential[head] == best:
            if excess[head] < 0:
                amount = min(excess[source], min(-excess[head], g.capacity[arc] - g.flow[arc]))
                potential[source] -= best
                change_flow(g, arc, amount)
                s.size[4] += amount * g.cost[arc]
                excess[source] -= amount
                excess[head] += amount
                return True
            start = g.row_start[head]
            for last in range(start, start + g.row_length[head]):
                room = g.capacity[last] - g.flow[last]
                if g.head[last] == root and room > 0 and g.cost[last] + potential[head] == potential[root]:
                    amount = min(excess[source], min(room, g.capacity[arc] - g.flow[arc]))
                    potential[source] -= best
                    change_flow(g, arc, amount)
                    change_flow(g, last, amount)
                    s.size[4] += amount * (g.cost[arc] + g.cost[last])
                    excess[source] -= amount
                    excess[root] += amount
                    return True
    return False


@jit()
def solve(
    g: Arrays, root: Int, stop: npt.NDArray[np.uint8], s: Scratch, back: Scratch, excess: Int64s, max_search_arcs: Int
) -> Int:
    """Make flow and potentials optimal in place.

    Args:
        g: The network; `flow`, `potential` and the in-lists are mutated.
        root: The node with the largest demand.
        stop: One byte; when it becomes non-zero the solve ends with `STOPPED`.
        s: Scratch of at least as many nodes.
        back: Another scratch, for searches from both ends.
        excess: int64 per node; on return the remaining imbalances (zero when optimal).
        max_search_arcs: Most arcs that a search from one end scans before one from both ends replaces it.

    Returns:
        `OPTIMAL`, `INFEASIBLE` or `STOPPED`.
    """
    s.size[4] = repair(g, excess)
    for scratch in (s, back):
        scratch.stamp[:] = 0
        scratch.settled[:] = 0
    number, known, gates = 0, False, no_gates()
    planted, hope = False, _HOPE
    for turn in range(4):  # nodes with long searches are served after those that find a target nearby
        forward, easy, planted = turn < 2, turn % 2 == 0, False
        for node in range(len(excess)):
            while node != root and (excess[node] > 0 if forward else excess[node] < 0):
                number += 1
                if number % _CHECK_EVERY == 0 and stop[0]:
                    return STOPPED
                if not easy:
                    if not known:
                        known, gates = True, find_gates(g, root, excess)
                    if forward:
                        settle_price(g, node)
                    if hope > 0:
                        if not planted:
                            planted = True
                            plant(g, gates, back, excess, root, number, forward)
                            number += 1
                        if serve(g, s, back, excess, root, node, number):
                            hope = _HOPE
                            continue
                        hope -= 1
                        number += 1
                    if not search_both(g, gates, s, back, excess, root, node, number):
                        return INFEASIBLE
                    planted = False
                    if s.size[DISTANCE] == 0:
                        hope = _HOPE
                    continue
                if forward and _send_directly(g, s, excess, root, node):
                    continue
                if forward:
                    target = _search_forward(g, s, excess, root, node, number, max_search_arcs)
                else:
                    target = _search_backward(g, s, excess, root, node, number, max_search_arcs)
                if target == -1:
                    return INFEASIBLE
                if target < 0:
                    break
                _send(g, s, excess, root, node, target, forward)
    return OPTIMAL
