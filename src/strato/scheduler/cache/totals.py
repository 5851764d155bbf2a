"""The amounts that queues share: countable nodes, less what other schedulers' pods hold there (spec utilisation 7).

Volcano counts every node it knows in full. Queues then deserve more than they can get, so that none counts as over its
share and nothing is reclaimed. Under the strict rule a node counts while it is ready, not cordoned, and has no taints
that keep jobs away.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from strato.api.core import Node, Taint, Toleration
from strato.api.nodeselection import tolerates
from strato.scheduler.model.jobs import Task
from strato.scheduler.model.ledger import ON_NODE
from strato.scheduler.model.nodes import Mask, NodeTable
from strato.scheduler.model.resources import Vector, fit_width

GROUP_LABEL: Final = "volcano.sh/nodegroup-name"
_KEEPING_AWAY: Final = frozenset({"NoSchedule", "NoExecute"})
_CLUSTERS_OWN: Final = ("node.kubernetes.io/", "node-role.kubernetes.io/", "node.cloudprovider.kubernetes.io/")
"""Prefixes of taints that tell the state of a node, or that it is a control-plane node: jobs do not tolerate them."""


def is_lost(node: Node) -> bool:
    """Whether a node has a Ready condition that is not True; a node without one, as in manifests, counts as ready."""
    ready = node.status.condition("Ready")
    return ready is not None and ready.status != "True"


@dataclass(frozen=True, slots=True, kw_only=True)
class TotalsRule:
    """Which nodes count."""

    strict: bool = False
    """False counts every node with all that is on it, as Volcano does."""
    tolerations: tuple[Toleration, ...] | None = None
    """Tolerations that jobs are assumed to have. None: they tolerate all taints but those with `_CLUSTERS_OWN`
    prefixes, as other taints reserve nodes for the jobs that tolerate them."""

    def counts(self, node: Node) -> bool:
        """Whether queues may share the node."""
        if not self.strict:
            return True
        if node.spec.unschedulable or is_lost(node):
            return False
        return not any(self._keeps_away(taint) for taint in node.spec.taints)

    def _keeps_away(self, taint: Taint) -> bool:
        if taint.effect not in _KEEPING_AWAY:
            return False
        if self.tolerations is None:
            return taint.key.startswith(_CLUSTERS_OWN)
        return not tolerates(self.tolerations, taint)


class Totals:
    """The sums over countable nodes, cached until a node or a pod of another scheduler changes.

    Attributes:
        foreign: By key, tasks on nodes that other schedulers placed.
    """

    def __init__(self, nodes: NodeTable) -> None:
        self._nodes = nodes
        self.rule = TotalsRule()
        self.foreign: dict[str, Task] = {}
        self._counted_by = self.rule
        self._countable: Mask = np.zeros(0, np.bool_)
        self._total: Vector | None = None
        self._pools: Mapping[str, Vector] | None = None

    def node_changed(self, row: int) -> None:
        """Note that a node object was added, changed or removed."""
        self._grow(row + 1)
        self._countable[row] = self._counts(row)
        self.forget()

    def _grow(self, size: int) -> None:
        """Lengthen the mask to a number of rows; rows without a node object do not count."""
        if size > len(self._countable):
            grown = np.zeros(self._nodes.capacity, np.bool_)
            grown[: len(self._countable)] = self._countable
            self._countable = grown

    def forget(self) -> None:
        """Drop the cached sums."""
        self._total = self._pools = None

    def _counts(self, row: int) -> bool:
        node = self._nodes.facts[row]
        return node is not None and self.rule.counts(node)

    @property
    def countable(self) -> Mask:
        """Return bool[rows]: the nodes that count."""
        size = self._nodes.size
        self._grow(size)
        if self._counted_by != self.rule:
            self._countable[:size] = [self._counts(row) for row in range(size)]
            self._counted_by = self.rule
            self.forget()
        return self._countable[:size]

    @property
    def total(self) -> Vector:
        """Sum of what queues share, in internal units; not to be written into."""
        if not self.rule.strict:
            return self._nodes.total
        countable = self.countable
        if self._total is None or len(self._total) < self._nodes.dims.width:
            self._total = self._amounts[countable].sum(axis=0)
            self._total.flags.writeable = False
        return self._total

    @property
    def idle(self) -> Vector:
        """Sum of idle amounts over countable nodes; a node that is over its allocatable counts negative."""
        idle = self._nodes.idle[: self._nodes.size]
        amounts: Vector = (idle[self.countable] if self.rule.strict else idle).sum(axis=0)
        return amounts

    @property
    def pools(self) -> Mapping[str, Vector]:
        """By node group, the sum of what queues share; nodes without a group are under the empty name."""
        countable = self.countable
        if self._pools is None or any(len(one) < self._nodes.dims.width for one in self._pools.values()):
            members: dict[str, Mask] = {}
            for row in np.flatnonzero(countable).tolist():
                node = self._nodes.facts[row]
                group = node.metadata.label(GROUP_LABEL) if node is not None else ""
                members.setdefault(group, np.zeros(len(countable), np.bool_))[row] = True
            amounts = self._amounts
            self._pools = {group: amounts[mask].sum(axis=0) for group, mask in sorted(members.items())}
        return self._pools

    @property
    def _amounts(self) -> Vector:
        """Return int[rows, width]: what queues share of each node; strictly, less what foreign pods hold there."""
        whole: Vector = self._nodes.allocatable[: self._nodes.size]
        if not self.rule.strict:
            return whole
        left = whole.copy()
        for task in self.foreign.values():
            if task.row >= 0 and ON_NODE[task.status]:
                left[task.row] -= fit_width(task.cls.request, left.shape[1])
        return np.maximum(left, 0)
