"""Publishes the configuration a scheduler uses in a ConfigMap, whether it comes from a file or is built in.

Commands that run the engine on a copy of the cluster's state (``strato explain``, ``what-if``, ``when``) read it there.
They cannot see the scheduler's file, and without the ConfigMap they would answer for another policy.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from strato.api import catalog
from strato.api.core.config import ConfigMap
from strato.client.cluster import Cluster, Json
from strato.client.informer import Informers
from strato.client.namespaces import ensure_namespace
from strato.clock import Clock
from strato.errors import ApiError, Forbidden, NotFound
from strato.scheduler.config import default_config
from strato.scheduler.framework.options import Config

_log = logging.getLogger(__name__)

NAMESPACE: Final = "volcano-system"
_KEY: Final = "scheduler.conf"
_PAUSE_SECONDS: Final = 5.0
"""Pause between two writes: the server may not answer, and two schedulers of one name may overwrite each other."""


def name_of(scheduler: str) -> str:
    """Return the name of the ConfigMap of a scheduler."""
    return f"strato-scheduler-config-{scheduler}"


async def keep_published(
    cluster: Cluster,
    informers: Informers,
    clock: Clock,
    scheduler: str,
    config: Callable[[], Config],
    changed: asyncio.Event,
) -> None:
    """Keep the ConfigMap of a scheduler equal to its configuration, whichever of the two changes, until cancelled.

    Readers assume the built-in configuration where no ConfigMap is, so that one is only written over another.

    Args:
        cluster: Where the ConfigMap is written.
        informers: Watch the ConfigMap.
        clock: Of the process.
        scheduler: Name of the scheduler.
        config: Returns the configuration in force.
        changed: Set by the caller when another configuration is in force; cleared here.
    """
    built_in = default_config().text
    name = name_of(scheduler)
    stored = informers.informer(ConfigMap, namespace=NAMESPACE, field_selector=f"metadata.name={name}")
    stored.add_handler(lambda _: changed.set())
    stored.start()
    await stored.wait_synced()
    changed.set()
    refused: str | None = None
    while True:
        await changed.wait()
        changed.clear()
        text, found = config().text, stored.get((NAMESPACE, name))
        is_published = text == built_in if found is None else found.data.get(_KEY) == text
        if is_published or text == refused:
            continue
        try:
            if found is None:
                await ensure_namespace(cluster, clock, NAMESPACE, _PAUSE_SECONDS)
                await cluster.create(catalog.CONFIGMAP, _object(scheduler, text), NAMESPACE)
            else:
                await cluster.patch(catalog.CONFIGMAP, name, NAMESPACE, _object(scheduler, text))
        except Forbidden as error:
            refused = text
            _log.warning("configuration not published; allow to create and patch configmaps: %s", error)
        except ApiError as error:
            changed.set()
            _log.info("configuration not published yet: %s", error)
        await clock.sleep(_PAUSE_SECONDS)


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
