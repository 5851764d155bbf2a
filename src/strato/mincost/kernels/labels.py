"""Labels of a shortest-path search: distances, the order in which to settle nodes, and arrivals for the way back.

Nodes at the distance the search has reached go on a stack, the others into a binary heap. With integer costs most steps
of a scheduling network have reduced cost zero, and the stack finds the next node without comparisons.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from strato.machinecode import jit
from strato.mincost.arrays import Int

if TYPE_CHECKING:
    from strato.mincost.arrays import Int32s, Int64s

FAR = np.int64(1) << np.int64(62)


class Scratch(NamedTuple):
    """Arrays of one solve; valid for a node when its stamp equals the search's number."""

    distance: Int64s
    stamp: Int32s
    """Search in which the node was last labelled."""
    settled: Int32s
    """Search in which the node was last settled (or put on the stack)."""
    arrival: Int64s
    """Arc over which the node was reached: the arc, or −1 − arc against its direction."""
    heap: Int32s
    place: Int64s
    stack: Int32s
    done: Int32s
    """Settled nodes of this search, in order."""
    size: Int64s
    """[heap size, stack size, settled nodes, work done in arcs, cost of the flow]; the rest is `meeting`'s"""


_LABEL = np.dtype(
    [("distance", np.int64), ("stamp", np.int32), ("settled", np.int32), ("arrival", np.int64), ("place", np.int64)]
)


def new_scratch(nodes: Int) -> Scratch:
    """Allocate the arrays for networks of that many nodes; what a search reads of a node shares a cache line."""
    labels = np.zeros(nodes, _LABEL)
    lists = [np.zeros(nodes, np.int32) for _ in range(3)]
    distance, stamp, settled, arrival, place = (labels[name] for name in _LABEL.names or ())
    return Scratch(distance, stamp, settled, arrival, lists[0], place, lists[1], lists[2], np.zeros(16, np.int64))


@jit()
def _sift_up(s: Scratch, index: Int) -> None:
    node = s.heap[index]
    key = s.distance[node]
    while index > 0:
        above = (index - 1) >> 1
        other = s.heap[above]
        if s.distance[other] <= key:
            break
        s.heap[index] = other
        s.place[other] = index
        index = above
    s.heap[index] = node
    s.place[node] = index


@jit()
def _pop(s: Scratch) -> Int:
    top = s.heap[0]
    s.size[0] -= 1
    count = s.size[0]
    if count > 0:
        node = s.heap[count]
        key = s.distance[node]
        index = 0
        while True:
            child = 2 * index + 1
            if child >= count:
                break
            if child + 1 < count and s.distance[s.heap[child + 1]] < s.distance[s.heap[child]]:
                child += 1
            other = s.heap[child]
            if s.distance[other] >= key:
                break
            s.heap[index] = other
            s.place[other] = index
            index = child
        s.heap[index] = node
        s.place[node] = index
    return int(top)


@jit()
def label(s: Scratch, number: Int, node: Int, distance: Int, here: Int, arrival: Int) -> None:
    """Record a shorter path to a node: push it on the stack if at the current distance, else into the heap."""
    known = s.stamp[node] == number
    s.stamp[node] = number
    s.distance[node] = distance
    s.arrival[node] = arrival
    if distance == here:
        s.settled[node] = number
        s.stack[s.size[1]] = node
        s.size[1] += 1
        if known:
            _sift_up(s, s.place[node])  # the node stays in the heap and is skipped when it is popped
    elif known:
        _sift_up(s, s.place[node])
    else:
        index = s.size[0]
        s.heap[index] = node
        s.size[0] += 1
        _sift_up(s, index)


@jit()
def nearest(s: Scratch, number: Int, best: Int) -> Int:
    """Return the next node to settle, or −1 when none is nearer than the best target."""
    if s.size[1] > 0:
        s.size[1] -= 1
        return int(s.stack[s.size[1]])
    while s.size[0] > 0:
        if s.distance[s.heap[0]] >= best:
            return -1
        node = _pop(s)
        if s.settled[node] != number:
            s.settled[node] = number
            return int(node)
    return -1


@jit(inline="always")
def begin_at(s: Scratch, number: Int, node: Int) -> None:
    """Begin a search at a node."""
    s.size[0] = s.size[2] = 0
    s.size[1] = 1
    s.stack[0] = node
    s.stamp[node] = s.settled[node] = number
    s.distance[node] = 0
