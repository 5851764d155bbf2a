"""Keeps a `World` in step with the informers: every change of a watched object goes in here and nowhere else."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from strato.api.core import Namespace, Node, Pod, ResourceQuota
from strato.api.meta import Object
from strato.api.scheduling import PriorityClass
from strato.api.volcano.scheduling import PodGroup, Queue
from strato.client.informer import Change, Informers
from strato.scheduler.world import World

_log = logging.getLogger(__name__)

Wake = Callable[[], None]
Refused = Callable[[Object, str], None]
"""Called with an object that cannot be used and why, so that its owner can be told."""


class Feed:
    """Handlers for every kind the scheduler reads.

    Args:
        world: What is kept current.
        wake: Called after a batch that changed something.
        refused: Called for objects that cannot be read (a quantity that is none).
    """

    def __init__(self, world: World, wake: Wake, refused: Refused) -> None:
        self._world = world
        self._wake = wake
        self._refused = refused

    def attach(self, informers: Informers) -> None:
        """Ask for the informers and add the handlers. Order matters little: what arrives early waits for the rest."""
        informers.informer(PriorityClass).add_batch_handler(self.on_priority_classes)
        informers.informer(Queue).add_batch_handler(self.on_queues)
        informers.informer(Node).add_batch_handler(self.on_nodes)
        informers.informer(PodGroup).add_batch_handler(self.on_groups)
        informers.informer(Pod).add_batch_handler(self.on_pods)
        informers.informer(Namespace).add_batch_handler(self.on_namespaces)
        informers.informer(ResourceQuota).add_batch_handler(self.on_quotas)

    def on_pods(self, changes: Sequence[Change[Pod]]) -> None:
        """Take pods."""
        world = self._world
        before = world.version
        for old, new in changes:
            if new is None:
                if old is not None:
                    world.remove_pod(f"{old.metadata.namespace}/{old.metadata.name}")
                continue
            try:
                world.set_pod(new)
            except ValueError as error:
                self._refuse(new, error)
        if world.version != before:
            self._wake()

    def on_nodes(self, changes: Sequence[Change[Node]]) -> None:
        """Take nodes; heartbeats change nothing."""
        before = self._world.version
        for change in changes:
            if change.new is None:
                self._world.remove_node(change.key.name)
                continue
            try:
                self._world.set_node(change.new)
            except ValueError as error:
                self._refuse(change.new, error)
        if self._world.version != before:
            self._wake()

    def on_groups(self, changes: Sequence[Change[PodGroup]]) -> None:
        """Take PodGroups."""
        for change in changes:
            if change.new is None:
                self._world.remove_group(str(change.key))
                continue
            try:
                self._world.set_group(change.new)
            except ValueError as error:
                self._refuse(change.new, error)
        self._wake()

    def on_queues(self, changes: Sequence[Change[Queue]]) -> None:
        """Take queues."""
        for change in changes:
            if change.new is None:
                self._world.remove_queue(change.key.name)
                continue
            try:
                self._world.set_queue(change.new)
            except ValueError as error:
                self._refuse(change.new, error)
        self._wake()

    def on_priority_classes(self, changes: Sequence[Change[PriorityClass]]) -> None:
        """Take PriorityClasses."""
        for change in changes:
            if change.new is None:
                self._world.remove_priority_class(change.key.name)
            else:
                self._world.set_priority_class(change.new)
        self._wake()

    def on_namespaces(self, changes: Sequence[Change[Namespace]]) -> None:
        """Take namespaces' labels."""
        before = self._world.version
        for change in changes:
            if change.new is None:
                self._world.remove_namespace(change.key.name)
            else:
                self._world.set_namespace(change.key.name, change.new.metadata.labels or {})
        if self._world.version != before:
            self._wake()

    def on_quotas(self, changes: Sequence[Change[ResourceQuota]]) -> None:
        """Take ResourceQuotas."""
        for change in changes:
            if change.new is None:
                self._world.remove_quota(*change.key)
            else:
                self._world.set_quota(change.new)
        self._wake()

    def _refuse(self, view: Object, error: ValueError) -> None:
        _log.warning("object left out of scheduling: object=%s: %s", view.key, error)
        self._refused(view, str(error))
