"""Node lifecycle: a node that stops renewing its lease becomes Unknown, is tainted, and its pods are evicted.

The duration of a lease counts from the moment when this controller observed its last renewal, so that the nodes' clocks
do not matter. Each node is checked when its lease would expire; there is no periodic scan. Pods on a node with a
NoExecute taint are evicted as their tolerations say; pods of a node that no longer exists are deleted after
`QUARANTINE_SECONDS`.

Source: Kubernetes' node lifecycle, taint eviction and pod garbage collection controllers.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, ClassVar, Final

from strato.api.coordination import Lease
from strato.api.core import Node, Pod
from strato.api.meta import Key
from strato.client.cluster import PatchType
from strato.client.informer import Change
from strato.client.workqueue import WorkQueue, run_workers
from strato.clock import format_time, parse_time
from strato.controllers.context import ControllerContext
from strato.controllers.kube.podgc import fail_awaited
from strato.controllers.kube.taints import MANAGED, NO_EXECUTE, present_taints, seconds_to_stay, wanted_taints
from strato.controllers.parallel import for_each
from strato.errors import Conflict, NotFound

LEASE_NAMESPACE: Final = "kube-node-lease"
GRACE_SECONDS: Final = 40.0
"""How long a node counts as healthy without a renewal when its lease has no duration."""
QUARANTINE_SECONDS: Final = 40.0
"""How long a node must be gone before its pods are deleted: it may be about to register again."""

LATE_SECONDS: Final = 5.0
"""A check that runs later than planned by more than this shows that this process was stopped (a suspended machine,
SIGSTOP). It has missed renewals meanwhile, so the grace period of the node starts anew."""

_HEARTBEAT_CONDITIONS: Final = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")


class NodeLifecycleController:
    """See the module."""

    name: ClassVar[str] = "kube-node-lifecycle-controller"

    def __init__(self, context: ControllerContext) -> None:
        self._cluster = context.cluster
        self._clock = context.clock
        self._queue: WorkQueue[str] = WorkQueue(context.clock)
        self._renewed_at: dict[str, float] = {}
        """Monotonic instant of the last renewal of its lease, or heartbeat, of each node."""
        self._planned: dict[str, float] = {}
        """Monotonic instant of the next check of each node that counts as alive."""
        self._on_node_pods: defaultdict[str, set[Key]] = defaultdict(set)
        self._recorder = context.recorder
        self._tainted: dict[str, dict[tuple[str, str], float]] = {}
        """When each node got its NoExecute taints, by key and value; for a taint without a time, when it was seen."""
        self._nodes = context.informers.informer(Node)
        self._leases = context.informers.informer(Lease)
        self._pods = context.informers.informer(Pod)
        self._nodes.add_handler(self._on_node)
        self._leases.add_handler(self._on_lease)
        self._pods.add_handler(self._on_pod, among=_moved)

    async def run(self) -> None:
        """Work until cancelled."""
        for name in self._on_node_pods:
            if Key("", name) not in self._nodes:
                self._queue.add_after(name, QUARANTINE_SECONDS)
        await run_workers(self._queue, self._reconcile, 8, name=self.name)

    # Events

    def _on_node(self, change: Change[Node]) -> None:
        name, new = change.key.name, change.new
        if new is None:
            self._renewed_at.pop(name, None)
            self._planned.pop(name, None)
            self._queue.add_after(name, QUARANTINE_SECONDS)
            return
        old = change.old
        if old is None or _heartbeat(old) != _heartbeat(new):
            self._renewed_at[name] = self._clock.monotonic()
        if old is None or wanted_taints(new) != present_taints(new) or old.spec.taints != new.spec.taints:
            self._queue.add(name)

    def _on_lease(self, change: Change[Lease]) -> None:
        lease = change.new
        if lease is None or lease.metadata.namespace != LEASE_NAMESPACE:
            return
        if change.old is None or change.old.spec.renew_time != lease.spec.renew_time:
            name = lease.metadata.name
            self._renewed_at[name] = self._clock.monotonic()
            if change.old is not None and change.old.spec.lease_duration_seconds > lease.spec.lease_duration_seconds:
                self._queue.add(name)  # a shorter lease expires before the planned check

    def _on_pod(self, change: Change[Pod]) -> None:
        old, new = change.old, change.new
        before = old.spec.node_name if old is not None else ""
        after = new.spec.node_name if new is not None else ""
        if before == after:
            return
        pod = change.object
        key = Key(pod.metadata.namespace, pod.metadata.name)
        if before:
            pods = self._on_node_pods[before]
            pods.discard(key)
            if not pods:
                del self._on_node_pods[before]
        if after:
            self._on_node_pods[after].add(key)
            node = self._nodes.get(("", after))
            if node is None:
                self._queue.add_after(after, QUARANTINE_SECONDS)
            elif node.spec.taints and any(t.effect == NO_EXECUTE for t in node.spec.taints):
                self._queue.add(after)

    # Work

    async def _reconcile(self, name: str) -> float | None:
        node = self._nodes.get(Key("", name))
        if node is None:
            await self._clear_gone(name)
            return None
        now = self._clock.monotonic()
        lease = self._leases.get(Key(LEASE_NAMESPACE, name))
        grace = float(lease.spec.lease_duration_seconds) if lease is not None else GRACE_SECONDS
        if now - self._planned.pop(name, now) > LATE_SECONDS:
            self._renewed_at[name] = now
        unknown_after = self._renewed_at.setdefault(name, now) + (grace or GRACE_SECONDS)
        if now >= unknown_after:
            await self._mark_unknown(node)
            return await self._evict(node, again=grace)
        if wanted_taints(node) != present_taints(node):
            try:
                node = await self._set_taints(node)
            except NotFound:
                return None
            except Conflict:
                return 0.05
        again = await self._evict(node, again=unknown_after - now)
        if again is not None:
            self._planned[name] = now + again
        return again

    async def _mark_unknown(self, node: Node) -> None:
        """Set the conditions of a node whose lease has expired to Unknown, once."""
        ready = node.status.condition("Ready")
        if ready is not None and ready.status == "Unknown":
            if wanted_taints(node) != present_taints(node):
                await self._set_taints(node)
            # again, for pods that could not be marked before because the API server failed
            await self._mark_pods_not_ready(node.metadata.name)
            return
        time = format_time(self._clock.now())
        conditions = []
        for type_ in _HEARTBEAT_CONDITIONS:
            known = node.status.condition(type_)
            if known is None and type_ != "Ready":
                continue
            never = known is None
            conditions.append(
                {
                    "type": type_,
                    "status": "Unknown",
                    "reason": "NodeStatusNeverUpdated" if never else "NodeStatusUnknown",
                    "message": "Kubelet never posted node status." if never else "Kubelet stopped posting node status.",
                    "lastTransitionTime": time,
                    "lastHeartbeatTime": (known.last_heartbeat_time if known is not None else None) or time,
                }
            )
        try:
            updated = await self._cluster.patch(
                Node,
                node.metadata.name,
                "",
                {"status": {"conditions": conditions}},
                patch_type=PatchType.STRATEGIC,
                subresource="status",
            )
            await self._set_taints(updated)
            await self._mark_pods_not_ready(node.metadata.name)
        except (NotFound, Conflict):
            self._queue.add_after(node.metadata.name, 0.05)

    async def _set_taints(self, node: Node) -> Node:
        """Write the taints that this controller manages; the node's other taints stay as they are."""
        kept = [
            {"key": t.key, "effect": t.effect, **({"value": t.value} if t.value else {})}
            | ({"timeAdded": t.time_added} if t.time_added else {})
            for t in node.spec.taints
            if t.key not in MANAGED or (t.key, t.effect) in wanted_taints(node)
        ]
        time = format_time(self._clock.now())
        added = [
            {"key": key, "effect": effect, "timeAdded": time}
            for key, effect in sorted(wanted_taints(node) - present_taints(node))
        ]
        body = {
            "metadata": {"resourceVersion": node.metadata.resource_version},
            "spec": {"taints": [*kept, *added] or None},
        }
        return await self._cluster.patch(Node, node.metadata.name, "", body)

    async def _mark_pods_not_ready(self, node: str) -> None:
        time = format_time(self._clock.now())
        condition = {"type": "Ready", "status": "False", "reason": "NodeNotReady", "lastTransitionTime": time}

        async def mark(key: Key) -> None:
            pod = self._pods.get(key)
            if pod is None or not pod.is_ready:
                return
            with suppress(NotFound):
                await self._cluster.patch(
                    Pod,
                    key.name,
                    key.namespace,
                    {"status": {"conditions": [condition]}},
                    patch_type=PatchType.STRATEGIC,
                    subresource="status",
                )

        failures = await for_each(sorted(self._on_node_pods.get(node, ())), mark, 32)
        if failures:
            raise failures[0]

    async def _evict(self, node: Node, *, again: float) -> float | None:
        """Delete the pods whose tolerations of NoExecute taints have expired; returns the seconds to the next check."""
        name, now = node.metadata.name, self._clock.now()
        taints = [taint for taint in node.spec.taints if taint.effect == NO_EXECUTE]
        if not taints:
            self._tainted.pop(name, None)
            return max(0.001, again)
        seen = self._tainted.get(name, {})
        self._tainted[name] = {
            (t.key, t.value): parse_time(t.time_added) if t.time_added else seen.get((t.key, t.value), now)
            for t in taints
        }
        since = max(self._tainted[name].values())
        next_look = again
        due: list[Key] = []
        for key in sorted(self._on_node_pods.get(name, ())):
            pod = self._pods.get(key)
            if pod is None or pod.metadata.deletion_timestamp is not None or pod.is_finished:
                continue
            created = pod.metadata.creation_timestamp
            # tolerationSeconds of a pod created after the taint count from its creation
            begin = max(since, parse_time(created)) if created else since
            left = begin + seconds_to_stay(pod.spec.tolerations, taints) - now
            if left <= 0:
                due.append(key)
            elif left < math.inf:
                next_look = min(next_look, left)
        await self._delete(due, grace_seconds=None)
        return max(0.001, next_look)

    async def _clear_gone(self, name: str) -> None:
        """Delete the pods of a node that does not exist, after a read from the API has confirmed that."""
        keys = sorted(self._on_node_pods.get(name, ()))
        if not keys:
            return
        try:
            await self._cluster.get(Node, name)
        except NotFound:
            await self._delete(keys, grace_seconds=0)

    def _disruption(self, reason: str, message: str) -> dict[str, str]:
        """Return the condition DisruptionTarget with the reason; the pod's controller may not count it as a failure."""
        time = format_time(self._clock.now())
        condition = {"type": "DisruptionTarget", "status": "True", "reason": reason, "message": message}
        return condition | {"lastTransitionTime": time}

    async def _mark_evicted(self, pod: Pod) -> None:
        """Write the reason of a pod's eviction into its status."""
        condition = self._disruption("DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint")
        body = {"metadata": {"uid": pod.metadata.uid}, "status": {"conditions": [condition]}}
        name, namespace = pod.key.name, pod.key.namespace
        await self._cluster.patch(Pod, name, namespace, body, patch_type=PatchType.STRATEGIC, subresource="status")
        self._recorder.event(pod, "Normal", "TaintManagerEviction", f"Marking for deletion Pod {pod.key}")

    async def _delete(self, keys: list[Key], *, grace_seconds: int | None) -> None:
        async def delete(key: Key) -> None:
            pod = self._pods.get(key)
            options: dict[str, Any] = {"uid": pod.metadata.uid} if pod is not None else {}
            with suppress(NotFound):
                if pod is not None and grace_seconds is None:
                    await self._mark_evicted(pod)
                elif pod is not None:
                    gone = self._disruption("DeletionByPodGC", "PodGC: node no longer exists")
                    await fail_awaited(self._cluster, pod, [gone])
                await self._cluster.delete(Pod, key.name, key.namespace, grace_period_seconds=grace_seconds, **options)

        failures = await for_each(keys, delete, 32)
        if failures:
            raise failures[0]


def _moved(changes: Sequence[Change[Pod]]) -> Sequence[Change[Pod]]:
    """Return the changes of pods that were bound to a node or were deleted from one."""
    moved = []
    for change in changes:
        old, new = change
        if old is None:
            if new is not None and not new.spec.node_name:
                continue
        elif new is not None and (old.spec is new.spec or old.spec.node_name == new.spec.node_name):
            continue
        moved.append(change)
    return moved


def _heartbeat(node: Node) -> str | None:
    ready = node.status.condition("Ready")
    return ready.last_heartbeat_time if ready is not None and ready.status != "Unknown" else None
