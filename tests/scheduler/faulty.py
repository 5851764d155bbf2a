"""A scheduler on an API server that misbehaves, and an administrator on the same server to whom nothing happens."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from random import Random
from typing import Any, NamedTuple

from strato.api import catalog
from strato.api.core import Pod
from strato.api.wire import Request, User
from strato.client.informer import Informers
from strato.client.local import LocalCluster
from strato.clock import VirtualClock, run_virtual
from strato.scheduler import Scheduler
from strato.server.embedded import in_memory_server
from strato.testing.faults import Faults, FaultyCluster
from tests.scheduler import parts

ADMIN = User("admin", groups=("system:masters",))


class Setting(NamedTuple):
    """What a test of this kind works with."""

    clock: VirtualClock
    admin: LocalCluster
    cluster: FaultyCluster
    """The scheduler's."""
    scheduler: Scheduler

    async def nodes(self) -> dict[str, str]:
        """Node by pod name."""
        page = await self.admin.list(Pod)
        return {pod.metadata.name: pod.spec.node_name for pod in page.items}

    async def until(self, condition: Callable[[], Coroutine[Any, Any, bool]], seconds: float) -> float:
        """Wait for something; return after how long it was."""
        began = self.clock.monotonic()
        while not await condition():
            assert self.clock.monotonic() < began + seconds, "it did not happen in time"
            await self.clock.sleep(0.05)
        return self.clock.monotonic() - began


@asynccontextmanager
async def leading(
    setting: tuple[VirtualClock, LocalCluster, FaultyCluster], **options: Any
) -> AsyncIterator[Scheduler]:
    """Run a scheduler of its own informers until the end of the block."""
    clock, _, cluster = setting
    informers = Informers(cluster, clock, Random(1))
    scheduler = parts.scheduler(cluster, informers, clock, **options)
    task = asyncio.get_running_loop().create_task(scheduler.run())
    try:
        await asyncio.wait_for(scheduler.ready.wait(), 600)
        yield scheduler
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await informers.stop()


def play(
    story: Callable[[Setting], Coroutine[Any, Any, None]],
    *,
    faults: Faults | None = None,
    at_once: int = 1,
    **options: Any,
) -> None:
    """Run a story in virtual time; the faults begin once the scheduler is ready."""
    clock = VirtualClock()

    async def main() -> None:
        server = in_memory_server(clock)
        admin = LocalCluster(server, ADMIN)
        wanted = faults or Faults()
        quiet = Faults(connections=wanted.connections)
        cluster = FaultyCluster(server, ADMIN, clock, Random(3), faults=quiet, at_once=at_once)
        await admin.create(catalog.NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ns"}})
        async with leading((clock, admin, cluster), **options) as scheduler:
            await clock.sleep(1.0)
            await admin.patch(catalog.QUEUE, "default", "", {"status": {"state": "Open"}}, subresource="status")
            cluster.faults = wanted
            await story(Setting(clock, admin, cluster, scheduler))

    run_virtual(clock, main())


def is_bind(request: Request) -> bool:
    return request.path.endswith("/binding")


def is_status(request: Request) -> bool:
    return request.method == "PATCH" and request.path.endswith("/status")
