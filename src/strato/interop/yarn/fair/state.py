"""State shared by the engine's parts: queues, nodes, applications and containers, and their changes."""

from __future__ import annotations

from typing import Any

from strato.interop.yarn.fair.allocation import QueueSettings
from strato.interop.yarn.fair.cluster import ClusterNode, Container, EngineApp, ResourceAsk
from strato.interop.yarn.fair.options import FairOptions
from strato.interop.yarn.fair.order import sort_key
from strato.interop.yarn.fair.policies import QueuePolicy
from strato.interop.yarn.fair.tree import QueueTree
from strato.interop.yarn.resources import Amounts, add, sub0, subtract


class FairState:
    """The state of one scheduler.

    Args:
        options: The options of ``yarn-site.xml``.
        root: The settings of the root queue.
    """

    def __init__(self, options: FairOptions, root: QueueSettings) -> None:
        self.options = options
        self.types = options.types
        self.now_ms = 0.0
        self.zero = self.types.filled(0)
        self.tree = QueueTree(root, self.zero)
        self.nodes: dict[str, ClusterNode] = {}
        self.apps: dict[str, EngineApp] = {}
        """All applications ever submitted, by name."""
        self._containers = 0

    @property
    def used(self) -> Amounts:
        """Resources that containers use."""
        return self.tree.root.usage

    def key(self, policy: QueuePolicy) -> Any:
        """Return the sort key of a policy on this cluster."""
        return sort_key(policy, self.tree.cluster)

    def free(self) -> Amounts:
        """Return the resources of the cluster that are not used."""
        return sub0(self.tree.cluster, self.used)

    def nodes_in(self, rack: str) -> list[ClusterNode]:
        """Return the nodes of a rack."""
        return [node for node in self.nodes.values() if node.rack == rack]

    # -- containers ----------------------------------------------------------------------------------------------------

    def start(self, app: EngineApp, ask: ResourceAsk, node: ClusterNode, level: int) -> Container:
        """Start a container of an ask on a node."""
        self._containers += 1
        container = Container(self._containers, app, node, ask.size)
        ask.take(node, level)
        node.used = add(node.used, ask.size)
        node.containers[container.number] = container
        app.containers[container.number] = container
        app.use(ask.size)
        app.count_pending()
        node.fulfil(app, ask.size)
        if app.is_managed and not app.has_master:
            container.is_master = app.has_master = True
            app.master_size = ask.size
            app.queue.am_usage = add(app.queue.am_usage, ask.size)
        return container

    def complete(self, container: Container) -> None:
        """End a container."""
        if container.app.containers.pop(container.number, None) is None:
            return
        del container.node.containers[container.number]
        container.node.marked.discard(container.number)
        container.app.marked.pop(container.number, None)
        container.node.used = subtract(container.node.used, container.size)
        container.app.use(subtract(self.zero, container.size))

    def reserve(self, app: EngineApp, ask: ResourceAsk, node: ClusterNode) -> None:
        """Reserve a node for an application."""
        node.reserved = app, ask
        if node not in app.reservations:
            app.reservations.append(node)

    def unreserve(self, node: ClusterNode) -> None:
        """Release a node's reservation."""
        if node.reserved is not None:
            node.reserved[0].reservations.remove(node)
            node.reserved = None
