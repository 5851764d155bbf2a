"""Filter verdicts and scores of each task class over all rows, kept from cycle to cycle.

Filters and static scores are called only for rows whose node object changed. The kernels update the resource scores.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
import numpy.typing as npt

from strato.lru import LruCache
from strato.scheduler.framework.pluginanswers import PluginAnswers
from strato.scheduler.model.answers import ResourceTerm, StaticScore
from strato.scheduler.model.jobs import Task
from strato.scheduler.model.nodes import Mask, NodeTable, Rows
from strato.scheduler.model.reasons import FitErrors, Reason
from strato.scheduler.model.resources import FloatArray
from strato.scheduler.model.tasks import TaskClass
from strato.scheduler.placement import kernels
from strato.scheduler.placement.scoring import stretched

NOWHERE = -np.inf
_CACHE_BYTES = 384 << 20
"""Limit of the memory of all classes' verdicts, scores and trees."""


class Candidates:
    """Filter verdicts and scores of one class over all rows.

    Attributes:
        codes: uint16[rows], 0 where the static filters allow the class, else the number of the reason in ``reasons``.
        mask: bool[capacity], rows that are present and allowed.
        clock: ``NodeTable.object_clock`` that ``codes``, ``mask`` and ``static`` are current with.
        static: Static scores with raw values for all rows.
        varies: Whether a static score differs between allowed rows, so that normalising depends on which rows fit.
        extremes: The largest raw values that ``base`` was normalised with; None before the first time.
        base, sensitive, tree, head: Arguments of the kernel.
        points: Points of the resource terms per row, for tasks that are placed one by one.
        points_at, points_of: The journal position and the terms that ``points`` are current with.
        errors, errors_at: The last explanation, and the state of the table it was made from.
    """

    __slots__ = (
        "base",
        "clock",
        "codes",
        "errors",
        "errors_at",
        "extremes",
        "head",
        "mask",
        "points",
        "points_at",
        "points_of",
        "reasons",
        "sensitive",
        "size",
        "static",
        "tree",
        "varies",
    )

    def __init__(self) -> None:
        self.size = -1
        self.clock = -1
        self.reasons: dict[Reason, int] = {}
        self.codes: npt.NDArray[np.uint16] = np.zeros(0, np.uint16)
        self.mask: Mask = np.zeros(0, np.bool_)
        self.static: list[StaticScore] = []
        self.varies = False
        self.extremes: tuple[float, ...] | None = None
        self.base: FloatArray = np.zeros(0)
        self.sensitive: Mask = np.zeros(0, np.bool_)
        self.tree: FloatArray = np.zeros(2)
        self.head = np.zeros(4, np.int64)
        self.points: FloatArray = np.zeros(0)
        self.points_at = -1
        self.points_of: tuple[ResourceTerm, ...] | None = None
        self.errors: FitErrors | None = None
        self.errors_at: tuple[int, int] = (-1, -1)

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays that every class has."""
        return sum(one.nbytes for one in (self.codes, self.mask, self.base, self.sensitive, self.tree))

    def extremes_of(self, rows: Rows | slice, live: Mask) -> tuple[float, ...]:
        """Return the largest raw value of each static score over some rows, of which only ``live`` ones count."""
        return tuple(float(score.raw[rows][live].max(initial=0.0)) for score in self.static)

    def normalised(self, rows: Rows | slice, extremes: Sequence[float]) -> tuple[FloatArray, Mask]:
        """Return the static part of some rows' scores, normalised by extremes, and which rows have an extreme value.

        The scores change when the last row with an extreme value no longer fits.
        """
        base = np.zeros(len(self.base[rows]))
        sensitive = np.zeros(len(base), np.bool_)
        for score, most in zip(self.static, extremes, strict=True):
            raw = score.raw[rows]
            base += stretched(raw, most, score) * score.weight
            if score.normalise and self.varies:
                sensitive |= raw == most
        return base, sensitive


class CandidateCache:
    """The candidates of every class and facet.

    Args:
        table: The nodes.
        seed: Decides which of several rows with equal scores is taken.
        max_bytes: Limit of the memory; beyond it the classes that were used longest ago are dropped.
    """

    def __init__(self, table: NodeTable, seed: int, max_bytes: int = _CACHE_BYTES) -> None:
        self._table = table
        self._seed = seed
        self._classes: LruCache[tuple[Hashable, ...], Candidates] = LruCache(max_bytes, lambda _, one: one.nbytes)

    def of(self, ssn: PluginAnswers, task: Task) -> Candidates:
        """Return the candidates of a task's class and facet, brought up to date with the node objects."""
        table, cls = self._table, task.cls
        key = (cls.number, *ssn.facet(task))
        found = self._classes.get(key)
        if found is None:
            found = Candidates()
        stale = len(found.reasons) > 1000 + 2 * table.size  # reasons of taints that are gone are never removed
        if found.size != table.size or len(found.base) != table.capacity or stale:
            self._resize(found, cls)
            self._classes.put(key, found)
        if found.clock != table.object_clock:
            rows = np.nonzero(table.changed_at[: table.size] > found.clock)[0]
            self._refilter(ssn, task, found, rows)
            found.clock = table.object_clock
        return found

    def forget(self) -> None:
        """Forget every class, so that filters and static scores are called again for all rows."""
        self._classes.clear()

    def _resize(self, found: Candidates, cls: TaskClass) -> None:
        table = self._table
        found.size = table.size
        found.clock = -1
        found.reasons = {}
        found.codes = np.zeros(table.capacity, np.uint16)
        found.mask = np.zeros(table.capacity, np.bool_)
        found.base = np.zeros(table.capacity)
        found.sensitive = np.zeros(table.capacity, np.bool_)
        found.static = []
        found.extremes = None
        leaves = 1
        while leaves < table.size:
            leaves *= 2
        found.tree = np.full(2 * leaves, NOWHERE)
        offset = (self._seed * 7919 + cls.number * 104729) % max(table.size, 1)
        found.head = np.array([leaves, offset, 0, 0], np.int64)

    def _refilter(self, ssn: PluginAnswers, task: Task, found: Candidates, rows: Rows) -> None:
        """Call every static filter and static score for rows whose node object changed."""
        table = self._table
        present = table.present[rows]
        rows = rows if present.all() else rows[present]
        codes = np.zeros(len(rows), np.uint16)
        answers = [judge(task.cls, table, rows) for judge in ssn.answers["filter"]]
        answers += [judge(task, table, rows) for judge in ssn.answers["filter_facet"]]
        for verdicts in answers:
            if verdicts is None:
                continue
            known = [0] + [self._number(found, reason) for reason in verdicts.reasons]
            if verdicts.codes.any():
                rejected, numbers = verdicts.codes.astype(np.uint16), np.array(known, np.uint16)
                codes = np.where((codes == 0) & (rejected > 0), numbers[rejected], codes)
        found.codes[rows] = codes
        found.mask[: table.size] = table.present[: table.size]
        found.mask[: table.size] &= found.codes[: table.size] == 0
        self._restatic(ssn, task, found, rows)
        found.head[kernels.BUILT] = 0

    def _restatic(self, ssn: PluginAnswers, task: Task, found: Candidates, rows: Rows) -> None:
        scores = [score for fn in ssn.answers["static_scores"] for score in fn(task.cls, self._table, rows)]
        scores += [score for fn in ssn.answers["score_facet"] for score in fn(task, self._table, rows)]
        if len(found.static) != len(scores):
            found.static = [score._replace(raw=np.zeros(self._table.capacity)) for score in scores]
        for kept, score in zip(found.static, scores, strict=True):
            kept.raw[rows] = score.raw
        live = found.mask[: self._table.size]
        found.varies = False
        for score in found.static:
            values = score.raw[: self._table.size][live]
            if values.size and values.min() != values.max():
                found.varies = True
        found.extremes = None

    @staticmethod
    def _number(found: Candidates, reason: Reason) -> int:
        return found.reasons.setdefault(reason, len(found.reasons) + 1)

    def normalise(self, found: Candidates, live: Mask) -> bool:
        """Compute ``base``, normalised over the ``live`` rows; return whether it changed."""
        if not found.static or (not found.varies and found.extremes is not None):
            return False
        size = self._table.size
        extremes = found.extremes_of(slice(size), live)
        if extremes == found.extremes:
            return False
        found.extremes = extremes
        found.base[:size], found.sensitive[:size] = found.normalised(slice(size), extremes)
        found.head[kernels.BUILT] = 0
        return True

    def normalise_over(self, found: Candidates, rows: Rows) -> bool:
        """Compute ``base``, normalised over rows given by number; return whether it changed."""
        if not found.static or (not found.varies and found.extremes is not None):
            return False
        live = np.zeros(found.size, np.bool_)
        live[rows] = True
        return self.normalise(found, live)

    def rebuild_trees(self) -> None:
        """Have the kernels score every row anew, because the resource terms have changed."""
        for found in self._classes.values():
            found.head[kernels.BUILT] = 0
