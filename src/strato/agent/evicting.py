"""Evictions through the API, which keeps disruption budgets."""

from __future__ import annotations

import msgspec

from strato.api.core import Pod
from strato.api.meta import Json
from strato.client.cluster import Cluster


async def evict(cluster: Cluster, pod: Pod, *, grace_seconds: int | None = None) -> None:
    """Evict a pod, and no other of its name.

    Args:
        cluster: Where it is.
        pod: As known.
        grace_seconds: How long it may take to end; None: as its own spec says.

    Raises:
        ApiError: The API refuses it.
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
