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

import numba
import numpy as np
import numpy.typing as npt

from strato.flow.kernels import INFEASIBLE, OPTIMAL, STOPPED

if TYPE_CHECKING:
    from strato.flow.network import Arrays, Int32s, Int64s

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


@numba.njit(cache=True, nogil=True)
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
    r = Residual(start, np.empty(used, np.int32), np.empty(used, np.int64), np.empty(used, np.int64),
                 np.empty(used, np.int32), np.empty(used, np.int32))
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


@numba.njit(cache=True, nogil=True)
def _worst(r: Residual, price: Int64s) -> int:
    """Return the smallest ε for which the flow is ε-optimal."""
    worst = np.int64(0)
    for node in range(len(price)):
        base = price[node]
        for arc in range(r.start[node], r.start[node + 1]):
            if r.room[arc] > 0:
                worst = min(worst, r.cost[arc] + base - price[r.head[arc]])
    return -worst


@numba.njit(cache=True, nogil=True)
def _refine_prices(r: Residual, price: Int64s, epsilon: int) -> bool:
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


@numba.njit(cache=True, nogil=True)
def _update_prices(
    r: Residual, price: Int64s, excess: Int64s, epsilon: int, link: Int32s, first: Int32s, distance: Int64s
) -> None:
    """Lower prices by ε × distance to the nearest deficit, distances in units of ε, by buckets."""
    nodes = len(price)
    buckets = len(first)
    distance[:] = buckets
    first[:] = -1
    left = np.int64(0)
    for node in range(nodes):
        if excess[node] < 0:
            distance[node] = 0
            link[node] = first[0]
            first[0] = node
        elif excess[node] > 0:
            left += 1
    if left == 0:
        return
    reached = 0
    bucket = 0
    while bucket < buckets:
        node = first[bucket]
        if node < 0:
            bucket += 1
            continue
        first[bucket] = link[node]
        if distance[node] != bucket:
            continue
        distance[node] = -bucket - 1  # settled
        if excess[node] > 0:
            left -= 1
            if left == 0:
                reached = bucket
                break
        for arc in range(r.start[node], r.start[node + 1]):
            back = r.reverse[arc]
            tail = r.head[arc]
            if r.room[back] > 0 and distance[tail] > bucket:
                reduced = r.cost[back] + price[tail] - price[node]
                steps = np.int64(0) if reduced < 0 else reduced // epsilon + 1
                further = bucket + steps
                if further < distance[tail]:
                    distance[tail] = further
                    link[tail] = -1
                    # a node may sit in two buckets; the stale entry is passed over, so links are per entry:
                    link[tail] = first[further]
                    first[further] = tail
        reached = bucket
    for node in range(nodes):
        steps = -distance[node] - 1 if distance[node] < 0 else reached
        if steps > 0:
            price[node] -= steps * epsilon
