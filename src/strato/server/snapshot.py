"""Stored objects, their changes, and what all objects of a resource were at one revision.

An object that has not changed for long is packed against a similar one (`Packer`): the 2.9 KB of a running pod, of
which those of its job differ in a dozen values, become 0.2. Packing takes 6 µs and reading 1.
"""

from __future__ import annotations

import zlib
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from heapq import merge
from typing import Final

import msgspec

from strato.errors import InvariantError

_WINDOW_BITS: Final = -13
"""Raw deflate over 8 KB: a model and what is packed against it."""
_MEMORY_LEVEL: Final = 4
_LEVEL: Final = 3
"""With fixed codes: those made for what is left beside the model would save an eighth of the bytes, and take twice as
long to read. Levels below are no faster, as they find shorter matches; levels above take half as long again."""
_PACKED_BYTES: Final = range(512, 6 << 10)
"""Sizes of bodies that are packed; larger ones do not fit into the window beside their model."""
_MODELS: Final = 4
"""Kept per resource: pods of some jobs at once."""
_GOOD_RATIO: Final = 0.25
"""Of the packed size to the whole one; where all models do worse, the body becomes one."""


class Row(msgspec.Struct, frozen=True, gc=False):
    """One stored object. Like events and changes no work for the garbage collector, which would walk them all."""

    body: bytes
    revision: int


class PackedRow(msgspec.Struct, frozen=True, gc=False):
    """A stored object that takes less memory and a little time to read."""

    packed: bytes
    model: bytes
    """What it was packed against."""
    revision: int

    @property
    def body(self) -> bytes:
        """The object, made anew each time."""
        return zlib.decompressobj(_WINDOW_BITS, zdict=self.model).decompress(self.packed)


AnyRow = Row | PackedRow


class Packer:
    """Packs the objects of one resource, each against the best of a few that came before it."""

    __slots__ = ("_models",)

    def __init__(self) -> None:
        self._models: list[tuple[bytes, zlib._Compress]] = []
        """Models, the one used last first, each with the state after it, which is copied in a tenth of the time."""

    def pack(self, row: Row) -> AnyRow:
        """Return a row that takes less memory, or the same where there is nothing to gain."""
        body = row.body
        if len(body) not in _PACKED_BYTES:
            return row
        limit = len(body) * _GOOD_RATIO
        for position, (model, state) in enumerate(self._models):
            fresh = state.copy()
            packed = fresh.compress(body) + fresh.flush()
            if len(packed) <= limit:
                if position:
                    self._models.insert(0, self._models.pop(position))
                return PackedRow(packed, model, row.revision)
        state = zlib.compressobj(_LEVEL, zlib.DEFLATED, _WINDOW_BITS, _MEMORY_LEVEL, zlib.Z_FIXED, zdict=body)
        self._models = [(body, state), *self._models[: _MODELS - 1]]
        return row


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
        objects: dict[str, AnyRow],
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
