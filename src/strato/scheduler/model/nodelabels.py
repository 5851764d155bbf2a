"""Evaluates node selectors over all rows at once: the nodes of a volume, a topology or a set of devices.

Results are cached by selector until a node object changes, so a thousand volumes of one zone are evaluated once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
import numpy as np

from strato.api.core import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, PodSpec, Toleration
from strato.api.nodeselection import CORDON, HARD_EFFECTS, matches_term, tolerates
from strato.api.selectors import from_label_selector
from strato.api.shapes import LabelSelector
from strato.api.storage import TopologySelectorTerm
from strato.lru import LruCache
from strato.scheduler.model.nodes import Mask, NodeTable

_encode = msgspec.json.Encoder().encode
_MASKS_BYTES = 64 << 20
"""Limit of the cached masks, each of which has a byte per node."""
ZONE_LABELS = {
    "topology.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region": "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
}
"""Labels with the zone or region of a node or volume, each with the name that replaced it."""


class NodeLabels:
    """Masks over the rows of a table; callers must not write to them."""

    def __init__(self, table: NodeTable) -> None:
        self._table = table
        self._at = (-1, -1)
        self._masks: LruCache[bytes, Mask] = LruCache(_MASKS_BYTES, lambda key, mask: len(key) + mask.nbytes)
        self._rows: dict[str, dict[str, list[int]]] = {}

    def _fresh(self) -> None:
        now = (self._table.object_clock, self._table.size)
        if self._at != now:
            self._at = now
            self._masks.clear()
            self._rows.clear()

    def _kept(self, key: bytes, make: Callable[[], Mask]) -> Mask:
        """Return the cached mask of a key if no node object has changed since, else make it."""
        self._fresh()
        mask = self._masks.get(key)
        return self._masks.put(key, make()) if mask is None else mask

    def rows_with(self, label: str) -> dict[str, list[int]]:
        """Return the rows that have a label, by its value."""
        self._fresh()
        found = self._rows.get(label)
        if found is None:
            found = self._rows[label] = {}
            for row, node in enumerate(self._table.facts):
                value = (node.metadata.labels or {}).get(label) if node is not None else None
                if value is not None:
                    found.setdefault(value, []).append(row)
        return found

    def selected(self, selector: NodeSelector | None) -> Mask:
        """Return the rows any term of a selector matches; all when there is no selector."""
        if selector is None:
            return np.ones(self._table.size, np.bool_)

        def make() -> Mask:
            mask = np.zeros(self._table.size, np.bool_)
            for term in selector.node_selector_terms:
                mask[self._term_rows(term)] = True
            return mask

        return self._kept(b"n" + _encode(selector), make)

    def eligible(self, spec: PodSpec) -> Mask:
        """Return the rows a pod's node selector and required node affinity allow."""
        affinity = spec.affinity.node_affinity if spec.affinity is not None else None
        mask = self.selected(affinity.required if affinity is not None else None)
        if spec.node_selector:
            wanted = tuple(
                NodeSelectorRequirement(key=key, operator="In", values=(text,))
                for key, text in spec.node_selector.items()
            )
            mask = mask & self.selected(NodeSelector(node_selector_terms=(NodeSelectorTerm(match_expressions=wanted),)))
        return mask

    def tolerated(self, tolerations: Sequence[Toleration]) -> Mask:
        """Return the rows whose NoSchedule and NoExecute taints are all tolerated; a cordon counts as a taint."""

        def make() -> Mask:
            mask = np.ones(self._table.size, np.bool_)
            for row in np.nonzero(self._table.tainted[: self._table.size])[0].tolist():
                node = self._table.facts[row]
                mask[row] = node is not None and all(
                    tolerates(tolerations, taint)
                    for taint in (*node.spec.taints, *((CORDON,) if node.spec.unschedulable else ()))
                    if taint.effect in HARD_EFFECTS
                )
            return mask

        return self._kept(b"o" + _encode(tolerations), make)

    def _term_rows(self, term: NodeSelectorTerm) -> list[int]:
        """Return the rows of one term; the index by label or name narrows them down before the term is evaluated."""
        table = self._table
        rows: Sequence[int] = range(table.size)
        for requirement in term.match_expressions:
            if requirement.operator == "In":
                values = self.rows_with(requirement.key)
                rows = [row for value in set(requirement.values) for row in values.get(value, ())]
                break
        for requirement in term.match_fields:
            if requirement.operator == "In" and requirement.key == "metadata.name":
                known = (table.row_of.get(name) for name in requirement.values)
                rows = [row for row in known if row is not None]
        facts = table.facts
        return [row for row in rows if (node := facts[row]) is not None and matches_term(term, node)]

    def labelled(self, selector: LabelSelector | None) -> Mask:
        """Return the rows whose labels a label selector matches; none when there is no selector."""

        def make() -> Mask:
            chosen = from_label_selector(selector)
            fits = (node is not None and chosen.matches(node.metadata.labels or {}) for node in self._table.facts)
            return np.fromiter(fits, np.bool_, self._table.size)

        return self._kept(b"l" + _encode(selector), make)

    def in_topology(self, terms: Sequence[TopologySelectorTerm]) -> Mask:
        """Return the rows that any of a storage class's topology terms allows; all when there is none."""
        if not terms:
            return np.ones(self._table.size, np.bool_)

        def make() -> Mask:
            mask = np.zeros(self._table.size, np.bool_)
            for term in terms:
                inside = np.ones(self._table.size, np.bool_)
                for wanted in term.match_label_expressions:
                    has = np.zeros(self._table.size, np.bool_)
                    values = self.rows_with(wanted.key)
                    has[[row for value in wanted.values for row in values.get(value, ())]] = True
                    inside &= has
                mask |= inside
            return mask

        return self._kept(b"t" + _encode(terms), make)

    def zoned(self, asked: Sequence[tuple[str, str, frozenset[str]]]) -> Mask:
        """Return the rows that the zone labels of volumes allow: rows without zone labels, or with an allowed value
        each.

        Args:
            asked: For each label of a volume: the label, its newer name, and the values allowed for either.
        """
        self._fresh()
        mask = np.ones(self._table.size, np.bool_)
        for label, newer, wanted in asked:
            has = np.zeros(self._table.size, np.bool_)
            for name in (newer, label):  # where a node has both, the label as the volume has it decides
                for value, rows in self.rows_with(name).items():
                    has[rows] = value in wanted
            mask &= has
        anywhere = np.ones(self._table.size, np.bool_)
        for label in ZONE_LABELS:
            for rows in self.rows_with(label).values():
                anywhere[rows] = False
        return mask | anywhere
