"""Serve the kinds of stored CustomResourceDefinitions, and delete a definition's objects when it is deleted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import msgspec

from strato.api import catalog
from strato.api.kinds import Kind
from strato.api.wire import Request
from strato.server import definitionstatus
from strato.server.path import ResourcePath
from strato.server.preparation import Json, encode
from strato.server.rest.delete import Deleter
from strato.server.rest.state import State
from strato.server.snapshot import Change

AT_ONCE = 64
"""Objects deleted in one turn of the loop."""
_decode: Callable[[bytes], Any] = msgspec.json.Decoder().decode
_CRD = catalog.CUSTOMRESOURCEDEFINITION


class CustomKinds:
    """Keeps the registry in step with the stored definitions, and deletes the objects of deleted ones.

    A deleted definition stays, terminating, until its last object is gone, as objects may have finalizers.
    """

    def __init__(self, state: State, deleter: Deleter) -> None:
        self._state, self._deleter = state, deleter
        self._terminating: set[str] = set()
        """Names of definitions that wait for the last of their objects to go."""
        self._watched: set[str] = set()
        """Resources that `_end_if_empty` observes, because their definition is or was terminating."""
        state.store.on_publish(_CRD.resource, self._observe)
        for crd in list(state.iterate(_CRD)):
            state.registry.serve_crd(crd)
            self._clean_terminating(crd)

    def _observe(self, resource: str, event: Change) -> None:
        del resource
        self._state.definition_changed()
        if event.body is None:
            self._state.registry.drop_crd(event.key)
        else:
            crd = _decode(event.body)
            self._state.registry.serve_crd(crd)
            self._clean_terminating(crd)
        self._settle_names(event.key)

    def _settle_names(self, changed: str) -> None:
        """Accept the names of other definitions of the group that this definition no longer takes."""
        for crd in list(self._state.definitions(changed.partition(".")[2])):
            if crd["metadata"]["name"] == changed or definitionstatus.is_true(crd, "NamesAccepted"):
                continue
            before = encode(crd["status"])
            peers = self._state.definitions(crd["spec"]["group"])
            definitionstatus.accept_names(crd, peers, self._state.clock.now())
            if encode(crd["status"]) != before:
                self._write(crd)

    def _write(self, crd: Json) -> None:
        crd["metadata"]["resourceVersion"] = str(self._state.store.next_revision())
        self._state.store.write(_CRD.resource, crd["metadata"]["name"], encode(crd))

    def _clean_terminating(self, crd: Json) -> None:
        """Start deleting the objects of a terminating definition."""
        name, metadata = crd["metadata"]["name"], crd["metadata"]
        if not metadata.get("deletionTimestamp") or definitionstatus.CLEANUP not in metadata.get("finalizers", ()):
            return
        if name not in self._terminating:
            self._terminating.add(name)
            if name not in self._watched:
                self._watched.add(name)
                self._state.store.on_publish(name, self._object_changed)
            keys = iter(self._state.store.bucket(name).newest_keys())
            self._clean(kind_of(crd), keys)
        self._end_if_empty(name)

    def _clean(self, kind: Kind, keys: Iterator[str]) -> None:
        """Delete `AT_ONCE` of the objects, and schedule the rest for later turns of the loop."""
        for key in islice(keys, AT_ONCE):
            body = self._state.bucket(kind).latest(key)
            if body is not None:
                old = _decode(body)
                namespace, object_name = old["metadata"].get("namespace", ""), old["metadata"]["name"]
                target = ResourcePath(kind.group, kind.version, kind.plural, namespace, object_name, "")
                request = Request("DELETE", kind.path(namespace, object_name))
                self._deleter.remove(request, kind, target, old, {})
        if (first := next(keys, None)) is not None:
            flows = self._state.flows
            rest = (key for part in ((first,), keys) for key in part)
            flows.dispatcher.submit(flows.own, lambda: self._clean(kind, rest))

    def _object_changed(self, resource: str, event: Change) -> None:
        if event.body is None and resource in self._terminating:
            self._end_if_empty(resource)

    def _end_if_empty(self, name: str) -> None:
        """Remove a terminating definition if none of its objects is left."""
        bucket = self._state.store.bucket(name)
        body = self._state.bucket(_CRD).latest(name)
        if bucket.objects or bucket.pending or body is None:
            return
        crd = _decode(body)
        self._terminating.discard(name)
        if definitionstatus.CLEANUP not in crd["metadata"].get("finalizers", ()):
            return
        if not definitionstatus.end_deletion(crd, self._state.clock.now()):
            self._write(crd)
            return
        crd["metadata"]["resourceVersion"] = str(self._state.store.next_revision())
        self._state.store.write(_CRD.resource, name, None, encode(crd))


def kind_of(crd: Json) -> Kind:
    """Return the kind of the stored objects of a definition, served or not."""
    spec = crd["spec"]
    storage = next(one["name"] for one in spec["versions"] if one.get("storage"))
    names = spec["names"]
    return Kind(spec["group"], storage, names["kind"], names["plural"], namespaced=spec.get("scope") == "Namespaced")
