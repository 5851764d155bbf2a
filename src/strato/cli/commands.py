"""Issue ``bus.volcano.sh`` Commands: how the CLI requests suspend, resume, open and close (spec volcano-cli A1)."""

from __future__ import annotations

import getpass
import os
import socket

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
        "message": f"issued by {_who()}",
    }
    await cluster.create(catalog.COMMAND, body, namespace)


def _who() -> str:
    """Return the user and machine that ran the command, for the Command's message; the API stores no author."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a user of a container without an entry in passwd
        user = f"uid {os.getuid()}"
    return f"{user} on {socket.gethostname()}"
