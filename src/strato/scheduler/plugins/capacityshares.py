"""What queues are entitled to and hold, for the plugin capacity."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from strato.scheduler.model.queues import Queue
from strato.scheduler.model.resources import CPU, MEMORY, PODS, FloatArray, Vector, share


@dataclass(slots=True)
class Shares:
    """What one queue is entitled to and holds; for an inner queue the sums over its descendants.

    Attributes:
        queue: The queue.
        ancestors: Names from the root down to the parent; empty when flat.
        children: Queues right below it.
        deserved, guarantee, real_capability: In internal units; 0 in ``deserved`` means not defined.
        declared: Columns that ``deserved`` or ``guarantee`` has an amount in, or is declared with.
        used: What it holds now; updated by placements and evictions.
        inqueue, elastic: As in `World.settle`.
    """

    queue: Queue
    ancestors: tuple[str, ...]
    children: list[str]
    deserved: FloatArray
    guarantee: FloatArray
    capability: FloatArray
    real_capability: FloatArray
    used: Vector
    inqueue: Vector
    elastic: Vector
    declared: frozenset[int] = field(default_factory=frozenset)
    remembered: FloatArray | None = None

    @property
    def rank(self) -> tuple[bool, float]:
        """Return the sort key: the share; with memory, past use counts too.

        A queue below what it deserves still comes before one that has all of it.
        """
        if self.remembered is None:
            return False, self.share
        held = (self.used + self.remembered).tolist()
        wanted = self.deserved.tolist()
        most = max([share(u, d) for u, d in zip(held, wanted, strict=True) if d >= 0.1], default=1.0)
        return self.share >= 1.0, most

    @property
    def share(self) -> float:
        """Return the largest used fraction of what it deserves; 1 when it deserves nothing."""
        wanted = self.deserved.tolist()
        used = self.used.tolist()
        return max([share(u, d) for u, d in zip(used, wanted, strict=True) if d >= 0.1], default=1.0)

    @property
    def has_deserved(self) -> bool:
        """Whether it deserves anything but pods."""
        return any(d >= 0.1 for c, d in enumerate(self.deserved.tolist()) if c != PODS)


class QueuePosition:
    """Sort key of a queue in a tree: two queues compare by their branches right below the lowest common ancestor.

    If these rank the same, the queues are equal; ranks further below are not comparable.
    """

    __slots__ = ("_path",)

    def __init__(self, path: Sequence[tuple[str, tuple[bool, float]]]) -> None:
        self._path = path

    def _compare(self, other: QueuePosition) -> int:
        for (mine, rank), (theirs, other_rank) in zip(self._path, other._path, strict=False):
            if mine != theirs:
                return (rank > other_rank) - (rank < other_rank)
        return 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, QueuePosition) and self._compare(other) == 0

    def __lt__(self, other: QueuePosition) -> bool:
        return self._compare(other) < 0

    __hash__ = None  # type: ignore[assignment] # equal ones may differ in what they are equal to


def dense(amounts: dict[int, int], width: int) -> FloatArray:
    """Return amounts by column as an array."""
    out = np.zeros(width)
    for column, amount in amounts.items():
        out[column] = amount
    return out


def partly_within(mine: Shares, want: Vector, columns: Sequence[int]) -> bool:
    """Whether a queue, when it gets ``want`` in addition, stays within what it deserves in any of the columns."""
    after = mine.used + want
    return any(after[c] <= mine.deserved[c] + 0.1 for c in columns if after[c] >= 0.1 or mine.deserved[c] >= 0.1)


def exceeds(used: Vector, mine: Shares, columns: Sequence[int]) -> bool:
    """Whether a queue holds more than it deserves of a requested resource that its deserved defines."""
    return any(
        used[c] > mine.deserved[c]
        for c in columns
        if c != PODS and (mine.deserved[c] >= 0.1 if c in (CPU, MEMORY) else c in mine.declared)
    )
