"""The HyperNode controller: counts the nodes of HyperNodes, and makes the HyperNodes that each source discovers.

A source's discovery runs when the configuration, a node's labels or one of its HyperNodes changes, and every
``interval``. Each run reads everything, so changes within `DEBOUNCE_SECONDS` share one run.

Source: volcano-controllers Part H. One departure: nodes that are added, deleted or change labels cause a recount.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from typing import ClassVar, Final

from strato.api.core import ConfigMap, Node, Secret
from strato.api.volcano.topology import HyperNode
from strato.client.informer import Change
from strato.client.workqueue import WorkQueue, run_workers
from strato.controllers.context import ControllerContext
from strato.controllers.job.pods import revision_of
from strato.controllers.topology import label_source, ufm_source
from strato.controllers.topology.desired import SOURCE_LABEL, WantedHyperNode, plan_changes
from strato.controllers.topology.members import is_dynamic, node_count
from strato.controllers.topology.settings import CONFIG_KEY, BadDiscovery, Discovery, parse_discovery
from strato.controllers.topology.ufm_source import HttpsFabric
from strato.errors import AlreadyExists, NotFound

DEBOUNCE_SECONDS: Final = 0.1
"""How long a run waits for further changes, as many nodes join at the same time."""

RECOUNT_SECONDS: Final = 1.0
"""How long after changes of nodes their HyperNodes are counted again."""

_log = logging.getLogger(__name__)


class HyperNodeController:
    """See the module."""

    name: ClassVar[str] = "hyperNode-controller"

    def __init__(self, context: ControllerContext) -> None:
        self._cluster = context.cluster
        self._random = context.random
        configmap = self._configmap = context.settings.topology_configmap
        self._fabric = HttpsFabric()
        self._counts: WorkQueue[str] = WorkQueue(context.clock)
        self._runs: WorkQueue[str] = WorkQueue(context.clock)
        self._sources: dict[str, Discovery] = {}
        self._types: Sequence[label_source.TopologyType] = ()
        self._node_labels: frozenset[str] = frozenset()
        """Labels of nodes that the ``label`` source reads; empty when the source is off."""
        self._dynamic: set[str] = set()
        """HyperNodes whose count changes as nodes are added and deleted."""
        self._created: dict[str, HyperNode] = {}
        """HyperNodes that were created and the watch has not shown yet; a run must not create them again."""
        self._hyper_nodes = context.informers.informer(HyperNode)
        self._nodes = context.informers.informer(Node)
        configs = context.informers.informer(
            ConfigMap, namespace=configmap.namespace, field_selector=f"metadata.name={configmap.name}"
        )
        self._hyper_nodes.add_index(SOURCE_LABEL, _source_of)
        self._hyper_nodes.add_handler(self._on_hyper_node)
        self._nodes.add_handler(self._on_node)
        configs.add_handler(self._on_config)

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(run_workers(self._counts, self._count, 2, name=self.name))
            group.create_task(run_workers(self._runs, self._discover, 2, name=f"{self.name} discovery"))

    # Events

    def _on_hyper_node(self, change: Change[HyperNode]) -> None:
        old, new, name = change.old, change.new, change.key.name
        if new is None:
            self._dynamic.discard(name)
            source = change.object.metadata.label(SOURCE_LABEL)
            if source in self._sources or self._node_labels:
                self._runs.add_after(source if source in self._sources else label_source.SOURCE, DEBOUNCE_SECONDS)
        elif old is None or old.spec != new.spec:
            (self._dynamic.add if is_dynamic(new) else self._dynamic.discard)(name)
            self._counts.add(name)

    def _on_node(self, change: Change[Node]) -> None:
        if not self._dynamic and not self._node_labels:
            return
        old = change.old.metadata.labels or {} if change.old is not None else {}
        new = change.new.metadata.labels or {} if change.new is not None else {}
        came_or_went = change.old is None or change.new is None
        if self._dynamic and (came_or_went or old != new):
            for name in self._dynamic:
                self._counts.add_after(name, RECOUNT_SECONDS)
        if any(old.get(label) != new.get(label) for label in self._node_labels):
            self._runs.add_after(label_source.SOURCE, DEBOUNCE_SECONDS)

    def _on_config(self, change: Change[ConfigMap]) -> None:
        text = change.new.data.get(CONFIG_KEY, "") if change.new is not None else ""
        try:
            sources = parse_discovery(text)
            label = sources.get(label_source.SOURCE)
            types = label_source.parse_types(label.config) if label is not None else []
        except BadDiscovery as error:
            _log.error("topology discovery keeps its configuration: configmap=%s: %s", self._configmap, error)
            return
        for name in [name for name in sources if name not in (label_source.SOURCE, ufm_source.SOURCE)]:
            _log.error("unknown topology source left out: source=%s; known are label, ufm", name)
            del sources[name]
        self._sources, self._types = sources, types
        self._node_labels = frozenset(label for kind in types for label in kind.labels)
        for name in sources:
            self._runs.add(name)

    # Counts

    async def _count(self, name: str) -> float | None:
        hyper_node = self._hyper_nodes.get(("", name))
        if hyper_node is None:
            return None
        count = node_count(hyper_node, self._nodes.list())
        if count != hyper_node.status.node_count:
            with suppress(NotFound):
                await self._cluster.patch(HyperNode, name, "", {"status": {"nodeCount": count}}, subresource="status")
        return None

    # Discovery

    async def _discover(self, source: str) -> float | None:
        settings = self._sources.get(source)
        if settings is None:
            return None  # the source was switched off; the HyperNodes that it found stay
        present = self._present(source)
        if source == label_source.SOURCE:
            wanted = label_source.discover(self._types, self._nodes.list(), present, self._random)
        else:
            wanted = await self._ask_fabric(settings)
        await self._apply(wanted, present)
        return settings.interval_seconds

    def _present(self, source: str) -> list[HyperNode]:
        observed = revision_of(self._hyper_nodes.resource_version)
        self._created = {
            name: made for name, made in self._created.items() if revision_of(made.metadata.resource_version) > observed
        }
        unobserved = [made for made in self._created.values() if made.metadata.label(SOURCE_LABEL) == source]
        return [*self._hyper_nodes.index(SOURCE_LABEL, source), *unobserved]

    async def _ask_fabric(self, settings: Discovery) -> list[WantedHyperNode]:
        config, reference = ufm_source.parse_config(settings.config), settings.credentials
        if not reference.name:
            raise BadDiscovery(f"source {ufm_source.SOURCE}: credentials.secretRef is not set")
        namespace = reference.namespace or self._configmap.namespace
        user, password = ufm_source.login(await self._cluster.get(Secret, reference.name, namespace))
        return ufm_source.discover(ufm_source.parse_ports(await self._fabric.ports(config, user, password)))

    async def _apply(self, wanted: Sequence[WantedHyperNode], present: Sequence[HyperNode]) -> None:
        changes = plan_changes(wanted, present)
        for body in changes.create:
            try:
                made = await self._cluster.create(HyperNode, body)
                self._created[made.metadata.name] = made
            except AlreadyExists:
                await self._take_over(body)
        for name, change in changes.patch:
            with suppress(NotFound):  # somebody deleted it; the watch event of that causes another run
                await self._cluster.patch(HyperNode, name, "", change)
        for hyper_node in changes.delete:
            meta = hyper_node.metadata
            with suppress(NotFound):
                await self._cluster.delete(HyperNode, meta.name, uid=meta.uid)

    async def _take_over(self, body: dict[str, object]) -> None:
        """Bring an existing HyperNode up to date that the watch has not shown; refuses one of another source."""
        wanted = body["metadata"]
        assert isinstance(wanted, dict)
        name = wanted["name"]
        present = await self._cluster.get(HyperNode, name)
        if present.metadata.label(SOURCE_LABEL) != wanted["labels"][SOURCE_LABEL]:
            raise BadDiscovery(f"HyperNode {name} exists but was not found by this source; delete or rename it")
        await self._cluster.patch(HyperNode, name, "", {"spec": body["spec"], "metadata": {"labels": wanted["labels"]}})


def _source_of(hyper_node: HyperNode) -> tuple[str, ...]:
    source = hyper_node.metadata.label(SOURCE_LABEL)
    return (source,) if source else ()
