"""Objects as the answers to a controller's own writes show them, until the watch does."""

from __future__ import annotations

from typing import Generic, TypeVar

from strato.api.meta import Key, Object
from strato.controllers.job.pods import revision_of

V = TypeVar("V", bound=Object)


class OwnWrites(Generic[V]):
    """The answers to a controller's writes, so that it does not repeat a write because of a stale cache."""

    def __init__(self) -> None:
        self._written: dict[Key, V] = {}

    def note(self, written: V) -> None:
        """Remember the answer to a write."""
        self._written[written.key] = written

    def forget(self, key: Key) -> None:
        """Drop the answer about an object; call when the object is deleted."""
        self._written.pop(key, None)

    def newest(self, key: Key, observed: V | None) -> V | None:
        """Return the newer of the object that the watch shows and the answer to our last write."""
        written = self._written.get(key)
        if observed is None or written is None or observed.metadata.uid != written.metadata.uid:
            return observed
        if revision_of(observed.metadata.resource_version) >= revision_of(written.metadata.resource_version):
            del self._written[key]
            return observed
        return written
