"""Network domains in one session: which tiers jobs may span, and the search within one domain (core 8, at open)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from strato.api.volcano.scheduling import NetworkTopologySpec
from strato.scheduler.model.jobs import Job, Layout, SubJob
from strato.scheduler.model.nodes import Mask, Rows
from strato.scheduler.topology.hypernodes import TOP, HyperNodeTree

if TYPE_CHECKING:
    pass

SOFT = "soft"


class Search:
    """A search for places in one domain, for a sub-job.

    Args:
        tree: The domains.
        domain: Number of the domain to search.
        sub: The sub-job whose tasks are placed; None for a job that has none.
        near: Lowest domain that contains all placed tasks of the sub-job; `NOWHERE` without any.

    Attributes:
        rows: Rows of the domain.
        mask: bool[rows of the table], the same.
        name: The domain's name; empty for the whole cluster.
    """

    __slots__ = ("domain", "mask", "name", "near", "rows", "sub", "tree")

    def __init__(self, tree: HyperNodeTree, domain: int, sub: SubJob | None, near: int) -> None:
        self.tree = tree
        self.domain = domain
        self.sub = sub
        self.near = near
        self.rows: Rows = tree.rows[domain]
        self.mask: Mask = tree.mask(domain)
        self.name = tree.names[domain] if tree.names[domain] != TOP else ""

    def note(self, rows: Sequence[int]) -> None:
        """Widen ``near`` to these rows, on which tasks of the sub-job were placed."""
        if self.sub is not None and self.sub.network is not None and rows:
            self.near = self.tree.span(rows, self.near)


class Domains:
    """The network topology of a session."""

    def __init__(self, tree: HyperNodeTree) -> None:
        self.tree = tree

    def limit(self, part: Job | SubJob) -> int | None:
        """Return the highest tier a job or sub-job may span; None when it has no (resolvable) topology."""
        if isinstance(part, Job):
            return self._resolve(part.layout.network if part.layout is not None else None, None)
        if part.whole:
            return self.limit(part.job)
        return self._resolve(part.network, self.limit(part.job))

    def _resolve(self, spec: NetworkTopologySpec | None, outer: int | None) -> int | None:
        if spec is None:
            return None
        if spec.mode == SOFT:
            return self.tree.top_tier if outer is None else outer
        if spec.highest_tier_allowed is not None:
            return spec.highest_tier_allowed
        return self.tree.tier_names.get(spec.highest_tier_name)

    def allocated(self, part: Layout | SubJob) -> int:
        """Return the number of the domain that contains the placed tasks of a job or sub-job."""
        return self.tree.find(part.allocated)

    def widen(self, part: Layout | SubJob, domain: int) -> None:
        """Set the domain of a job or sub-job to the lowest that contains its old one and another."""
        part.allocated = self.tree.name(self.tree.lca(self.allocated(part), domain))


def members(tree: HyperNodeTree, sub: SubJob) -> npt.NDArray[np.int64]:
    """Return int64[domains]: how many of a sub-job's tasks are on each domain's nodes."""
    out = np.zeros(len(tree.names), np.int64)
    for task in sub.tasks.values():
        if 0 <= task.row < len(tree.leaf):
            out[tree.leaf[task.row]] += 1
    return tree.lift(out)
