"""Issue ``bus.volcano.sh`` Commands: how suspend, resume, open and close are asked for (spec volcano-cli A1)."""

from __future__ import annotations

from strato.api import catalog
from strato.client.cluster import Cluster, Json


async def issue_command(cluster: Cluster, target: Json, action: str, *, namespace: str) -> None:
    """Create a Command with ``action`` for ``target`` (a whole object as read)."""
    metadata = target["metadata"]
    reference = {
        "apiVersion": target["apiVersion"],
        "kind": target["kind"],
        "name": metadata["name"],
        "uid": metadata["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
    body = {
        "apiVersion": catalog.COMMAND.api_version,
        "kind": "Command",
        "metadata": {
            "generateName": f"{metadata['name']}-{action.lower()}-",
            "namespace": namespace,
            "ownerReferences": [reference],
        },
        "action": action,
        "target": reference,
    }
    await cluster.create(catalog.COMMAND, body, namespace)
