"""``strato run apiserver``: the embedded Kubernetes API by itself; components connect with its kubeconfigs."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click

from strato.cli.auditing import AuditOptions, audit_options
from strato.cli.connect import home_of
from strato.cli.goflags import GoCommand
from strato.cli.home import node_names
from strato.cli.homelock import Interruption
from strato.cli.inputs import FOLDER
from strato.cli.serving import configure_logging, make_random, run_loop, stop_on_signals
from strato.cli.storage import StorageOptions, storage_options
from strato.cli.training import kinds_option
from strato.clock import SystemClock
from strato.metrics import Registry


@click.command(cls=GoCommand)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", default=6443, show_default=True, type=click.IntRange(0, 65535), help="0 picks a free one.")
@click.option(
    "--data-dir",
    default=None,
    type=FOLDER,
    help="The journal, instead of HOME/data.",
)
@click.option("--in-memory", is_flag=True, help="Keep nothing on disk.")
@storage_options
@audit_options
@kinds_option
@click.option("-v", "--v", "level", type=int, default=3, metavar="LEVEL", help="5 and more logs details.")
@click.option("--verbose", is_flag=True, help="Log details.")
@click.pass_context
def apiserver(
    ctx: click.Context,
    host: str,
    port: int,
    data_dir: Path | None,
    in_memory: bool,
    storage: StorageOptions,
    audit: AuditOptions,
    kinds: str,
    level: int,
    verbose: bool,
) -> None:
    """Run the embedded Kubernetes API alone, with admission in it.

    HOME/kubeconfig is the administrator's; kubeconfig.scheduler, .controllers, .webhook and .hollow-nodes are the
    components', kubeconfig.node is that of this machine as a node.
    It serves /healthz and /metrics itself and needs no lease: one process owns the journal.
    """
    home = home_of(ctx)
    interruption = Interruption()
    configure_logging(verbose or level >= 5)

    async def main() -> None:
        from strato.api.trainingkinds import kinds_off
        from strato.cli.apiserver import open_api
        from strato.cli.embedded.serve import reach_pods

        random, clock = make_random(), SystemClock()
        data = None if in_memory else data_dir or home.data
        api = await open_api(
            home,
            clock,
            random,
            Registry(),
            host=host,
            port=port,
            data_dir=data,
            storage=storage,
            audit=audit,
            off=kinds_off(kinds),
        )
        reach_pods(api.server, home, node_names(1), clock)  # of a node of the same home, which 'run node --sandbox' is
        try:
            home.write_ready({"address": api.address})
            stop = asyncio.Event()
            with stop_on_signals(stop, interruption):
                await stop.wait()
        finally:
            await api.close()

    with home.held("run apiserver"):
        home.clear_run_files()
        try:
            home.write_pid()
            run_loop(main)
        finally:
            home.clear_run_files()
