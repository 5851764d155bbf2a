"""Follows the paths that a search has found, by arrivals, and sends flow over them.

An *arrival* is the arc by which a search reached a node: the arc's number, or −1 − number against its direction. In a
search along arcs, the arc's other end is the node before; in one against them, the next node of the path.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from strato.machinecode import jit
from strato.mincost._layout import change_flow
from strato.mincost.arrays import Int
from strato.mincost.kernels.labels import Scratch

if TYPE_CHECKING:
    from strato.mincost.arrays import Arrays


@jit(inline="always")
def room(g: Arrays, arrival: Int) -> np.int64:
    """Return how many more units an arrival's arc can carry."""
    return np.int64(g.capacity[arrival] - g.flow[arrival] if arrival >= 0 else g.flow[-1 - arrival])


@jit(inline="always")
def step(g: Arrays, arrival: Int, forward: bool) -> np.int64:
    """Return the node before, in a search along arcs (`forward`) or against them."""
    arc = arrival if arrival >= 0 else -1 - arrival
    return np.int64(g.tail[arc] if (arrival >= 0) == forward else g.head[arc])


@jit(inline="always")
def carry(g: Arrays, s: Scratch, arrival: Int, amount: Int) -> None:
    """Send units over an arrival and add their cost to the scratch's sum."""
    arc = arrival if arrival >= 0 else -1 - arrival
    signed = amount if arrival >= 0 else -amount
    change_flow(g, arc, signed)
    s.size[4] += signed * g.cost[arc]


@jit(inline="always")
def go_over(g: Arrays, s: Scratch, arrival: Int, amount: Int, turn: Int) -> np.int64:
    """Visit an arrival in one of two passes over a path, and return the amount: pass 0 finds what fits, 1 sends it."""
    if turn == 0:
        return np.int64(min(amount, room(g, arrival)))
    carry(g, s, arrival, amount)
    return np.int64(amount)
