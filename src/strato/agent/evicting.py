"""Evictions through the API, which keeps disruption budgets."""

from __future__ import annotations

import msgspec

from strato.api.core import Pod
from strato.client.cluster import Cluster


async def evict(cluster: Cluster, pod: Pod) -> None:
    """Evict a pod, and no other of its name.

    Raises:
        ApiError: The API refuses it.
    """
    meta = pod.metadata
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": meta.name, "namespace": meta.namespace},
        "deleteOptions": {"preconditions": {"uid": meta.uid}},
    }
    path = f"/api/v1/namespaces/{meta.namespace}/pods/{meta.name}/eviction"
    await cluster.raw("POST", path, body=msgspec.json.encode(body))
