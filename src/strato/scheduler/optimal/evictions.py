"""Which running tasks to evict for waiting gangs, as one minimum-cost flow: a victim moves or is left out.

    seeker ── sink                        waits: price is the job's worth
      ├────── row ── sink                 a place that is free (or about to be)
      ├────── row' ── sink                a place whose victims are left out: price of evicting them
      └────── moved class ── row ── sink  a place whose victims move: their price, and a free place for them

A *seeker* is a group of equal tasks of one job. For it, a row offers *places*: the row's cheapest victims make room for
a first task, a second, and so on, at prices that do not fall. A victim that moves sends its unit of flow on to a free
row, so that the same room is not counted twice. Running tasks have no nodes in the network: its arcs are seekers ×
rows, limited to as many of the cheapest rows as the units of flow could ever use.

The flow counts tasks while nodes have vectors, so `optimal.moves` tries a proposal on the session before it evicts.
This module does not change the session. Prices are node-hours (`optimal.gains`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from strato.mincost.network import Network
from strato.mincost.solver import Kernel, Solver, SolveStatus

Int64s = npt.NDArray[np.int64]

_PRICE_RANGE = 1 << 28
"""The highest price as an integer; prices that differ by less than this fraction of it count as equal."""
_TIE_RANGE = 1 << 8
"""Steps by which scores break ties between equal prices."""
_EXACT = 8
"""Up to this many victims on a row, every subset is tried."""
FREE, LEFT_OUT = -2, -1


class Place(NamedTuple):
    """Room for tasks of a seeker on a row.

    Attributes:
        row: The row.
        tasks: How many of its tasks.
        price: What each costs, in node-hours; a row's later places cost no less than its earlier ones.
        goes_to: Number of the class that has to move for it, `LEFT_OUT` when no victim moves, `FREE` without victims.
        tie: 0 … 1, smaller is better among equal prices.
    """

    row: int
    tasks: int
    price: float
    goes_to: int
    tie: float = 0.0


class Seeker(NamedTuple):
    """Equal tasks of one job that need places.

    Attributes:
        units: How many.
        waiting: Price of leaving one of them waiting, in node-hours.
        places: The places they could get.
    """

    units: int
    waiting: float
    places: Sequence[Place]


class EvictionPlan:
    """One network, solved again from the last solution when seekers are dropped.

    Args:
        seekers: The seekers.
        refuges: By number of a class that may have to move, the rows with room for it and for how many tasks.
    """

    def __init__(self, seekers: Sequence[Seeker], refuges: Sequence[Sequence[tuple[int, int]]]) -> None:
        self._seekers = seekers
        dearest = max([s.waiting for s in seekers] + [p.price for s in seekers for p in s.places])
        scale = _PRICE_RANGE / dearest if dearest > 0 else 0.0
        first_refuge = len(seekers)
        self._count = first_refuge + len(refuges)
        self._nodes: dict[tuple[bool, int], int] = {}
        self._room: dict[int, int] = {}
        arcs: list[tuple[int, int, int, int]] = []
        self._places: list[tuple[int, Place]] = []
        for i, seeker in enumerate(seekers):
            arcs.append((i, -1, round(seeker.waiting * scale) * _TIE_RANGE, seeker.units))
        for i, seeker in enumerate(seekers):
            total: dict[int, int] = {}
            for place in seeker.places:
                cost = round(place.price * scale) * _TIE_RANGE + int(place.tie * (_TIE_RANGE - 1))
                if place.goes_to >= 0:
                    head = first_refuge + place.goes_to
                else:
                    head = self._node(place.goes_to == FREE, place.row)
                    total[head] = total.get(head, 0) + place.tasks
                self._places.append((i, place))
                arcs.append((i, head, cost, place.tasks))
            for head, count in total.items():
                self._room[head] = max(self._room.get(head, 0), count)
        for k, rows in enumerate(refuges):
            for row, room in rows:
                head = self._node(True, row)
                arcs.append((first_refuge + k, head, 0, room))
                self._room[head] = max(self._room.get(head, 0), room)
        arcs += [(node, -1, 0, room) for node, room in sorted(self._room.items())]
        tail, head_, cost_, capacity = (np.array(column, np.int64) for column in zip(*arcs, strict=True))
        head_[head_ < 0] = self._count
        supply = np.zeros(self._count + 1, np.int64)
        supply[: len(seekers)] = [s.units for s in seekers]
        supply[self._count] = -supply.sum()
        self.network = Network.from_arcs(supply, tail, head_, cost_, capacity)
        order = self.network.arc_order
        assert order is not None  # built in one go, never edited
        self._slot = np.empty(len(order), np.int64)
        self._slot[order] = np.arange(len(order))
        self._solver = Solver((Kernel.PATHS,))

    def _node(self, free: bool, row: int) -> int:
        found = self._nodes.get((free, row))
        if found is None:
            found = self._nodes[free, row] = self._count
            self._count += 1
        return found

    def solve(self) -> list[list[tuple[Place, int]]]:
        """Solve; return for each seeker the places used and by how many tasks, the cheapest first.

        After the first time it starts from the last solution.
        """
        solution = self._solver.solve(self.network)
        assert solution.outcome is SolveStatus.OPTIMAL  # every unit may wait
        flow = self.network.arc_flow()[len(self._seekers) : len(self._seekers) + len(self._places)]
        used: list[list[tuple[Place, int]]] = [[] for _ in self._seekers]
        for at in np.flatnonzero(flow).tolist():
            seeker, place = self._places[at]
            used[seeker].append((place, int(flow[at])))
        for mine in used:
            mine.sort(key=lambda entry: (entry[0].price, entry[0].goes_to != FREE, entry[0].tie, entry[0].row))
        return used

    def drop(self, seekers: Sequence[int]) -> None:
        """Exclude seekers from the next solution, by making waiting cheaper for them than any place."""
        self.network.arrays.cost[self._slot[list(seekers)]] = -1


def places_of(
    row: int, free: Int64s, need: Int64s, units: int, victims: Sequence[tuple[float, Int64s, int]]
) -> list[Place]:
    """Return the places that evicting a row's victims makes, beyond what is free there, for up to ``units`` tasks.

    Args:
        row: The row.
        free: int64[width], free or about to be on the row.
        need: int64[width], request of one task.
        units: How many tasks at most.
        victims: Price, request and class (when it moves, else `LEFT_OUT`) of each, in the order of eviction.
    """
    already = how_often(free, need)
    out: list[Place] = []
    paid, floor = 0.0, 0.0
    for n in range(already + 1, units + 1):
        chosen = cheapest(free, need * n, victims)
        if chosen is None:
            break
        price = sum(victims[i][0] for i in chosen)
        floor = max(floor, price - paid)
        paid = price
        goes_to = next((victims[i][2] for i in chosen if victims[i][2] >= 0), LEFT_OUT)
        out.append(Place(row, 1, floor, goes_to))
    return out


def how_often(free: Int64s, need: Int64s) -> int:
    """Return how many tasks fit into what is free."""
    asked = need > 0
    return max(0, int((free[asked] // need[asked]).min()))


def cheapest(free: Int64s, need: Int64s, victims: Sequence[tuple[float, Int64s, int]]) -> list[int] | None:
    """Return the victims that together make room at the least price; None when not even all of them do.

    Exact for up to `_EXACT` victims. For more, the cheaper result of two greedy orders (by price; by price per amount
    that is lacking), each without the victims that turn out to be needless.
    """
    asked = need > 0
    lack = (need - free)[asked]
    if (lack <= 0).all():
        return []
    if not victims:
        return None
    prices = np.array([victim[0] for victim in victims])
    gives = np.stack([victim[1][asked] for victim in victims])
    if (gives.sum(axis=0) < lack).any():
        return None
    if len(victims) <= _EXACT:
        subsets = _subsets(len(victims))
        enough = np.flatnonzero((subsets @ gives >= lack).all(axis=1))
        cost = subsets[enough] @ prices
        least = np.flatnonzero(cost <= cost.min() * (1 + 1e-12))
        sizes = subsets[enough[least]].sum(axis=1)
        return np.flatnonzero(subsets[enough[least[int(np.argmin(sizes))]]]).tolist()
    share = (np.minimum(gives, np.maximum(lack, 0)) / np.maximum(lack, 1)).sum(axis=1)
    orders = (np.argsort(prices, kind="stable"), np.argsort(prices / np.maximum(share, 1e-9), kind="stable"))
    found = [_greedy(order.tolist(), gives, lack, prices) for order in orders]
    return min(found, key=lambda chosen: float(prices[chosen].sum()))


def _greedy(order: list[int], gives: Int64s, lack: Int64s, prices: npt.NDArray[np.float64]) -> list[int]:
    left, taken = lack.copy(), []
    for i in order:
        if (left <= 0).all():
            break
        if (gives[i][left > 0] > 0).any():
            taken.append(i)
            left = left - gives[i]
    for i in sorted(taken, key=lambda i: -prices[i]):
        if (left + gives[i] <= 0).all():
            taken.remove(i)
            left = left + gives[i]
    return taken


@cache
def _subsets(count: int) -> Int64s:
    """Return every subset of ``count`` items as a row of ones and zeros, in the order of binary numbers."""
    subsets: Int64s = np.arange(1 << count)[:, None] >> np.arange(count) & 1
    return subsets
