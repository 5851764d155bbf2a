"""Scores of rows in numpy, over many rows at once; equal to the kernels' scores bit by bit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from strato.scheduler.model.answers import BALANCED, LEAST, MOST, ResourceTerm, StaticScore
from strato.scheduler.model.nodes import Rows
from strato.scheduler.model.resources import FloatArray
from strato.scheduler.placement.arrays import ScoreTerms


def stretched(raw: FloatArray, most: float, score: StaticScore) -> FloatArray:
    """Normalise raw scores to [0, 100] as Kubernetes' DefaultNormalizeScore does (whole points)."""
    if not score.normalise:
        return raw
    if most == 0:
        return np.full_like(raw, 100.0) if score.reverse else raw
    points = np.floor(100.0 * raw / most)
    return 100.0 - points if score.reverse else points


def term_arrays(terms: Sequence[ResourceTerm]) -> ScoreTerms:
    """Convert terms to the arrays that the kernels take."""
    longest = max([len(t.weights) for t in terms] + [1])
    dims = np.full((len(terms), longest), -1, np.int64)
    dim_weights = np.zeros((len(terms), longest))
    for i, term in enumerate(terms):
        for j, (column, weight) in enumerate(term.weights):
            dims[i, j], dim_weights[i, j] = column, weight
    kinds = np.array([t.kind for t in terms], np.int64)
    weights = np.array([t.weight for t in terms], np.float64)
    return ScoreTerms(kinds, weights, dims, dim_weights)


class Columns(Protocol):
    """What resource scores read of nodes: a `NodeTable`, or columns as they would be after a change."""

    @property
    def allocatable(self) -> npt.NDArray[np.int64]:
        """int64[rows, width]."""

    @property
    def idle(self) -> npt.NDArray[np.int64]:
        """int64[rows, width]."""

    @property
    def requested(self) -> npt.NDArray[np.int64]:
        """int64[rows, width]."""

    @property
    def scored(self) -> npt.NDArray[np.int64]:
        """int64[rows, 2]."""


class Requests(Protocol):
    """What resource scores read of a task class."""

    @property
    def request(self) -> npt.NDArray[np.int64]:
        """int64[width]."""

    @property
    def scored_request(self) -> npt.NDArray[np.int64]:
        """int64[2]."""


def resource_scores(table: Columns, cls: Requests, rows: Rows, terms: Sequence[ResourceTerm]) -> FloatArray:
    """Return the sum of the resource terms on some rows; equal to the kernel's bit by bit."""
    total = np.zeros(len(rows))
    for term in terms:
        if term.kind in (LEAST, MOST):
            total += _least_or_most(table, cls, rows, term) * term.weight
        elif term.kind == BALANCED:
            total += _balanced(table, cls, rows, term) * term.weight
        else:
            total += packed(table, cls, rows, term.weights) * 100.0 * term.weight
    return total


def _least_or_most(table: Columns, cls: Requests, rows: Rows, term: ResourceTerm) -> FloatArray:
    points = np.zeros(len(rows), np.int64)
    whole = np.zeros(len(rows), np.int64)
    for column, weight in term.weights:
        capacity = table.allocatable[rows, column]
        used = (
            table.scored[rows, column] + cls.scored_request[column]
            if column < 2
            else table.requested[rows, column] + cls.request[column]
        )
        safe = np.maximum(capacity, 1)
        if term.kind == LEAST:
            part = np.where(used <= capacity, (capacity - used) * 100 // safe, 0)
        else:
            part = np.minimum(used, capacity) * 100 // safe
        points += np.where(capacity == 0, 0, part * int(weight))
        whole += np.where(capacity == 0, 0, int(weight))
    return np.where(whole > 0, points // np.maximum(whole, 1), 0).astype(np.float64)


def _balanced(table: Columns, cls: Requests, rows: Rows, term: ResourceTerm) -> FloatArray:
    """Kubernetes' BalancedAllocation: 75 where the pod leaves the balance as it is, up to 25 more or less elsewhere.

    0 for a pod that requests none of the term's resources. Resources such as GPUs count for pods that request them.
    """
    columns = [column for column, _ in term.weights]
    if not any(cls.request[column] > 0 for column in columns):
        return np.zeros(len(rows))
    columns = [column for column in columns if column < 2 or cls.request[column]]
    capacity = [table.allocatable[rows, column] for column in columns]
    before = [table.requested[rows, column] for column in columns]
    after = [used + cls.request[column] for used, column in zip(before, columns, strict=True)]
    change = _balance(after, capacity) - _balance(before, capacity)
    return (50 + (50 + change) // 2).astype(np.float64)


def _balance(used: Sequence[Rows], capacity: Sequence[Rows]) -> Rows:
    """Return how equal the used fractions are, in points: 100 when equal; resources a node lacks do not count."""
    there = [whole > 0 for whole in capacity]
    parts = [
        np.where(ok, np.minimum(part / np.maximum(whole, 1), 1.0), 0.0)
        for part, whole, ok in zip(used, capacity, there, strict=True)
    ]
    n = np.sum(there, axis=0)
    mean = np.zeros(len(n))
    for part in parts:
        mean = mean + part
    mean = mean / np.maximum(n, 1)
    spread, apart = np.zeros(len(n)), np.zeros(len(n))
    for part, ok in zip(parts, there, strict=True):
        spread = spread + np.where(ok, (part - mean) * (part - mean), 0.0)
        apart = np.where(ok, part - apart, apart)
    deviation = np.where(n == 2, np.abs(apart) / 2, np.sqrt(spread / np.maximum(n, 1)))
    points = np.trunc((1.0 - deviation) * 100.0)
    return np.where(n < 2, 100, points).astype(np.int64)


def packed(table: Columns, cls: Requests, rows: Rows, weights: Sequence[tuple[int, float]]) -> FloatArray:
    """Return the weighted mean of used (negative weight: free) fractions after placing, as the kernel's PACK."""
    points, whole = np.zeros(len(rows)), 0.0
    over = np.zeros(len(rows), np.bool_)
    for column, weight in weights:
        need = int(cls.request[column])
        if need <= 0:
            continue
        capacity = table.allocatable[rows, column]
        used = capacity - table.idle[rows, column] + need
        over |= (used > capacity) & (capacity > 0)
        kept = used if weight >= 0 else used - capacity
        points += np.where(capacity > 0, kept * weight / np.maximum(capacity, 1), 0.0)
        whole += abs(weight)
    return np.where(over, 0.0, points / whole if whole > 0 else points)
