"""The API server's process of the embedded cluster: it opens the server, announces the cluster and ends it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from strato.api import catalog
from strato.cli.apiserver import Api, open_api
from strato.cli.embedded.background import print_ready
from strato.cli.embedded.options import EmbeddedOptions, Ending, Part
from strato.cli.home import Home, Stop, node_names
from strato.cli.homelock import STOPPING, HomeLock, Interruption
from strato.cli.logrotation import keep_short
from strato.cli.serving import collect_hardly, make_random, run_together, settle, stop_on_signals
from strato.clock import Clock, SystemClock
from strato.metrics import Registry
from strato.server import bootstrap
from strato.server.opening import Opening

if TYPE_CHECKING:
    from strato.cli.embedded.companion import Companion
    from strato.cli.embedded.components import Components
    from strato.server.api import ApiServer
    from strato.server.journal import SqliteJournal

Ready = Callable[[], Awaitable[dict[str, Any] | None]]
"""Returns once the cluster schedules, with the summary of this machine's node."""


async def serve(
    options: EmbeddedOptions,
    companion: Companion | None,
    lock: HomeLock,
    interruption: Interruption,
    *,
    background: bool,
) -> int:
    """Serve until a signal, with the components in this process or in the companion.

    Args:
        options: The cluster's options.
        companion: The process of the components; None runs them here.
        lock: The home's lock; when the cluster stops that is noted in its file.
        interruption: Holds the signal that ended the cluster, if one did.
        background: Whether the process that started this one prints the address and follows the log.

    Returns:
        How many pods ended.

    Raises:
        StratoError: The address or the files cannot be used, or a component ended by itself.
    """
    collect_hardly()
    stop = asyncio.Event()
    with stop_on_signals(stop, interruption):
        return await _serve(options, companion, lock, interruption, stop, background=background)


async def _serve(
    options: EmbeddedOptions,
    companion: Companion | None,
    lock: HomeLock,
    interruption: Interruption,
    stop: asyncio.Event,
    *,
    background: bool,
) -> int:
    home, clock, random, metrics = options.home, SystemClock(), make_random(), Registry()
    # with an audit policy, no request may be answered before the server that records requests has opened
    opening = Opening(None if options.audit.policy_file else catalog.POD, bootstrap.ADMIN)
    if companion is not None:
        await companion.attach(opening)
    try:
        api = await open_api(
            home,
            clock,
            random,
            metrics,
            host=options.host,
            port=options.port,
            data_dir=None if options.in_memory else Path(options.data_dir),
            storage=options.storage,
            audit=options.audit,
            off=options.training.off,
            other_metrics=companion.metrics if companion is not None else None,
            opening=opening if companion is not None else None,
        )
    except BaseException:
        opening.close()
        if companion is not None:
            await companion.hang_up()
        raise
    opening.open(api.handler)

    def ending() -> Stop | None:
        if not interruption.signal:
            return None
        lock.note(STOPPING)
        return home.read_stop()

    components: Components | None = None
    announced = asyncio.Event()
    members: list[Part] = []
    try:
        if options.sandbox:
            reach_pods(api.server, home, node_names(options.sandbox_nodes), clock)
        if companion is not None:
            companion.ending = ending
            members.append(("components", partial(companion.run, api.handler, clock)))
            ready: Ready = companion.ready
        else:
            components = _components(options, api, clock, random, metrics, ending)
            members.extend(components.members)
            ready = components.ready
        members.append(("announcement", partial(_announce, home, api.address, ready, announced, background=background)))
        if background:
            members.append(("log", partial(keep_short, home.log, clock)))
        if api.journal is not None:
            members.append(("journal", partial(end_a_start_that_cannot_write, api.journal, announced)))
        await run_together([(name, run()) for name, run in members], stop)
    finally:
        if components is not None:
            await components.informers.stop()
        await api.close()
    return companion.ended if companion is not None else components.ended() if components is not None else 0


def _components(
    options: EmbeddedOptions, api: Api, clock: Clock, random: Random, metrics: Registry, ending: Ending
) -> Components:
    from strato.cli.embedded.components import build  # imported here: with a companion only that process loads it

    return build(options, api.client, clock, random, metrics, ending)


def reach_pods(server: ApiServer, home: Home, nodes: Sequence[str], clock: Clock) -> None:
    """Serve logs, streams and usage of this machine's pods from the node's files, whichever process runs the node."""
    from strato.node.sandbox.logs import DiskLogs
    from strato.node.sandbox.paths import NodePaths
    from strato.node.sandbox.streams import NodeStreams
    from strato.node.sandbox.usage import MachineUsage

    server.use_logs(DiskLogs(NodePaths(str(home.node)), clock))
    server.use_streams(NodeStreams(NodePaths(str(home.node)), clock))
    server.use_metrics(MachineUsage(NodePaths(str(home.node)), nodes, clock))


async def end_a_start_that_cannot_write(journal: SqliteJournal, announced: asyncio.Event) -> None:
    """Raise the journal's failure if it comes during the start. Later the cluster goes on, to serve reads."""
    await journal.failed.wait()
    if journal.failure is not None and not announced.is_set():
        raise journal.failure
    await asyncio.Event().wait()


async def _announce(home: Home, address: str, ready: Ready, announced: asyncio.Event, *, background: bool) -> None:
    """Write the ready file once the cluster schedules, print the address unless in the background, wait for ever."""
    node = await ready()
    home.write_ready({"address": address, "node": node})
    announced.set()
    if not background:
        print_ready(home, home.ready())
    settle()
    await asyncio.Event().wait()
