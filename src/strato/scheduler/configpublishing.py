"""A ConfigMap says by what configuration a scheduler decides, wherever that comes from.

What runs the engine on a copy of the cluster's state (``strato explain``, ``what-if``, ``when``) reads it there: a file
that only the scheduler can see would otherwise be unknown to it, and its answer one about another policy.
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
"""Between two writes: a server may not answer, and two schedulers of one name may write different ones."""


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
    """Have a scheduler's configuration stand in its ConfigMap, whoever changes either, until cancelled.

    The built-in one is what everybody takes where none is published: it is written only over another one.

    Args:
        cluster: Where it is written.
        informers: Watch what stands there.
        clock: Of the process.
        scheduler: Which scheduler.
        config: Returns the configuration in force.
        changed: Set when that is another one; cleared here.
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
