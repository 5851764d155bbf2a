"""The queues that every cluster has from the start."""

from __future__ import annotations

from typing import Any

from strato.api import catalog
from strato.api.defaults.jobs import DEFAULT_QUEUE

ROOT_QUEUE = "root"


def initial_queues(default: str = DEFAULT_QUEUE) -> list[dict[str, Any]]:
    """Return the Queues to create if they are missing: the root, and the queue of jobs that name none."""
    return [
        {
            "apiVersion": catalog.QUEUE.api_version,
            "kind": catalog.QUEUE.name,
            "metadata": {"name": name},
            "spec": {"weight": 1, "reclaimable": reclaimable},
        }
        for name, reclaimable in ((ROOT_QUEUE, False), (default, True))
    ]
