"""HyperNodes as a tree over rows of the `NodeTable` (spec scheduler-core 8).

Domains are numbered, so that their parents and tiers are arrays for kernels and numpy. `HyperNodes.tree` builds the
tree when it is first needed and keeps it until HyperNodes or nodes change. Patterns and label selectors are evaluated
again for changed nodes only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from strato.api.core import Node
from strato.api.patterns import InvalidPattern, compile_pattern
from strato.api.selectors import from_label_selector
from strato.api.volcano.topology import HyperNode, MemberSelector
from strato.scheduler.model.nodes import Mask, NodeTable, Rows

TOP: Final = "<cluster-top-hypernode>"
"""Name of the domain that contains every node; one tier above all others."""

NOWHERE: Final = -1
"""Number that stands for no domain; neutral in `HyperNodeTree.lca`."""

_Matches = Callable[[Node], bool]


class HyperNodeTree:
    """The domains at one moment.

    Attributes:
        names: By number; sorted by tier and name, the last one is `TOP`.
        index: Number by name.
        tiers: int64[domains]; a lower tier is closer.
        parent: int32[domains], `NOWHERE` for the top.
        children: By number.
        rows: By number, the rows of the nodes in it, ascending.
        leaf: int32[rows of the table], the lowest domain each node is in; the top if it is in no other.
        tier_names: Tier by ``spec.tierName``.
        problem: Why the HyperNodes cannot be used, empty when they can.
    """

    def __init__(
        self, views: Sequence[HyperNode], own_rows: Sequence[Rows], nodes: NodeTable, parents: dict[str, str]
    ) -> None:
        order = sorted(range(len(views)), key=lambda i: (views[i].spec.tier, views[i].metadata.name))
        self.names = [*(views[i].metadata.name for i in order), TOP]
        self.index = {name: number for number, name in enumerate(self.names)}
        tiers = [views[i].spec.tier for i in order]
        self.tiers = np.array([*tiers, max(tiers, default=0) + 1], np.int64)
        self.tier_names = {views[i].spec.tier_name: views[i].spec.tier for i in order if views[i].spec.tier_name}
        self.top = len(order)
        above = [self.index[parents[name]] if name in parents else self.top for name in self.names[:-1]]
        self.parent = np.array([*above, NOWHERE], np.int32)
        self.children: list[list[int]] = [[] for _ in self.names]
        for number, parent in enumerate(above):
            self.children[parent].append(number)
        self.problem = ""
        present: Rows = np.nonzero(nodes.present[: nodes.size])[0]
        self.rows = self._collect([own_rows[i] for i in order], present)
        self.leaf = np.full(nodes.size, self.top, np.int32)
        for number in reversed(range(self.top)):  # from the highest tier down, so that the lowest is written last
            self.leaf[self.rows[number]] = number
        self._levels = self._by_depth()
        self._order = np.argsort(self.leaf, kind="stable")
        self._leaves, self._starts = np.unique(self.leaf[self._order], return_index=True)

    def _collect(self, own: list[Rows], every: Rows) -> list[Rows]:
        rows = [*own, every]
        seen = [False] * len(own)

        def fill(number: int) -> Rows:
            if number != self.top and not seen[number]:
                seen[number] = True
                parts = [rows[number], *(fill(child) for child in self.children[number])]
                rows[number] = np.unique(np.concatenate(parts)) if len(parts) > 1 else np.unique(parts[0])
            return rows[number]

        for number in range(self.top):
            fill(number)
        return rows

    def _by_depth(self) -> list[npt.NDArray[np.int64]]:
        """Return the domains by depth, the deepest first; the top is left out."""
        depths = np.array([len(self.chain(number)) for number in range(len(self.names))])
        return [np.nonzero(depths == depth)[0] for depth in range(int(depths.max()), 1, -1)]

    def lift(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Add each domain's value to all domains it lies in; changes and returns ``values``."""
        for level in self._levels:
            np.add.at(values, self.parent[level], values[level])
        return values

    def sums(self, values: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        """Return float64[domains, k]: Σ over the nodes of each domain of int64[rows of the table, k]."""
        out = np.zeros((len(self.names), values.shape[1]))
        if len(self.leaf):
            out[self._leaves] = np.add.reduceat(values[self._order], self._starts, axis=0)
        return self.lift(out)

    def inside(self, number: int) -> Mask:
        """Return bool[domains]: a domain and all domains inside it."""
        out: Mask = np.zeros(len(self.names), np.bool_)
        open_ends = [number]
        while open_ends:
            number = open_ends.pop()
            out[number] = True
            open_ends += self.children[number]
        return out

    @property
    def top_tier(self) -> int:
        """Tier of the whole cluster."""
        return int(self.tiers[self.top])

    def find(self, name: str) -> int:
        """Return a domain's number, `NOWHERE` when it does not exist."""
        return self.index.get(name, NOWHERE)

    def name(self, number: int) -> str:
        """Return a domain's name, empty for `NOWHERE`."""
        return self.names[number] if number >= 0 else ""

    def chain(self, number: int) -> list[int]:
        """Return a domain and the domains it lies in, innermost first."""
        out = []
        while number >= 0:
            out.append(number)
            number = int(self.parent[number])
        return out

    def lca(self, left: int, right: int) -> int:
        """Return the lowest domain that contains both; `NOWHERE` is neutral."""
        if left < 0 or right < 0:
            return max(left, right)
        inside = set(self.chain(left))
        return next(number for number in self.chain(right) if number in inside)

    def span(self, rows: Iterable[int], start: int = NOWHERE) -> int:
        """Return the lowest domain that contains ``start`` and all these rows."""
        for leaf in {int(self.leaf[row]) for row in rows}:
            start = self.lca(start, leaf)
        return start

    def mask(self, number: int) -> Mask:
        """Return bool[rows of the table]: which rows are in a domain."""
        out: Mask = np.zeros(len(self.leaf), np.bool_)
        out[self.rows[number]] = True
        return out


class HyperNodes:
    """The HyperNodes of the cluster."""

    def __init__(self, nodes: NodeTable) -> None:
        self._nodes = nodes
        self._views: dict[str, HyperNode] = {}
        self._chosen: dict[str, _Chosen] = {}
        self._version = 0
        self._tree: HyperNodeTree | None = None
        self._made_at = (-1, -1, -1)

    def __bool__(self) -> bool:
        return bool(self._views)

    def set_view(self, view: HyperNode) -> bool:
        """Take a HyperNode as the API has it now; return whether that changes anything.

        Raises:
            ValueError: A label selector in it cannot be read; nothing changed.
        """
        name = view.metadata.name
        old = self._views.get(name)
        if old is None or old.spec != view.spec:
            self._chosen[name] = _Chosen(view)
        self._views[name] = view
        if old is not None and old.spec == view.spec:
            return False
        self._version += 1
        return True

    def remove(self, name: str) -> bool:
        """Forget a HyperNode; return whether it was known."""
        if self._views.pop(name, None) is None:
            return False
        del self._chosen[name]
        self._version += 1
        return True

    def tree(self) -> HyperNodeTree:
        """Return the domains as they are now; the same object until something changes."""
        nodes = self._nodes
        at = (self._version, nodes.object_clock, nodes.size)
        if self._tree is None or self._made_at != at:
            self._made_at = at
            self._tree = self._build()
        return self._tree

    def _build(self) -> HyperNodeTree:
        views = list(self._views.values())
        parents, problem = parents_of(views)
        if problem:
            tree = HyperNodeTree((), (), self._nodes, {})
            tree.problem = problem
            return tree
        return HyperNodeTree(
            views, [self._chosen[v.metadata.name].rows(self._nodes) for v in views], self._nodes, parents
        )


def parents_of(views: Sequence[HyperNode]) -> tuple[dict[str, str], str]:
    """Return each HyperNode's parent by name, and why they form no tree (else empty); unknown children are left out."""
    known = {view.metadata.name for view in views}
    parents: dict[str, str] = {}
    for view in views:
        for member in view.spec.members:
            exact = member.selector.exact_match
            if member.type != "HyperNode" or exact is None or exact.name not in known:
                continue
            other = parents.setdefault(exact.name, view.metadata.name)
            if other != view.metadata.name:
                return {}, f"HyperNode {exact.name} lies in both {other} and {view.metadata.name}"
    for name in parents:
        seen = {name}
        above = parents.get(name)
        while above is not None:
            if above in seen:
                return {}, f"HyperNode {name} lies in itself"
            seen.add(above)
            above = parents.get(above)
    return parents, ""


class _Chosen:
    """The nodes that a HyperNode itself selects; patterns and labels are evaluated for changed nodes only."""

    __slots__ = ("_clock", "_exact", "_matched", "_matches")

    def __init__(self, view: HyperNode) -> None:
        selectors = [member.selector for member in view.spec.members if member.type == "Node"]
        self._exact = [s.exact_match.name for s in selectors if s.exact_match is not None]
        self._matches = [m for m in map(_matcher, selectors) if m is not None]
        self._matched: Mask = np.zeros(0, np.bool_)
        self._clock = -1

    def rows(self, nodes: NodeTable) -> Rows:
        """Return the rows of the present nodes it selects."""
        exact = [nodes.row_of[name] for name in self._exact if name in nodes.row_of]
        rows: Rows = np.array([row for row in exact if nodes.present[row]], np.int64)
        if not self._matches:
            return rows
        if len(self._matched) < nodes.size:
            grown: Mask = np.zeros(nodes.size, np.bool_)
            grown[: len(self._matched)] = self._matched
            self._matched = grown
        for row in np.nonzero(nodes.changed_at[: nodes.size] > self._clock)[0].tolist():
            node = nodes.facts[row]
            self._matched[row] = node is not None and any(matches(node) for matches in self._matches)
        self._clock = nodes.object_clock
        return np.concatenate((rows, np.nonzero(self._matched)[0]))


def _matcher(selector: MemberSelector) -> _Matches | None:
    """Return the test of a selector by pattern or labels; None for an invalid or empty one, which selects nothing."""
    if selector.regex_match is not None:
        try:
            pattern = compile_pattern(selector.regex_match.pattern)
        except InvalidPattern:
            return None
        return lambda node: pattern.is_in(node.metadata.name)
    labels = selector.label_match
    if labels is None or not (labels.match_labels or labels.match_expressions):
        return None
    chosen = from_label_selector(labels)
    return lambda node: chosen.matches(node.metadata.labels or {})
