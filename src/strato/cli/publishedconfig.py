"""Publish the scheduler's configuration as a ConfigMap, for commands that run the engine on a copy of the state."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from strato.client.cluster import Cluster
    from strato.client.informer import Informers
    from strato.clock import Clock
    from strato.scheduler import Scheduler


def publishing_configuration(
    scheduler: Scheduler, cluster: Cluster, informers: Informers, clock: Clock
) -> Callable[[], Awaitable[None]]:
    """Return a coroutine function that keeps the ConfigMap current until cancelled."""

    async def run() -> None:
        from strato.scheduler.configpublishing import keep_published

        await scheduler.ready.wait()
        config, changed = lambda: scheduler.config, scheduler.reconfigured
        await keep_published(cluster, informers, clock, scheduler.full_name, config, changed)

    return run
