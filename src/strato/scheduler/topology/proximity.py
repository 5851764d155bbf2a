"""The part of a node's score that depends on network domains, as data for the kernel and for numpy.

Either tasks should be close to those of their gang that are placed already, or pods should fill up the fullest domains
first (spec volcano-plugins 17). Both parts change with every placement, for many rows at once, so the kernel itself has
to compute them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from strato.scheduler.model.nodes import Rows
from strato.scheduler.model.resources import FloatArray
from strato.scheduler.topology.hypernodes import NOWHERE, HyperNodeTree

FILL = -2
"""Value of `Proximity.near` for scoring by how full the domains are."""

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Proximity:
    """How to score rows for one task and others equal to it; kernels may write to the arrays that placements change.

    Attributes:
        tree: The domains.
        weight: Factor; the score of a row is 100 * weight times a number in [0, 2].
        near: Domain the gang lies in, `NOWHERE` when it has no place yet (then all rows are equal), or `FILL`.
        closeness: float64[domains], score if this is the lowest domain that contains both row and gang.
        members: int64[domains], tasks of the gang inside.
        total: Number of tasks of the gang.
        used, capacity: float64[domains, k], used and total amounts of the dimensions that count.
        asked, asked_weights: float64[k], what one task requests of these, and their weights.
        shares: float64[domains], weight of each domain's fill.
        absent: float64[domains], for nodes with this as lowest domain: sum of the shares of tiers without a domain
            there.
    """

    tree: HyperNodeTree
    weight: float
    near: int
    closeness: FloatArray
    members: Ints
    total: int
    used: FloatArray
    capacity: FloatArray
    asked: FloatArray
    asked_weights: FloatArray
    shares: FloatArray
    absent: FloatArray


def indifferent(tree: HyperNodeTree) -> Proximity:
    """Return a proximity that scores all rows equally."""
    domains = len(tree.names)
    none, empty, flat = np.zeros(domains), np.zeros(0), np.zeros((domains, 0))
    return Proximity(
        tree, 0.0, NOWHERE, none, np.zeros(domains, np.int64), 1, flat, flat, empty, empty, none, none.copy()
    )


def scores(proximity: Proximity, rows: Rows) -> FloatArray:
    """Return this part of the score for rows, which are all candidates; equal to the kernel's bit by bit."""
    tree = proximity.tree
    leaves = tree.leaf[rows]
    part = np.zeros(len(tree.names))
    distinct = np.unique(leaves).tolist()
    if proximity.near == FILL:
        fill = fills(proximity)
        for leaf in distinct:
            part[leaf] = proximity.absent[leaf]
            for domain in tree.chain(leaf):
                part[leaf] += fill[domain] * proximity.shares[domain]
    elif proximity.near >= 0:
        for leaf in distinct:
            common = tree.lca(leaf, proximity.near)
            part[leaf] = 1.0 if leaf == proximity.near else proximity.closeness[common]
    here: FloatArray = part[leaves]
    if proximity.near >= 0 and len(rows):
        best = here == here.max()
        if int(best.sum()) > 1:
            here[best] += proximity.members[leaves[best]] / proximity.total
    return here * 100.0 * proximity.weight


def fills(proximity: Proximity, asked: FloatArray | None = None) -> FloatArray:
    """Return for every domain the weighted mean of the fractions used after placing; 0 where that overflows."""
    want = proximity.asked if asked is None else asked
    return fill_of(proximity.used, proximity.capacity, want, proximity.asked_weights)


def fill_of(used: FloatArray, capacity: FloatArray, asked: FloatArray, weights: FloatArray) -> FloatArray:
    """Return per domain the weighted mean of used fractions once ``asked`` is added; 0 where it does not fit."""
    points, whole = np.zeros(len(used)), 0.0
    over = np.zeros(len(used), np.bool_)
    for k, need in enumerate(asked.tolist()):
        if need > 0:
            after = used[:, k] + need
            over |= after > capacity[:, k]
            points += after / np.maximum(capacity[:, k], 1.0) * weights[k]
            whole += float(weights[k])
    if whole <= 0:
        return np.zeros(len(used))
    return np.where(over, 0.0, points / whole)
