"""Named tuples of arrays that kernels take together; the nodes' are `strato.scheduler.model.nodes.Columns`."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Int64s = npt.NDArray[np.int64]
Int32s = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float64]


class RequestRow(NamedTuple):
    """The request of one task.

    Attributes:
        request: int64[width], by column of the table.
        scored: int64[2], cpu and memory with the defaults that scoring assumes for empty requests.
    """

    request: Int64s
    scored: Int64s


class Static(NamedTuple):
    """Static verdicts and scores of rows (`place_batch`) or of positions in a list of rows (`place_near`).

    Attributes:
        mask: bool[n], those the static filters allow.
        base: float64[n], static part of the score, added first.
        sensitive: bool[n], rows with an extreme raw score: the batch ends when one is full, because ``base`` may
            change.
    """

    mask: npt.NDArray[np.bool_]
    base: Floats
    sensitive: npt.NDArray[np.bool_]


class ScoreTerms(NamedTuple):
    """Resource score terms.

    Attributes:
        kinds: int64[t], the kind of each.
        weights: float64[t], the weight of each.
        dims: int64[t, k], the columns of each; -1 ends.
        dim_weights: float64[t, k], the weights of those.
    """

    kinds: Int64s
    weights: Floats
    dims: Int64s
    dim_weights: Floats


class Domains(NamedTuple):
    """The network domains of the rows, and what their part of the score depends on.

    Attributes:
        leaf: int32[n], the lowest domain of every row.
        parent: int32[domains].
        weight: Factor of the domains' part of the score; 0 without one.
        near: Domain the gang lies in so far, -1 when nowhere; -2 scores by ``used`` instead.
        closeness: float64[domains], score if the domain is the lowest that contains both row and gang.
        members: int64[domains], tasks of the gang inside; updated by the kernel.
        total: Number of tasks of the gang.
        used: float64[domains, k], what is used of ``capacity``; updated by the kernel.
        capacity: float64[domains, k].
        asked: float64[k], what one task adds to ``used``.
        asked_weights: float64[k], the weight of each.
        shares: float64[domains], weight of each domain's fill, already divided by the sum over tiers.
        absent: float64[domains], sum of the shares of the tiers that have no domain around a leaf.
    """

    leaf: Int32s
    parent: Int32s
    weight: float
    near: int
    closeness: Floats
    members: Int64s
    total: int
    used: Floats
    capacity: Floats
    asked: Floats
    asked_weights: Floats
    shares: Floats
    absent: Floats
