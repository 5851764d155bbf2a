"""Where waiting tasks should go, as one minimum-cost flow over classes and nodes.

The network of one session, aggregated so that its size follows classes and kinds of nodes, not pods and nodes:

    class ── node kind ── sink      placed: price of the class there + price of its load
      └────────────────── sink      waiting, one arc per ask and step: more expensive than any place, by rank

- an *ask* is the equal tasks of one job. The asks of a class are one source; each has waiting arcs of its own: waiting
  for the first tasks (a gang's minimum) is priced by the job's rank, so that scarce places go to the jobs that come
  first; waiting is cheaper for tasks beyond the minimum, in doubling steps;
- an arc from a class to a node carries as many tasks as the node's real vectors can take of that class alone;
- arcs from a node to the sink are convex: each further task costs the score points that a task of average size takes
  off the node, so that a burst spreads if the score prefers that;
- nodes whose prices and room are equal for every class and load are merged; their flow is distributed afterwards.

The flow counts tasks while nodes have vectors: where several classes together need more than a node has, the classes
with the fewest other places keep theirs, and the other tasks are left to the next plan.

Units of prices: a tenth of a score point. This module does not change the session.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from strato.mincost.network import Network
from strato.mincost.solver import Kernel, Solver, SolveStatus
from strato.scheduler.optimal.kernels import trim

Int64s = npt.NDArray[np.int64]

SCALE = 10
"""Price units per score point."""
_LEVELS = 24
"""Number of waiting steps beyond the minimum; each has twice as many tasks as the one before."""
_HASH_SEED = 20161102
MOST_CLASSES = 256
"""Most classes of one plan, because prices are kept for every class on every node."""


class WaitingTasks(NamedTuple):
    """Equal waiting tasks of one job.

    Attributes:
        offer: Index of their class's `FittingRows`.
        size: How many tasks.
        core: How many of them the job's minimum lacks.
        rank: Position of the job in the session's order; 0 comes first.
    """

    offer: int
    size: int
    core: int
    rank: int


class FittingRows(NamedTuple):
    """The rows that a class fits on.

    Attributes:
        rows: Rows that can take at least one task, ascending.
        score: Score of each; larger is better.
        room: How many tasks of this class each could take if it took no others; at least 1.
    """

    rows: Int64s
    score: npt.NDArray[np.float64]
    room: Int64s


class LoadPenalty(NamedTuple):
    """The score points lost with the n-th further task of average size on a node, as steps.

    Attributes:
        begins: Number of tasks placed before each step, ascending from 0.
        points: float64[steps, rows] over all rows of the table; never falls from step to step.
    """

    begins: Int64s
    points: npt.NDArray[np.float64]


class Share(NamedTuple):
    """The rows of an ask's tasks: ``counts[i]`` of them go to ``rows[i]``."""

    rows: Int64s
    counts: Int64s


class Choice(NamedTuple):
    """The arcs and prices behind a placement, in score points; lower is better.

    Attributes:
        place: Price of the class on the node: its distance from the class's best score.
        load: Price of the load the node carries after this plan.
        scarcity: Price that one more unit of room on the node would save (its dual price).
        other: Row of the next best node and its price; None when there is none.
        waiting: Highest price of leaving a task of the ask waiting.
    """

    place: float
    load: float
    scarcity: float
    other: tuple[int, float] | None
    waiting: float


class FlowPlan:
    """One network, solved again from the last solution when asks are dropped.

    Args:
        asks: The asks, in any order.
        offers: The offers, one for each class.
        load: Price of filling nodes.
        slots: int64 over all rows: how many pods each row can still take.
    """

    def __init__(
        self, asks: Sequence[WaitingTasks], offers: Sequence[FittingRows], load: LoadPenalty, slots: Int64s
    ) -> None:
        self._asks, self._offers = asks, offers
        self.count = np.array([a.size for a in asks], np.int64)
        self._offer = np.array([a.offer for a in asks], np.int64)
        self._merge(load, slots)
        self._build()
        self._solver = Solver((self._kernel(),))

    # -- building ------------------------------------------------------------------------------------------------------

    def _merge(self, load: LoadPenalty, slots: Int64s) -> None:
        """Merge rows that have equal prices and equal room."""
        rows = np.unique(np.concatenate([offer.rows for offer in self._offers]))
        price = np.zeros((len(self._offers), len(rows)), np.int64)
        room = np.zeros_like(price)
        for i, offer in enumerate(self._offers):
            at = np.searchsorted(rows, offer.rows)
            price[i, at] = np.rint((offer.score.max(initial=0.0) - offer.score) * SCALE)
            room[i, at] = offer.room
        steps = np.rint(load.points[:, rows] * SCALE).astype(np.int64)
        total = np.minimum(slots[rows], room.max(axis=0))
        room[:, total <= 0] = 0
        facts = np.concatenate([price, room, steps, total[None, :]])
        rng = np.random.default_rng(_HASH_SEED)
        odd = rng.integers(0, 1 << 62, len(facts), dtype=np.int64) * 2 + 1
        with np.errstate(over="ignore"):
            mixed = (facts * odd[:, None]).sum(axis=0)
        _, first, kind = np.unique(mixed, return_index=True, return_inverse=True)
        kind = kind.reshape(-1)
        if (facts != facts[:, first][:, kind]).any():  # two different columns have the same hash
            first = kind = np.arange(len(rows))
        self._rows, self._kind = rows, kind
        self._size = np.bincount(kind, minlength=len(first))
        self._price, self._room, self._steps = price[:, first], room[:, first], steps[:, first]
        self._total, self._begins = total[first], load.begins
        order = np.argsort(kind, kind="stable")
        ends = np.cumsum(self._size)
        self._members = [rows[order[end - size : end]] for end, size in zip(ends, self._size, strict=True)]

    def _build(self) -> None:
        classes, kinds = len(self._offers), len(self._size)
        self._kind_at, self._sink = classes, classes + kinds
        spread = int(self._price.max(initial=0) + self._steps.max(initial=0)) + 1
        self._wait_ask, wait_cost, wait_room = _waiting(self._asks, spread)
        dearest = np.zeros(len(self._asks), np.int64)
        np.maximum.at(dearest, self._wait_ask, wait_cost)
        self._dearest = dearest.tolist()
        units = int(self.count.sum())
        cls, kind = self._arcs(units)
        self._arc_class, self._arc_kind = cls, kind
        widths = np.diff(np.append(self._begins, np.iinfo(np.int32).max))
        level_room = np.clip(self._total[None, :] - self._begins[:, None], 0, widths[:, None]) * self._size
        level, level_kind = np.nonzero(level_room)
        sink = self._sink
        tail = [self._offer[self._wait_ask], cls, classes + level_kind]
        head = [np.full(len(wait_cost), sink), classes + kind, np.full(len(level), sink)]
        cost = [wait_cost, self._price[cls, kind], self._steps[level, level_kind]]
        room = [wait_room, self._room[cls, kind] * self._size[kind], level_room[level, level_kind]]
        supply = np.zeros(sink + 1, np.int64)
        np.add.at(supply, self._offer, self.count)
        supply[sink] = -units
        self._first = np.cumsum([0, *(len(part) for part in tail)])
        self.network = Network.from_arcs(supply, *(np.concatenate(part) for part in (tail, head, cost, room)))
        order = self.network.arc_order
        assert order is not None  # built in one go, never edited
        self._slot = np.empty(len(order), np.int64)
        self._slot[order] = np.arange(len(order))

    def _arcs(self, units: int) -> tuple[Int64s, Int64s]:
        """Return the arcs from each class to kinds of nodes: the cheapest ones, with one row more than units in all.

        A unit never needs a more expensive row, because the other units cannot fill all of these. The additional row is
        the next best node in explanations.
        """
        parts_c, parts_k = [], []
        cheapest_load = self._steps[0]
        for c in range(len(self._offers)):
            kinds = np.flatnonzero(self._room[c])
            if self._size[kinds].sum() > units + 1:
                order = kinds[np.argsort(self._price[c, kinds] + cheapest_load[kinds], kind="stable")]
                upto = int(np.searchsorted(np.cumsum(self._size[order]), units + 1)) + 1
                kinds = np.sort(order[:upto])
            parts_c.append(np.full(len(kinds), c))
            parts_k.append(kinds)
        return np.concatenate(parts_c), np.concatenate(parts_k)

    def _kernel(self) -> Kernel:
        """Choose a kernel by the network's shape: a race would let the faster thread decide among equal optima."""
        free = int((self._total * self._size).sum())
        contended = int(self.count.sum()) > free // 2
        dense = len(self._arc_class) > 20 * self.network.node_count
        return Kernel.SCALING if contended and dense else Kernel.PATHS

    # -- solving -------------------------------------------------------------------------------------------------------

    def solve(self) -> Int64s:
        """Solve, after the first time from the last solution; return how many tasks of each ask get a place."""
        solution = self._solver.solve(self.network)
        assert solution.outcome is SolveStatus.OPTIMAL  # every unit may wait
        self._flow = self.network.arc_flow()
        into = self._flow[self._first[1] : self._first[2]]
        self._used = np.bincount(self._arc_kind, into, len(self._size)).astype(np.int64)
        self._ranked: dict[int, tuple[Int64s, Int64s]] = {}
        self._placed = self.count.copy()
        np.subtract.at(self._placed, self._wait_ask, self._flow[: self._first[1]])
        return self._placed

    def by_offer(self, by_ask: Sequence[Int64s]) -> Int64s:
        """Convert vectors by ask, which are equal for asks of one class, to rows by class."""
        _, first = np.unique(self._offer, return_index=True)
        return np.stack([by_ask[i] for i in first.tolist()])

    def drop(self, asks: Sequence[int]) -> None:
        """Exclude asks from the next solution, by making waiting cheaper for them than any place."""
        dropped = np.zeros(len(self._asks), np.bool_)
        dropped[list(asks)] = True
        self.network.arrays.cost[self._slot[: self._first[1]][dropped[self._wait_ask]]] = -1

    def shares(self, requests: Int64s, idle: Int64s) -> list[Share]:
        """Distribute the flow: return rows and counts by ask. Asks of one class take its rows in order of rank.

        Args:
            requests: int64[offers, width], request of one task of each class.
            idle: int64[rows, width], what is free on every row of the table; the shares never exceed it.
        """
        deals = self._deal()
        parts: list[tuple[int, Int64s, Int64s]] = []
        taken = [0] * len(self._offers)
        for i in sorted(range(len(self._asks)), key=lambda i: self._asks[i].rank):
            wanted = int(self._placed[i])
            if not wanted:
                continue
            c = self._asks[i].offer
            rows, ends = deals[c]
            begin, end = taken[c], taken[c] + wanted
            taken[c] = end
            a, b = int(np.searchsorted(ends, begin, "right")), int(np.searchsorted(ends, end, "left")) + 1
            upto = np.minimum(ends[a:b], end)
            parts.append((i, rows[a:b], np.diff(np.concatenate([[begin], upto]))))
        out = [Share(_NONE, _NONE)] * len(self._asks)
        if not parts:
            return out
        rows, counts = (np.concatenate([part[k] for part in parts]) for k in (1, 2))
        lengths = np.array([len(part[1]) for part in parts])
        cls = np.repeat(self._offer[[part[0] for part in parts]], lengths)
        picky = np.argsort(np.array([offer.room.sum() for offer in self._offers])[cls], kind="stable")
        left = idle[self._rows].copy()
        trim(picky, np.searchsorted(self._rows, rows), counts, cls, requests, left)
        for (i, mine, _), kept in zip(parts, np.split(counts, np.cumsum(lengths)[:-1]), strict=True):
            out[i] = Share(mine, kept)
        return out

    def _deal(self) -> list[tuple[Int64s, Int64s]]:
        """Split the flow of merged nodes: return for each class its rows, each once, and the cumulative counts."""
        flow = self._flow[self._first[1] : self._first[2]]
        rows: list[list[Int64s]] = [[] for _ in self._offers]
        counts: list[list[Int64s]] = [[] for _ in self._offers]
        pointer = np.zeros(len(self._size), np.int64)
        for arc in np.flatnonzero(flow).tolist():
            c, kind, amount = int(self._arc_class[arc]), int(self._arc_kind[arc]), int(flow[arc])
            members = self._members[kind]
            size = len(members)
            if size == 1:
                rows[c].append(members)
                counts[c].append(np.array([amount], np.int64))
                continue
            start = int(pointer[kind])
            if self._steps[-1, kind] > self._steps[0, kind]:  # load has a price: spread the tasks round robin
                share = np.full(size, amount // size)
                share[(start + np.arange(amount % size)) % size] += 1
                pointer[kind] = (start + amount) % size
            else:  # load is free: fill one node after the other
                full = int(min(self._room[c, kind], self._total[kind]))
                share = np.zeros(size, np.int64)
                many = -(-amount // full)
                at = (start + np.arange(many)) % size
                share[at] = full
                share[at[-1]] = amount - full * (many - 1)
                pointer[kind] = (start + amount // full) % size
            used = np.flatnonzero(share)
            rows[c].append(members[used])
            counts[c].append(share[used])
        return [
            (np.concatenate(r), np.cumsum(np.concatenate(n))) if r else (_NONE, _NONE)
            for r, n in zip(rows, counts, strict=True)
        ]

    # -- why -----------------------------------------------------------------------------------------------------------

    def choice(self, ask: int, row: int) -> Choice:
        """Return the arcs and prices behind a task of an ask on a row."""
        c = self._asks[ask].offer
        kind = int(self._kind[np.searchsorted(self._rows, row)])
        kinds, prices = self._ranking(c)
        other = None
        for near, price in zip(kinds[:2].tolist(), prices[:2].tolist(), strict=True):
            if near != kind and other is None:
                other = (int(self._members[near][0]), price / SCALE)
        used = -(-int(self._used[kind]) // int(self._size[kind]))
        step = max(0, int(np.searchsorted(self._begins, used - 1, "right")) - 1)
        load = int(self._steps[step, kind])
        scarcity = max(0, int(self._dual(kind)) - load)
        return Choice(
            int(self._price[c, kind]) / SCALE, load / SCALE, scarcity / SCALE, other, self._dearest[ask] / SCALE
        )

    def cheapest(self, ask: int) -> float | None:
        """Return the price of the cheapest place for an ask's class, scarcity included, in points; None without one."""
        _, prices = self._ranking(self._asks[ask].offer)
        return float(prices[0]) / SCALE if len(prices) else None

    def waiting(self, ask: int) -> float:
        """Return the highest price of leaving a task of the ask waiting, in points."""
        return self._dearest[ask] / SCALE

    def _dual(self, kind: Int64s | int) -> Int64s:
        potential = self.network.arrays.potential
        dual: Int64s = potential[self._sink] - potential[self._kind_at + kind]
        return dual

    def _ranking(self, c: int) -> tuple[Int64s, Int64s]:
        """Return the kinds of nodes sorted by their price for a class, scarcity included, and these prices."""
        found = self._ranked.get(c)
        if found is None:
            kinds = self._arc_kind[self._arc_class == c]
            prices = self._price[c, kinds] + self._dual(kinds)
            order = np.argsort(prices, kind="stable")
            found = self._ranked[c] = kinds[order], prices[order]
        return found


_NONE: Int64s = np.zeros(0, np.int64)


def _waiting(asks: Sequence[WaitingTasks], spread: int) -> tuple[Int64s, Int64s, Int64s]:
    """Return the waiting arcs: index of the ask, price and room. All cost more than any place (``spread``)."""
    step = 4 * spread
    last = max((a.rank for a in asks), default=0)
    tails, prices, rooms = [], [], []
    for i, ask in enumerate(asks):
        left, width = ask.size - ask.core, 1
        for depth in range(_LEVELS):  # the first task beyond the minimum is the most expensive to leave waiting
            if left <= 0:
                break
            now = left if depth == _LEVELS - 1 else min(left, width)
            tails.append(i)
            prices.append(step + (_LEVELS - depth) * spread // _LEVELS)
            rooms.append(now)
            left -= now
            width *= 2
        if ask.core:
            tails.append(i)
            prices.append(step * (3 + last - ask.rank))
            rooms.append(ask.core)
    return np.array(tails, np.int64), np.array(prices, np.int64), np.array(rooms, np.int64)
