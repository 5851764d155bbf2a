"""The sharding controller: divides the nodes anew every period, and soon after the use of a node has changed a lot.

Source: volcano-controllers Part I.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, ClassVar, Final

from strato.api import catalog
from strato.api.core import ConfigMap, Node, Pod
from strato.api.meta import Key
from strato.api.quantity import parse
from strato.api.volcano.shard import NodeShard
from strato.client.informer import Change
from strato.controllers.context import ControllerContext
from strato.controllers.reconcile import KeyedController
from strato.controllers.sharding.assign import assign, is_worth_writing
from strato.controllers.sharding.policies import NodeMetrics
from strato.controllers.sharding.settings import (
    CONFIG_KEY,
    ShardingSettings,
    parse_flags,
    parse_sharding,
    period_or_fallback,
)
from strato.controllers.sharding.usage import Ratios, ShardNodeUsage
from strato.errors import AlreadyExists, InvalidInput, NotFound

EVENT_DELAY_SECONDS: Final = 0.2
"""Delay of a pass that an event causes, so that further events share it."""

CHANGE_RATIO: Final = 0.5
"""A change of a node's requested share by more than this causes a pass."""

_PASS = Key("", "all shards")
_log = logging.getLogger(__name__)


class ShardingController(KeyedController):
    """See the module."""

    name: ClassVar[str] = "sharding-controller"
    workers: ClassVar[int] = 1

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        settings = self._defaults = context.settings
        self._configured: ShardingSettings | None = None
        """The settings of the ConfigMap; None before the first valid one."""
        self._usage = ShardNodeUsage()
        self._divided: dict[str, Ratios | None] = {}
        """The requested shares of each node in the last pass."""
        where = settings.sharding_configmap
        self._configs = context.informers.informer(
            ConfigMap, namespace=where.namespace, field_selector=f"metadata.name={where.name}"
        )
        self._shards = context.informers.informer(NodeShard)
        self._nodes = context.informers.informer(Node)
        self._configs.add_handler(self._on_config)
        self._nodes.add_handler(self._on_node)
        context.informers.informer(Pod).add_handler(self._on_pod)
        self.queue.add(_PASS)

    # Events

    def _on_config(self, change: Change[ConfigMap]) -> None:
        if change.new is None:
            return  # an invalid or deleted ConfigMap leaves the last settings in force
        try:
            self._configured = parse_sharding(change.new.data.get(CONFIG_KEY, ""))
        except InvalidInput as error:
            _log.error("sharding keeps its configuration: configmap=%s: %s", change.key, error)
            if self._configured is None:
                self._configured = ShardingSettings(())
            return
        self.queue.add(_PASS)

    def _on_node(self, change: Change[Node]) -> None:
        old, new = change.old, change.new
        if new is None:
            self._usage.drop_node(change.key.name)
            self._divided.pop(change.key.name, None)
            self._soon()
            return
        if old is None or old.status.capacity != new.status.capacity:
            self._usage.put_node(new)
        if (
            old is None
            or old.metadata.labels != new.metadata.labels
            or old.metadata.annotations != new.metadata.annotations
            or _capacity_jumped(old.status.capacity, new.status.capacity)
        ):
            self._soon()

    def _on_pod(self, change: Change[Pod]) -> None:
        for name in self._usage.change_pod(change.old, change.new):
            ratios, before = self._usage.ratios(name), self._divided.get(name)
            if ratios is not None and (
                before is None or any(abs(a - b) > CHANGE_RATIO for a, b in zip(ratios, before, strict=True))
            ):
                self._soon()

    def _soon(self) -> None:
        configured = self._configured
        wanted = self._defaults.shard_on_events
        if configured is not None and configured.on_events is not None:
            wanted = configured.on_events
        if wanted:
            self.queue.add_after(_PASS, EVENT_DELAY_SECONDS)

    # Work

    def _settings(self) -> ShardingSettings:
        if self._configured is not None:
            return self._configured
        return parse_flags(self._defaults.scheduler_configs)

    async def reconcile(self, key: Key) -> float | None:
        """Divide all nodes and write the shards that have changed enough; returns the seconds until the next pass."""
        settings = self._settings()
        metrics = []
        for node in self._nodes.list():
            name = node.metadata.name
            ratios = self._divided[name] = self._usage.ratios(name)
            metrics.append(NodeMetrics(name, node.metadata.labels or {}, ratios[0] if ratios is not None else None))
        given = assign(settings.shares, metrics)
        for name, nodes in given.items():
            await self._write(name, nodes)
        for shard in self._shards.list():
            if shard.metadata.name not in given and settings.shares:
                await self._remove(shard)
        seconds = settings.sync_seconds
        return seconds if seconds is not None else period_or_fallback(self._defaults.shard_sync_seconds)

    async def _write(self, name: str, nodes: list[str]) -> None:
        present = self._shards.get(("", name))
        if present is None:
            kind = catalog.NODESHARD
            body: dict[str, Any] = {
                "apiVersion": kind.api_version,
                "kind": kind.name,
                "metadata": {"name": name},
                "spec": {"nodesDesired": nodes},
            }
            try:
                await self._cluster.create(NodeShard, body)
                return
            except AlreadyExists:
                present = await self._cluster.get(NodeShard, name)
        if is_worth_writing(present.spec.nodes_desired, nodes):
            await self._cluster.patch(NodeShard, name, "", {"spec": {"nodesDesired": nodes}})

    async def _remove(self, shard: NodeShard) -> None:
        with suppress(NotFound):
            await self._cluster.delete(NodeShard, shard.metadata.name, uid=shard.metadata.uid)


def _capacity_jumped(old: Mapping[str, str | int | float], new: Mapping[str, str | int | float]) -> bool:
    for name in ("cpu", "memory"):
        before = parse(old[name]).nanos if name in old else 0
        after = parse(new[name]).nanos if name in new else 0
        if before != after and (before == 0 or abs(after - before) / before > CHANGE_RATIO):
            return True
    return False
