"""The laptop world: API server, controllers, scheduler and nodes together in one process (a composition root)."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import socket
from collections.abc import Awaitable
from dataclasses import dataclass
from pathlib import Path

from strato.cli.apiserver import open_api
from strato.cli.home import Home
from strato.cli.serving import configure_logging, make_random, run_loop, run_together, stop_on_signals
from strato.client.informer import Informers
from strato.clock import SystemClock
from strato.controllers import EMBEDDED, ControllerManager
from strato.metrics import Registry
from strato.server.auth import bootstrap

SCHEDULERS = ("volcano", "default-scheduler", "poseidon")


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
    # Most objects of a large cluster live long; fewer full collections cost less than the garbage they would find.
    gc.set_threshold(50_000, 20, 50)
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
    client, server = api.client, api.server

    # One set of informers serves all parts of this process: an event is decoded once.
    informers = Informers(client(bootstrap.ADMIN), clock, random)
    parts: list[tuple[str, Awaitable[object]]] = []
    manager = ControllerManager(
        client(bootstrap.CONTROLLERS), informers, clock, random, enabled=EMBEDDED, metrics=metrics
    )
    parts.append(("controllers", manager.run()))
    ready: list[Awaitable[object]] = []
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
        )
        parts.append(("hollow nodes", hollow.run()))
        ready.append(hollow.registered.wait())
    if options.sandbox:
        from strato.node.sandbox.node import SandboxNode

        node = SandboxNode(
            client(bootstrap.NODE),
            clock,
            random,
            name=socket.gethostname().lower(),
            data_dir=home.node,
            informers=informers,
            cpus=options.sandbox_cpus,
            memory=options.sandbox_memory,
            strict_images=options.strict_images,
        )
        server.use_logs(node.logs)
        parts.append(("sandbox node", node.run()))
        ready.append(node.registered.wait())
    from strato.scheduler import Scheduler
    from strato.scheduler.cache.audit import AUDIT_SECONDS

    scheduler = Scheduler(
        client(bootstrap.SCHEDULER),
        informers,
        clock,
        random,
        config=options.scheduler_config,
        names=SCHEDULERS,
        metrics=metrics,
        audit_seconds=AUDIT_SECONDS,
    )
    parts.append(("scheduler", scheduler.run()))
    parts.append(("announcement", _announce(home, api.address, ready)))
    stop = asyncio.Event()
    try:
        with stop_on_signals(stop):
            await run_together(parts, stop)
    finally:
        await informers.stop()
        await api.close()


async def _announce(home: Home, address: str, ready: list[Awaitable[object]]) -> None:
    """Write the ready file once every node is there, then wait for ever."""
    await asyncio.gather(*ready)
    gc.collect()
    gc.freeze()
    temporary = home.ready_file.with_suffix(".new")
    temporary.write_text(json.dumps({"address": address, "pid": os.getpid()}))
    temporary.replace(home.ready_file)
    await asyncio.Event().wait()
