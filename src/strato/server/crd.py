"""CustomResourceDefinitions: what they serve while the server runs, and their status."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain, islice
from typing import Any

import msgspec

from strato.api import catalog
from strato.server.preparation import at_revision
from strato.server.rest.state import State
from strato.server.snapshot import Change

AT_ONCE = 64
"""Objects deleted with their definition before others are served."""
_decode: Callable[[bytes], Any] = msgspec.json.Decoder().decode


class CustomKinds:
    """Keeps the registry in step with the stored definitions."""

    def __init__(self, state: State) -> None:
        self._state = state
        for crd in state.iterate(catalog.CUSTOMRESOURCEDEFINITION):
            state.registry.serve_crd(crd)
        known = {kind.resource for kind in state.registry.kinds()} | set(
            state.bucket(catalog.CUSTOMRESOURCEDEFINITION).objects
        )
        for bucket in state.store.buckets():
            if bucket.objects and bucket.resource not in known:  # a crash came before all of them were deleted
                self._clean(bucket.resource, iter(bucket.newest_keys()), state.store.revision)
        state.store.on_publish(catalog.CUSTOMRESOURCEDEFINITION.resource, self._observe)

    def _observe(self, resource: str, event: Change) -> None:
        del resource
        if event.body is not None:
            self._state.registry.serve_crd(_decode(event.body))
            return
        # The objects go with their definition, as with a real server's clean-up finalizer.
        self._state.registry.drop_crd(event.key)
        bucket = self._state.store.bucket(event.key)
        if bucket.objects or bucket.pending:
            self._clean(event.key, iter(bucket.newest_keys()), event.revision)

    def _clean(self, resource: str, keys: Iterator[str], revision: int) -> None:
        """Delete some of the objects there were at a revision, and the others in later turns of the loop.

        Whoever makes a definition of the same name again finds an empty collection or one that is being emptied; what
        is made then stays.
        """
        store = self._state.store
        bucket = store.bucket(resource)
        for key in islice(keys, AT_ONCE):
            body = bucket.latest(key)
            change = bucket.pending.get(key)
            written = change.revision if change is not None else bucket.objects[key].revision if body is not None else 0
            if body is not None and written <= revision:
                store.write(resource, key, None, at_revision(body, store.next_revision()))
        if (first := next(keys, None)) is not None:
            flows = self._state.flows
            rest = chain((first,), keys)
            flows.dispatcher.submit(flows.own, lambda: self._clean(resource, rest, revision))
