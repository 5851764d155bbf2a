"""The namespace that a component works in, made when it is missing."""

from __future__ import annotations

import logging

from strato.api import catalog
from strato.client.cluster import Cluster
from strato.clock import Clock
from strato.errors import AlreadyExists, ApiError, Unavailable

_log = logging.getLogger(__name__)


async def ensure_namespace(cluster: Cluster, clock: Clock, name: str, retry_seconds: float) -> None:
    """Create a namespace unless it is there; wait for a server that is not up yet.

    A refusal is not an error here: a component's role need not allow it to make namespaces, and whether this one is
    missing shows when it is used.
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
