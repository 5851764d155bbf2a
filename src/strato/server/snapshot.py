"""Stored objects, their changes, and what all objects of a resource were at one revision."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from heapq import merge

import msgspec

from strato.errors import InvariantError


class Row(msgspec.Struct, frozen=True, gc=False):
    """One stored object. Like events and changes no work for the garbage collector, which would walk them all."""

    body: bytes
    revision: int


class Change(msgspec.Struct, frozen=True, gc=False):
    """One write, which the journal makes durable and watchers receive.

    ``body`` is None for a deletion, ``previous`` None for a creation.
    """

    resource: str
    key: str
    revision: int
    body: bytes | None
    previous: bytes | None = None
    tombstone: bytes | None = None
    """The last state of a deleted object, with the revision of its deletion."""


class Snapshot:
    """The objects of a resource as they were at one revision, for as long as they are read.

    Nothing is copied: what changes or goes meanwhile is kept for the newest snapshot that is being read, and an older
    one looks through those after it. A snapshot lives as long as it or an older one is referenced.

    Args:
        objects: The objects as they are.
        keys: All keys, in order, those that came later among them.
        revision: What it is of.
        undone: What the keys were that have changed between then and the snapshot ``newer``; None: they were not there.
        newer: The next one, if that is there already.
    """

    __slots__ = ("__weakref__", "_created", "_gone", "_keys", "_objects", "_undone", "is_newest", "newer", "revision")

    def __init__(
        self,
        objects: dict[str, Row],
        keys: Sequence[str],
        revision: int,
        undone: dict[str, bytes | None] | None = None,
        newer: Snapshot | None = None,
    ) -> None:
        self._objects, self._keys, self.revision = objects, keys, revision
        self._undone = {} if undone is None else undone
        self.newer = newer
        self.is_newest = not self._undone
        """Whether it is of the newest state there is."""
        self._created = sorted(key for key, body in self._undone.items() if body is None and has(keys, key))
        self._gone = sorted(key for key, body in self._undone.items() if body is not None and not has(keys, key))

    def changed(self, change: Change) -> None:
        """Keep what an object was before a change."""
        self.is_newest = False
        if change.previous is not None:
            self._undone.setdefault(change.key, change.previous)

    def items(self, prefix: str = "", after: str = "") -> Iterator[tuple[str, bytes]]:
        """Iterate keys, as `keys` does, and bodies."""
        objects, revision = self._objects, self.revision
        for key in self.keys(prefix, after):
            row = objects.get(key)
            yield key, row.body if row is not None and row.revision <= revision else self._before(key)

    def _before(self, key: str) -> bytes:
        """Return what a key was that has changed since."""
        snapshot: Snapshot | None = self
        while snapshot is not None:
            body = snapshot._undone.get(key)  # noqa: SLF001 - another one of the same class
            if body is not None:
                return body
            snapshot = snapshot.newer
        raise InvariantError(f"{key} is not known as of revision {self.revision}")

    def keys(self, prefix: str = "", after: str = "") -> Iterator[str]:
        """Iterate the keys with a prefix in order, those after ``after``."""
        low, high = self._range(self._keys, prefix, after)
        keys: Iterator[str] = map(self._keys.__getitem__, range(low, high))
        if self._gone:
            low, high = self._range(self._gone, prefix, after)
            keys = merge(keys, self._gone[low:high])
        if self._created:
            created = frozenset(self._created)
            return (key for key in keys if key not in created)
        return keys

    def count(self, prefix: str = "", after: str = "") -> int:
        """Return how many `keys` there are."""
        count = 0
        for keys, sign in ((self._keys, 1), (self._gone, 1), (self._created, -1)):
            low, high = self._range(keys, prefix, after)
            count += sign * (high - low)
        return count

    @staticmethod
    def _range(keys: Sequence[str], prefix: str, after: str) -> tuple[int, int]:
        low = bisect_left(keys, prefix) if prefix else 0
        high = bisect_right(keys, prefix + "\U0010ffff", low) if prefix else len(keys)
        return (bisect_right(keys, after, low, high) if after else low), high


def has(keys: Sequence[str], key: str) -> bool:
    """Whether a key is among sorted ones."""
    at = bisect_left(keys, key)
    return at < len(keys) and keys[at] == key
