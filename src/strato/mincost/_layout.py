"""Compiled edits of the network's rows and in-lists (see `network` for the layout).

An in-list keeps arcs with flow before arcs without, so a backward scan of residual arcs stops at the
first arc without flow. Every function here and in `paths` that changes a flow between zero and
positive moves the arc to the matching end of its list.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from strato.machinecode import jit

if TYPE_CHECKING:
    from strato.mincost.arrays import Arrays, Int, Int64s


_AHEAD = 128
"""Number of nodes whose neighbours are read ahead before they are edited."""


@jit(inline="always")
def unlink(g: Arrays, arc: Int) -> None:
    """Take an arc out of the in-list of its head."""
    before, after, node = g.prev_in[arc], g.next_in[arc], g.head[arc]
    if before >= 0:
        g.next_in[before] = after
    else:
        g.first_in[node] = after
    if after >= 0:
        g.prev_in[after] = before
    else:
        g.last_in[node] = before


@jit(inline="always")
def link(g: Arrays, arc: Int) -> None:
    """Put an arc into the in-list of its head: at the front with flow, else at the back."""
    node = g.head[arc]
    if g.flow[arc] > 0:
        first = g.first_in[node]
        g.prev_in[arc], g.next_in[arc] = -1, first
        g.first_in[node] = arc
        if first >= 0:
            g.prev_in[first] = arc
        else:
            g.last_in[node] = arc
    else:
        last = g.last_in[node]
        g.prev_in[arc], g.next_in[arc] = last, -1
        g.last_in[node] = arc
        if last >= 0:
            g.next_in[last] = arc
        else:
            g.first_in[node] = arc


@jit(inline="always")
def change_flow(g: Arrays, arc: Int, amount: Int) -> None:
    """Add to an arc's flow, keeping its in-list in order."""
    old = g.flow[arc]
    new = old + amount
    g.flow[arc] = new
    if (old > 0) != (new > 0):
        unlink(g, arc)
        link(g, arc)


@jit()
def link_all(g: Arrays, nodes: Int) -> None:
    """Build all in-lists from the rows. O(nodes + arcs)."""
    next_in, prev_in, first_in, last_in = g.next_in, g.prev_in, g.first_in, g.last_in
    heads, flows, starts, lengths = g.head, g.flow, g.row_start, g.row_length
    first_in[:] = -1
    last_in[:] = -1
    for node in range(nodes):
        for arc in range(starts[node], starts[node] + lengths[node]):
            head = heads[arc]
            first, last = first_in[head], last_in[head]
            if last < 0:
                prev_in[arc] = next_in[arc] = -1
                first_in[head] = last_in[head] = arc
            elif flows[arc] > 0:
                prev_in[arc], next_in[arc] = -1, first
                first_in[head] = prev_in[first] = arc
            else:
                prev_in[arc], next_in[arc] = last, -1
                last_in[head] = next_in[last] = arc


@jit()
def inflow(g: Arrays, node: Int) -> Int:
    """Sum the flow that enters a node; needs its in-list in order."""
    total, arc = 0, g.first_in[node]
    while arc >= 0 and g.flow[arc] > 0:
        total += g.flow[arc]
        arc = g.next_in[arc]
    return total


@jit()
def demand_on(g: Arrays, nodes: Int64s, most: Int) -> Int64s:
    """Bound the units that can enter each node: its arcs from sources, or `most` when other nodes lead there too."""
    found = np.zeros(len(nodes), np.int64)
    for i in range(len(nodes)):
        arc = g.first_in[nodes[i]]
        while arc >= 0:
            if g.supply[g.tail[arc]] <= 0:
                found[i] = most
                break
            found[i] += min(g.capacity[arc], g.supply[g.tail[arc]])
            arc = g.next_in[arc]
        found[i] = min(found[i], most)
    return found


@jit()
def _drop_arc(g: Arrays, arc: Int) -> None:
    """Remove one arc; the last arc of its row takes its slot."""
    node = g.tail[arc]
    last = g.row_start[node] + g.row_length[node] - 1
    unlink(g, arc)
    if arc != last:
        unlink(g, last)
        g.head[arc], g.cost[arc], g.capacity[arc] = g.head[last], g.cost[last], g.capacity[last]
        g.flow[arc] = g.flow[last]
        link(g, arc)
    g.capacity[last] = 0
    g.flow[last] = 0
    g.cost[last] = 0
    g.head[last] = node
    g.row_length[node] -= 1


@jit()
def withdraw(g: Arrays, arc: Int, amount: Int) -> None:
    """Remove units from an arc and from a path that carries them on to where they are absorbed."""
    while amount > 0:
        change_flow(g, arc, -amount)
        node = g.head[arc]
        arc = -1
        for candidate in range(g.row_start[node], g.row_start[node] + g.row_length[node]):
            if g.flow[candidate] >= amount:
                arc = candidate
                break
        if arc < 0:
            return


@jit()
def withdraw_surplus(g: Arrays, nodes: Int64s) -> None:
    """Withdraw the units that sources send beyond their supply, cheapest arcs first. O(their arcs × surplus)."""
    for i in range(len(nodes)):
        node = nodes[i]
        begin, end = g.row_start[node], g.row_start[node] + g.row_length[node]
        surplus = g.flow[begin:end].sum() - g.supply[node]
        while surplus > 0:
            best = -1
            for arc in range(begin, end):
                if g.flow[arc] > 0 and (best < 0 or g.cost[arc] < g.cost[best]):
                    best = arc
            withdraw(g, best, 1)
            surplus -= 1


@jit()
def _fetch_neighbours(g: Arrays, nodes: Int64s, begin: Int, end: Int) -> Int:
    """Read the records that unlinking these nodes' arcs will write, so that they are in the cache by then.

    Neighbours in an in-list lie anywhere in memory. These reads do not depend on each other, so the CPU overlaps many
    of them. The returned sum is meaningless; it keeps the compiler from removing the reads.
    """
    total = np.int64(0)
    for i in range(begin, end):
        node = nodes[i]
        for arc in range(g.row_start[node], g.row_start[node] + g.row_length[node]):
            total += g.next_in[max(g.prev_in[arc], 0)] + g.prev_in[max(g.next_in[arc], 0)]
    return total


@jit()
def _fetch_ends(g: Arrays, nodes: Int64s, offsets: Int64s, heads: Int64s, begin: Int, end: Int) -> Int:
    """Read the records that linking the arcs of new rows will write, as `_fetch_neighbours` does."""
    total = np.int64(0)
    for i in range(begin, end):
        if g.row_length[nodes[i]] == 0:
            for k in range(offsets[i], offsets[i + 1]):
                total += g.next_in[max(g.last_in[heads[k]], 0)]
    return total


@jit()
def remove_nodes(g: Arrays, nodes: Int64s) -> Int:
    """Remove the arcs of nodes, withdrawing the flow they send. O(their arcs). The returned number is meaningless."""
    # Local names for the columns: an access through the tuple in the loop would count references each time.
    next_in, prev_in, first_in, last_in = g.next_in, g.prev_in, g.first_in, g.last_in
    heads, costs, capacities, flows = g.head, g.cost, g.capacity, g.flow
    starts, lengths, supply = g.row_start, g.row_length, g.supply
    fetched = np.int64(0)
    for i in range(len(nodes)):
        node = nodes[i]
        if i % _AHEAD == 0:
            fetched += _fetch_neighbours(g, nodes, i, min(len(nodes), i + _AHEAD))
        start = starts[node]
        end = start + lengths[node]
        for arc in range(start, end):
            for _ in range(flows[arc]):
                withdraw(g, arc, 1)
        for arc in range(start, end):
            before, after, head = prev_in[arc], next_in[arc], heads[arc]
            if before >= 0:
                next_in[before] = after
            else:
                first_in[head] = after
            if after >= 0:
                prev_in[after] = before
            else:
                last_in[head] = before
            heads[arc], costs[arc], capacities[arc] = node, 0, 0
        lengths[node] = 0
        while first_in[node] >= 0:
            _drop_arc(g, first_in[node])
        supply[node] = 0
    return fetched


@jit()
def move_rows(g: Arrays, nodes: Int64s, starts: Int64s, sizes: Int64s) -> None:
    """Move rows to larger runs of slots, clearing both the new slack and the old run."""
    for i in range(len(nodes)):
        node, target = nodes[i], starts[i]
        source, length = g.row_start[node], g.row_length[node]
        for slot in range(target, target + sizes[i]):
            g.tail[slot], g.head[slot] = node, node
            g.cost[slot], g.capacity[slot], g.flow[slot] = 0, 0, 0
        for k in range(length):
            old, new = source + k, target + k
            unlink(g, old)
            g.head[new], g.cost[new], g.capacity[new] = g.head[old], g.cost[old], g.capacity[old]
            g.flow[new] = g.flow[old]
            link(g, new)
            g.head[old], g.cost[old], g.capacity[old], g.flow[old] = g.tail[old], 0, 0, 0
        g.row_start[node] = target


@jit()
def _kept_flow(g: Arrays, node: Int, head: Int, capacity: Int) -> int:
    """Remove and return the flow, up to the capacity, of the node's first arc to this head that still has any."""
    for arc in range(g.row_start[node], g.row_start[node] + g.row_length[node]):
        if g.head[arc] == head and g.flow[arc] > 0:
            kept = min(g.flow[arc], capacity)
            g.flow[arc] -= kept
            return int(kept)
    return 0


@jit()
def _same_heads(g: Arrays, node: Int, heads: Int64s, begin: Int, wanted: Int) -> bool:
    if g.row_length[node] != wanted:
        return False
    for k in range(wanted):  # noqa: SIM110 - compiled code takes no generator
        if g.head[g.row_start[node] + k] != heads[begin + k]:
            return False
    return True


@jit()
def set_rows(
    g: Arrays, nodes: Int64s, offsets: Int64s, heads: Int64s, costs: Int64s, capacities: Int64s
) -> tuple[int, Int]:
    """Rewrite rows whose runs are large enough; return the number of arcs changed, and a meaningless number."""
    next_in, prev_in, first_in, last_in = g.next_in, g.prev_in, g.first_in, g.last_in
    head_of, cost_of, capacity_of, lengths = g.head, g.cost, g.capacity, g.row_length
    changed, fetched = 0, np.int64(0)
    for i in range(len(nodes)):
        if i % _AHEAD == 0:
            fetched += _fetch_ends(g, nodes, offsets, heads, i, min(len(nodes), i + _AHEAD))
        node, begin = nodes[i], offsets[i]
        start, length, wanted = g.row_start[node], g.row_length[node], offsets[i + 1] - offsets[i]
        if length == 0:  # most are rows of new nodes; unused slots carry no flow
            for k in range(wanted):
                slot, head = start + k, heads[begin + k]
                head_of[slot], cost_of[slot], capacity_of[slot] = head, costs[begin + k], capacities[begin + k]
                last = last_in[head]
                prev_in[slot], next_in[slot] = last, -1
                last_in[head] = slot
                if last >= 0:
                    next_in[last] = slot
                else:
                    first_in[head] = slot
            lengths[node] = wanted
            changed += wanted
            continue
        if _same_heads(g, node, heads, begin, wanted):
            for k in range(wanted):
                slot, source = start + k, begin + k
                if g.cost[slot] != costs[source] or g.capacity[slot] != capacities[source]:
                    changed += 1
                    g.cost[slot], g.capacity[slot] = costs[source], capacities[source]
                    if g.flow[slot] > capacities[source]:
                        change_flow(g, slot, capacities[source] - g.flow[slot])
            continue
        for slot in range(start, start + length):
            unlink(g, slot)
        flows = np.zeros(wanted, np.int64)
        for k in range(wanted):
            flows[k] = _kept_flow(g, node, heads[begin + k], capacities[begin + k])
        changed += max(length, wanted)
        for slot in range(start + wanted, start + length):
            g.head[slot], g.cost[slot], g.capacity[slot], g.flow[slot] = node, 0, 0, 0
        for k in range(wanted):
            slot, source = start + k, begin + k
            g.head[slot], g.cost[slot], g.capacity[slot] = heads[source], costs[source], capacities[source]
            g.flow[slot] = flows[k]
            link(g, slot)
        g.row_length[node] = wanted
    return changed, fetched
