"""The kernels that carry a flow's shares out on the node table; imported only when the action `flow` runs."""

from __future__ import annotations

from numba import njit

LIMIT_PODS = 2
"""As in `kernels`; helpers of another file are not seen by Numba's cache, so nothing is imported from there."""


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator, unused-ignore] # numba publishes no types
def take_share(rows, counts, most, flags, want, nodes, out):  # type: ignore[no-untyped-def] # numba
    """Place equal tasks row by row as far as the rows' vectors take them, and charge the rows.

    Args:
        rows: int64[n], distinct rows.
        counts: int64[n], tasks meant for each.
        most: Tasks that may be placed in all.
        flags: LIMIT_PODS: a row holds at most its allocatable number of pods.
        want: `kernels.Want`.
        nodes: `strato.scheduler.cache.nodes.Columns`; charged in place, every charged row is appended to the journal.
        out: int32[>= most], receives the row of each task placed.

    Returns: Number of tasks placed. O(n · width + most).
    """
    request, idle = want.request, nodes.idle
    placed = 0
    for i in range(rows.size):
        row = rows[i]
        room = min(counts[i], most - placed)
        for d in range(request.size):
            need = request[d]
            if need > 0:
                future = idle[row, d] + nodes.releasing[row, d] - nodes.pipelined[row, d]
                room = min(room, min(idle[row, d], future) // need)
            elif d < 2 and idle[row, d] < 0:
                room = 0
        if flags & LIMIT_PODS:
            room = min(room, nodes.allocatable[row, 2] - nodes.pods[row])
        if room <= 0:
            continue
        for d in range(request.size):
            idle[row, d] -= room * request[d]
            nodes.requested[row, d] += room * request[d]
        nodes.scored[row, 0] += room * want.scored[0]
        nodes.scored[row, 1] += room * want.scored[1]
        nodes.pods[row] += room
        nodes.journal[nodes.cursor[0] % nodes.journal.size] = row
        nodes.cursor[0] += 1
        for _ in range(room):
            out[placed] = row
            placed += 1
    return placed


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator, unused-ignore] # numba publishes no types
def trim(order, rows, counts, cls, requests, left):  # type: ignore[no-untyped-def] # numba
    """Cut counts down to what the rows' vectors take, entry by entry.

    Args:
        order: int64[n], entries in the order in which they are served.
        rows: int64[n], row of each entry in `left`.
        counts: int64[n], tasks of each entry; cut in place.
        cls: int64[n], class of each entry.
        requests: int64[classes, width], what one task of each class asks for.
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
