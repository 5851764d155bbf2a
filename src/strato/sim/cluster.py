"""A whole cluster in this process: server core, controllers, scheduler and hollow nodes on one clock.

The simulator runs it in virtual time; the test harness on either clock. Each part talks to the server as itself;
all share one set of informers, so that an event is decoded once.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Coroutine, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, TypeVar

from strato.api import catalog
from strato.api.wire import User
from strato.client.cluster import Cluster
from strato.client.informer import Informers
from strato.client.local import LocalCluster
from strato.clock import Clock
from strato.controllers.context import ControllerSettings
from strato.controllers.manager import DEFAULT, ControllerManager
from strato.errors import AlreadyExists, InvariantError, StratoError
from strato.node.hollow import HollowNodes, HollowOffer, offers
from strato.node.hollow.cpu import HollowCpu
from strato.node.shapes import NodeShape
from strato.scheduler.cache.journal import NO_JOURNAL, Journal
from strato.scheduler.cache.shards import NONE
from strato.scheduler.framework.options import Config
from strato.scheduler.options import SchedulerOptions
from strato.scheduler.service import Scheduler
from strato.seeding import child
from strato.server.api import ApiServer
from strato.server.embedded import in_memory_server
from strato.sim.rest import RestingClock

T = TypeVar("T")

_UID_BITS = 128
ADMINISTRATOR = User("strato:admin", ("system:masters", "system:authenticated"))


class ComponentEnded(StratoError):
    """A component of the cluster ended unexpectedly."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterOptions:
    """What a cluster consists of."""

    nodes: tuple[NodeShape, ...] = ()
    scheduler: bool = True
    scheduler_config: Config | None = None
    """None is the built-in configuration."""
    scheduler_period_seconds: float = 1.0
    shard_mode: str = NONE
    """How the scheduler uses NodeShards; the sharding controller runs only if ``controllers`` names it."""
    journal: Journal = NO_JOURNAL
    """Records what the scheduler knows and decides."""
    controllers: tuple[str, ...] = DEFAULT
    """Names of the controllers to run."""
    max_lease_rate: float = 0.0
    """Lease renewals of all nodes per second. 0 writes each lease once and for ever: no heartbeats in weeks of time."""


class SimulatedCluster:
    """A cluster, as the module says. Create it on a running event loop; call `start` first and `stop` last.

    Args:
        cpu: Shares the nodes' CPU among pods with a demand; the cluster runs it. None: the hollow nodes make their own.
    """

    def __init__(self, clock: Clock, random: Random, options: ClusterOptions, cpu: HollowCpu | None = None) -> None:
        self.clock = clock
        self.options = options
        # drawn first: `simulate_decisions` draws nothing else, and both fidelities need the same random numbers
        self._for_scheduler = child(random)
        uids = OrderedUids() if isinstance(clock, RestingClock) else child(random)
        self.server: ApiServer = in_memory_server(clock, uids)
        self.admin: Cluster = self.cluster_as(ADMINISTRATOR)
        self.informers = Informers(self.cluster_as(_component("informers")), clock, child(random))
        self.controllers: ControllerManager | None = None
        self.scheduler: Scheduler | None = None
        self.nodes: tuple[HollowNodes, ...] = ()
        self._random = random
        self._cpu = cpu
        self._tasks: dict[asyncio.Task[None], str] = {}
        self._bugs: list[BaseException] = []

    def cluster_as(self, user: User) -> LocalCluster:
        """Return a client of the server under an identity."""
        return LocalCluster(self.server, user)

    async def prepare(self) -> None:
        """Create the queues root and default if they are not there; `start` calls this first."""
        for name, reclaimable in (("root", False), ("default", True)):
            queue = {
                "apiVersion": catalog.QUEUE.api_version,
                "kind": catalog.QUEUE.name,
                "metadata": {"name": name},
                "spec": {"weight": 1, "reclaimable": reclaimable},
            }
            with contextlib.suppress(AlreadyExists):
                await self.admin.create(catalog.QUEUE, queue)
                await self.admin.patch(catalog.QUEUE, name, "", {"status": {"state": "Open"}}, subresource="status")

    async def start(self) -> None:
        """Start everything and wait until nodes are registered and the scheduler is ready."""
        await self.prepare()
        asyncio.get_running_loop().set_exception_handler(self._on_bug)
        if self.options.nodes:
            self.nodes = (
                HollowNodes(
                    self.cluster_as(_component("node")),
                    self.informers,
                    self.clock,
                    child(self._random),
                    nodes=named_offers(self.options.nodes),
                    max_lease_rate=self.options.max_lease_rate,
                    cpu=self._cpu,
                ),
            )
        if self._cpu is not None:
            self._run("nodes' CPU", self._cpu.run())
        for nodes in self.nodes:
            self._run("hollow nodes", nodes.run())
            await self.guard(nodes.registered.wait())  # so that the scheduler lists all nodes, ordered by name
        rest = self.clock.rest if isinstance(self.clock, RestingClock) else None
        if self.options.controllers:
            self.controllers = ControllerManager(
                self.cluster_as(_component("controllers")),
                self.informers,
                self.clock,
                child(self._random),
                enabled=self.options.controllers,
                settings=ControllerSettings(coalescing_seconds=0.0) if rest is not None else None,
            )
        if self.options.scheduler:
            self.scheduler = Scheduler(
                self.cluster_as(_component("scheduler")),
                self.informers,
                self.clock,
                self._for_scheduler,
                config=self.options.scheduler_config,
                options=SchedulerOptions(
                    period_seconds=self.options.scheduler_period_seconds,
                    shard_mode=self.options.shard_mode,
                    journal=self.options.journal,
                    rest=rest,
                ),
            )
            self._run("scheduler", self.scheduler.run())
        if self.controllers is not None:
            self._run("controllers", self.controllers.run())
        if self.scheduler is not None:
            await self.guard(self.scheduler.ready.wait())
        await self.guard(self.informers.wait_synced())

    def run_beside(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine as a part of the cluster: `guard` and `check` raise when it ends, `stop` cancels it."""
        self._run(name, work)

    async def guard(self, work: Coroutine[Any, Any, T] | Awaitable[T]) -> T:
        """Wait for ``work``, unless a part of the cluster fails first.

        Raises:
            ComponentEnded: A part ended.
            InvariantError: A part's handler failed.
        """
        working = asyncio.ensure_future(work)
        try:
            await asyncio.wait({working, *self._tasks}, return_when=asyncio.FIRST_COMPLETED)
            self.check()
            return await working
        finally:
            working.cancel()

    def check(self) -> None:
        """Raise if a part of the cluster has ended or one of its handlers has failed.

        Raises:
            ComponentEnded: A part ended.
            InvariantError: A part's handler failed.
        """
        if self._bugs:
            raise InvariantError(f"a part of the cluster failed: {self._bugs[0]!r}") from self._bugs[0]
        for task, name in self._tasks.items():
            if task.done() and not task.cancelled():
                error = task.exception()
                raise ComponentEnded(f"the {name} ended: {error!r}") from error

    async def stop(self) -> None:
        """Stop all parts in the reverse order of their start, so nodes last.

        Raises:
            InvariantError: A handler had failed.
        """
        for task in reversed(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        await self.informers.stop()
        await self.admin.close()
        asyncio.get_running_loop().set_exception_handler(None)
        self._tasks.clear()
        self.check()

    def _run(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        self._tasks[asyncio.get_running_loop().create_task(work, name=name)] = name

    def _on_bug(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        self._bugs.append(error if error is not None else InvariantError(str(context.get("message"))))
        loop.default_exception_handler(context)


def _component(name: str) -> User:
    return User(f"strato:{name}", ("system:masters", "system:authenticated"))


class OrderedUids(Random):
    """Makes uids that rise with each object: where the scheduler breaks ties by uid, the older object comes first."""

    def __init__(self) -> None:
        super().__init__(0)
        self._made = 0

    def getrandbits(self, k: int, /) -> int:
        """Return the next number in the highest 32 bits if a uid of 128 bits is asked for, else random bits."""
        if k != _UID_BITS:
            return super().getrandbits(k)
        self._made += 1
        return self._made << _UID_BITS - 32


def named_offers(shapes: Sequence[NodeShape]) -> dict[str, HollowOffer]:
    """Return what nodes offer, by node name: the name of a shape of one node, if it has one, else ``node-3``.

    Names of the second shape's nodes have a ``b``, like ``node-b-3``, those of the third a ``c``.
    """
    found: dict[str, HollowOffer] = {}
    for number, shape in enumerate(shapes):
        prefix = "node" if number == 0 else f"node-{_letter(number)}"
        names = [shape.name] if shape.name and shape.count == 1 else [f"{prefix}-{i}" for i in range(shape.count)]
        found |= offers(names, [shape])
    return found


def _letter(number: int) -> str:
    return chr(ord("a") + number) if number < 26 else str(number)
