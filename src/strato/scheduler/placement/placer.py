"""`Placer`: chooses nodes for tasks; a kernel places batches of equal ones on the arrays of their `Candidates`.

A `Placer` lives as long as its configuration. Tasks whose fit or score depends on what else runs on a node (host ports,
inter-pod affinity, topology spread, a third-party plugin) are placed one by one on the same arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from strato.scheduler.framework.pluginanswers import PluginAnswers
from strato.scheduler.model.answers import ResourceTerm
from strato.scheduler.model.jobs import Task
from strato.scheduler.model.ledger import HELD, PROMISED, NodeCharge
from strato.scheduler.model.nodes import JOURNAL_SIZE, Mask, NodeTable, Rows
from strato.scheduler.model.reasons import INSUFFICIENT, POD_NUMBER_EXCEEDED, FitErrors, Reason
from strato.scheduler.model.resources import PODS, Dimensions, FloatArray
from strato.scheduler.model.tasks import TaskClass
from strato.scheduler.ordering.jobclasses import JobClasses
from strato.scheduler.placement import kernelcache, kernels
from strato.scheduler.placement.arrays import Domains, RequestRow, ScoreTerms, Static
from strato.scheduler.placement.candidates import NOWHERE, CandidateCache, Candidates
from strato.scheduler.placement.scoring import term_arrays
from strato.scheduler.topology.hypernodes import HyperNodes
from strato.scheduler.topology.proximity import FILL, Proximity, indifferent

_KERNEL_CHARGES: Final = {by: np.array(by, np.int64) for by in (HELD, PROMISED)}
"""Charges as arrays, because passing an array to a kernel costs half of passing a tuple."""


class Placer:
    """Chooses rows of nodes for tasks, and charges them.

    Args:
        table: The nodes.
        seed: Decides which of several rows with equal scores is taken.
        job_classes: The job classes with their verdicts, kept here between sessions; made when absent.

    Attributes:
        known: For each task class, the rows it may use and their scores.
    """

    def __init__(self, table: NodeTable, seed: int = 0, job_classes: JobClasses | None = None) -> None:
        self._table = table
        self.job_classes = job_classes if job_classes is not None else JobClasses()
        self.known = CandidateCache(table, seed)
        self._terms: ScoreTerms | None = None
        self._term_key: tuple[ResourceTerm, ...] | None = None
        self._out = np.zeros(1024, np.int32)

    # -- placing -------------------------------------------------------------------------------------------------------

    def place(
        self, ssn: PluginAnswers, tasks: Sequence[Task], *, future: bool, one_by_one: bool, promise: bool = False
    ) -> list[int]:
        """Choose rows for equal tasks one after the other and charge them; fewer rows than tasks when no more fit.

        Args:
            ssn: The session.
            tasks: Equal pending tasks.
            future: Place by what will be idle instead of what is idle now; the tasks are pipelined.
            one_by_one: Whether plugins must be called again after each placement.
            promise: Charge as pipelined though placed by what is idle now; within a search only.
        """
        if self._table.size == 0:
            return []
        search = ssn.search
        by = PROMISED if future or promise else HELD
        if one_by_one:
            rows = self._place_singly(ssn, tasks, future, by)
            if search is not None:
                search.note(rows)
            return rows
        cls = tasks[0].cls
        found = self.known.of(ssn, tasks[0])
        if found.errors is not None and found.errors_at == self._state():
            return []  # an equal task fitted nowhere, and no node has changed since
        flags = (kernels.FUTURE if future else 0) | ssn.kernel_flags
        proximity = ssn.proximity(tasks[0])
        if search is not None or proximity is not None:
            rows = self._place_near(ssn, cls, found, len(tasks), flags, by, proximity)
            if search is not None:
                search.note(rows)
            return rows
        if not found.varies:
            self.known.normalise(found, found.mask[: found.size])
            return self._run(ssn, cls, found, len(tasks), flags, by)
        rows = []
        while len(rows) < len(tasks):
            self._renormalise(ssn, cls, found, flags)
            more = self._run(ssn, cls, found, len(tasks) - len(rows), flags, by)
            if not more:
                break
            rows += more
        return rows

    def _place_near(
        self,
        ssn: PluginAnswers,
        cls: TaskClass,
        found: Candidates,
        count: int,
        flags: int,
        by: NodeCharge,
        proximity: Proximity | None,
    ) -> list[int]:
        """Choose among the rows of the session's search, with scores for network domains."""
        search = ssn.search
        rows = search.rows if search is not None else np.arange(found.size)
        domains = proximity or indifferent(ssn.tree)
        if not rows.size:
            return []
        chosen: list[int] = []
        while len(chosen) < count:
            static = self._static_of(found, cls, rows, flags)
            more = self._run_near(ssn, cls, found, rows, count - len(chosen), flags, by, static, domains)
            chosen += more
            if not more or not found.varies:
                break
            near = domains.near if domains.near == FILL else domains.tree.span(more, domains.near)
            domains = replace(domains, near=near)
        return chosen

    def _static_of(self, found: Candidates, cls: TaskClass, rows: Rows, flags: int) -> Static:
        """Return mask and static scores of some rows, normalised over those that can take a task now."""
        mask = found.mask[rows]
        if not found.varies:
            self.known.normalise(found, found.mask[: found.size])
            return Static(mask, found.base[rows], found.sensitive[rows])
        fits = self._fits(cls, found.mask[: found.size], flags)
        return Static(mask, *found.normalised(rows, found.extremes_of(rows, fits[rows])))

    def _run_near(
        self,
        ssn: PluginAnswers,
        cls: TaskClass,
        found: Candidates,
        rows: Rows,
        count: int,
        flags: int,
        by: NodeCharge,
        static: Static,
        domains: Proximity,
    ) -> list[int]:
        self._make_room(count)
        placed = kernels.place_near(
            count,
            flags,
            rows,
            int(np.searchsorted(rows, found.head[kernels.OFFSET])) % len(rows),
            RequestRow(cls.request, cls.scored_request),
            _KERNEL_CHARGES[by],
            self._table.columns,
            static,
            self._resource_terms(ssn),
            _domains(domains),
            self._out,
        )
        chosen: list[int] = self._out[:placed].tolist()
        return chosen

    def _make_room(self, count: int) -> None:
        """Lengthen the kernels' output array to at least that many rows."""
        if count > len(self._out):
            self._out = np.zeros(count * 2, np.int32)

    def _renormalise(self, ssn: PluginAnswers, cls: TaskClass, found: Candidates, flags: int) -> None:
        """Normalise ``base`` over the rows that can take a task now."""
        self._run(ssn, cls, found, 0, flags | kernels.KEEP, HELD)
        self.known.normalise(found, self._leaf_scores(found) > NOWHERE)

    @staticmethod
    def _leaf_scores(found: Candidates) -> FloatArray:
        leaves, offset = int(found.head[kernels.PLACES]), int(found.head[kernels.OFFSET])
        rolled: FloatArray = np.roll(found.tree[leaves : leaves + found.size], offset)
        return rolled

    def _run(
        self, ssn: PluginAnswers, cls: TaskClass, found: Candidates, count: int, flags: int, by: NodeCharge
    ) -> list[int]:
        self._make_room(count)
        tree, head = found.tree, found.head
        if flags & kernels.FUTURE:
            tree, head = tree.copy(), head.copy()
            head[kernels.BUILT] = 0
        placed = kernels.place_batch(
            count,
            flags,
            found.size,
            RequestRow(cls.request, cls.scored_request),
            _KERNEL_CHARGES[by],
            self._table.columns,
            Static(found.mask, found.base, found.sensitive),
            self._resource_terms(ssn),
            tree,
            head,
            self._out,
        )
        if flags & kernels.FUTURE and flags & kernels.KEEP:
            found.tree, found.head = tree, head
            found.head[kernels.BUILT] = 0
        rows: list[int] = self._out[:placed].tolist()
        return rows

    def _resource_terms(self, ssn: PluginAnswers) -> ScoreTerms:
        if self._terms is None or self._term_key is not ssn.terms:
            if self._terms is None or self._term_key != ssn.terms:
                if self._term_key is not None:
                    self.known.rebuild_trees()
                self._terms = term_arrays(ssn.terms)
            self._term_key = ssn.terms
        return self._terms

    # -- one by one ----------------------------------------------------------------------------------------------------

    def _place_singly(self, ssn: PluginAnswers, tasks: Sequence[Task], future: bool, by: NodeCharge) -> list[int]:
        rows: list[int] = []
        for task in tasks:
            row = self._choose(ssn, task, future)
            if row < 0:
                break
            self._table.take(row, task, by)
            rows.append(row)
        return rows

    def _choose(self, ssn: PluginAnswers, task: Task, future: bool) -> int:
        found = self.known.of(ssn, task)
        flags = (kernels.FUTURE if future else 0) | ssn.kernel_flags
        rows = self._rows_for(ssn, task, found, flags)
        if not rows.size:
            return -1
        scores = self._scored(ssn, task, found, rows)
        best = rows[scores == scores.max()]
        offset = int(found.head[kernels.OFFSET])
        return int(best[np.argmin((best - offset) % found.size)])

    def score_rows(self, ssn: PluginAnswers, task: Task, rows: Rows) -> FloatArray:
        """Return the total score of a task on each of some rows, normalised over these rows."""
        return self._scored(ssn, task, self.known.of(ssn, task), rows)

    def _scored(self, ssn: PluginAnswers, task: Task, found: Candidates, rows: Rows) -> FloatArray:
        cls = task.cls
        self.known.normalise_over(found, rows)
        total = found.base[rows]
        if ssn.terms:
            total += self._resource_points(ssn, cls, found)[rows]
        for score in ssn.answers["score"]:
            points = score(cls, self._table, rows)
            if points is not None:
                total += points
        for score_task in (*ssn.answers["score_task"], *ssn.answers["batch_score"]):
            points = score_task(task, self._table, rows)
            if points is not None:
                total += points
        return total

    def rescored(self, ssn: PluginAnswers, task: Task, rows: Sequence[int]) -> list[float]:
        """Return the current scores of some of the rows of the last `score_rows`, with its normalisation.

        Only for tasks whose scores depend on class and facet alone (see `Session.one_by_one`).
        """
        found = self.known.of(ssn, task)
        points = self._resource_points(ssn, task.cls, found)
        return [float(found.base[row] + points[row]) for row in rows]

    def _resource_points(self, ssn: PluginAnswers, cls: TaskClass, found: Candidates) -> FloatArray:
        """Return the resource terms' points on every row; only rows written since the last call are computed."""
        table = self._table
        now = int(table.cursor[0])
        since = found.points_at
        if found.points.size != found.size or found.points_of is not ssn.terms:
            found.points, since = np.empty(found.size), -1
        if now == since:
            return found.points
        if since >= 0 and now - since < JOURNAL_SIZE:
            rows = np.array([row for row in table.written(since) or () if row < found.size], np.int64)
        else:
            rows = np.arange(found.size)
        want = RequestRow(cls.request, cls.scored_request)
        kernels.score_rows(rows, want, table.columns, self._resource_terms(ssn), found.points)
        found.points_at, found.points_of = now, ssn.terms
        return found.points

    def rows_for(self, ssn: PluginAnswers, task: Task, flags: int) -> Rows:
        """Return the rows that can take a task now (with FUTURE: once leaving pods are gone)."""
        return self._rows_for(ssn, task, self.known.of(ssn, task), flags)

    def _rows_for(self, ssn: PluginAnswers, task: Task, found: Candidates, flags: int) -> Rows:
        fits = self._fits(task.cls, found.mask[: found.size], flags)
        if ssn.search is not None:
            fits &= ssn.search.mask
        rows: Rows = np.nonzero(fits)[0]
        for judge in ssn.answers["filter_task"]:
            if not rows.size:
                break
            verdicts = judge(task, self._table, rows)
            if verdicts is not None:
                rows = rows[verdicts.codes == 0]
        return rows

    def fits_row(self, ssn: PluginAnswers, task: Task, row: int, flags: int) -> bool:
        """Whether `rows_for` contains a row, computed for that row alone."""
        table, found = self._table, self.known.of(ssn, task)
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
            return True  # no filter of this task depends on the pods there
        rows = np.array([row], np.int64)
        for judge in ssn.answers["filter_task"]:
            verdicts = judge(task, table, rows)
            if verdicts is not None and verdicts.codes[0]:
                return False
        return True

    def rows_after_evictions(self, ssn: PluginAnswers, task: Task) -> Rows:
        """Return the rows that static filters allow a task, so that only pods there can be in its way."""
        found = self.known.of(ssn, task)
        rows: Rows = np.nonzero(found.mask[: found.size])[0]
        return rows

    def _fits(self, cls: TaskClass, allowed: Mask, flags: int) -> Mask:
        """Return which of the allowed rows have enough resources for a task."""
        fits = allowed.copy()
        kernels.mark_fitting(fits, RequestRow(cls.request, cls.scored_request), self._table.columns, flags)
        return fits

    def try_row(self, ssn: PluginAnswers, task: Task, row: int, *, future: bool) -> bool:
        """Place a task on one given row if it fits there; return whether it did."""
        if not self.fits_row(ssn, task, row, (kernels.FUTURE if future else 0) | ssn.kernel_flags):
            return False
        self._table.take(row, task, PROMISED if future else HELD)
        return True

    # -- why not -------------------------------------------------------------------------------------------------------

    def explain(self, ssn: PluginAnswers, task: Task, *, one_by_one: bool) -> FitErrors:
        """Return why a task fits nowhere: every node is counted once, under its first reason."""
        found = self.known.of(ssn, task)
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
        """Return a stamp that differs after any change of a node or of the tasks on one."""
        return int(self._table.cursor[0]), self._table.object_clock

    def _explain(self, ssn: PluginAnswers, task: Task, found: Candidates, one_by_one: bool) -> FitErrors:
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
        refused = np.bincount(found.codes[:size][open_rows], minlength=len(found.reasons) + 1)
        for reason, number in found.reasons.items():
            _count(counts, reason, int(refused[number]))
        open_rows &= found.codes[:size] == 0
        if ssn.kernel_flags & kernels.LIMIT_PODS:
            hit = open_rows & (table.pods[:size] >= table.pods_limit())
            _count(counts, POD_NUMBER_EXCEEDED, int(hit.sum()))
            open_rows &= ~hit
        rows: Rows = np.nonzero(open_rows)[0]
        for judge in ssn.answers["filter_task"] if one_by_one else ():
            verdicts = judge(task, table, rows) if rows.size else None
            if verdicts is None:
                continue
            for number, reason in enumerate(verdicts.reasons, 1):
                _count(counts, reason, int((verdicts.codes == number).sum()))
            rows = rows[verdicts.codes == 0]
        return FitErrors(total, counts, domain=search.name if search is not None else "")


def _domains(found: Proximity) -> Domains:
    """Convert a proximity to the arrays that the kernel takes."""
    near = (found.weight, found.near, found.closeness, found.members, found.total)
    fills = (found.used, found.capacity, found.asked, found.asked_weights, found.shares, found.absent)
    return Domains(found.tree.leaf, found.tree.parent, *near, *fills)


def _count(counts: dict[Reason, int], reason: Reason, by: int) -> None:
    if by:
        counts[reason] = counts.get(reason, 0) + by


def warm_up() -> None:
    """Load the kernels, so that the first pod need not wait; compile them the first time on a machine."""
    kernelcache.only_load(kernels.score_rows, kernels.mark_fitting, kernels.place_batch, kernels.place_near)
    table = NodeTable(Dimensions())
    columns, out = table.columns, np.zeros(1, np.int32)
    want, terms = RequestRow(table.dims.zeros(), np.zeros(2, np.int64)), term_arrays(())
    no_rows = np.zeros(table.capacity, np.bool_)
    static = Static(no_rows, np.zeros(table.capacity), no_rows)
    kernels.score_rows(np.zeros(0, np.int64), want, columns, terms, np.zeros(0))
    tree, head = np.full(2, NOWHERE), np.array([1, 0, 0, 0], np.int64)
    kernels.place_batch(0, 0, 0, want, _KERNEL_CHARGES[HELD], columns, static, terms, tree, head, out)
    every: Rows = np.arange(table.capacity)
    domains = _domains(indifferent(HyperNodes(table).tree()))
    kernels.place_near(0, 0, every, 0, want, _KERNEL_CHARGES[HELD], columns, static, terms, domains, out)
