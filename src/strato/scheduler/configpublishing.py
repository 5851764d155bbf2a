"""A ConfigMap says by what configuration a scheduler decides, wherever that comes from.

What runs the engine on a copy of the cluster's state (``strato explain``, ``what-if``, ``when``) reads it there: a file
that only the scheduler can see would otherwise be unknown to it, and its answer one about another policy.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from strato.api import catalog
from strato.client.cluster import Cluster, Json
from strato.client.namespaces import ensure_namespace
from strato.clock import Clock
from strato.errors import ApiError, Forbidden, NotFound
from strato.scheduler.config import default_config
from strato.scheduler.framework.options import Config

_log = logging.getLogger(__name__)

NAMESPACE: Final = "volcano-system"
_KEY: Final = "scheduler.conf"
_LOOK_SECONDS: Final = 5.0


def name_of(scheduler: str) -> str:
    """Return the name of the ConfigMap of a scheduler."""
    return f"strato-scheduler-config-{scheduler}"


async def keep_published(cluster: Cluster, clock: Clock, scheduler: str, config: Callable[[], Config]) -> None:
    """Publish a scheduler's configuration and each that follows it, until cancelled.

    The built-in one is what everybody takes where none is published: it is written only over another one.

    Args:
        cluster: Where it is written.
        clock: Of the process.
        scheduler: Which scheduler.
        config: Returns the configuration in force.
    """
    built_in = default_config().text
    done: str | None = None
    while True:
        text = config().text
        if text != done:
            try:
                if not await _replace(cluster, scheduler, text) and text != built_in:
                    await ensure_namespace(cluster, clock, NAMESPACE, _LOOK_SECONDS)
                    await cluster.create(catalog.CONFIGMAP, _object(scheduler, text), NAMESPACE)
                done = text
            except Forbidden as error:
                done = text
                _log.warning("configuration not published; allow to create and patch configmaps: %s", error)
            except ApiError as error:
                _log.info("configuration not published yet: %s", error)
        await clock.sleep(_LOOK_SECONDS)


async def _replace(cluster: Cluster, scheduler: str, text: str) -> bool:
    """Write a configuration where one stands; whether one does."""
    try:
        await cluster.patch(catalog.CONFIGMAP, name_of(scheduler), NAMESPACE, _object(scheduler, text))
    except NotFound:
        return False
    return True


def _object(scheduler: str, text: str) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name_of(scheduler), "namespace": NAMESPACE},
        "data": {_KEY: text},
    }


async def published(cluster: Cluster, scheduler: str = "volcano") -> str | None:
    """Return the configuration that a scheduler has published; None where it has none.

    Raises:
        ApiError: The server refuses.
    """
    try:
        found = await cluster.get(catalog.CONFIGMAP, name_of(scheduler), NAMESPACE)
    except NotFound:
        return None
    return str((found.get("data") or {}).get(_KEY, "")) or None
