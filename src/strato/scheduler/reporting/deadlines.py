"""Things to do later, by key: the newest thing under a key counts, and asking what is due costs only what is due."""

from __future__ import annotations

import heapq
import itertools
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")


class Entry(NamedTuple, Generic[T]):
    """One thing and when it is due."""

    at: float
    """Monotonic seconds."""
    item: T


class Deadlines(Generic[T]):
    """See the module."""

    def __init__(self) -> None:
        self._entries: dict[str, Entry[T]] = {}
        self._heap: list[tuple[float, int, str]] = []
        """May hold instants of things that have since got another or are gone."""
        self._order = itertools.count()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: str) -> Entry[T] | None:
        """Return what waits under a key."""
        return self._entries.get(key)

    def put(self, key: str, at: float, item: T) -> None:
        """Have something done at an instant, instead of what waits under its key."""
        known = self._entries.get(key)
        self._entries[key] = Entry(at, item)
        if known is None or known.at != at:
            heapq.heappush(self._heap, (at, next(self._order), key))

    def drop(self, key: str) -> None:
        """Forget what waits under a key, if anything does."""
        self._entries.pop(key, None)

    @property
    def next_at(self) -> float | None:
        """The instant of the next thing, None when there is none."""
        heap, entries = self._heap, self._entries
        while heap:
            at, _, key = heap[0]
            entry = entries.get(key)
            if entry is not None and entry.at == at:
                return at
            heapq.heappop(heap)
        return None

    def take_due(self, now: float) -> list[T]:
        """Return what is due, earliest first, and forget it."""
        due: list[T] = []
        while (at := self.next_at) is not None and at <= now:
            _, _, key = heapq.heappop(self._heap)
            due.append(self._entries.pop(key).item)
        return due
