"""A cache of bounded size: what was used longest ago is dropped first."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class LruCache(Generic[K, V]):
    """Entries by key, bounded by number and by weight.

    Args:
        max_entries: How many are kept.
        max_weight: How much all of them may weigh together.
        weigh: Returns what an entry weighs, in the same unit; without it only the number counts.
    """

    def __init__(self, max_entries: int, *, max_weight: int = 0, weigh: Callable[[K, V], int] | None = None) -> None:
        self._max_entries, self._max_weight, self._weigh = max_entries, max_weight, weigh
        self._entries: OrderedDict[K, V] = OrderedDict()
        self._weight = 0

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def weight(self) -> int:
        """What all entries weigh."""
        return self._weight

    def get(self, key: K) -> V | None:
        """Return an entry, the last to be dropped from now on; None when there is none."""
        value = self._entries.get(key)
        if value is not None:
            self._entries.move_to_end(key)
        return value

    def put(self, key: K, value: V) -> None:
        """Add or replace an entry, and drop others until the bounds hold; one over the bound by itself is not kept."""
        self.discard(key)
        weight = self._weigh(key, value) if self._weigh is not None else 0
        if weight > self._max_weight:
            return
        self._entries[key] = value
        self._weight += weight
        while len(self._entries) > self._max_entries or self._weight > self._max_weight:
            self.discard(next(iter(self._entries)))

    def discard(self, key: K) -> None:
        """Drop an entry, where there is one."""
        value = self._entries.pop(key, None)
        if value is not None and self._weigh is not None:
            self._weight -= self._weigh(key, value)

    def clear(self) -> None:
        """Drop all."""
        self._entries.clear()
        self._weight = 0
