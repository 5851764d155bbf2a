"""A cluster of processes: the server on its disk, controllers, schedulers and nodes, each restarted when it dies.

Each process is built as by `strato run` and gets all its state from the API. With `Setting.is_embedded`, as under
``strato up``, all but the server share one process and its informers, are answered before the commit, and die with the
server.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from random import Random
from typing import Any, Final

from strato.api.wire import User
from strato.client.cluster import Cluster
from strato.client.informer import Informers
from strato.client.leases import LeaderElector, LeadershipLost
from strato.client.namespaces import ensure_namespace
from strato.clock import VirtualClock
from strato.controllers.manager import EMBEDDED, ControllerManager
from strato.node.hollow import HollowNodes, HollowOffer
from strato.scheduler.cache.audit import AUDIT_SECONDS
from strato.scheduler.cache.journal import NO_JOURNAL
from strato.scheduler.config import embedded_config, parse_config
from strato.scheduler.framework.options import Config
from strato.scheduler.options import SchedulerOptions
from strato.scheduler.service import Scheduler
from strato.seeding import child
from strato.server.api import ApiServer
from strato.server.embedded import server_over
from strato.testing.chaos.disk import Disk
from strato.testing.chaos.network import Network, ProcessClient
from strato.testing.chaos.plan import Setting, parts_of
from strato.testing.chaos.processes import Process, ProcessLoop
from strato.testing.chaos.recordings import Recordings

LEASE_NAMESPACE: Final = "volcano-system"
_RETRY_SECONDS: Final = 1.0
_LEASE_RATE: Final = 100.0
_IDLE: Final = frozenset(
    {
        "mail-controller",
        "hyperNode-controller",
        "colocation-config-controller",
        "sharding-controller",
        "vpa-recommender",
        "kube-certificates",
    }
)
"""Controllers left out because runs give them no work; starting them costs as much as a second of the others."""
CONTROLLERS: Final = tuple(name for name in EMBEDDED if name not in _IDLE)


class PartClock(VirtualClock):
    """The clock of one machine: its time of day can be set; intervals are the same on all machines."""

    def __init__(self, base: VirtualClock) -> None:
        super().__init__()
        self._base = base
        self.offset_seconds = 0.0

    def now(self) -> float:
        """Return the time of day on this machine."""
        return self._base.now() + self.offset_seconds

    def monotonic(self) -> float:
        """Return virtual seconds since the start."""
        return self._base.monotonic()


class ProcessCluster:
    """A simulated cluster. `start` starts it; processes that end are restarted until `stop`.

    Args:
        seed: Seed of all random numbers of the components.
        folder: An empty folder for the server's disk.
    """

    def __init__(self, loop: ProcessLoop, clock: VirtualClock, seed: int, setting: Setting, folder: Path) -> None:
        self.loop = loop
        self.clock = clock
        self.setting = setting
        self._seed = seed
        self.network = Network(loop, self._random_of("network"))
        self.disk = Disk(folder, clock, self._random_of("disk"))
        self.recordings = Recordings(folder)
        self.server: ApiServer | None = None
        self.running: dict[str, Process] = {}
        """Processes that exist now, including the server's."""
        self.clocks = {part: PartClock(clock) for part in ("server", "users", *parts_of(setting))}
        self._nodes_of: dict[str, tuple[Process, HollowNodes]] = {}
        """Hollow nodes of each group, with the newest process that runs them, which may be dead."""
        self.stopped_nodes: set[str] = set()
        """Names of machines without power, which survive restarts of the process that runs them."""
        self.epoch = 0
        """Number of schedulers that have begun to decide."""
        self.epochs: dict[Process, int] = {}
        self.on_server: Callable[[ApiServer], None] = lambda _: None
        """Called with each new incarnation of the server, before clients can reach it."""
        self.on_crash: Callable[[], None] = lambda: None
        """Called when the server has died, after the disk is in its state after the crash."""
        self.on_end: Callable[[str, BaseException | None], None] = lambda *_: None
        """Called when a component's process ended by itself."""
        self._config = _config_of(setting)
        self._retired: list[str] = []

    def _random_of(self, what: str) -> Random:
        """Return a generator for one process, so that its numbers do not depend on other processes."""
        return Random(f"{self._seed}/{what}")

    def start(self) -> None:
        """Start everything."""
        self.start_server()
        for part in parts_of(self.setting):
            self.start_part(part)

    # The server

    def start_server(self) -> None:
        """Start the next incarnation of the server from the disk."""

        async def main(process: Process) -> None:
            random = self._random_of(str(process))
            store, journal = self.disk.open()
            writing = self.loop.create_task(journal.run())
            self.server = server_over(store, self.clocks["server"], random)
            self.on_server(self.server)
            self.network.server_started(self.server, process)
            await writing

        self.running["server"] = self.loop.start_process("server", main)

    def crash_server(self) -> None:
        """Kill the server, and the processes that die with it."""
        process = self.running.pop("server", None)
        if process is None or self.disk.journal is None:
            return
        self.loop.kill(process)
        self.server = None
        self.disk.crash()
        self.network.server_died()
        self.on_crash()
        if self.setting.is_embedded:
            self.kill("components")

    # The other components

    def start_part(self, part: str) -> None:
        """Start the next incarnation of a component, unless it has been retired."""
        if part in self._retired:
            return
        work = self._work_of(part)

        async def main(process: Process) -> None:
            try:
                await work(process, self._random_of(str(process)))
            except LeadershipLost:
                self.on_end(part, None)
            except Exception as error:
                self.on_end(part, error)
            else:
                self.on_end(part, None)

        self.running[part] = self.loop.start_process(part, main)

    def retire_rivals(self) -> None:
        """Keep one of several schedulers that decide at the same time; kill the others for good."""
        if not self.setting.is_elected:
            for number in range(1, self.setting.schedulers):
                self._retired.append(f"scheduler-{number}")
                self.kill(f"scheduler-{number}")

    def kill(self, part: str) -> None:
        """Kill a component's process, if it runs."""
        process = self.running.pop(part, None)
        if process is not None:
            self.loop.kill(process)

    def stop_node(self, name: str) -> None:
        """Cut a machine's power, even if the process that runs it is dead."""
        self.stopped_nodes.add(name)
        self._on_nodes(name, lambda nodes: nodes.stop_node(name))

    def start_node(self, name: str) -> None:
        """Restore a machine's power."""
        self.stopped_nodes.discard(name)
        self._on_nodes(name, lambda nodes: nodes.start_node(name))

    def _on_nodes(self, name: str, do: Callable[[HollowNodes], None]) -> None:
        """Call a function on a node within its process; do nothing if that is dead, as it must not write any more."""
        process, nodes = self._nodes_of.get(name.rpartition("-")[0], (None, None))
        if process is not None and nodes is not None and process.is_alive:
            process.context.run(do, nodes)

    def line(self, part: str, process: Process, name: str = "") -> ProcessClient:
        """Return an API client of a process."""
        user = User(f"strato:{name or part}", ("system:masters", "system:authenticated"))
        is_embedded = self.setting.is_embedded and part == "components"
        return ProcessClient(self.network, part, process, user, is_embedded=is_embedded)

    def _work_of(self, part: str) -> Callable[[Process, Random], Coroutine[Any, Any, None]]:
        if part == "components":
            return self._components
        if part == "controllers":
            return self._controllers
        if part.startswith("scheduler"):
            return self._scheduler
        return self._nodes

    async def _components(self, process: Process, random: Random) -> None:
        line, clock = self.line("components", process), self.clocks["components"]
        informers = Informers(line, clock, child(random))
        manager = ControllerManager(line, informers, clock, child(random), enabled=CONTROLLERS)
        nodes = [self._hollow(group, process, line, informers, random) for group in self.setting.nodes]
        scheduler = self._new_scheduler(process, line, informers, random)
        async with asyncio.TaskGroup() as group:
            group.create_task(manager.run())
            for one in nodes:
                group.create_task(one.run())
            group.create_task(self._decide(process, scheduler))

    async def _controllers(self, process: Process, random: Random) -> None:
        line, clock = self.line("controllers", process), self.clocks["controllers"]
        informers = Informers(line, clock, child(random))
        manager = ControllerManager(line, informers, clock, child(random), enabled=CONTROLLERS)
        await self._lead(line, "vc-controller-manager", process, random, manager.run)

    async def _scheduler(self, process: Process, random: Random) -> None:
        part = process.name
        line, clock = self.line(part, process), self.clocks[part]
        informers = Informers(line, clock, child(random))
        scheduler = self._new_scheduler(process, line, informers, random)
        if self.setting.schedulers == 1 or not self.setting.is_elected:
            await self._decide(process, scheduler)
        else:
            await self._lead(line, "volcano", process, random, lambda: self._decide(process, scheduler))

    async def _nodes(self, process: Process, random: Random) -> None:
        part = process.name
        await self._hollow(part, process, self.line(part, process), None, random).run()

    def _hollow(
        self, group: str, process: Process, line: Cluster, informers: Informers | None, random: Random
    ) -> HollowNodes:
        clock = self.clocks[process.name]
        offer = HollowOffer(capacity={"cpu": str(self.setting.node_cpus), "memory": "32Gi", "pods": "20"})
        names = [f"{group}-{number}" for number in range(self.setting.nodes[group])]
        nodes = HollowNodes(
            line, informers, clock, child(random), nodes=dict.fromkeys(names, offer), max_lease_rate=_LEASE_RATE
        )
        for name in names:
            if name in self.stopped_nodes:
                nodes.stop_node(name)
        self._nodes_of[group] = process, nodes
        return nodes

    def _new_scheduler(self, process: Process, line: Cluster, informers: Informers, random: Random) -> Scheduler:
        clock = self.clocks[process.name]
        audit_seconds = AUDIT_SECONDS if self.setting.is_audited else 0.0
        journal = self.recordings.begin(str(process), clock) if self.setting.is_recorded else NO_JOURNAL
        options = SchedulerOptions(audit_seconds=audit_seconds, journal=journal)
        return Scheduler(line, informers, clock, child(random), config=self._config, options=options)

    async def _decide(self, process: Process, scheduler: Scheduler) -> None:
        self.epoch += 1
        self.epochs[process] = self.epoch
        await scheduler.run()

    async def _lead(
        self,
        line: ProcessClient,
        lease: str,
        process: Process,
        random: Random,
        work: Callable[[], Coroutine[Any, Any, None]],
    ) -> None:
        clock = self.clocks[process.name]
        await ensure_namespace(line, clock, LEASE_NAMESPACE, _RETRY_SECONDS)
        elector = LeaderElector(
            line, clock, child(random), name=lease, namespace=LEASE_NAMESPACE, identity=str(process)
        )
        await elector.run(work)


def _config_of(setting: Setting) -> Config:
    return parse_config(setting.config, "scheduler configuration") if setting.config else embedded_config()
