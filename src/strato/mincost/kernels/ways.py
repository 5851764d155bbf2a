"""Walking and using the ways a search found: arrivals, and what flows over them.

An *arrival* says by which arc a search came to a node: the arc's number, or −1 − number against its direction.
A search along arcs comes from the arc's other end; one against them is on its way there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numba
import numpy as np

from strato.mincost._layout import change_flow
from strato.mincost.arrays import Int
from strato.mincost.kernels.labels import Scratch

if TYPE_CHECKING:
    from strato.mincost.arrays import Arrays


@numba.njit(cache=True, nogil=True, inline="always")
def room(g: Arrays, arrival: Int) -> np.int64:
    """How many more units an arrival carries."""
    return np.int64(g.capacity[arrival] - g.flow[arrival] if arrival >= 0 else g.flow[-1 - arrival])


@numba.njit(cache=True, nogil=True, inline="always")
def step(g: Arrays, arrival: Int, forward: bool) -> np.int64:
    """Return the node before, in a search along arcs (`forward`) or against them."""
    arc = arrival if arrival >= 0 else -1 - arrival
    return np.int64(g.tail[arc] if (arrival >= 0) == forward else g.head[arc])


@numba.njit(cache=True, nogil=True, inline="always")
def carry(g: Arrays, s: Scratch, arrival: Int, amount: Int) -> None:
    """Send units over an arrival and add up what that costs."""
    arc = arrival if arrival >= 0 else -1 - arrival
    signed = amount if arrival >= 0 else -amount
    change_flow(g, arc, signed)
    s.size[4] += signed * g.cost[arc]


@numba.njit(cache=True, nogil=True, inline="always")
def go_over(g: Arrays, s: Scratch, arrival: Int, amount: Int, turn: Int) -> np.int64:
    """Go over an arrival of a way that is walked twice; return the amount: turn 0 finds what fits, turn 1 sends it."""
    if turn == 0:
        return np.int64(min(amount, room(g, arrival)))
    carry(g, s, arrival, amount)
    return np.int64(amount)
