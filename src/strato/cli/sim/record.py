"""``strato sim record``: follow a cluster and record in a log the state that its scheduler must have observed."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from strato.cli.connect import with_cluster
from strato.cli.inputs import INPUT_FILE
from strato.cli.quantities import BYTES
from strato.cli.recordoptions import KEY_VARIABLE, LogFile, anonymiser, check_keep

if TYPE_CHECKING:
    from strato.client.http import HttpCluster
    from strato.sim.recording.follow import Follower
    from strato.sim.recording.recorder import LogRecorder


@click.command()
@click.option(
    "-o",
    "--output",
    "log",
    type=LogFile(),
    required=True,
    metavar="LOG",
    help="The log; where files of it are, a new one is added.",
)
@click.option("--config", type=INPUT_FILE, default=None, help="The scheduler's configuration, if the cluster hides it.")
@click.option(
    "--scheduler-name",
    "names",
    multiple=True,
    help="Of pods whose decisions count; repeat it.  [default: volcano, poseidon, default-scheduler]",
)
@click.option(
    "--anonymise", is_flag=True, help=f"Hash names, by the secret in {KEY_VARIABLE} or one that is forgotten."
)
@click.option("--file-size", type=BYTES, default="256Mi", show_default=True, help="Then it goes on in LOG.1 …")
@click.option("--keep", type=click.IntRange(0), default=0, metavar="N", help="Keep the N newest files.  [default: all]")
@click.option("--for", "seconds", type=click.FloatRange(0), default=None, metavar="SECONDS", help="End after so long.")
@click.pass_context
def record(
    ctx: click.Context,
    log: Path,
    config: Path | None,
    names: tuple[str, ...],
    anonymise: bool,
    file_size: int,
    keep: int,
    seconds: float | None,
) -> None:
    """Follow a cluster until interrupted, and write objects, changes and decisions into a log.

    Only reads. A scheduler of strato's own writes a log by which every decision can be repeated: 'run scheduler
    --record LOG', 'up --record LOG'.
    """
    from strato.cli.states import config_text
    from strato.scheduler.cache.accounts import FLOW_SCHEDULER

    check_keep(keep, "--keep")
    served = names or ("volcano", FLOW_SCHEDULER, "default-scheduler")
    task = _Recording(log, config_text(config), served, anonymise, file_size, keep, seconds)
    follower = with_cluster(ctx, task.run)
    click.echo(f"{follower.changes} changes, {follower.decisions} binds and evictions seen", err=True)


@dataclass(frozen=True, slots=True)
class _Recording:
    """One call of the command."""

    log: Path
    config: str | None
    names: tuple[str, ...]
    anonymise: bool
    file_size: int
    keep: int
    seconds: float | None

    async def run(self, cluster: HttpCluster) -> Follower:
        """Follow until interrupted, or for the given seconds."""
        from strato.cli.serving import make_random
        from strato.cli.states import served_config
        from strato.client.informer import Informers
        from strato.clock import SystemClock
        from strato.sim.recording.entries import CLUSTER
        from strato.sim.recording.follow import Follower
        from strato.sim.recording.recorder import LogRecorder
        from strato.sim.recording.segments import LogFiles

        clock = SystemClock()
        config = self.config if self.config is not None else await served_config(cluster)
        files = LogFiles(self.log, file_bytes=self.file_size, keep=self.keep)
        hiding = anonymiser() if self.anonymise else None
        recorder = LogRecorder(files, clock, hiding=hiding, origin=CLUSTER)
        informers = Informers(cluster, clock, make_random())
        follower = Follower(cluster, informers, clock, recorder, self.names, config or "")
        try:
            await self._follow(follower, recorder)
        finally:
            recorder.close()
            await informers.stop()
        return follower

    async def _follow(self, follower: Follower, recorder: LogRecorder) -> None:
        from strato.cli.serving import stop_on_signals
        from strato.errors import StateError

        stop = asyncio.Event()
        following = asyncio.ensure_future(follower.run(lambda: click.echo(f"recording into {self.log}", err=True)))
        stopping = asyncio.ensure_future(stop.wait())
        with stop_on_signals(stop):
            done, _ = await asyncio.wait(
                {following, stopping}, timeout=self.seconds, return_when=asyncio.FIRST_COMPLETED
            )
        for task in (following, stopping):
            task.cancel()
        await asyncio.gather(following, stopping, return_exceptions=True)
        if following in done:
            following.result()
        if recorder.failure:
            raise StateError(f"{self.log}: recording ended: {recorder.failure}")
