"""The tree of hierarchical dominant resource fairness: shares of nested queues (spec volcano-plugins 4).

An inner node counts what its children hold after rescaling the unsaturated ones to the smallest share among them, so
that a child that cannot use more does not lower the shares of its siblings. Jobs of one node are rows of matrices; a
placement or removal recomputes its path only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from strato.scheduler.model.jobs import Job
from strato.scheduler.model.queues import Queue
from strato.scheduler.model.resources import FloatArray, Vector

PATH_ANNOTATION = "volcano.sh/hierarchy"
WEIGHTS_ANNOTATION = "volcano.sh/hierarchy-weights"


class Node:
    """One node of the tree.

    Attributes:
        weight: At least 1.
        share: Dominant share of what it counts as holding.
        saturated: Whether no job below it can use more.
    """

    def __init__(self, parent: Node | None, weight: float) -> None:
        self.parent = parent
        self.weight = weight
        self.children: dict[str, Node] = {}
        self.jobs: list[Job] = []
        self.held = np.zeros((0, 0))
        self.wanted = np.zeros((0, 0))
        self.allocated = np.zeros(0)
        self.share = 0.0
        self.saturated = False
        self.dirty = True

    @property
    def key(self) -> tuple[bool, float]:
        """Smaller goes first: unsaturated, then by weighted share."""
        return self.saturated, self.share / self.weight


class ShareTree:
    """All queues' paths with their jobs."""

    def __init__(self, total: Vector, jobs: Iterable[Job]) -> None:
        self._total = total.astype(np.float64)
        self._used = np.zeros_like(self._total)
        self._root = Node(None, 1.0)
        self._paths: dict[str, tuple[Node, ...]] = {}
        self._place: dict[str, tuple[Node, int]] = {}
        for job in jobs:
            if job.queue is not None:
                leaf = self.path(job.queue)[-1]
                self._place[job.key] = (leaf, len(leaf.jobs))
                leaf.jobs.append(job)
                self._used += job.used
        for leaf in {id(leaf): leaf for leaf, _ in self._place.values()}.values():
            leaf.held = np.array([job.used for job in leaf.jobs], np.float64)
            leaf.wanted = leaf.held + np.array([job.pending_request for job in leaf.jobs], np.float64)
        self._demanding = self._used < self._total

    def path(self, queue: Queue) -> tuple[Node, ...]:
        """Return the nodes from the root down to a queue, made when they are new."""
        found = self._paths.get(queue.name)
        if found is not None:
            return found
        meta = queue.view.metadata if queue.view is not None else None
        names = meta.annotation(PATH_ANNOTATION).split("/") if meta is not None else []
        weights = meta.annotation(WEIGHTS_ANNOTATION).split("/") if meta is not None else []
        at, path = self._root, [self._root]
        for i, name in enumerate(names[1:], 1):
            if name not in at.children:
                at.children[name] = Node(at, _weight(weights[i]) if i < len(weights) else 1.0)
            at = at.children[name]
            path.append(at)
        self._paths[queue.name] = tuple(path)
        return self._paths[queue.name]

    def key(self, queue: Queue) -> tuple[tuple[bool, float], ...]:
        """Return a queue's sort key: level by level from the root."""
        path = self.path(queue)
        for node in reversed(list(self._nodes(dirty=True))):
            self._refresh(node)
        return tuple([node.key for node in path])

    def note(self, job: Job) -> None:
        """Set what a job holds to its current value."""
        place = self._place.get(job.key)
        if place is not None:
            self.shift(job, job.used - place[0].held[place[1]])

    def shift(self, job: Job, amount: FloatArray) -> None:
        """Add to what a job holds."""
        place = self._place.get(job.key)
        if place is None:
            return
        node, row = place
        node.held[row] += amount
        self._used += amount
        demanding = self._used < self._total
        if (demanding != self._demanding).any():
            self._demanding = demanding
            for each in self._nodes():
                each.dirty = True
        at: Node | None = node
        while at is not None:
            at.dirty = True
            at = at.parent

    def _nodes(self, *, dirty: bool = False) -> Iterator[Node]:
        """Return all nodes, or the dirty ones, each after its parent; a tree may be deeper than calls may nest."""
        waiting = [self._root]
        while waiting:
            node = waiting.pop()
            if node.dirty or not dirty:
                yield node
                waiting += node.children.values()

    def _shares(self, held: FloatArray) -> FloatArray:
        """Return the dominant share of every row."""
        there = self._total > 0
        if not there.any() or not len(held):
            return np.zeros(len(held))
        shares: FloatArray = (held[:, there] / self._total[there]).max(axis=1)
        return shares

    def _refresh(self, node: Node) -> None:
        """Recompute what a node counts as holding, once its children are up to date."""
        children = list(node.children.values())
        held, wanted = node.held, node.wanted
        if not len(node.jobs):
            held = wanted = np.zeros((0, len(self._total)))
        # a job that holds nothing of a resource is not served by it, even if the cluster has none left
        served = (wanted != 0) & (held != 0) & ((held >= wanted) | ~self._demanding)
        saturated = np.append(served.any(axis=1), [child.saturated for child in children]).astype(np.bool_)
        shares = np.append(self._shares(held), [child.share for child in children])
        amounts = np.vstack([held, *[child.allocated for child in children]])
        smallest = min(shares[~saturated & (shares != 0)].min(initial=1.0), 1.0)
        factors = np.where(saturated, 1.0, smallest / np.where(shares != 0, shares, 1.0))
        node.allocated = (amounts * np.where(shares != 0, factors, 0.0)[:, None]).sum(axis=0)
        node.share = float(self._shares(node.allocated[None, :])[0])
        node.saturated = bool(saturated.all())
        node.dirty = False


class Standing:
    """A queue's sort key level by level; two compare on the levels that both have."""

    __slots__ = ("levels",)

    def __init__(self, levels: tuple[tuple[bool, float], ...]) -> None:
        self.levels = levels

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Standing) and compare(self.levels, other.levels) == 0

    def __lt__(self, other: Standing) -> bool:
        return compare(self.levels, other.levels) < 0

    __hash__ = None  # type: ignore[assignment] # equal ones may differ in what they are equal to


def compare(left: tuple[tuple[bool, float], ...], right: tuple[tuple[bool, float], ...]) -> int:
    """Return which key comes first (-1 left, 1 right) on the levels both have; 0 when none does."""
    for a, b in zip(left, right, strict=False):
        if a != b:
            return -1 if a < b else 1
    return 0


def _weight(text: str) -> float:
    try:
        weight = float(text)
    except ValueError:
        return 1.0
    return weight if weight >= 1.0 else 1.0
