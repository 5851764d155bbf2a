"""`ClusterObjects`: takes nodes, claims, quotas, namespaces, network domains and shards into the world."""

from __future__ import annotations

from collections.abc import Mapping

from strato.api.core import Node, ResourceQuota
from strato.api.heldroom import held_room
from strato.api.meta import Object
from strato.api.volcano.shard import NodeShard
from strato.api.volcano.topology import HyperNode
from strato.scheduler.cache.accounts import Accounts, NamespaceQuotas
from strato.scheduler.cache.neighbours import Neighbours
from strato.scheduler.cache.totals import is_lost
from strato.scheduler.model.resources import MOST


class ClusterObjects(Accounts):
    """Takes objects of all kinds but pods, PodGroups, queues and priority classes as the API has them."""

    # -- nodes ---------------------------------------------------------------------------------------------------------

    def set_node(self, node: Node) -> None:
        """Take a node as the API has it now.

        Raises:
            ValueError: A quantity in it cannot be read; the world is as before.
        """
        row = self.nodes.row_of.get(node.metadata.name)
        old = self.nodes.facts[row] if row is not None else None
        if old is not None and _same_to_us(old, node):
            self.nodes.facts[row or 0] = node
            return
        allocatable = self.dims.parse(node.status.allocatable)
        _oversubscribe(allocatable, node)
        for column, amount in self.dims.parse(held_room(node)).items():
            allocatable[column] = max(0, allocatable.get(column, 0) - amount)
        self._fit_width()
        self.totals.node_changed(self.nodes.set_node(node, allocatable))
        self._schedulable_changed()

    def remove_node(self, name: str) -> None:
        """Forget a node; tasks on it keep their row until their pods are deleted."""
        row = self.nodes.row_of.get(name)
        self.nodes.remove_node(name)
        if row is not None:
            self.totals.node_changed(row)
        self._schedulable_changed()

    # -- claims, namespaces, and objects that only plugins read --------------------------------------------------------

    def set_storage(self, view: Object) -> None:
        """Take an object that `strato.scheduler.claims.volumes` keeps as the API has it now."""
        if self.volumes.put(view):
            self._claims_changed()

    def remove_storage(self, view: type[Object], key: str) -> None:
        """Forget an object that `strato.scheduler.claims.volumes` keeps, by name or ``namespace/name``."""
        self.volumes.remove(view, key)
        self._claims_changed()

    def set_device(self, view: Object) -> None:
        """Take an object that `strato.scheduler.claims.devices` keeps as the API has it now."""
        if self.devices.put(view):
            self._claims_changed()

    def remove_device(self, view: type[Object], key: str) -> None:
        """Forget an object that `strato.scheduler.claims.devices` keeps, by name or ``namespace/name``."""
        self.devices.remove(view, key)
        self._claims_changed()

    def _claims_changed(self) -> None:
        if self._claiming:
            self._schedulable_changed()

    def set_namespace(self, name: str, labels: Mapping[str, str]) -> None:
        """Take a namespace's labels; pod affinity may select by them."""
        if self.namespaces.get(name) != labels:
            self.namespaces[name] = labels
            self.neighbours = Neighbours(self.nodes, self.evictions)
            self.affinity.generation += 1  # namespace selectors of terms may select other pods now
            self._schedulable_changed()

    def remove_namespace(self, name: str) -> None:
        """Forget a namespace."""
        self.namespaces.pop(name, None)

    def keep(self, view: Object) -> None:
        """Keep an object as it is, for plugins to look up."""
        self.objects.setdefault(type(view), {})[str(view.key)] = view
        self._schedulable_changed()

    def unkeep(self, view_type: type[Object], key: str) -> None:
        """Forget an object that `keep` has taken."""
        if self.objects.get(view_type, {}).pop(key, None) is not None:
            self._schedulable_changed()

    def set_hyper_node(self, view: HyperNode) -> None:
        """Take a HyperNode: a network domain.

        Raises:
            ValueError: A label selector in it cannot be read.
        """
        if self.hyper_nodes.set_view(view):
            self._schedulable_changed()

    def remove_hyper_node(self, name: str) -> None:
        """Forget a HyperNode."""
        if self.hyper_nodes.remove(name):
            self._schedulable_changed()

    def set_shard(self, view: NodeShard) -> None:
        """Take a NodeShard, which names the nodes one scheduler may use."""
        if self.shards.set_shard(view):
            self._schedulable_changed()

    def remove_shard(self, name: str) -> None:
        """Forget a NodeShard."""
        if self.shards.remove_shard(name):
            self._schedulable_changed()

    def set_quota(self, quota: ResourceQuota) -> None:
        """Take a ResourceQuota as the API has it now."""
        self.quotas.setdefault(quota.metadata.namespace, NamespaceQuotas()).by_name[quota.metadata.name] = quota
        self._schedulable_changed()

    def remove_quota(self, namespace: str, name: str) -> None:
        """Forget a ResourceQuota."""
        if namespace in self.quotas:
            self.quotas[namespace].by_name.pop(name, None)
            self._schedulable_changed()


def _same_to_us(old: Node, new: Node) -> bool:
    """Whether two versions of a node are equal in all that the scheduler reads, as after a heartbeat."""
    a, b = old.metadata, new.metadata
    return (
        a.labels == b.labels
        and a.annotations == b.annotations
        and old.spec == new.spec
        and is_lost(old) == is_lost(new)
        and old.status.allocatable == new.status.allocatable
        and old.status.images == new.status.images
        and a.uid == b.uid
    )


def _oversubscribe(allocatable: dict[int, int], node: Node) -> None:
    """Add the amounts that the node agent offers beyond allocatable, by annotation (spec scheduler-core 6)."""
    for column, key in ((0, "volcano.sh/oversubscription-cpu"), (1, "volcano.sh/oversubscription-memory")):
        text = node.metadata.annotation(key)
        if text:
            try:
                more = int(float(text))
            except (ValueError, OverflowError):  # no number, or an infinite one
                continue
            allocatable[column] = max(-MOST, min(MOST, allocatable.get(column, 0) + more))
