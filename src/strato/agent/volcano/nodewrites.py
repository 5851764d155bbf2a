"""What is written to the API about a node and its offline pods: lent resources, its label, its taint, evictions."""

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
    """Writes about one node; what the API refuses is logged, and wanted again in the next round.

    Args:
        cluster: Takes it.
        events: Reports evictions on pods.
        node: Its name.
    """

    def __init__(self, cluster: Cluster, events: EventRecorder, node: str) -> None:
        self._cluster, self._events, self._node = cluster, events, node

    async def publish(self, amounts: Mapping[str, int | None]) -> bool:
        """Set the node's amounts of lent resources, of which None takes one away; return whether that is done."""
        texts = {name: None if amount is None else str(amount) for name, amount in amounts.items()}
        body = {"status": {"capacity": texts, "allocatable": texts}}
        return await self._patch(body, "status")

    async def label(self, *, lends: bool) -> bool:
        """Say on the node whether it lends; return whether that is done."""
        return await self._patch({"metadata": {"labels": {LENDING_LABEL: "true" if lends else "false"}}})

    async def taint(self, node: Node) -> bool:
        """Keep further offline pods off the node; return whether that is done."""
        return is_tainted(node) or await self._change_taints([{"key": TAINT, "effect": _EFFECT}])

    async def untaint(self, node: Node) -> bool:
        """Let offline pods onto the node again; return whether that is done."""
        return not is_tainted(node) or await self._change_taints([])

    async def _change_taints(self, own: list[dict[str, str]]) -> bool:
        """Put these in the place of our taints; the list is written as a whole, the others as they are."""
        try:
            known = await self._cluster.get(catalog.NODE, self._node)
        except ApiError as error:
            _log.warning("node not read: node=%s: %s", self._node, error)
            return False
        others = [one for one in known["spec"].get("taints") or () if one.get("key") != TAINT]
        metadata = {"resourceVersion": known["metadata"]["resourceVersion"]}  # somebody else may be faster
        return await self._patch({"metadata": metadata, "spec": {"taints": others + own}})

    async def evict_first(self, pods: Iterable[Pod], message: str) -> Pod | None:
        """Evict one pod, at once and for good, the first of which the API allows it; None: of none."""
        for pod in pods:
            if await self.evict(pod, message):
                return pod
        return None

    async def evict(self, pod: Pod, message: str) -> bool:
        """Evict a pod without a grace period; return whether the API allows it."""
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
    """Tell whether offline pods are kept off a node."""
    return any(one.key == TAINT and one.effect == _EFFECT for one in node.spec.taints)
