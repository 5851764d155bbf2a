"""Counts of matching pods per node, for rules about other pods; updated from the node table's journal.

Inter-pod affinity and topology spread need the number of pods that match a selector in each topology domain. The counts
per node are cached by selector; only rows that changed are counted again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping

import numpy as np
import numpy.typing as npt

from strato.lru import LruCache
from strato.scheduler.cache.affinity import Label
from strato.scheduler.cache.evictions import Evictions
from strato.scheduler.model.jobs import Task
from strato.scheduler.model.nodes import NEVER, NodeTable
from strato.scheduler.model.resources import FloatArray
from strato.scheduler.model.tasks import RELEASING, TaskClass

Counts = npt.NDArray[np.int64]
Matches = Callable[[Task], bool]

_COUNTS_BYTES = 160 << 20
"""Limit of the cached counts, each of which has a number per node."""
_LABELS_BYTES = 64 << 20
"""Limit of the cached label values, each of which has a set per node."""
_FEW_ROWS = 16
"""Up to this many rows are counted directly, without first narrowing them down by label."""
_NO_ROWS: frozenset[int] = frozenset()


class _Counted:
    """A cached count: number of matching pods by row, current up to ``cursor`` of the table's journal."""

    __slots__ = ("counts", "cursor", "matches")

    def __init__(self, matches: Matches) -> None:
        self.matches = matches
        self.counts: Counts = np.zeros(0, np.int64)
        self.cursor = NEVER


class _LabelRows:
    """Rows by the values that the pods on them have of one label."""

    __slots__ = ("_label", "_values", "cursor", "rows")

    def __init__(self, label: str) -> None:
        self._label = label
        self._values: list[set[str]] = []
        self.rows: dict[str, set[int]] = {}
        self.cursor = NEVER

    def refresh(self, table: NodeTable, rows: Iterable[int]) -> None:
        """Read the pods of some rows again."""
        self._values += [set() for _ in range(table.size - len(self._values))]
        for row in rows:
            now = {
                labels[self._label]
                for task in table.tasks[row].values()
                if (labels := task.pod.metadata.labels) is not None and self._label in labels
            }
            before = self._values[row]
            self._values[row] = now
            for value in before - now:
                self.rows[value].discard(row)
                if not self.rows[value]:
                    del self.rows[value]
            for value in now - before:
                self.rows.setdefault(value, set()).add(row)


class Neighbours:
    """Counts of matching pods per row, and topology domains per label key.

    Args:
        table: The nodes and what runs on them.
        evictions: The evictions under way.
    """

    def __init__(self, table: NodeTable, evictions: Evictions) -> None:
        self._table = table
        self._evictions = evictions
        self._counted: LruCache[Hashable, _Counted] = LruCache(
            _COUNTS_BYTES, lambda _key, _counted: 8 * table.size + 1000
        )
        self._by_label: LruCache[str, _LabelRows] = LruCache(
            _LABELS_BYTES, lambda _label, _rows: 300 * table.size + 1000
        )
        self._domains: dict[str, tuple[int, int, npt.NDArray[np.int64], int]] = {}

    def counts(self, key: Hashable, matches: Matches, one_of: Collection[Label] | None = None) -> Counts:
        """Return how many pods on each row match.

        Args:
            key: Cache key; equal keys must mean equal ``matches``.
            matches: Whether a pod counts.
            one_of: Labels one of which every matching pod has; None when no such labels are known.
        """
        found = self._counted.get(key)
        if found is None:
            found = self._counted.put(key, _Counted(matches))
        table = self._table
        changed = table.written(found.cursor) if len(found.counts) == table.size else None
        rows: Collection[int] = range(table.size) if changed is None else changed
        candidates = self._rows_with(one_of) if one_of is not None and len(rows) > _FEW_ROWS else rows
        if changed is None or len(candidates) < len(rows):
            found.counts = np.zeros(table.size, np.int64)
            rows = candidates
        for row in rows:
            found.counts[row] = sum(1 for t in table.tasks[row].values() if self._stays(t) and found.matches(t))
        found.cursor = int(table.cursor[0])
        return found.counts

    def members(self, cls: TaskClass, labels: Mapping[str, str]) -> Counts:
        """Return how many pods of a class are on each row; all of them have these labels."""
        known = next((label for label in labels.items() if self._by_label.get(label[0]) is not None), None)
        one_of = [known] if known is not None else list(labels.items())[:1] or None
        return self.counts(("class", cls.number), lambda task: task.cls is cls, one_of)

    def _rows_with(self, one_of: Collection[Label]) -> set[int]:
        """Return the rows with a pod that has one of some labels."""
        out: set[int] = set()
        for label, value in one_of:
            known = self._by_label.get(label)
            if known is None:
                known = self._by_label.put(label, _LabelRows(label))
            changed = self._table.written(known.cursor)
            known.refresh(self._table, range(self._table.size) if changed is None else changed)
            known.cursor = int(self._table.cursor[0])
            out |= known.rows.get(value, _NO_ROWS)
        return out

    def _stays(self, task: Task) -> bool:
        """Whether a pod counts: an evicted one does until it is gone, the victim of an open statement does not."""
        if task.status != RELEASING or task.pod.metadata.deletion_timestamp is not None:
            return True
        return self._evictions.awaits(task.key, task.uid)

    def domains(self, label: str) -> tuple[npt.NDArray[np.int64], int]:
        """Return each row's topology domain under a label (-1 without it), and how many there are."""
        table = self._table
        known = self._domains.get(label)
        if known is not None and known[0] == table.object_clock and known[1] == table.size:
            return known[2], known[3]
        codes = np.full(table.size, -1, np.int64)
        numbers: dict[str, int] = {}
        for row in range(table.size):
            node = table.facts[row]
            value = (node.metadata.labels or {}).get(label) if node is not None else None
            if value is not None:
                codes[row] = numbers.setdefault(value, len(numbers))
        self._domains[label] = (table.object_clock, table.size, codes, len(numbers))
        return codes, len(numbers)

    def per_domain(self, label: str, counts: Counts | FloatArray) -> FloatArray:
        """Return for each row the sum of ``counts`` over its domain; 0 where the row is in none."""
        codes, many = self.domains(label)
        inside = codes >= 0
        sums = np.bincount(codes[inside], weights=counts[inside].astype(np.float64), minlength=max(many, 1))
        out = np.zeros(len(codes))
        out[inside] = sums[codes[inside]]
        return out
