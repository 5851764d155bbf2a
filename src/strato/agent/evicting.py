"""Evict pods through the Eviction API, which observes disruption budgets."""

from __future__ import annotations

import msgspec

from strato.api.core import Pod
from strato.api.meta import Json
from strato.client.cluster import Cluster


async def evict(cluster: Cluster, pod: Pod, *, grace_seconds: int | None = None) -> None:
    """Evict a pod by its uid, so that a new pod of the same name is not evicted.

    Args:
        cluster: The pod's cluster.
        pod: The pod as last read.
        grace_seconds: Grace period; None uses the one in the pod's spec.

    Raises:
        ApiError: The API refuses the eviction.
    """
    meta = pod.metadata
    options: Json = {"preconditions": {"uid": meta.uid}}
    if grace_seconds is not None:
        options["gracePeriodSeconds"] = grace_seconds
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": meta.name, "namespace": meta.namespace},
        "deleteOptions": options,
    }
    path = f"/api/v1/namespaces/{meta.namespace}/pods/{meta.name}/eviction"
    await cluster.raw("POST", path, body=msgspec.json.encode(body))
