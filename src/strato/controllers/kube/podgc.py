"""Pods whose end somebody awaits and no node will write: their status says that they have failed.

Such a pod was deleted before it came to a node, and somebody's finalizer keeps it, or its node is gone.

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
    """Let a pod's status say that it failed, if somebody keeps it to learn how it ended.

    Args:
        cluster: The API.
        pod: One that no node will end.
        conditions: What else its status is to say.
    """
    if not pod.is_awaited:
        return
    body = {"metadata": {"uid": pod.metadata.uid}, "status": {"phase": "Failed", "conditions": [*conditions]}}
    name, namespace = pod.key.name, pod.key.namespace
    with suppress(NotFound, Conflict):  # it is gone, or another has its name
        await cluster.patch(Pod, name, namespace, body, patch_type=PatchType.STRATEGIC, subresource="status")


class PodGarbageCollector(KeyedController):
    """See the module; nodes that are gone are the node lifecycle controller's to find."""

    name: ClassVar[str] = "kube-pod-garbage-collector"
    workers: ClassVar[int] = 2

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._pods = context.informers.informer(Pod)
        self._pods.add_handler(lambda change: self.queue.add(change.key), among=_unscheduled)

    async def reconcile(self, key: Key) -> None:
        """Let the pod fail, unless that has happened."""
        pod = self._pods.get(key)
        if pod is not None and _is_unscheduled(pod):
            await fail_awaited(self._cluster, pod)


def _is_unscheduled(pod: Pod) -> bool:
    """Return whether a pod was deleted before it came to a node, and is kept."""
    return pod.metadata.deletion_timestamp is not None and not pod.spec.node_name and pod.is_awaited


def _unscheduled(changes: Sequence[Change[Pod]]) -> Sequence[Change[Pod]]:
    return [change for change in changes if change.new is not None and _is_unscheduled(change.new)]
