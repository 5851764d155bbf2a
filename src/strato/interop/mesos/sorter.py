"""Dominant resource fairness over a hierarchy of clients: the order in which clients are served.

A *client* is a role of the role sorter, or a framework of one role's framework sorter. The share of a node of the tree
is the largest fraction of any of the cluster's scalars that its subtree holds, divided by the node's weight. Siblings
are ordered by share, then by the number of their allocations so far, then by path; clients depth first.

A role with both frameworks and roles below it is an inner node with an extra leaf child ``.`` of weight 1 for its own
frameworks; the role's weight stays on the inner node.

Source: Ghodsi et al., "Dominant Resource Fairness" (NSDI 2011), section 4, extended to trees as Mesos does.
"""

from __future__ import annotations

import random
from bisect import bisect_left, insort
from collections.abc import Iterator
from typing import TypeAlias

from strato.interop.mesos.quantities import Quantities, total
from strato.interop.mesos.resources import ResourceKind, Resources

_VIRTUAL = "."
_Entry: TypeAlias = "tuple[float, int, str, _Node]"
"""Sort key: share, number of allocations, path, and the node; as paths differ, nodes are never compared."""


class ClusterTotals:
    """Total scalars of all agents, to which shares relate; shared by all sorters of a cluster."""

    def __init__(self) -> None:
        self._agents: dict[str, Quantities] = {}
        self.millis: dict[str, int] = {}
        """Thousandths by name."""
        self.generation = 0
        """Grows with each change."""

    def set_agent(self, agent: str, scalars: Quantities) -> None:
        """Add or replace an agent's scalars, used or not."""
        self._subtract(self._agents.get(agent, {}))
        self._agents[agent] = scalars
        self.millis = total(self.millis, scalars)
        self.generation += 1

    def remove_agent(self, agent: str) -> None:
        """Subtract an agent's scalars."""
        self._subtract(self._agents.pop(agent, {}))
        self.generation += 1

    def _subtract(self, scalars: Quantities) -> None:
        for name, millis in scalars.items():
            self.millis[name] -= millis
            if not self.millis[name]:
                del self.millis[name]


class _Node:
    """A node of the tree: a client, or a path above clients, with the resources held by its subtree."""

    __slots__ = (
        "children",
        "client",
        "count",
        "dirty",
        "entry",
        "held",
        "is_active",
        "order",
        "parent",
        "path",
        "shared",
    )

    def __init__(self, path: str, client: str | None, parent: _Node | None) -> None:
        self.path, self.client, self.parent = path, client, parent
        self.is_active = False
        """For a leaf: whether the order includes it."""
        self.children: dict[str, _Node] = {}
        """Child nodes; empty only in a leaf or the root of an empty tree. Inner nodes have no `client`."""
        self.order: list[_Entry] = []
        """Sorted entries of the children, without inactive leaves and `dirty` children."""
        self.entry: _Entry | None = None
        """This node's entry in its parent's `order`; None if it has none."""
        self.dirty: set[_Node] = set()
        """Children whose entries must be recomputed."""
        self.held: dict[str, int] = {}
        """Held scalars in thousandths; shared resources count once."""
        self.shared: dict[tuple[str, ResourceKind], int] = {}
        """Copies of shared resources by agent and kind."""
        self.count = 0
        """Number of allocations to the subtree so far; never reduced."""

    def add(self, agent: str, resources: Resources) -> None:
        self._count(resources.non_shared().scalars(), 1)
        for kind, copies in resources.shared():
            had = self.shared.get((agent, kind), 0)
            self.shared[agent, kind] = had + int(copies)  # type: ignore[arg-type] # copies of a scalar are a number
            if not had:
                self._count({kind.name: kind.whole_millis or 0}, 1)

    def subtract(self, agent: str, resources: Resources) -> None:
        self._count(resources.non_shared().scalars(), -1)
        for kind, copies in resources.shared():
            left = self.shared.get((agent, kind), 0) - int(copies)  # type: ignore[arg-type] # as above
            if left > 0:
                self.shared[agent, kind] = left
            elif self.shared.pop((agent, kind), 0):
                self._count({kind.name: kind.whole_millis or 0}, -1)

    def subtract_all(self, other: _Node) -> None:
        """Subtract the resources of a leaf below."""
        alone = dict(other.held)
        for (agent, kind), copies in other.shared.items():
            alone[kind.name] -= kind.whole_millis or 0
            self.subtract(agent, Resources({kind: copies}))
        self._count(alone, -1)

    def copy_holdings(self, other: _Node) -> None:
        self.held, self.shared, self.count = dict(other.held), dict(other.shared), other.count

    def _count(self, scalars: Quantities, sign: int) -> None:
        held = self.held
        for name, millis in scalars.items():
            left = held.get(name, 0) + sign * millis
            if left:
                held[name] = left
            else:
                held.pop(name, None)


class Sorter:
    """Clients in the order of fairness.

    Args:
        totals: Totals of the cluster.
        excluded: Names of scalars that shares ignore.
        rng: If given, clients are ordered at random, with chances proportional to weights, instead of by shares.
    """

    def __init__(
        self, totals: ClusterTotals, excluded: frozenset[str] = frozenset(), rng: random.Random | None = None
    ) -> None:
        self._totals, self._excluded, self._rng = totals, excluded, rng
        self._root = _Node("", None, None)
        self._leaves: dict[str, _Node] = {}
        self._weights: dict[str, float] = {}
        self._generation = totals.generation

    def __contains__(self, client: str) -> bool:
        return client in self._leaves

    def __len__(self) -> int:
        return len(self._leaves)

    # --- the tree

    def add(self, client: str) -> None:
        """Add an inactive client without resources."""
        node = self._root
        for name in client.split("/"):
            if node.client is not None:
                self._make_inner(node)
            path = f"{node.path}/{name}" if node.path else name
            node = node.children.get(name) or self._new(path, None, node, name)
        if node.children:
            node = self._new(f"{node.path}/{_VIRTUAL}", client, node, _VIRTUAL)
        node.client = client
        self._leaves[client] = node

    def remove(self, client: str) -> None:
        """Remove a client with its resources, and inner nodes that are left without clients."""
        leaf = self._leaves.pop(client)
        node: _Node | None = leaf
        while node is not None and node.parent is not None:
            node = node.parent
            node.subtract_all(leaf)
            self._touch(node)
        self._drop(leaf)
        above = leaf.parent
        while above is not None and above.parent is not None and not above.children:
            above, dropped = above.parent, above
            self._drop(dropped)
        if above is not None and above.parent is not None and list(above.children) == [_VIRTUAL]:
            self._make_leaf(above, above.children[_VIRTUAL])

    def activate(self, client: str) -> None:
        """Include a client in the order."""
        self._set_active(client, True)

    def deactivate(self, client: str) -> None:
        """Exclude a client from the order; its resources still count."""
        self._set_active(client, False)

    def set_weight(self, path: str, weight: float) -> None:
        """Set the weight of a client or inner node by path, which need not exist yet."""
        self._weights[path] = weight
        self._generation = -1  # forces all entries to be recomputed

    # --- allocations of clients

    def allocated(self, client: str, agent: str, resources: Resources) -> None:
        """Add resources of an agent to a client's allocation."""
        node: _Node | None = self._leaves[client]
        while node is not None:
            node.add(agent, resources)
            node.count += 1
            self._touch(node)
            node = node.parent

    def unallocated(self, client: str, agent: str, resources: Resources) -> None:
        """Subtract resources from a client's allocation."""
        self._change(client, agent, resources, Resources())

    def updated(self, client: str, agent: str, old: Resources, new: Resources) -> None:
        """Replace resources in a client's allocation, as when they are reserved; not counted as an allocation."""
        self._change(client, agent, old, new)

    def quantities(self, client: str = "") -> Quantities:
        """Return the scalars of a client's allocation, or of all clients' together."""
        return dict((self._leaves[client] if client else self._root).held)

    # --- the order

    def order(self) -> list[str]:
        """Return the active clients, the one with the lowest share first."""
        return list(self)

    def __iter__(self) -> Iterator[str]:
        """Iterate over the active clients, the lowest share first; the sorter must not change meanwhile."""
        if self._rng is not None:
            return iter(self._shuffled(self._rng))
        if self._generation != self._totals.generation:
            self._rebuild(self._root)
            self._generation = self._totals.generation
        return self._listed(self._root)

    def _listed(self, node: _Node) -> Iterator[str]:
        if node.dirty:
            self._refresh(node)
        for entry in node.order:
            child = entry[3]
            if child.client is not None:
                yield child.client
            else:
                yield from self._listed(child)

    def _refresh(self, node: _Node) -> None:
        order = node.order
        for child in node.dirty:
            if child.entry is not None:
                del order[bisect_left(order, child.entry)]
            child.entry = self._entry(child)
            if child.entry is not None:
                insort(order, child.entry)
        node.dirty.clear()

    def _rebuild(self, node: _Node) -> None:
        for child in node.children.values():
            child.entry = self._entry(child)
            self._rebuild(child)
        node.order = sorted(child.entry for child in node.children.values() if child.entry is not None)
        node.dirty.clear()

    def _entry(self, node: _Node) -> _Entry | None:
        if node.client is not None and not node.is_active:
            return None
        return self._share(node), node.count, node.path, node

    def _share(self, node: _Node) -> float:
        whole, share = self._totals.millis, 0.0
        for name, millis in node.held.items():
            of = whole.get(name, 0)
            if of > 0 and name not in self._excluded:
                share = max(share, millis / of)  # integers: rounded once, so equal ratios give equal shares
        weight = self._weights.get(node.path)
        return share if weight is None else share / weight

    def _shuffled(self, rng: random.Random) -> list[str]:
        chances = dict(self._chances(self._root, 1.0))
        # sorting exponential samples with these rates gives the same distribution as drawing by weight without
        # replacement
        return sorted(chances, key=lambda client: rng.expovariate(chances[client]))

    def _chances(self, node: _Node, chance: float) -> Iterator[tuple[str, float]]:
        """Yield the active clients below a node, each with its part of the node's chance."""
        below = [child for child in node.children.values() if _has_active(child)]
        weights = [self._weights.get(child.path, 1.0) for child in below]
        for child, weight in zip(below, weights, strict=True):
            part = chance * weight / sum(weights)
            if child.client is not None:
                yield child.client, part
            else:
                yield from self._chances(child, part)

    # --- changes of nodes

    def _new(self, path: str, client: str | None, parent: _Node, name: str) -> _Node:
        node = _Node(path, client, parent)
        parent.children[name] = node
        self._touch(node)
        return node

    def _drop(self, node: _Node) -> None:
        parent = node.parent
        if parent is None:
            return
        parent.children.pop(node.path.rpartition("/")[2])
        parent.dirty.discard(node)
        if node.entry is not None:
            del parent.order[bisect_left(parent.order, node.entry)]

    def _make_inner(self, leaf: _Node) -> None:
        """Turn a leaf into an inner node whose only child is the leaf as it was."""
        assert leaf.client is not None
        virtual = self._new(f"{leaf.path}/{_VIRTUAL}", leaf.client, leaf, _VIRTUAL)
        virtual.copy_holdings(leaf)
        virtual.is_active = leaf.is_active
        self._leaves[leaf.client] = virtual
        leaf.client, leaf.is_active = None, False
        self._touch(leaf)

    def _make_leaf(self, inner: _Node, virtual: _Node) -> None:
        """Turn an inner node into the leaf that is its only child."""
        assert virtual.client is not None
        inner.client, inner.is_active = virtual.client, virtual.is_active
        inner.children, inner.order, inner.dirty = {}, [], set()
        self._leaves[virtual.client] = inner
        self._touch(inner)

    def _set_active(self, client: str, is_active: bool) -> None:
        leaf = self._leaves[client]
        leaf.is_active = is_active
        self._touch(leaf)

    def _change(self, client: str, agent: str, old: Resources, new: Resources) -> None:
        node: _Node | None = self._leaves[client]
        while node is not None:
            node.subtract(agent, old)
            node.add(agent, new)
            self._touch(node)
            node = node.parent

    def _touch(self, node: _Node) -> None:
        if node.parent is not None:
            node.parent.dirty.add(node)


def _has_active(node: _Node) -> bool:
    if node.client is not None:
        return node.is_active
    return any(map(_has_active, node.children.values()))
