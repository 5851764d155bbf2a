"""The checks of ``/readyz``: the journal can be written, and the objects exist that users' first requests need."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from collections.abc import Set as AbstractSet

from strato.api import catalog, crds
from strato.api.defaults.queues import initial_queues
from strato.api.kinds import Kind
from strato.server.journal import SqliteJournal
from strato.server.store import Store


class Readiness:
    """The checks behind ``/readyz`` of the embedded server.

    Args:
        store: The store.
        journal: None for a server in memory.
        off: Kinds of ours that are not served.
    """

    def __init__(self, store: Store, journal: SqliteJournal | None, off: Collection[Kind] = ()) -> None:
        self._store = store
        self._journal = journal
        self._definitions = frozenset(manifest["metadata"]["name"] for manifest in crds.manifests(off))
        self._queues = frozenset(manifest["metadata"]["name"] for manifest in initial_queues())

    def __call__(self) -> Mapping[str, str]:
        """Return the failure of every check by name; an empty string if it passes."""
        failure = None if self._journal is None else self._journal.failure
        return {
            "journal": "" if failure is None else str(failure),
            "definitions": self._missing(catalog.CUSTOMRESOURCEDEFINITION, self._definitions),
            "queues": self._missing(catalog.QUEUE, self._queues),
        }

    def _missing(self, kind: Kind, names: AbstractSet[str]) -> str:
        missing = names - self._store.bucket(kind.resource).objects.keys()
        return f"not created: {', '.join(sorted(missing))}" if missing else ""
