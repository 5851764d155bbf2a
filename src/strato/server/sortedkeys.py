"""Keys in order, of which a reader takes a view in microseconds, however many they are and whatever changes meanwhile.

A list of a million keys takes a tenth of a second to copy or to sort again, and that long no other request is served.
So the keys are in chunks, as in a B+ tree of two levels. A view shares the chunks; a chunk that a view may have is
copied before it changes.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, chain, islice
from operator import itemgetter
from typing import Final

CHUNK_KEYS: Final = 1024
"""Keys of a chunk when it is made; one with twice as many is split."""
_BEHIND_PREFIX: Final = "\U0010ffff"
"""Sorts behind whatever follows a prefix: the largest code point, which no key has."""
_largest = itemgetter(-1)


class KeyView:
    """Keys in order as they were when the view was taken.

    Args:
        chunks: The keys; no chunk is empty and none changes.
    """

    __slots__ = ("_chunks", "_starts")

    def __init__(self, chunks: list[list[str]]) -> None:
        self._chunks = chunks
        self._starts = list(accumulate(map(len, chunks), initial=0))
        """Number of keys before each chunk; at the end that of all keys."""

    def __len__(self) -> int:
        return self._starts[-1]

    def __contains__(self, key: str) -> bool:
        return _find(self._chunks, key) is not None

    def span(self, prefix: str = "", after: str = "") -> tuple[int, int]:
        """Return the range of indices of the keys that start with ``prefix`` and are greater than ``after``."""
        low, high = 0, len(self)
        if prefix:
            low, high = self._index(prefix), self._index(prefix + _BEHIND_PREFIX)
        return (min(max(low, self._index(after, behind=True)), high) if after else low), high

    def _index(self, key: str, *, behind: bool = False) -> int:
        """Return the number of keys that are less than ``key``, or not greater than it."""
        find = bisect_right if behind else bisect_left
        number = find(self._chunks, key, key=_largest)
        if number == len(self._chunks):
            return len(self)
        return self._starts[number] + find(self._chunks[number], key)

    def slice(self, low: int, high: int) -> Iterator[str]:
        """Iterate the keys of a range of indices."""
        if low >= high:
            return iter(())
        number = bisect_right(self._starts, low) - 1
        start = self._starts[number]
        return islice(chain.from_iterable(islice(self._chunks, number, None)), low - start, high - start)


class SortedKeys:
    """A set of keys in order."""

    __slots__ = ("_chunks", "_taken", "_view", "_views")

    def __init__(self, keys: Iterable[str] = ()) -> None:
        ordered = sorted(keys)
        self._chunks = [ordered[at : at + CHUNK_KEYS] for at in range(0, len(ordered), CHUNK_KEYS)]
        """No chunk is empty."""
        self._taken = [0] * len(self._chunks)
        """For each chunk the number of views that had been taken when it was made; those do not share it."""
        self._views = 0
        """Number of views taken."""
        self._view: KeyView | None = None
        """The last view, if nothing has changed since."""

    def view(self) -> KeyView:
        """Return the present keys; the same view until they change."""
        if self._view is None:
            self._view = KeyView(self._chunks.copy())
            self._views += 1
        return self._view

    def add(self, key: str) -> None:
        """Add a key that is not in the set."""
        chunks = self._chunks
        if not chunks:
            chunks.append([])
            self._taken.append(self._views)
        last = len(chunks) - 1
        is_last = not chunks[last] or key >= chunks[last][-1]  # a journal is read in order: no search then
        number = last if is_last else bisect_left(chunks, key, key=_largest)
        chunk = self._own(number)
        if is_last:
            chunk.append(key)
        else:
            insort(chunk, key)
        if len(chunk) >= 2 * CHUNK_KEYS:
            chunks[number : number + 1] = chunk[:CHUNK_KEYS], chunk[CHUNK_KEYS:]
            self._taken.insert(number, self._views)

    def remove(self, key: str) -> None:
        """Remove a key that is in the set.

        Raises:
            KeyError: It is not.
        """
        found = _find(self._chunks, key)
        if found is None:
            raise KeyError(key)
        number, at = found
        chunk = self._own(number)
        del chunk[at]
        if not chunk:
            del self._chunks[number], self._taken[number]

    def _own(self, number: int) -> list[str]:
        """Return a chunk to change, which no view shares."""
        self._view = None
        if self._taken[number] != self._views:
            self._chunks[number] = self._chunks[number].copy()
            self._taken[number] = self._views
        return self._chunks[number]


def _find(chunks: Sequence[list[str]], key: str) -> tuple[int, int] | None:
    """Return the number of the chunk that has a key, and the key's index in it; None without it."""
    number = bisect_left(chunks, key, key=_largest)
    if number == len(chunks):
        return None
    at = bisect_left(chunks[number], key)
    return (number, at) if chunks[number][at] == key else None
