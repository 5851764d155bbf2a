"""Where equal tasks go: filters and scores per class over all rows, cached, and a kernel that places batches.

`Placer` lives as long as a configuration does. Per task class it keeps which rows the filters allow and a tournament
tree of scores; both are brought up to date only for rows that changed. A class whose fit or score depends on what else
runs on a node (host ports, inter-pod affinity, topology spread, a third-party plugin) is placed one by one on the same
arrays.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from strato.scheduler import kernels
from strato.scheduler.cache.nodes import JOURNAL_SIZE, Mask, NodeTable, Rows
from strato.scheduler.cache.resources import PODS, Dimensions
from strato.scheduler.cache.tasks import Task, TaskClass
from strato.scheduler.framework import FloatArray, ResourceTerm, StaticScore
from strato.scheduler.reporting.reasons import INSUFFICIENT, POD_NUMBER_EXCEEDED, FitErrors, Reason
from strato.scheduler.topology.hypernodes import HyperNodes
from strato.scheduler.topology.proximity import FILL, Proximity, indifferent

if TYPE_CHECKING:
    from strato.scheduler.session import Session

NOWHERE = -np.inf
_FEW_ROWS = 48
_CACHE_BYTES = 256 << 20
"""Memory the trees of all classes together may take; the longest unused are dropped."""


class Candidates:
    """What is known about one class over all rows.

    Attributes:
        codes: uint16[rows], 0 where the static filters allow the class, else 1 + index into ``reasons``.
        mask: bool[capacity], rows that are present and allowed.
        clock: ``NodeTable.object_clock`` they are current with.
        static: Static scores with raw values for all rows.
        extremes: What ``base`` was normalised with; None before the first time.
        base, sensitive, tree, head: Arguments of the kernel.
        points: Points of the resource terms per row, for one task at a time; the journal's cursor and the terms they
            are of.
        errors: The last explanation, and the state of the table it was made from.
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
        self.reasons: list[Reason] = []
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


class Placer:
    """Candidate rows and scores by class; makes the choice of a node.

    Args:
        table: The nodes.
        seed: Decides where among equals the search begins.
    """

    def __init__(self, table: NodeTable, seed: int = 0) -> None:
        self._table = table
        self._seed = seed
        self._classes: dict[tuple[Hashable, ...], Candidates] = {}
        self._terms: tuple[npt.NDArray[np.int64], FloatArray, npt.NDArray[np.int64], FloatArray] | None = None
        self._term_key: tuple[ResourceTerm, ...] | None = None
        self._out = np.zeros(1024, np.int32)

    # -- candidates ----------------------------------------------------------------------------------------------------

    def candidates(self, ssn: Session, task: Task) -> Candidates:
        """Return the candidates of a task's class and facet, brought up to date with the node objects."""
        table, cls = self._table, task.cls
        key = (cls.number, *ssn.facet(task))
        found = self._classes.get(key)
        if found is None:
            found = self._classes[key] = Candidates()
            self._evict_unused(found)
        if found.size != table.size or len(found.base) != table.capacity:
            self._resize(found, cls)
        if found.clock != table.object_clock:
            rows = np.nonzero(table.changed_at[: table.size] > found.clock)[0]
            self._refilter(ssn, task, found, rows)
            found.clock = table.object_clock
        return found

    def forget(self) -> None:
        """Forget every class; all is asked again."""
        self._classes.clear()

    def _evict_unused(self, keep: Candidates) -> None:
        limit = max(16, _CACHE_BYTES // (32 * max(self._table.size, 1)))
        while len(self._classes) > limit:
            oldest = next(iter(self._classes))
            if self._classes[oldest] is keep:
                break
            del self._classes[oldest]

    def _resize(self, found: Candidates, cls: TaskClass) -> None:
        table = self._table
        found.size = table.size
        found.clock = -1
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

    def _refilter(self, ssn: Session, task: Task, found: Candidates, rows: Rows) -> None:
        """Ask every static filter and static score about rows whose node object changed."""
        table = self._table
        present = table.present[rows]
        rows = rows if present.all() else rows[present]
        codes = np.zeros(len(rows), np.uint16)
        answers = [judge(task.cls, table, rows) for judge in ssn.filters]
        answers += [judge(task, table, rows) for judge in ssn.facet_filters]
        for verdicts in answers:
            if verdicts is None:
                continue
            known = [0] + [self._number(found, reason) for reason in verdicts.reasons]
            if verdicts.codes.any():
                said, numbers = verdicts.codes.astype(np.uint16), np.array(known, np.uint16)
                codes = np.where((codes == 0) & (said > 0), numbers[said], codes)
        found.codes[rows] = codes
        found.mask[: table.size] = table.present[: table.size]
        found.mask[: table.size] &= found.codes[: table.size] == 0
        self._restatic(ssn, task, found, rows)
        found.head[kernels.BUILT] = 0

    def _restatic(self, ssn: Session, task: Task, found: Candidates, rows: Rows) -> None:
        scores = [score for fn in ssn.static_scorers for score in fn(task.cls, self._table, rows)]
        scores += [score for fn in ssn.facet_scorers for score in fn(task, self._table, rows)]
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
        if reason not in found.reasons:
            found.reasons.append(reason)
        return found.reasons.index(reason) + 1

    def _normalise(self, found: Candidates, live: Mask) -> bool:
        """Compute ``base`` for the candidate rows; return whether it changed."""
        if not found.static or (not found.varies and found.extremes is not None):
            return False
        size = self._table.size
        extremes = tuple(float(s.raw[:size][live].max(initial=0.0)) for s in found.static)
        if extremes == found.extremes:
            return False
        found.extremes = extremes
        base, sensitive = np.zeros(size), np.zeros(size, np.bool_)
        for score, most in zip(found.static, extremes, strict=True):
            raw = score.raw[:size]
            base += stretched(raw, most, score) * score.weight
            if score.normalise and found.varies:
                sensitive |= raw == most
        found.base[:size] = base
        found.sensitive[:size] = sensitive
        found.head[kernels.BUILT] = 0
        return True

    # -- placing -------------------------------------------------------------------------------------------------------

    def place(
        self, ssn: Session, tasks: Sequence[Task], *, future: bool, one_by_one: bool, promise: bool = False
    ) -> list[int]:
        """Choose rows for equal tasks one after the other and charge them; fewer rows than tasks when they run out.

        Args:
            ssn: The session.
            tasks: Equal pending tasks.
            future: Use what will be idle instead of what is.
            one_by_one: Whether plugins must be asked again after each placement.
            promise: Charge what is expected, not what is held, wherever the tasks go; within a search only.
        """
        if self._table.size == 0:
            return []
        search = ssn.search
        if one_by_one:
            rows = self._place_singly(ssn, tasks, future, promise=promise)
            if search is not None:
                search.note(rows)
            return rows
        cls = tasks[0].cls
        found = self.candidates(ssn, tasks[0])
        if found.errors is not None and found.errors_at == self._state():
            return []  # the last of its kind fitted nowhere, and nothing has changed since
        flags = (kernels.FUTURE if future else 0) | (kernels.PROMISE if promise else 0) | ssn.kernel_flags
        proximity = ssn.proximity(tasks[0])
        if search is not None or proximity is not None:
            rows = self._place_near(ssn, cls, found, len(tasks), flags, proximity)
            if search is not None:
                search.note(rows)
            return rows
        if not found.varies:
            self._normalise(found, found.mask[: found.size])
            return self._run(ssn, cls, found, len(tasks), flags)
        rows = []
        while len(rows) < len(tasks):
            self._renormalise(ssn, cls, found, flags)
            more = self._run(ssn, cls, found, len(tasks) - len(rows), flags)
            if not more:
                break
            rows += more
        return rows

    def _place_near(
        self, ssn: Session, cls: TaskClass, found: Candidates, count: int, flags: int, proximity: Proximity | None
    ) -> list[int]:
        """Choose among the rows of the search, with what network domains add to the scores."""
        search = ssn.search
        rows = search.rows if search is not None else np.arange(found.size)
        domains = proximity or indifferent(ssn.tree)
        if not rows.size:
            return []
        chosen: list[int] = []
        while len(chosen) < count:
            base, sensitive = self._base_of(found, cls, rows, flags)
            more = self._run_near(ssn, cls, found, rows, count - len(chosen), flags, base, sensitive, domains)
            chosen += more
            if not more or not found.varies:
                break
            near = domains.near if domains.near == FILL else domains.tree.span(more, domains.near)
            domains = replace(domains, near=near)
        return chosen

    def _base_of(self, found: Candidates, cls: TaskClass, rows: Rows, flags: int) -> tuple[FloatArray, Mask]:
        """Return the static scores of some rows, normalised over those that can take a task now."""
        if not found.varies:
            self._normalise(found, found.mask[: found.size])
            return found.base[rows], found.sensitive[rows]
        live = found.mask[rows] & self._fits(cls, flags)[rows]
        base, sensitive = np.zeros(len(rows)), np.zeros(len(rows), np.bool_)
        for score in found.static:
            raw = score.raw[rows]
            most = float(raw[live].max(initial=0.0))
            base += stretched(raw, most, score) * score.weight
            if score.normalise:
                sensitive |= raw == most
        return base, sensitive

    def _run_near(
        self,
        ssn: Session,
        cls: TaskClass,
        found: Candidates,
        rows: Rows,
        count: int,
        flags: int,
        base: FloatArray,
        sensitive: Mask,
        domains: Proximity,
    ) -> list[int]:
        self._make_room(count)
        kinds, weights, dims, dim_weights = self._resource_terms(ssn)
        placed = kernels.place_near(
            count,
            flags,
            rows,
            int(np.searchsorted(rows, found.head[kernels.OFFSET])) % len(rows),
            cls.request,
            cls.scored_request,
            *self._table.arrays,
            found.mask[rows],
            base,
            sensitive,
            kinds,
            weights,
            dims,
            dim_weights,
            self._out,
            *_as_arrays(domains),
        )
        chosen: list[int] = self._out[:placed].tolist()
        return chosen

    def _make_room(self, count: int) -> None:
        """Have the kernels' output hold that many rows."""
        if count > len(self._out):
            self._out = np.zeros(count * 2, np.int32)

    def _renormalise(self, ssn: Session, cls: TaskClass, found: Candidates, flags: int) -> None:
        """Fit ``base`` to the rows that can take a task now."""
        self._run(ssn, cls, found, 0, flags | kernels.KEEP)
        self._normalise(found, self._leaf_scores(found) > NOWHERE)

    @staticmethod
    def _leaf_scores(found: Candidates) -> FloatArray:
        leaves, offset = int(found.head[kernels.PLACES]), int(found.head[kernels.OFFSET])
        rolled: FloatArray = np.roll(found.tree[leaves : leaves + found.size], offset)
        return rolled

    def _run(self, ssn: Session, cls: TaskClass, found: Candidates, count: int, flags: int) -> list[int]:
        self._make_room(count)
        tree, head = found.tree, found.head
        if flags & kernels.FUTURE:
            tree, head = tree.copy(), head.copy()
            head[kernels.BUILT] = 0
        kinds, weights, dims, dim_weights = self._resource_terms(ssn)
        placed = kernels.place_batch(
            count,
            flags,
            found.size,
            cls.request,
            cls.scored_request,
            *self._table.arrays,
            found.mask,
            found.base,
            found.sensitive,
            kinds,
            weights,
            dims,
            dim_weights,
            tree,
            head,
            self._out,
        )
        if flags & kernels.FUTURE and flags & kernels.KEEP:
            found.tree, found.head = tree, head
            found.head[kernels.BUILT] = 0
        rows: list[int] = self._out[:placed].tolist()
        return rows

    def _resource_terms(
        self, ssn: Session
    ) -> tuple[npt.NDArray[np.int64], FloatArray, npt.NDArray[np.int64], FloatArray]:
        if self._terms is None or self._term_key is not ssn.terms:
            if self._term_key is not None and self._term_key != ssn.terms:
                for found in self._classes.values():
                    found.head[kernels.BUILT] = 0
            self._term_key = ssn.terms
            self._terms = term_arrays(ssn.terms)
        return self._terms

    # -- one by one ----------------------------------------------------------------------------------------------------

    def _place_singly(self, ssn: Session, tasks: Sequence[Task], future: bool, *, promise: bool = False) -> list[int]:
        rows: list[int] = []
        for task in tasks:
            row = self._choose(ssn, task, future)
            if row < 0:
                break
            self._charge(row, task, future or promise)
            ssn.note_single(task, row)
            rows.append(row)
        return rows

    def _charge(self, row: int, task: Task, future: bool) -> None:
        table, cls = self._table, task.cls
        if future:
            table.pipelined[row] += cls.request
        else:
            table.idle[row] -= cls.request
        table.requested[row] += cls.request
        table.scored[row] += cls.scored_request
        table.pods[row] += 1
        table.touch(row)

    def _choose(self, ssn: Session, task: Task, future: bool) -> int:
        found = self.candidates(ssn, task)
        flags = (kernels.FUTURE if future else 0) | ssn.kernel_flags
        rows = self.rows_for(ssn, task, flags)
        if not rows.size:
            return -1
        live = np.zeros(found.size, np.bool_)
        live[rows] = True
        self._normalise(found, live)
        scores = self.score_rows(ssn, task, rows)
        best = rows[scores == scores.max()]
        offset = int(found.head[kernels.OFFSET])
        return int(best[np.argmin((best - offset) % found.size)])

    def score_rows(self, ssn: Session, task: Task, rows: Rows) -> FloatArray:
        """Return the total score of a task on candidate rows, all of which are the candidates."""
        cls = task.cls
        found = self.candidates(ssn, task)
        live = np.zeros(found.size, np.bool_)
        live[rows] = True
        self._normalise(found, live)
        total = found.base[rows] + self._resource_points(ssn, cls, found)[rows]
        for score in ssn.scorers:
            points = score(cls, self._table, rows)
            if points is not None:
                total += points
        for score_task in (*ssn.task_scorers, *ssn.batch_scorers):
            points = score_task(task, self._table, rows)
            if points is not None:
                total += points
        return total

    def rescored(self, ssn: Session, task: Task, rows: Sequence[int]) -> list[float]:
        """Return what `score_rows` says of some of the rows it was last asked about, as these stand now.

        Only of a task whose class and facet are all that counts (see `Session.one_by_one`).
        """
        found = self.candidates(ssn, task)
        points = self._resource_points(ssn, task.cls, found)
        return [float(found.base[row] + points[row]) for row in rows]

    def _resource_points(self, ssn: Session, cls: TaskClass, found: Candidates) -> FloatArray:
        """Return the resource terms' points on every row, brought up to date for the rows written since."""
        table = self._table
        now = int(table.cursor[0])
        since = found.points_at
        stale = found.points.size != found.size or found.points_of is not ssn.terms
        if stale or since < 0 or now - since >= JOURNAL_SIZE:
            found.points = resource_scores(table, cls, np.arange(found.size), ssn.terms)
        elif now != since:
            rows = [row for row in table.written(since) or () if row < found.size]
            if len(rows) > _FEW_ROWS:
                at = np.array(rows, np.int64)
                found.points[at] = resource_scores(table, cls, at, ssn.terms)
            else:
                self._score_few(ssn, cls, found, rows)
        found.points_at, found.points_of = now, ssn.terms
        return found.points

    def _score_few(self, ssn: Session, cls: TaskClass, found: Candidates, rows: Sequence[int]) -> None:
        """Do what `resource_scores` does for a handful of rows, where numpy costs more than it saves."""
        table, terms = self._table, self._resource_terms(ssn)
        columns = (table.allocatable, table.idle, table.requested, table.scored)
        for row in rows:
            found.points[row] = kernels.score_row(row, cls.request, cls.scored_request, *columns, *terms)

    def rows_for(self, ssn: Session, task: Task, flags: int) -> Rows:
        """Return the rows that can take a task now (or, under FUTURE, later)."""
        found = self.candidates(ssn, task)
        fits = found.mask[: found.size] & self._fits(task.cls, flags)
        if ssn.search is not None:
            fits &= ssn.search.mask
        rows: Rows = np.nonzero(fits)[0]
        for judge in ssn.task_filters:
            if not rows.size:
                break
            verdicts = judge(task, self._table, rows)
            if verdicts is not None:
                rows = rows[verdicts.codes == 0]
        return rows

    def fits_row(self, ssn: Session, task: Task, row: int, flags: int) -> bool:
        """Whether one row can take a task now (or, under FUTURE, later); as `rows_for` says of it."""
        table, found = self._table, self.candidates(ssn, task)
        if row >= found.size or not found.mask[row]:
            return False
        if ssn.search is not None and not ssn.search.mask[row]:
            return False
        idle = table.idle[row].tolist() if not flags & kernels.FUTURE else None
        future = table.free(row)
        for column, need in task.cls.asked:
            if need > future[column] or (idle is not None and need > idle[column]):
                return False
        if flags & kernels.LIMIT_PODS and table.pods[row] >= table.allocatable[row, PODS]:
            return False
        if not ssn.one_by_one(task):
            return True  # what runs on a node is nothing to it
        rows = np.array([row], np.int64)
        for judge in ssn.task_filters:
            verdicts = judge(task, table, rows)
            if verdicts is not None and verdicts.codes[0]:
                return False
        return True

    def rows_after_evictions(self, ssn: Session, task: Task) -> Rows:
        """Return rows where nothing but what pods hold stands against a task: the static filters allow it."""
        found = self.candidates(ssn, task)
        rows: Rows = np.nonzero(found.mask[: found.size])[0]
        return rows

    def _fits(self, cls: TaskClass, flags: int) -> Mask:
        table = self._table
        size = table.size
        fits = table.present[:size].copy()
        for column, need in enumerate(cls.request.tolist()):
            if need > 0 or column < 2:
                idle = table.idle[:size, column]
                future = idle + table.releasing[:size, column] - table.pipelined[:size, column]
                fits &= need <= future
                if not flags & kernels.FUTURE:
                    fits &= need <= idle
        if flags & kernels.LIMIT_PODS:
            fits &= table.pods[:size] < table.pods_limit()
        return fits

    def try_row(self, ssn: Session, task: Task, row: int, *, future: bool) -> bool:
        """Place a task on one given row if it fits there; return whether it did."""
        if not self.fits_row(ssn, task, row, (kernels.FUTURE if future else 0) | ssn.kernel_flags):
            return False
        self._charge(row, task, future)
        ssn.note_single(task, row)
        return True

    # -- why not -------------------------------------------------------------------------------------------------------

    def explain(self, ssn: Session, task: Task, *, one_by_one: bool) -> FitErrors:
        """Say why a task fits nowhere: every node counted once, under its first reason."""
        found = self.candidates(ssn, task)
        if ssn.search is not None:
            return self._explain(ssn, task, found, one_by_one)
        at = self._state()
        if not one_by_one and found.errors is not None and found.errors_at == at:
            return found.errors
        errors = self._explain(ssn, task, found, one_by_one)
        if not one_by_one:
            found.errors, found.errors_at = errors, at
        return errors

    def _state(self) -> tuple[int, int]:
        """Return what changes whenever a node or anything on it does."""
        return int(self._table.cursor[0]), self._table.object_clock

    def _explain(self, ssn: Session, task: Task, found: Candidates, one_by_one: bool) -> FitErrors:
        table, size = self._table, found.size
        open_rows = table.present[:size].copy()
        search = ssn.search
        if search is not None:
            open_rows &= search.mask
        total = int(open_rows.sum())
        counts: dict[Reason, int] = {}
        future = table.future_idle[:size]
        for column, need in enumerate(task.cls.request.tolist()):
            if need > 0 or column < 2:
                short = open_rows & (need > future[:, column])
                _count(counts, Reason("core", INSUFFICIENT.format(table.dims.names[column])), int(short.sum()))
                open_rows &= ~short
        for number, reason in enumerate(found.reasons, 1):
            hit = open_rows & (found.codes[:size] == number)
            _count(counts, reason, int(hit.sum()))
            open_rows &= ~hit
        if ssn.kernel_flags & kernels.LIMIT_PODS:
            hit = open_rows & (table.pods[:size] >= table.pods_limit())
            _count(counts, POD_NUMBER_EXCEEDED, int(hit.sum()))
            open_rows &= ~hit
        rows: Rows = np.nonzero(open_rows)[0]
        for judge in ssn.task_filters if one_by_one else ():
            verdicts = judge(task, table, rows) if rows.size else None
            if verdicts is None:
                continue
            for number, reason in enumerate(verdicts.reasons, 1):
                _count(counts, reason, int((verdicts.codes == number).sum()))
            rows = rows[verdicts.codes == 0]
        return FitErrors(total, counts, domain=search.name if search is not None else "")


def _as_arrays(domains: Proximity) -> tuple[Any, ...]:
    """Return a proximity as the kernel's arguments."""
    fills = (domains.used, domains.capacity, domains.asked, domains.asked_weights, domains.shares, domains.absent)
    near = (domains.weight, domains.near, domains.closeness, domains.members, domains.total)
    return (domains.tree.leaf, domains.tree.parent, *near, *fills)


def _count(counts: dict[Reason, int], reason: Reason, by: int) -> None:
    if by:
        counts[reason] = counts.get(reason, 0) + by


def stretched(raw: FloatArray, most: float, score: StaticScore) -> FloatArray:
    """Normalise raw scores to [0, 100] as Kubernetes' DefaultNormalizeScore does (whole points)."""
    if not score.normalise:
        return raw
    if most == 0:
        return np.full_like(raw, 100.0) if score.reverse else raw
    points = np.floor(100.0 * raw / most)
    return 100.0 - points if score.reverse else points


def term_arrays(
    terms: Sequence[ResourceTerm],
) -> tuple[npt.NDArray[np.int64], FloatArray, npt.NDArray[np.int64], FloatArray]:
    """Return terms as the kernel's arrays."""
    longest = max([len(t.weights) for t in terms] + [1])
    dims = np.full((len(terms), longest), -1, np.int64)
    dim_weights = np.zeros((len(terms), longest))
    for i, term in enumerate(terms):
        for j, (column, weight) in enumerate(term.weights):
            dims[i, j], dim_weights[i, j] = column, weight
    kinds = np.array([t.kind for t in terms], np.int64)
    weights = np.array([t.weight for t in terms], np.float64)
    return kinds, weights, dims, dim_weights


class Columns(Protocol):
    """What resource scores read of nodes: a `NodeTable`, or one as it would be."""

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
    """Return what the kernel's resource terms give on some rows, in numpy; equal to the kernel bit by bit."""
    total = np.zeros(len(rows))
    for term in terms:
        if term.kind in (kernels.LEAST, kernels.MOST):
            total += _least_or_most(table, cls, rows, term) * term.weight
        elif term.kind == kernels.BALANCED:
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
        if term.kind == kernels.LEAST:
            part = np.where(used <= capacity, (capacity - used) * 100 // safe, 0)
        else:
            part = np.minimum(used, capacity) * 100 // safe
        points += np.where(capacity == 0, 0, part * int(weight))
        whole += np.where(capacity == 0, 0, int(weight))
    return np.where(whole > 0, points // np.maximum(whole, 1), 0).astype(np.float64)


def _balanced(table: Columns, cls: Requests, rows: Rows, term: ResourceTerm) -> FloatArray:
    """Kubernetes' BalancedAllocation: 0 for a pod that asks for none of it; GPUs count for those who ask for them."""
    columns = [column for column, _ in term.weights]
    if not any(cls.request[column] > 0 for column in columns):
        return np.zeros(len(rows))
    parts, there = [], []
    for column in columns:
        if column >= 2 and not cls.request[column]:
            continue
        capacity = table.allocatable[rows, column]
        used = table.requested[rows, column] + cls.request[column]
        there.append(capacity > 0)
        parts.append(np.where(capacity > 0, np.minimum(used / np.maximum(capacity, 1), 1.0), 0.0))
    n = np.sum(there, axis=0)
    mean = np.zeros(len(rows))
    for part in parts:
        mean = mean + part
    mean = mean / np.maximum(n, 1)
    spread, apart = np.zeros(len(rows)), np.zeros(len(rows))
    for part, ok in zip(parts, there, strict=True):
        spread = spread + np.where(ok, (part - mean) * (part - mean), 0.0)
        apart = np.where(ok, part - apart, apart)
    deviation = np.where(n == 2, np.abs(apart) / 2, np.sqrt(spread / np.maximum(n, 1)))
    points = np.trunc((1.0 - deviation) * 100.0)
    return np.where(n == 0, 100.0, points)


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


def warm_up() -> None:
    """Load (or, the first time ever on a machine, compile) the kernels, so that the first pod need not wait."""
    table = NodeTable(Dimensions())
    request, out = table.dims.zeros(), np.zeros(1, np.int32)
    zeros, no_rows = np.zeros(table.capacity), np.zeros(table.capacity, np.bool_)
    tree, head = np.full(2, NOWHERE), np.array([1, 0, 0, 0], np.int64)
    arrays, rest = table.arrays, (no_rows, zeros, no_rows)
    scored = np.zeros(2, np.int64)
    columns = (table.allocatable, table.idle, table.requested, table.scored)
    kernels.score_row(0, request, scored, *columns, *term_arrays(()))
    kernels.place_batch(0, 0, 0, request, scored, *arrays, *rest, *term_arrays(()), tree, head, out)
    every: Rows = np.arange(table.capacity)
    domains = indifferent(HyperNodes(table).tree())
    kernels.place_near(0, 0, every, 0, request, scored, *arrays, *rest, *term_arrays(()), out, *_as_arrays(domains))
