"""The laptop world: API server, controllers, scheduler and nodes together in one process (a composition root)."""

from __future__ import annotations

import asyncio
import dataclasses
import gc
import json
import logging
import os
import socket
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from strato.cli.apiserver import Api, open_api
from strato.cli.home import Home
from strato.cli.serving import configure_logging, make_random, run_loop, run_together, stop_on_signals
from strato.client.cluster import Cluster
from strato.client.informer import Informers
from strato.clock import Clock, SystemClock
from strato.controllers import EMBEDDED, ControllerManager
from strato.metrics import Registry
from strato.server.auth import bootstrap

if TYPE_CHECKING:
    from strato.node.sandbox.node import SandboxNode
    from strato.scheduler import Scheduler
    from strato.server.journal import SqliteJournal

SCHEDULERS = ("volcano", "default-scheduler", "poseidon")
OURS = "strato.dev/started-by-up"
"""Label of the nodes that come and go with this process."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddedOptions:
    """What ``strato up`` starts."""

    home: Home
    hollow_nodes: int
    """How many nodes that only pretend."""
    hollow_cpu: str
    hollow_memory: str
    """Quantities, of each hollow node."""
    sandbox: bool
    """Whether this machine is a node."""
    sandbox_cpus: str
    sandbox_memory: str
    """Quantities; empty is what the machine has."""
    strict_images: bool
    pod_network: str
    """``nat``, ``isolated`` or ``host``; see ``strato up --help``."""
    host: str
    port: int
    """0 picks a free one."""
    data_dir: Path
    in_memory: bool
    scheduler_config: Path | None


def run_embedded(options: EmbeddedOptions) -> None:
    """Serve until a signal."""
    configure_logging()
    options.home.path.mkdir(parents=True, exist_ok=True, mode=0o700)
    run_loop(lambda: _main(options))


async def _main(options: EmbeddedOptions) -> None:
    home, clock, random, metrics = options.home, SystemClock(), make_random(), Registry()
    api = await open_api(
        home,
        clock,
        random,
        metrics,
        host=options.host,
        port=options.port,
        data_dir=None if options.in_memory else options.data_dir,
    )
    # One set of informers serves all parts of this process: an event is decoded once.
    informers = Informers(api.client(bootstrap.ADMIN), clock, random)
    stop = asyncio.Event()
    try:
        parts = _parts(options, api, informers, clock, random, metrics)
        with stop_on_signals(stop):
            await run_together([(name, run()) for name, run in parts], stop)
    finally:
        await informers.stop()
        await api.close()


Part = tuple[str, Callable[[], Awaitable[object]]]


def _parts(
    options: EmbeddedOptions, api: Api, informers: Informers, clock: Clock, random: Random, metrics: Registry
) -> list[Part]:
    """Build everything that runs beside the server; nothing starts yet.

    Raises:
        StratoError: The scheduler's configuration cannot be used.
    """
    client = api.client
    from strato.scheduler import Scheduler
    from strato.scheduler.cache.audit import AUDIT_SECONDS
    from strato.scheduler.flow.loading import load

    scheduler = Scheduler(
        client(bootstrap.SCHEDULER),
        informers,
        clock,
        random,
        config=options.scheduler_config,
        names=SCHEDULERS,
        metrics=metrics,
        audit_seconds=AUDIT_SECONDS,
        load_flow=partial(asyncio.to_thread, load),
    )
    manager = ControllerManager(
        client(bootstrap.CONTROLLERS), informers, clock, random, enabled=EMBEDDED, metrics=metrics
    )
    parts: list[Part] = [("controllers", manager.run)]
    ready: list[asyncio.Event] = []
    names: list[str] = []
    if options.hollow_nodes:
        from strato.node.hollow import HollowNodes

        hollow = HollowNodes(
            client(bootstrap.NODE),
            informers,
            clock,
            random,
            count=options.hollow_nodes,
            cpu=options.hollow_cpu,
            memory=options.hollow_memory,
            labels={OURS: ""},
        )
        names.extend(hollow.names)
        parts.append(("hollow nodes", hollow.run))
        ready.append(hollow.registered)
    node = _sandbox_node(options, api, informers, clock, random) if options.sandbox else None
    if node is not None:
        names.append(node.name)
        parts.append(("sandbox node", node.run))
        ready.append(node.registered)
    parts.append(("scheduler", partial(_schedule, scheduler, client(bootstrap.ADMIN), names)))
    ready.append(scheduler.ready)
    announced = asyncio.Event()
    parts.append(("announcement", partial(_announce, options.home, api.address, ready, node, announced)))
    if api.journal is not None:
        parts.append(("journal", partial(end_a_start_that_cannot_write, api.journal, announced)))
    return parts


def _sandbox_node(
    options: EmbeddedOptions, api: Api, informers: Informers, clock: Clock, random: Random
) -> SandboxNode:
    from strato.node.sandbox.node import SandboxNode

    node = SandboxNode(
        api.client(bootstrap.NODE),
        clock,
        random,
        name=socket.gethostname().lower(),
        data_dir=options.home.node,
        informers=informers,
        cpus=options.sandbox_cpus,
        memory=options.sandbox_memory,
        strict_images=options.strict_images,
        own_network=options.pod_network != "host",
        way_out=options.pod_network == "nat",
        labels={OURS: ""},
    )
    api.server.use_logs(node.logs)
    return node


async def _schedule(scheduler: Scheduler, cluster: Cluster, nodes: Collection[str]) -> None:
    """Load the kernels beside what the other parts wait for (disks, processes), then schedule on these nodes."""
    from strato.node.registration import forget_nodes
    from strato.scheduler.placement import warm_up

    await asyncio.to_thread(warm_up)
    gone = await forget_nodes(cluster, OURS, nodes)
    if gone:
        _log.info("nodes of a former start are forgotten: count=%d first=%s", len(gone), gone[0])
    await scheduler.run()


async def end_a_start_that_cannot_write(journal: SqliteJournal, announced: asyncio.Event) -> None:
    """Fail at once when the disk fills during the start. A cluster that already serves can still be read."""
    await journal.failed.wait()
    if journal.failure is not None and not announced.is_set():
        raise journal.failure
    await asyncio.Event().wait()


async def _announce(
    home: Home, address: str, ready: Sequence[asyncio.Event], node: SandboxNode | None, announced: asyncio.Event
) -> None:
    """Write the ready file once every node is there and the scheduler decides, then wait for ever."""
    for event in ready:
        await event.wait()
    here = dataclasses.asdict(node.summary()) if node is not None else None
    temporary = home.ready_file.with_suffix(".new")
    temporary.write_text(json.dumps({"address": address, "pid": os.getpid(), "node": here}))
    temporary.replace(home.ready_file)
    announced.set()
    # What was loaded stays for good and need not be looked through again. Nor now: a tenth of a second in which nobody
    # is answered would find a few dozen objects.
    gc.freeze()
    await asyncio.Event().wait()
