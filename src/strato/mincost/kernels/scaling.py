"""Cost scaling (push-relabel on ε-optimal flows) with price refine, look-ahead and partial augmentation.

Problem: minimum-cost flow. Costs are multiplied by nodes + 1; a flow is ε-optimal when no residual arc
has a reduced cost below −ε, and optimal at ε = 1. Each phase divides ε by α, fills every residual arc
with a negative reduced cost, and moves the excess that makes over admissible arcs (reduced cost < 0),
relabelling nodes that have none.

- *Price refine*: before a phase a bounded Bellman-Ford looks for prices under which the present flow
  is ε-optimal already; if there are any the phase is skipped.
- *Partial augmentation* with *look-ahead*: excess travels up to four admissible arcs at once, and a node
  without a way on is relabelled before anything is pushed into it.
- *Global price update*: after nodes relabels, distances to the deficits (Dial's buckets) replace
  many single relabels.

Warm start: ε begins at the largest violation of the potentials handed in. Use: dense class × machine
networks, oversubscription, and the safety net of the race; it does not care about degeneracy.
Complexity: O(nodes² arcs log(nodes × largest cost)). Limit: |cost| × (nodes + 1) < 2⁶¹.

Source: Goldberg and Tarjan (1990), Goldberg (1997) for the heuristics; Király and Kovács (2012) for
partial augmentation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from strato.machinecode import jit
from strato.mincost.arrays import Int
from strato.mincost.kernels import INFEASIBLE, OPTIMAL, STOPPED

if TYPE_CHECKING:
    from strato.mincost.arrays import Arrays, Int32s, Int64s

_LENGTH = 4
"""Arcs of a partial augmentation."""
_CHECK_EVERY = 1024
_UNREACHED = np.int64(1) << np.int64(60)


class Residual(NamedTuple):
    """Both directions of every arc, sorted by the node they leave."""

    start: Int64s
    head: Int32s
    cost: Int64s
    room: Int64s
    reverse: Int32s
    slot: Int32s
    """Arc slot of the network for a forward arc, −1 for a backward one."""


class Buckets(NamedTuple):
    """Nodes by distance to the nearest deficit, in doubly linked lists."""

    distance: Int64s
    before: Int32s
    after: Int32s
    first: Int32s


@jit()
def _residual(g: Arrays) -> Residual:
    nodes, used = len(g.row_start), 0
    start = np.zeros(nodes + 1, np.int64)
    for node in range(nodes):
        for arc in range(g.row_start[node], g.row_start[node] + g.row_length[node]):
            if g.capacity[arc] > 0 and g.head[arc] != node:
                start[node + 1] += 1
                start[g.head[arc] + 1] += 1
                used += 2
    for node in range(nodes):
        start[node + 1] += start[node]
    fill = start[:-1].copy()
    r = Residual(
        start,
        np.empty(used, np.int32),
        np.empty(used, np.int64),
        np.empty(used, np.int64),
        np.empty(used, np.int32),
        np.empty(used, np.int32),
    )
    factor = np.int64(nodes + 1)
    for node in range(nodes):
        for arc in range(g.row_start[node], g.row_start[node] + g.row_length[node]):
            head = g.head[arc]
            if g.capacity[arc] > 0 and head != node:
                a, b = fill[node], fill[head]
                fill[node] += 1
                fill[head] += 1
                flow = min(g.flow[arc], g.capacity[arc])
                r.head[a], r.cost[a], r.room[a] = head, g.cost[arc] * factor, g.capacity[arc] - flow
                r.head[b], r.cost[b], r.room[b] = node, -g.cost[arc] * factor, flow
                r.reverse[a], r.reverse[b], r.slot[a], r.slot[b] = b, a, arc, -1
            elif head == node and g.cost[arc] >= 0:
                g.flow[arc] = 0
            elif head == node:
                g.flow[arc] = g.capacity[arc]
    return r


@jit()
def _worst(r: Residual, price: Int64s) -> Int:
    """Return the smallest ε for which the flow is ε-optimal."""
    worst = np.int64(0)
    for node in range(len(price)):
        base = price[node]
        for arc in range(r.start[node], r.start[node + 1]):
            if r.room[arc] > 0:
                worst = min(worst, r.cost[arc] + base - price[r.head[arc]])
    return -worst


@jit()
def _refine_prices(r: Residual, price: Int64s, epsilon: Int) -> bool:
    """Look for prices that make the flow ε-optimal; write them and return True if found in eight passes."""
    nodes = len(price)
    trial = price.copy()
    for _ in range(8):
        moved = 0
        for node in range(nodes):
            base = trial[node]
            for arc in range(r.start[node], r.start[node + 1]):
                if r.room[arc] > 0:
                    most = r.cost[arc] + base + epsilon
                    head = r.head[arc]
                    if trial[head] > most:
                        trial[head] = most
                        moved += 1
        if moved == 0:
            price[:] = trial
            return True
        if moved * 4 > nodes:
            return False
    return False


@jit(inline="always")
def _file_under(b: Buckets, node: Int, bucket: Int) -> None:
    first = b.first[bucket]
    b.distance[node], b.before[node], b.after[node] = bucket, -1, first
    b.first[bucket] = node
    if first >= 0:
        b.before[first] = node


@jit(inline="always")
def _take_out(b: Buckets, node: Int) -> None:
    before, after = b.before[node], b.after[node]
    if before >= 0:
        b.after[before] = after
    else:
        b.first[b.distance[node]] = after
    if after >= 0:
        b.before[after] = before


@jit()
def _update_prices(r: Residual, price: Int64s, excess: Int64s, epsilon: Int, b: Buckets) -> bool:
    """Lower prices by ε × distance to the nearest deficit; return False if some excess can reach none."""
    nodes, far = len(price), np.int64(len(b.first))
    b.distance[:] = far
    b.first[:] = -1
    left = 0
    for node in range(nodes):
        if excess[node] < 0:
            _file_under(b, node, 0)
        elif excess[node] > 0:
            left += 1
    bucket = np.int64(0)
    reached = np.int64(0)
    while left > 0 and bucket < far:
        node = b.first[bucket]
        if node < 0:
            bucket += 1
            continue
        _take_out(b, node)
        b.distance[node] = -bucket - 1
        reached = bucket
        if excess[node] > 0:
            left -= 1
        for arc in range(r.start[node], r.start[node + 1]):
            back, tail = r.reverse[arc], r.head[arc]
            known = b.distance[tail]
            if known > bucket and r.room[back] > 0:
                reduced = r.cost[back] + price[tail] - price[node]
                further = bucket + (np.int64(0) if reduced < 0 else reduced // epsilon + 1)
                if further < known and further < far:
                    if known < far:
                        _take_out(b, tail)
                    _file_under(b, tail, further)
    for node in range(nodes):
        steps = -b.distance[node] - 1 if b.distance[node] < 0 else reached + 1
        price[node] -= steps * epsilon
    return left == 0


@jit(inline="always")
def _find_admissible(r: Residual, price: Int64s, current: Int64s, node: Int) -> Int:
    """Return the node's next admissible arc from its current one on, or −1."""
    base, end = price[node], r.start[node + 1]
    arc = current[node]
    while arc < end:
        if r.room[arc] > 0 and r.cost[arc] + base - price[r.head[arc]] < 0:
            current[node] = arc
            return int(arc)
        arc += 1
    current[node] = end
    return -1


@jit(inline="always")
def _relabel(r: Residual, price: Int64s, current: Int64s, node: Int, epsilon: Int) -> bool:
    """Lower the node's price until an arc is admissible; return False if it has no residual arc."""
    most = -_UNREACHED * 2
    for arc in range(r.start[node], r.start[node + 1]):
        if r.room[arc] > 0:
            most = max(most, price[r.head[arc]] - r.cost[arc])
    if most == -_UNREACHED * 2:
        return False
    price[node] = most - epsilon
    current[node] = r.start[node]
    return True


@jit()
def _discharge(
    r: Residual,
    price: Int64s,
    excess: Int64s,
    epsilon: Int,
    current: Int64s,
    queue: Int32s,
    b: Buckets,
    stop: npt.NDArray[np.uint8],
    floor: Int,
) -> Int:
    """Move all excess to deficits, keeping the flow ε-optimal."""
    nodes = len(price)
    current[:] = r.start[:-1]
    waiting = np.zeros(nodes, np.bool_)
    begin, count = 0, 0
    for node in range(nodes):
        if excess[node] > 0:
            queue[count], waiting[node] = node, True
            count += 1
    path = np.empty(_LENGTH, np.int64)
    relabels, looks = 0, 0
    while count > 0:
        looks += 1
        if looks % _CHECK_EVERY == 0 and stop[0]:
            return STOPPED
        if relabels >= nodes:
            relabels = 0
            _update_prices(r, price, excess, epsilon, b)
            current[:] = r.start[:-1]
        origin = queue[begin]
        begin = (begin + 1) % nodes
        count -= 1
        waiting[origin] = False
        while excess[origin] > 0:
            node, length = origin, 0
            while length < _LENGTH and (length == 0 or excess[node] >= 0):
                arc = _find_admissible(r, price, current, node)
                if arc >= 0:
                    path[length] = arc
                    length += 1
                    node = r.head[arc]
                    continue
                if not _relabel(r, price, current, node, epsilon):
                    if length == 0:
                        return INFEASIBLE
                    last = path[length - 1]  # a dead end: price it so that the way in is closed
                    price[node] = price[r.head[r.reverse[last]]] + r.cost[last]
                if price[node] < floor:
                    return INFEASIBLE
                relabels += 1
                if length > 0:
                    length -= 1
                    node = r.head[r.reverse[path[length]]]
            node = origin
            for i in range(length):  # each step carries what fits, so earlier nodes may keep a rest
                arc = path[i]
                amount = min(excess[node], r.room[arc])
                head = r.head[arc]
                r.room[arc] -= amount
                r.room[r.reverse[arc]] += amount
                excess[node] -= amount
                if node != origin and excess[node] > 0 and not waiting[node]:
                    queue[(begin + count) % nodes], waiting[node] = node, True
                    count += 1
                excess[head] += amount
                node = head
            if node != origin and excess[node] > 0 and not waiting[node]:
                queue[(begin + count) % nodes], waiting[node] = node, True
                count += 1
    return OPTIMAL


@jit()
def _price_sources(r: Residual, supply: Int64s, price: Int64s) -> None:
    """Price nodes with supply at their cheapest arc, so that ε begins at differences of costs, not at offsets."""
    for node in range(len(price)):
        if supply[node] > 0:
            cheapest = _UNREACHED
            for arc in range(r.start[node], r.start[node + 1]):
                if r.slot[arc] >= 0:
                    cheapest = min(cheapest, r.cost[arc])
            if cheapest < _UNREACHED:
                price[node] = -cheapest


@jit()
def solve(g: Arrays, root: Int, stop: npt.NDArray[np.uint8], excess: Int64s, alpha: Int, warm: bool) -> Int:
    """Make flow and potentials optimal in place.

    Args:
        g: The network; `flow` and `potential` are mutated, in-lists are not kept in order.
        root: The node whose potential becomes zero.
        stop: One byte; when it becomes non-zero the solve ends with `STOPPED`.
        excess: int64 per node, overwritten.
        alpha: What ε is divided by between phases (8 for sparse networks, 24 for dense ones).
        warm: Begin with the potentials and the flow handed in instead of zero.

    Returns:
        `OPTIMAL`, `INFEASIBLE` or `STOPPED`.
    """
    nodes = len(g.row_start)
    if not warm:
        g.flow[:] = 0
        g.potential[:] = 0
    r = _residual(g)
    price = g.potential * np.int64(nodes + 1)
    excess[:] = g.supply
    for node in range(nodes):
        for arc in range(r.start[node], r.start[node + 1]):
            if r.slot[arc] >= 0:
                flow = r.room[r.reverse[arc]]
                excess[node] -= flow
                excess[r.head[arc]] += flow
    if not warm:
        _price_sources(r, g.supply, price)
    largest, dearest = np.int64(1), np.int64(1)
    for node in range(nodes):
        for arc in range(r.start[node], r.start[node + 1]):
            dearest = max(dearest, abs(r.cost[arc]))
            largest = max(largest, abs(r.cost[arc] + price[node] - price[r.head[arc]]))
    current = np.empty(nodes, np.int64)
    queue = np.empty(nodes, np.int32)
    b = Buckets(
        np.empty(nodes, np.int64),
        np.empty(nodes, np.int32),
        np.empty(nodes, np.int32),
        np.empty(max(1024, 8 * nodes), np.int32),
    )
    # Excess has to travel, so ε must be of the order of the costs on its way, however good the prices are.
    epsilon: Int = np.int64(max(1, _worst(r, price)))
    if not warm:
        epsilon = largest
    elif np.any(excess):
        epsilon = max(epsilon, largest // 64)
    first = True
    outcome: Int = OPTIMAL
    while first or epsilon > 1:
        epsilon = max(np.int64(1), epsilon // alpha)
        if stop[0]:
            outcome = STOPPED
            break
        balanced = not np.any(excess)
        if not (balanced and _refine_prices(r, price, epsilon)):
            lowest = price[0]
            for node in range(nodes):
                base = price[node]
                lowest = min(lowest, base)
                for arc in range(r.start[node], r.start[node + 1]):
                    if r.room[arc] > 0 and r.cost[arc] + base - price[r.head[arc]] < 0:
                        amount = r.room[arc]
                        r.room[arc] = 0
                        r.room[r.reverse[arc]] += amount
                        excess[node] -= amount
                        excess[r.head[arc]] += amount
            # A node that can reach a deficit never falls below this, so one that does proves infeasibility.
            reach = 8.0 * (np.float64(dearest) + np.float64(largest) + np.float64(epsilon)) * (nodes + 1)
            floor = lowest - np.int64(reach) if reach < 1e18 else -3 * _UNREACHED
            _update_prices(r, price, excess, epsilon, b)
            outcome = _discharge(r, price, excess, epsilon, current, queue, b, stop, floor)
            if outcome != OPTIMAL:
                break
        first = False
    for arc in range(len(r.slot)):
        if r.slot[arc] >= 0:
            g.flow[r.slot[arc]] = r.room[r.reverse[arc]]
    if outcome == OPTIMAL:
        g.potential[:] = price // np.int64(nodes + 1)
        _tighten(r, g.potential, nodes)
        g.potential[:] -= g.potential[root]
    return outcome


@jit()
def _tighten(r: Residual, potential: Int64s, nodes: Int) -> None:
    """Turn an optimal flow into exact potentials: shortest residual distances in unscaled costs."""
    factor = np.int64(nodes + 1)
    moved = True
    while moved:
        moved = False
        for node in range(nodes):
            base = potential[node]
            for arc in range(r.start[node], r.start[node + 1]):
                if r.room[arc] > 0 and potential[r.head[arc]] > base + r.cost[arc] // factor:
                    potential[r.head[arc]] = base + r.cost[arc] // factor
                    moved = True
