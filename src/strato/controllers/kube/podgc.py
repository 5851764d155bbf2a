"""Set the phase Failed of pods whose controller waits for their end, but which no node will ever report as ended.

Such a pod was deleted before it was bound to a node and is kept by a finalizer, or its node is gone.

Source: Kubernetes' pod garbage collection controller.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, ClassVar

from strato.api.core import Pod
from strato.api.meta import Key
from strato.client.cluster import Cluster, PatchType
from strato.client.informer import Change
from strato.controllers.context import ControllerContext
from strato.controllers.reconcile import KeyedController
from strato.errors import Conflict, NotFound


async def fail_awaited(cluster: Cluster, pod: Pod, conditions: Sequence[dict[str, Any]] = ()) -> None:
    """Set a pod's phase to Failed if a finalizer keeps it, so that the finalizer's controller sees it end.

    Args:
        cluster: The API.
        pod: A pod that no node will report as ended.
        conditions: Conditions to write into its status.
    """
    if not pod.is_awaited:
        return
    body = {"metadata": {"uid": pod.metadata.uid}, "status": {"phase": "Failed", "conditions": [*conditions]}}
    name, namespace = pod.key.name, pod.key.namespace
    with suppress(NotFound, Conflict):  # the pod is gone, or another pod has its name
        await cluster.patch(Pod, name, namespace, body, patch_type=PatchType.STRATEGIC, subresource="status")


class PodGarbageCollector(KeyedController):
    """See the module. It handles unbound pods; the node lifecycle controller handles pods of nodes that are gone."""

    name: ClassVar[str] = "kube-pod-garbage-collector"
    workers: ClassVar[int] = 2

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._pods = context.informers.informer(Pod)
        self._pods.add_handler(lambda change: self.queue.add(change.key), among=_unscheduled)

    async def reconcile(self, key: Key) -> None:
        """Set the pod's phase to Failed, unless it has ended."""
        pod = self._pods.get(key)
        if pod is not None and _is_unscheduled(pod):
            await fail_awaited(self._cluster, pod)


def _is_unscheduled(pod: Pod) -> bool:
    """Return whether a pod was deleted before it was bound to a node, has not ended, and is kept by a finalizer."""
    return pod.metadata.deletion_timestamp is not None and not pod.spec.node_name and pod.is_awaited


def _unscheduled(changes: Sequence[Change[Pod]]) -> Sequence[Change[Pod]]:
    return [change for change in changes if change.new is not None and _is_unscheduled(change.new)]
