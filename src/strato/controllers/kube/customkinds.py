"""Informers of the kinds that CustomResourceDefinitions add: started when a kind is served, dropped when it is not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from strato.api import catalog
from strato.api.apiextensions import CustomResourceDefinition, kinds_of
from strato.api.kinds import Kind
from strato.client.informer import Change, Informer, Informers


class CustomKinds:
    """See the module.

    Args:
        on_begin: Called with the versions of a new kind and its informer, which is not started yet.
        on_drop: Called with the same when the kind is no longer served.
    """

    def __init__(
        self,
        informers: Informers,
        on_begin: Callable[[list[Kind], Informer[Any]], None],
        on_drop: Callable[[list[Kind], Informer[Any]], None],
    ) -> None:
        self._informers = informers
        self._on_begin = on_begin
        self._on_drop = on_drop
        self._known: dict[str, tuple[list[Kind], Informer[Any]]] = {}
        informers.informer(CustomResourceDefinition).add_handler(self._on_definition)

    def _on_definition(self, change: Change[CustomResourceDefinition]) -> None:
        old, new = change
        name = change.object.metadata.name
        if new is not None and old is not None and new.spec == old.spec:
            return
        known = self._known.pop(name, None)
        if known is not None:
            self._informers.drop(known[1])
            self._on_drop(*known)
        found = list(kinds_of(new)) if new is not None else []
        if not found or any(self._is_read_anyhow(kind) for kind in found):
            return
        cache = self._informers.informer(found[0].view)
        self._known[name] = found, cache
        self._on_begin(found, cache)
        cache.start()

    def _is_read_anyhow(self, kind: Kind) -> bool:
        """Return whether other informers read a kind anyway: it is in the catalogue and not switched off.

        A kind of the catalogue that is switched off is a custom kind when a definition adds it.
        """
        known = catalog.find(kind.group, kind.version, kind.plural)
        return known is not None and known not in self._informers.absent
