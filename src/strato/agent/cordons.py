"""Cordon nodes whose memory is hot, within a budget; nodes that users have cordoned are left alone."""

from __future__ import annotations

import logging
from typing import Any, Final

from strato.api import catalog
from strato.client.cluster import Cluster, PatchType
from strato.clock import Clock, format_time
from strato.errors import ApiError

_log = logging.getLogger(__name__)

ANNOTATION: Final = "strato.io/cordoned-by"
_AT: Final = "strato.io/cordoned-at"
_OURS: Final = "agent/memory"
_BUDGET_PERCENT: Final = 10
CONDITION: Final = "MemoryHotspot"


class Cordons:
    """Cordons one node and uncordons it again.

    Args:
        node: Name of the node.
        label_selector: Selects the nodes to which the budget applies.
    """

    def __init__(self, cluster: Cluster, clock: Clock, node: str, label_selector: str = "") -> None:
        self._cluster, self._clock, self._node = cluster, clock, node
        self._label_selector = label_selector

    async def cordon(self) -> bool:
        """Make the node unschedulable, unless it is or the budget is used up; return whether it was changed."""
        nodes = await self._cluster.list(catalog.NODE, label_selector=self._label_selector)
        own = next((one for one in nodes.items if one["metadata"]["name"] == self._node), None)
        if own is None or own.get("spec", {}).get("unschedulable"):
            return False
        cordoned = sum(_is_ours(one) for one in nodes.items)
        budget = max(1, len(nodes.items) * _BUDGET_PERCENT // 100)
        if cordoned >= budget:
            _log.warning("not cordoned: agents hold %d of at most %d nodes: node=%s", cordoned, budget, self._node)
            return False
        note = {ANNOTATION: _OURS, _AT: format_time(self._clock.now())}
        return await self._patch(own, {"spec": {"unschedulable": True}, "metadata": {"annotations": note}})

    async def uncordon(self) -> bool:
        """Make the node schedulable again if an agent had cordoned it; return whether it was changed."""
        own = await self._cluster.get(catalog.NODE, self._node)
        if not _is_ours(own):
            return False
        note = {ANNOTATION: None, _AT: None}
        return await self._patch(own, {"spec": {"unschedulable": None}, "metadata": {"annotations": note}})

    async def _patch(self, node: dict[str, Any], change: dict[str, Any]) -> bool:
        change["metadata"]["resourceVersion"] = node["metadata"]["resourceVersion"]  # a user's change meanwhile wins
        await self._cluster.patch(catalog.NODE, self._node, "", change)
        return True


async def report_condition(
    cluster: Cluster, clock: Clock, node: str, type_: str, *, is_true: bool, reason: str, message: str
) -> None:
    """Write one condition of a node unless it is current; log a refusal by the API."""
    now = format_time(clock.now())
    status = "True" if is_true else "False"
    content = {"type": type_, "status": status, "reason": reason, "message": message}
    try:
        own = await cluster.get(catalog.NODE, node)
        conditions = own.get("status", {}).get("conditions") or ()
        before: dict[str, Any] = next((one for one in conditions if one["type"] == type_), {})
        if content.items() <= before.items():
            return
        since = before.get("lastTransitionTime", now) if before.get("status") == status else now
        condition = {**content, "lastHeartbeatTime": now, "lastTransitionTime": since}
        body = {"status": {"conditions": [condition]}}
        await cluster.patch(catalog.NODE, node, "", body, subresource="status", patch_type=PatchType.STRATEGIC)
    except ApiError as error:
        _log.warning("condition not reported: node=%s condition=%s: %s", node, type_, error)


def _is_ours(node: dict[str, Any]) -> bool:
    annotations = node["metadata"].get("annotations") or {}
    return bool(node.get("spec", {}).get("unschedulable")) and annotations.get(ANNOTATION) == _OURS
