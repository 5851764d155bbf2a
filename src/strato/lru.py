"""Caches bounded in bytes, which drop the least recently used entry first.

An `LruCache` belongs to the object that makes it. `memoised` is for pure functions of one short text or number that run
many times for each object: only `functools.lru_cache`, in C, is fast enough there (a look-up takes 0.1 µs, in Python
0.3). Its entries are valid for all callers, so one cache may serve the whole process.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from functools import lru_cache, wraps
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
R = TypeVar("R")
T = TypeVar("T")

_ENTRY_BYTES = 200
"""Bytes that an entry takes besides its key and value."""
LONGEST = 256
"""Longest text that is cached, in characters; longer ones are hostile, or too rare to be worth their memory."""


class LruCache(Generic[K, V]):
    """Entries by key.

    Args:
        max_bytes: Most bytes that all entries may take together; an entry that alone would take more is not kept.
        size: Returns about how many bytes a key and its value take; called once, when the entry is put.
    """

    def __init__(self, max_bytes: int, size: Callable[[K, V], int]) -> None:
        self._max_bytes, self._sparse_bytes, self._size = max_bytes, max_bytes // 2, size
        self._entries: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self.bytes = 0
        """Bytes that all entries take."""

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: K) -> bool:
        return key in self._entries

    def get(self, key: K) -> V | None:
        """Return an entry, None when there is none; if the cache is at least half full, mark it as used last."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        if self.bytes > self._sparse_bytes:  # below that no entry will be dropped soon, so their order need not be kept
            self._entries.move_to_end(key)
        return entry[0]

    def put(self, key: K, value: V) -> V:
        """Add or replace an entry, drop others until the bound holds, and return the value."""
        entries, size = self._entries, self._size(key, value) + _ENTRY_BYTES
        old = entries.pop(key, None)
        if old is not None:
            self.bytes -= old[1]
        if size <= self._max_bytes:
            entries[key] = value, size
            self.bytes += size
            while self.bytes > self._max_bytes:
                self.bytes -= entries.popitem(last=False)[1][1]
        return value

    def values(self) -> Iterator[V]:
        """Yield all values; does not mark them as used."""
        return (value for value, _ in self._entries.values())

    def discard(self, key: K) -> None:
        """Drop an entry, if there is one."""
        entry = self._entries.pop(key, None)
        if entry is not None:
            self.bytes -= entry[1]

    def clear(self) -> None:
        """Drop all entries."""
        self._entries.clear()
        self.bytes = 0


def memoised(
    max_bytes: int, longest: int = LONGEST, *, entry_bytes: int = 0, typed: bool = False
) -> Callable[[Callable[[T], R]], Callable[[T], R]]:
    """Cache a pure function of one text or number; for longer texts the function is called each time.

    Args:
        max_bytes: Most bytes of a full cache, if all its texts have the longest length.
        longest: Longest text that is cached, in characters.
        entry_bytes: Most bytes of an entry, if that is much more than its text.
        typed: Whether results differ for equal values of different types, such as 1 and 1.0.
    """

    def decorate(function: Callable[[T], R]) -> Callable[[T], R]:
        entries = max_bytes // (entry_bytes or longest + _ENTRY_BYTES)
        known = lru_cache(maxsize=entries, typed=typed)(function)

        @wraps(function)
        def ask(value: T) -> R:
            return function(value) if isinstance(value, str) and len(value) > longest else known(value)

        return ask

    return decorate
