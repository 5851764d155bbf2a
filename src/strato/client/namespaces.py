"""Create the namespace that a component works in."""

from __future__ import annotations

import logging

from strato.api import catalog
from strato.client.cluster import Cluster
from strato.clock import Clock
from strato.errors import AlreadyExists, ApiError, Unavailable

_log = logging.getLogger(__name__)


async def ensure_namespace(cluster: Cluster, clock: Clock, name: str, retry_seconds: float) -> None:
    """Create a namespace unless it exists; retry while the server cannot be reached.

    If the server refuses, this returns without an error: a component's role need not allow it to create namespaces, and
    a missing one shows when the component writes into it.
    """
    while True:
        try:
            await cluster.create(
                catalog.NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
            )
        except AlreadyExists:
            return
        except Unavailable as error:
            _log.info("namespace not created yet: namespace=%s: %s", name, error)
            await clock.sleep(retry_seconds)
        except ApiError as error:
            _log.info("namespace not created: namespace=%s: %s", name, error)
            return
        else:
            return
