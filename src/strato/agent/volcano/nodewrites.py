"""API writes about a node and its offline pods: lent resources, label, taint, evictions."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any, Final

from strato.agent.evicting import evict
from strato.agent.volcano.config import LENDING_LABEL
from strato.api import catalog
from strato.api.core import Node, Pod
from strato.client.cluster import Cluster, PatchType
from strato.client.events import WARNING, EventRecorder
from strato.errors import ApiError

_log = logging.getLogger(__name__)

TAINT: Final = "volcano.sh/offline-job-evicting"
_EFFECT: Final = "NoSchedule"


class NodeWriter:
    """Writes about one node; refusals by the API are logged, and callers try again in the next round.

    Args:
        cluster: The node's cluster.
        events: Reports events about evictions on pods.
        node: Name of the node.
    """

    def __init__(self, cluster: Cluster, events: EventRecorder, node: str) -> None:
        self._cluster, self._events, self._node = cluster, events, node

    async def publish(self, amounts: Mapping[str, int | None]) -> bool:
        """Set the node's amounts of lent resources, where None removes one; return whether that succeeded."""
        texts = {name: None if amount is None else str(amount) for name, amount in amounts.items()}
        body = {"status": {"capacity": texts, "allocatable": texts}}
        return await self._patch(body, "status")

    async def label(self, *, lends: bool) -> bool:
        """Set the node's label that says whether it lends; return whether that succeeded."""
        return await self._patch({"metadata": {"labels": {LENDING_LABEL: "true" if lends else "false"}}})

    async def taint(self, node: Node) -> bool:
        """Taint the node against further offline pods; return whether that succeeded."""
        return is_tainted(node) or await self._change_taints([{"key": TAINT, "effect": _EFFECT}])

    async def untaint(self, node: Node) -> bool:
        """Remove the taint against offline pods; return whether that succeeded."""
        return not is_tainted(node) or await self._change_taints([])

    async def _change_taints(self, own: list[dict[str, str]]) -> bool:
        """Replace Strato's taints by these; the list is written as a whole, with other taints unchanged."""
        try:
            known = await self._cluster.get(catalog.NODE, self._node)
        except ApiError as error:
            _log.warning("node not read: node=%s: %s", self._node, error)
            return False
        others = [one for one in known["spec"].get("taints") or () if one.get("key") != TAINT]
        metadata = {"resourceVersion": known["metadata"]["resourceVersion"]}  # a change meanwhile wins
        return await self._patch({"metadata": metadata, "spec": {"taints": others + own}})

    async def evict_first(self, pods: Iterable[Pod], message: str) -> Pod | None:
        """Evict the first pod that the API allows to evict, without a grace period; return it, None without any."""
        for pod in pods:
            if await self.evict(pod, message):
                return pod
        return None

    async def evict(self, pod: Pod, message: str) -> bool:
        """Evict a pod without a grace period; return whether the API allowed it."""
        try:
            await evict(self._cluster, pod, grace_seconds=0)
        except ApiError as error:
            _log.warning("not evicted: pod=%s: %s", pod.metadata.key, error)
            return False
        self._events.event(pod, WARNING, "Evicted", message)
        return True

    async def _patch(self, body: dict[str, Any], subresource: str = "") -> bool:
        try:
            await self._cluster.patch(
                catalog.NODE, self._node, "", body, patch_type=PatchType.MERGE, subresource=subresource
            )
        except ApiError as error:
            _log.warning("node not changed: node=%s: %s", self._node, error)
            return False
        return True


def is_tainted(node: Node) -> bool:
    """Return whether a node has the taint against offline pods."""
    return any(one.key == TAINT and one.effect == _EFFECT for one in node.spec.taints)
