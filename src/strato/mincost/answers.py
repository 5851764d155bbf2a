"""Checks the answers of a cost model before the network is changed by them, because a third-party model may be wrong.

An invalid answer, or an exception in the model's code, becomes an error that names model and method. The graph manager
has changed nothing by then, so the next round calls the model again. O(size of the answer).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from strato.errors import Problem, StratoError
from strato.mincost.arrays import Int64s
from strato.mincost.models.base import Arcs, CostModel
from strato.mincost.network import LARGEST_QUANTITY, NetworkError


class Answers:
    """Calls a cost model's methods and checks their answers."""

    def __init__(self, model: CostModel) -> None:
        self._model = model

    def prices(self, method: Callable[..., Any], count: int, *asked: Any) -> Int64s:
        """Return the prices a method gives for ``count`` things.

        Raises:
            NetworkError: Their number is wrong, or they are no numbers.
        """
        found = self._column(method, "prices", self._ask(method, *asked))
        if len(found) != count:
            raise self._wrong(method, f"gives {len(found)} prices where {count} belong")
        return found

    def arcs(self, method: Callable[..., Any], count: int, *asked: Any) -> Arcs:
        """Return the arcs a method gives for ``count`` things.

        Raises:
            NetworkError: A row or target does not exist, or a capacity is below 0.
        """
        answer = self._ask(method, *asked)
        if not isinstance(answer, Arcs):
            raise self._wrong(method, f"gives {type(answer).__name__} where Arcs belong; build them with `arcs`")
        found = Arcs(*(self._column(method, name, column) for name, column in answer._asdict().items()))
        if len({len(column) for column in found}) > 1:
            lengths = ", ".join(f"{len(column)} {name}" for name, column in found._asdict().items())
            raise self._wrong(method, f"gives columns that differ in length: {lengths}")
        world = self._model.world
        self._within(method, "row", found.row, 0, count - 1)
        self._within(method, "target", found.target, -world.class_count, len(world.machines) - 1)
        self._within(method, "capacity", found.capacity, 0, LARGEST_QUANTITY)
        return found

    def _ask(self, method: Callable[..., Any], *asked: Any) -> Any:
        try:
            return method(*asked)
        except StratoError:
            raise
        except Exception as error:
            raise self._wrong(method, f"raises {type(error).__name__}: {error}") from error

    def _column(self, method: Callable[..., Any], name: str, answer: Any) -> Int64s:
        try:
            found = np.asarray(answer)
            if found.ndim != 1 or found.dtype.kind not in "iufb":
                raise ValueError(f"{found.ndim} dimensions of type {found.dtype}")
        except ValueError as error:
            raise self._wrong(method, f"gives {name} that are no row of numbers: {error}") from error
        if found.dtype.kind == "f" and not np.isfinite(found).all():
            at = int(np.flatnonzero(~np.isfinite(found))[0])
            raise self._wrong(method, f"gives {found[at]} as number {at} of its {name}")
        return found.astype(np.int64, copy=False)

    def _within(self, method: Callable[..., Any], name: str, found: Int64s, least: int, most: int) -> None:
        if len(found) and (int(found.min()) < least or int(found.max()) > most):
            at = int(np.flatnonzero((found < least) | (found > most))[0])
            raise self._wrong(method, f"gives arc {at} the {name} {int(found[at])}; it must be {least} to {most}")

    def _wrong(self, method: Callable[..., Any], what: str) -> NetworkError:
        name = getattr(method, "__name__", str(method))
        return NetworkError([Problem(f"cost model {self._model.name}: {name}", what)])
