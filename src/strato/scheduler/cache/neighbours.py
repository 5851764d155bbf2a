"""Who runs where, for rules about other pods: matching pods per node, kept current from the table's journal.

Inter-pod affinity and topology spread ask how many pods that match a selector run in each topology domain. The counts
per node are cached per question and brought up to date only for rows that changed.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping

import numpy as np
import numpy.typing as npt

from strato.api.core import PodAffinityTerm
from strato.api.selectors import Selector, from_label_selector
from strato.api.shapes import LabelSelector, LabelSelectorRequirement
from strato.lru import LruCache
from strato.scheduler.cache.evictions import Evictions
from strato.scheduler.model.jobs import Task
from strato.scheduler.model.nodes import JOURNAL_SIZE, NodeTable
from strato.scheduler.model.resources import FloatArray
from strato.scheduler.model.tasks import RELEASING, TaskClass

Counts = npt.NDArray[np.int64]
Matches = Callable[[Task], bool]

_COUNTS_BYTES = 160 << 20
"""Of counts, each a number for every node."""


class _Counted:
    __slots__ = ("counts", "cursor", "matches")

    def __init__(self, matches: Matches) -> None:
        self.matches = matches
        self.counts: Counts = np.zeros(0, np.int64)
        self.cursor = -1


class Neighbours:
    """Counts of matching pods per row, and topology domains per label key.

    Args:
        table: The nodes and what runs on them.
        evictions: Which pods are being evicted.
    """

    def __init__(self, table: NodeTable, evictions: Evictions) -> None:
        self._table = table
        self._evictions = evictions
        self._counted: LruCache[Hashable, _Counted] = LruCache(
            _COUNTS_BYTES, lambda _key, _counted: 8 * table.size + 1000
        )
        self._domains: dict[str, tuple[int, int, npt.NDArray[np.int64], int]] = {}

    def counts(self, key: Hashable, matches: Matches) -> Counts:
        """Return how many pods on each row match; ``key`` names the question and must imply ``matches``."""
        found = self._counted.get(key)
        if found is None:
            found = self._counted.put(key, _Counted(matches))
        table = self._table
        now = int(table.cursor[0])
        if len(found.counts) != table.size or found.cursor < 0 or now - found.cursor >= JOURNAL_SIZE:
            found.counts = np.zeros(table.size, np.int64)
            rows = set(range(table.size))
        else:
            rows = {int(table.journal[p % JOURNAL_SIZE]) for p in range(found.cursor, now)}
        for row in rows:
            found.counts[row] = sum(1 for t in table.tasks[row].values() if self._stays(t) and found.matches(t))
        found.cursor = now
        return found.counts

    def _stays(self, task: Task) -> bool:
        """Whether a pod counts as a neighbour: a leaving one does until it is gone, one on trial does not."""
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


class Term:
    """A pod affinity term, made ready: which pods it means, and the topology it speaks of."""

    __slots__ = ("_namespace_selector", "_namespaces", "_selector", "key", "topology_key")

    def __init__(self, term: PodAffinityTerm, owner: Task) -> None:
        selector = _with_label_keys(from_label_selector(term.label_selector), term, owner)
        self._selector = selector
        self._namespace_selector = (
            from_label_selector(term.namespace_selector) if term.namespace_selector is not None else None
        )
        named = frozenset(term.namespaces)
        self._namespaces = named or (frozenset((owner.namespace,)) if self._namespace_selector is None else frozenset())
        self.topology_key = term.topology_key
        self.key = (str(selector), str(self._namespace_selector), self._namespaces)

    def matches(self, task: Task, namespaces: Mapping[str, Mapping[str, str]]) -> bool:
        """Whether the term means a pod."""
        if task.namespace not in self._namespaces:
            chosen = self._namespace_selector
            if chosen is None or not chosen.matches(namespaces.get(task.namespace, {})):
                return False
        return self._selector.matches(task.pod.metadata.labels or {})


def _with_label_keys(selector: Selector, term: PodAffinityTerm, owner: Task) -> Selector:
    if not term.match_label_keys and not term.mismatch_label_keys:
        return selector
    labels = owner.pod.metadata.labels or {}
    base = term.label_selector or LabelSelector()
    same = {key: labels[key] for key in term.match_label_keys if key in labels}
    other = tuple(
        LabelSelectorRequirement(key=key, operator="NotIn", values=(labels[key],))
        for key in term.mismatch_label_keys
        if key in labels
    )
    return from_label_selector(
        LabelSelector(match_labels={**base.match_labels, **same}, match_expressions=(*base.match_expressions, *other))
    )


def members_key(cls: TaskClass) -> Hashable:
    """Return the name of the question how many pods of a class run where."""
    return ("class", cls.number)
