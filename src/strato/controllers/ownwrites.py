"""Objects as our own writes left them, until the watch shows them."""

from __future__ import annotations

from typing import Generic, TypeVar

from strato.api.meta import Key, Object
from strato.controllers.job.pods import revision_of

V = TypeVar("V", bound=Object)


class OwnWrites(Generic[V]):
    """The results of our writes, so that a decision on a stale cache does not repeat them."""

    def __init__(self) -> None:
        self._written: dict[Key, V] = {}

    def note(self, written: V) -> None:
        """Remember the answer to a write."""
        self._written[written.key] = written

    def forget(self, key: Key) -> None:
        """Drop what is remembered; call when the object is gone."""
        self._written.pop(key, None)

    def newest(self, key: Key, observed: V | None) -> V | None:
        """Return the newer of what the watch shows and what we wrote."""
        written = self._written.get(key)
        if observed is None or written is None or observed.metadata.uid != written.metadata.uid:
            return observed
        if revision_of(observed.metadata.resource_version) >= revision_of(written.metadata.resource_version):
            del self._written[key]
            return observed
        return written
