"""`Feed`: passes every change that informers deliver to the `World`; nothing else does."""

from __future__ import annotations

import contextlib
import functools
import logging
from collections.abc import Callable, Collection, Sequence
from typing import Any

from strato.api import catalog
from strato.api.core import Node, Pod
from strato.api.kinds import Kind
from strato.api.meta import Object
from strato.client.informer import Change, Informers
from strato.scheduler.cache import kinds
from strato.scheduler.cache.kinds import WorldKind
from strato.scheduler.cache.replicas import Replicas
from strato.scheduler.cache.world import World

_log = logging.getLogger(__name__)

Wake = Callable[[], None]
_MANY = 256
"""From this many pods in a batch on, as in an initial list, nodes' columns are charged once for the whole batch."""
_Handler = Callable[[Sequence[Change[Any]]], None]
Refused = Callable[[Object, str], None]
"""Called with an object that cannot be read and the reason, so that its owner can be notified."""


_POD, _NODE = (kinds.of(kind) for kind in (catalog.POD, catalog.NODE))

_UNREADABLE = (ValueError, ArithmeticError, RecursionError)
"""Errors of reading an object with meaningless texts or numbers; only that object is left out of scheduling."""


class Feed:
    """Handlers for every kind the scheduler reads.

    Args:
        wake: Called after a batch that changed something.
        refused: Called for objects that cannot be read (with an invalid quantity, say).
        replicas: The active schedulers among which objects are divided; None when this is the only one.
        node_labels: Only nodes with one of these labels are used; empty is all nodes.
    """

    def __init__(
        self,
        world: World,
        wake: Wake,
        refused: Refused,
        replicas: Replicas | None = None,
        node_labels: frozenset[tuple[str, str]] = frozenset(),
    ) -> None:
        self._world = world
        self._wake = wake
        self._refused = refused
        self._replicas = replicas
        self._node_labels = node_labels
        self._attached: set[Kind] = set()
        self.absent: frozenset[Kind] = frozenset()
        """Kinds that the API server does not have; they are not watched."""

    def attach(self, informers: Informers, plugins: Collection[str] = ()) -> bool:
        """Add handlers to the informers that these plugins need; called again when the configuration has changed.

        Informers may deliver objects in any order: the world keeps a pod whose PodGroup or node it does not know yet.

        Returns:
            Whether an informer is new; the caller then starts it.
        """
        new = [known for known in kinds.wanted(plugins) if known.kind not in self._attached | self.absent]
        handlers: dict[Kind, _Handler] = {catalog.POD: self.on_pods, catalog.NODE: self.on_nodes}
        for known in new:
            self._attached.add(known.kind)
            handler = handlers.get(known.kind, functools.partial(self._on_others, known))
            informers.informer(known.kind.view).add_batch_handler(functools.partial(self._on_changes, handler))
        return bool(new)

    def _on_changes(self, handler: _Handler, changes: Sequence[Change[Any]]) -> None:
        """Handle changes; while a session waits for an answer from outside, defer them to its end."""
        if self._world.waiting_changes is None:
            handler(changes)
        else:
            self._world.waiting_changes.append(functools.partial(handler, changes))

    def on_pods(self, changes: Sequence[Change[Pod]]) -> None:
        """Pass changes of pods to the world."""
        world = self._world
        before = world.version
        with world.nodes.together() if len(changes) >= _MANY else contextlib.nullcontext():
            for change in changes:
                self._take_pod(change)
        if world.version != before:
            self._wake()

    def _take_pod(self, change: Change[Pod]) -> None:
        old, new = change
        world = self._world
        if new is None:
            if old is not None:
                self._drop(_POD, old.metadata.namespace, old.metadata.name)
        elif self._replicas is not None and not self._replicas.owns(new):
            self._drop(_POD, new.metadata.namespace, new.metadata.name)
        else:
            world.journal.take(catalog.POD, new)
            try:
                world.set_pod(new)
            except _UNREADABLE as error:
                self._refuse(new, error)

    def on_nodes(self, changes: Sequence[Change[Node]]) -> None:
        """Pass changes of nodes to the world, which ignores heartbeats."""
        before = self._world.version
        for change in changes:
            if change.new is None or not self._uses(change.new):
                self._drop(_NODE, "", change.key.name)
                continue
            self._world.journal.take(catalog.NODE, change.new)
            try:
                self._world.set_node(change.new)
            except _UNREADABLE as error:
                self._refuse(change.new, error)
        if self._world.version != before:
            self._wake()

    def _uses(self, node: Node) -> bool:
        """Whether this replica owns a node and the node has one of the configured labels."""
        if self._replicas is not None and not self._replicas.owns(node):
            return False
        return not self._node_labels or not self._node_labels.isdisjoint((node.metadata.labels or {}).items())

    def _on_others(self, known: WorldKind, changes: Sequence[Change[Object]]) -> None:
        """Pass changes of objects of any other kind to the world."""
        before = self._world.version
        for change in changes:
            if change.new is None or (self._replicas is not None and not self._replicas.owns(change.new)):
                self._drop(known, change.key.namespace, change.key.name)
                continue
            self._world.journal.take(known.kind, change.new)
            try:
                known.take(self._world, change.new)
            except _UNREADABLE as error:
                self._refuse(change.new, error)
        if self._world.version != before:
            self._wake()

    def _drop(self, known: WorldKind, namespace: str, name: str) -> None:
        self._world.journal.drop(known.kind, namespace, name)
        known.drop(self._world, namespace, name)

    def _refuse(self, view: Object, error: Exception) -> None:
        _log.warning("object left out of scheduling: object=%s: %s", view.key, error)
        self._refused(view, str(error))
