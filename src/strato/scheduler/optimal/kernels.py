"""The kernel that limits a flow's shares to what nodes can take; imported only when the action `flow` runs."""

from __future__ import annotations

from strato.machinecode import jit
from strato.scheduler.placement.arrays import Int64s


@jit()
def trim(order: Int64s, rows: Int64s, counts: Int64s, cls: Int64s, requests: Int64s, left: Int64s) -> None:
    """Reduce counts to what the rows' vectors can take, entry by entry.

    Args:
        order: int64[n], entries in the order in which they are served.
        rows: int64[n], row of each entry in `left`.
        counts: int64[n], tasks of each entry; reduced in place.
        cls: int64[n], class of each entry.
        requests: int64[classes, width], request of one task of each class.
        left: int64[rows, width], what is free; charged in place.
    """
    for k in range(order.size):
        i = order[k]
        row, c, room = rows[i], cls[i], counts[i]
        for d in range(requests.shape[1]):
            need = requests[c, d]
            if need > 0:
                room = max(0, min(room, left[row, d] // need))
        counts[i] = room
        for d in range(requests.shape[1]):
            left[row, d] -= room * requests[c, d]
