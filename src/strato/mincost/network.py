"""The flow network: one array layout that every kernel reads, and the bulk edits a graph manager makes.

A network is a directed graph with integer supplies, capacities and costs (parallel arcs are allowed).
Nodes are numbers; each node owns one *row* of arc slots that leave it, so arcs are sorted by tail and a
node's arcs lie side by side. Rows have slack: a row that outgrows its slots moves to a larger run and
its old run is kept for the next row of that size. A slot that is not in use has capacity 0 and never
carries flow. The arcs that enter a node form a doubly linked list in which arcs with flow come first.

Sign convention, everywhere in this room: the reduced cost of an arc is
``cost + potential[tail] - potential[head]``; a flow is optimal when it is ≥ 0 on every arc below its
capacity and ≤ 0 on every arc above zero. Lower bounds are folded away when an arc enters the network:
the kernels see flow above the lower bound only.

Limits: at most 2³¹ − 1 nodes and arc slots; |cost| × (nodes + 1) < 2⁶¹; |supply| and capacity < 2⁵³.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from strato.errors import Problem, UsageError
from strato.mincost import _layout
from strato.mincost.arrays import Arrays, Int64s

_Scalar = TypeVar("_Scalar", bound=np.generic)

LARGEST_QUANTITY = 1 << 53
"""Bound of supplies and capacities, so that sums over a network fit int64."""
LARGEST_SCALED_COST = 1 << 61
"""Bound of |cost| × (nodes + 1): cost scaling multiplies costs by nodes + 1, paths add them up."""


class NetworkError(UsageError):
    """A network that cannot be solved as given; `problems` lists what is wrong, object by object."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(f"{p.where}: {p.message}" if p.where else p.message for p in self.problems))


class Network:
    """A mutable flow network with the flow and potentials of its last solution.

    Attributes:
        node_count: Node numbers in use are below this (freed ones included).
        slot_count: Arc slots in use are below this (unused ones included).
        lists_valid: Whether the in-lists have arcs with flow first, as `paths` needs it.
        base_cost: Cost of the flow on lower bounds, part of every objective.
    """

    def __init__(self, nodes: int = 0, slots: int = 0) -> None:
        self.node_count = 0
        self.slot_count = 0
        self.lists_valid = True
        self.base_cost = 0
        self.arc_order: Int64s | None = None
        self.lower: Int64s | None = None
        self._free_nodes: list[int] = []
        self._free_runs: dict[int, list[int]] = {}
        self._row_size = np.zeros(max(nodes, _FEWEST), np.int64)
        self._alive = np.zeros(max(nodes, _FEWEST), np.bool_)
        self._arrays = _empty_arrays(nodes, slots)

    # -- building ----------------------------------------------------------------------------------

    @classmethod
    def from_arcs(
        cls,
        supply: npt.ArrayLike,
        tail: npt.ArrayLike,
        head: npt.ArrayLike,
        cost: npt.ArrayLike,
        capacity: npt.ArrayLike,
        lower: npt.ArrayLike | None = None,
    ) -> Network:
        """Build a network in one go; `arc_flow` gives flows back in the order of these arcs.

        Raises:
            NetworkError: Supplies do not sum to zero, a number is out of range or a node unknown.
        """
        supply_, tail_, head_, cost_, capacity_ = (
            np.asarray(column, np.int64) for column in (supply, tail, head, cost, capacity)
        )
        lower_ = np.zeros_like(capacity_) if lower is None else np.asarray(lower, np.int64)
        check_network(supply_, tail_, head_, cost_, capacity_, lower_)
        network = cls(len(supply_), len(tail_))
        order = np.argsort(tail_, kind="stable")
        network.node_count, network.slot_count = len(supply_), len(tail_)
        network.arc_order, network.lower = order, lower_
        network.base_cost = int(lower_ @ cost_)
        network._alive[: len(supply_)] = True
        every = network._arrays
        arrays = Arrays._make([c[: len(tail_)] for c in every[:7]] + [c[: len(supply_)] for c in every[7:]])
        arrays.supply[:] = supply_
        np.subtract.at(arrays.supply, tail_, lower_)
        np.add.at(arrays.supply, head_, lower_)
        arrays.tail[:], arrays.head[:] = tail_[order], head_[order]
        arrays.cost[:], arrays.capacity[:] = cost_[order], (capacity_ - lower_)[order]
        arrays.row_length[:] = np.bincount(tail_, minlength=len(supply_))
        arrays.row_start[1:] = np.cumsum(arrays.row_length)[:-1]
        network._row_size[: len(supply_)] = arrays.row_length
        _layout.link_all(network.arrays, network.node_count)
        return network

    @property
    def arrays(self) -> Arrays:
        """Views of all arrays, cut to the numbers in use, but not below two.

        A view of a single record counts as contiguous, which is another type for the kernels, so that they would be
        compiled again. An additional record belongs to no row and has no supply.
        """
        nodes, slots = max(self.node_count, _FEWEST), max(self.slot_count, _FEWEST)
        a = self._arrays
        return Arrays._make([column[:slots] for column in a[:7]] + [column[:nodes] for column in a[7:]])

    @property
    def objective(self) -> int:
        """Cost of the present flow, lower bounds included."""
        a = self.arrays
        return self.base_cost + int(a.cost @ a.flow)

    def arc_flow(self) -> Int64s:
        """Return the flow of each arc of `from_arcs`, in its order and with its lower bound.

        Raises:
            UsageError: The network was not built by `from_arcs`.
        """
        if self.arc_order is None or self.lower is None:
            raise UsageError("this network was not built by from_arcs, so its arcs have no given order")
        flow = np.empty(len(self.arc_order), np.int64)
        flow[self.arc_order] = self.arrays.flow[: len(self.arc_order)]
        return flow + self.lower

    # -- editing -----------------------------------------------------------------------------------

    def add_nodes(self, count: int, supply: int = 0) -> Int64s:
        """Add nodes without arcs and return their numbers (freed ones first)."""
        reused = [self._free_nodes.pop() for _ in range(min(count, len(self._free_nodes)))]
        fresh = count - len(reused)
        self._reserve_nodes(self.node_count + fresh)
        ids = np.concatenate([np.array(reused, np.int64), np.arange(self.node_count, self.node_count + fresh)])
        self.node_count += fresh
        a = self._arrays
        a.supply[ids], a.potential[ids] = supply, 0
        a.row_length[ids] = 0
        a.first_in[ids] = a.last_in[ids] = -1
        self._alive[ids] = True
        self.arc_order = None
        return ids

    def remove_nodes(self, nodes: npt.ArrayLike) -> None:
        """Remove nodes with the arcs that leave and enter them.

        Units that leave such a node are withdrawn along their path, so that the rest of the flow stays
        balanced once the sink's supply is corrected; what enters it becomes excess of its tail.
        """
        ids = np.asarray(nodes, np.int64)
        self.arc_order = None
        _layout.remove_nodes(self.arrays, ids)
        self._alive[ids] = False
        self._free_nodes.extend(ids.tolist())

    def set_rows(
        self,
        nodes: npt.ArrayLike,
        offsets: npt.ArrayLike,
        head: npt.ArrayLike,
        cost: npt.ArrayLike,
        capacity: npt.ArrayLike,
    ) -> int:
        """Make the arcs that leave each node equal to the given ones; equal heads keep their flow.

        Args:
            nodes: Node numbers, each at most once.
            offsets: One more than `nodes`; arcs ``offsets[i]:offsets[i + 1]`` belong to node i.
            head: Heads of the arcs.
            cost: Unit costs.
            capacity: Capacities.

        Returns:
            The number of arcs that were added, removed or changed.
        """
        ids, starts = np.asarray(nodes, np.int64), np.asarray(offsets, np.int64)
        heads, costs = np.asarray(head, np.int64), np.asarray(cost, np.int64)
        capacities = np.asarray(capacity, np.int64)
        self.arc_order = None
        wanted = np.diff(starts)
        grow = np.flatnonzero(wanted > self._row_size[ids])
        if len(grow):
            self._move_rows(ids[grow], wanted[grow])
        return int(_layout.set_rows(self.arrays, ids, starts, heads, costs, capacities)[0])

    def set_supply(self, nodes: npt.ArrayLike, supply: npt.ArrayLike) -> None:
        """Set supplies (positive) or demands (negative)."""
        self._arrays.supply[np.asarray(nodes, np.int64)] = supply

    def withdraw_surplus(self, nodes: npt.ArrayLike) -> None:
        """Withdraw the units that sources send beyond their reduced supply, along the units' paths."""
        _layout.withdraw_surplus(self.arrays, np.asarray(nodes, np.int64))

    def demand_on(self, nodes: Int64s, most: int) -> Int64s:
        """Bound the units that can enter nodes; `most` where not only sources lead to a node."""
        if not self.lists_valid:
            _layout.link_all(self.arrays, self.node_count)
            self.lists_valid = True
        found: Int64s = _layout.demand_on(self.arrays, nodes, most)
        return found

    def arc_of(self, tail: int, head: int) -> int:
        """Return the first slot of an arc between two nodes, or −1."""
        a = self._arrays
        start, length = int(a.row_start[tail]), int(a.row_length[tail])
        hits = np.flatnonzero(a.head[start : start + length] == head)
        return start + int(hits[0]) if len(hits) else -1

    def slots_in_use(self) -> Int64s:
        """List the arc slots of all rows, in order of their tails."""
        starts, lengths = self.arrays.row_start, self.arrays.row_length
        offsets = np.repeat(starts - (np.cumsum(lengths) - lengths), lengths)
        slots: Int64s = np.arange(len(offsets), dtype=np.int64) + offsets
        return slots

    def is_alive(self, node: int) -> bool:
        """Tell whether a node number is in use."""
        return 0 <= node < self.node_count and bool(self._alive[node])

    # -- storage -----------------------------------------------------------------------------------

    def _move_rows(self, ids: Int64s, wanted: Int64s) -> None:
        starts = np.empty(len(ids), np.int64)
        sizes = np.maximum(4, 1 << np.ceil(np.log2(np.maximum(wanted, 1))).astype(np.int64))
        sizes = np.where(wanted <= sizes * 3 // 4, np.maximum(sizes * 3 // 4, wanted), sizes)
        end = self.slot_count
        for i, size in enumerate(sizes.tolist()):
            free = self._free_runs.get(size)
            if free:
                starts[i] = free.pop()
            else:
                starts[i] = end
                end += size
        self._reserve_slots(end)
        self.slot_count = end
        for node in ids.tolist():
            if self._row_size[node]:
                self._free_runs.setdefault(int(self._row_size[node]), []).append(int(self._arrays.row_start[node]))
        _layout.move_rows(self.arrays, ids, starts, sizes)
        self._row_size[ids] = sizes

    def _reserve_nodes(self, count: int) -> None:
        have = len(self._arrays.supply)
        if count > have:
            size = max(count, have + have // 2, 16)
            larger = _empty_arrays(size, 0)
            for name in _NODE_FIELDS:
                getattr(larger, name)[:have] = getattr(self._arrays, name)
            self._arrays = Arrays._make([*self._arrays[:7], *larger[7:]])
            self._row_size, self._alive = _grown(self._row_size, size), _grown(self._alive, size)

    def _reserve_slots(self, count: int) -> None:
        have = len(self._arrays.tail)
        if count > have:
            size = max(count, have + have // 4, 64)
            larger = _empty_arrays(0, size)
            for name in _ARC_FIELDS:
                getattr(larger, name)[:have] = getattr(self._arrays, name)
            self._arrays = Arrays._make([*larger[:7], *self._arrays[7:]])


def check_network(supply: Int64s, tail: Int64s, head: Int64s, cost: Int64s, capacity: Int64s, lower: Int64s) -> None:
    """Refuse input that no solver can take, naming the node or arc.

    Raises:
        NetworkError: Up to ten problems.
    """
    problems: list[Problem] = []
    if len({len(tail), len(head), len(cost), len(capacity), len(lower)}) > 1:
        raise NetworkError([Problem("arcs", "tail, head, cost, capacity and lower differ in length")])
    nodes = len(supply)

    def report(bad: npt.NDArray[np.bool_], text: str) -> None:
        problems.extend(
            Problem(
                f"arc {i} ({int(tail[i])} → {int(head[i])})",
                text.format(cost=cost[i], capacity=capacity[i], lower=lower[i]),
            )
            for i in np.flatnonzero(bad)[:5].tolist()
        )

    report((tail < 0) | (tail >= nodes) | (head < 0) | (head >= nodes), f"unknown node; nodes are 0 to {nodes - 1}")
    report(lower < 0, "lower bound {lower} is negative")
    report(capacity < lower, "capacity {capacity} is below the lower bound {lower}")
    report(capacity > LARGEST_QUANTITY, "capacity {capacity} is above 2^53")
    largest_cost = LARGEST_SCALED_COST // (nodes + 1)
    report(
        (cost > largest_cost) | (cost < -largest_cost), f"cost {{cost}} × (nodes + 1) overflows; at most {largest_cost}"
    )
    problems.extend(
        Problem(f"node {i}", f"supply {int(supply[i])} is above 2^53")
        for i in np.flatnonzero((supply > LARGEST_QUANTITY) | (supply < -LARGEST_QUANTITY))[:5].tolist()
    )
    total = sum(supply.tolist()) if problems else int(supply.sum())
    if total:
        problems.append(Problem("supplies", f"sum to {total}, must sum to 0: some supply has no demand or the reverse"))
    if problems:
        raise NetworkError(problems[:10])


_ARC_FIELDS = Arrays._fields[:7]
_NODE_FIELDS = Arrays._fields[7:]
_ARC = np.dtype(
    {
        "names": list(_ARC_FIELDS),
        "formats": [np.int32, np.int32, np.int64, np.int64, np.int64, np.int32, np.int32],
        "offsets": [0, 4, 16, 24, 32, 8, 12],
        "itemsize": 40,
    }
)
_NODE = np.dtype(
    {
        "names": list(_NODE_FIELDS),
        "formats": [np.int64, np.int64, np.int32, np.int32, np.int64, np.int64],
        "offsets": [0, 8, 16, 20, 24, 32],
        "itemsize": 40,
    }
)


_FEWEST = 2
"""Least number of records (see `Network.arrays`)."""


def _empty_arrays(nodes: int, slots: int) -> Arrays:
    """Return columns that are views of one record per arc and one per node.

    Searches jump from arc to arc along in-lists and read several fields of each: in one record they share a cache line.
    """
    arcs, points = np.zeros(max(slots, _FEWEST), _ARC), np.zeros(max(nodes, _FEWEST), _NODE)
    found = Arrays._make([*(arcs[name] for name in _ARC_FIELDS), *(points[name] for name in _NODE_FIELDS)])
    for column in (found.next_in, found.prev_in, found.first_in, found.last_in):
        column[:] = -1
    return found


def _grown(column: npt.NDArray[_Scalar], size: int) -> npt.NDArray[_Scalar]:
    larger = np.zeros(size, column.dtype)
    larger[: len(column)] = column
    return larger
