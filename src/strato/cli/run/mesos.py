"""``strato run mesos``: a Mesos master whose agents are the cluster's nodes."""

from __future__ import annotations

import click
import msgspec

from strato.cli.connect import connect, home_of
from strato.cli.goflags import GoCommand
from strato.cli.mesosoptions import MesosOptions, mesos_options
from strato.cli.run.common import Common, RunningComponent, component_options, serve
from strato.cli.serving import make_random, run_loop
from strato.client.informer import Informers
from strato.clock import SystemClock
from strato.metrics import Registry


@click.command(cls=GoCommand)
@component_options(metrics_address=":8084")
@mesos_options
@click.pass_context
def mesos(ctx: click.Context, common: Common, mesos: MesosOptions) -> None:
    """Run a Mesos master: frameworks get offers of this cluster's nodes, and their tasks are pods.

    Its API is Mesos' v1 (scheduler, executor, operator) in JSON and protobuf, and the old JSON pages. Of several
    masters one leads; the others send frameworks to it. What is not carried over is in docs/from-mesos.md.
    """
    mesos.check()
    chosen = msgspec.structs.replace(mesos, pki=str(home_of(ctx).pki))

    async def main() -> None:
        from strato.interop.mesos.cluster.run import MesosMaster

        clock, random, metrics = SystemClock(), make_random(), Registry()
        cluster = connect(ctx)
        informers = Informers(cluster, clock, random)
        master = MesosMaster(
            cluster, informers, clock, random, settings=chosen.settings(), options=chosen.options(),
            lease=common.timing if common.leader_elect else None,
        )  # fmt: skip

        await serve(
            cluster,
            random,
            common,
            [RunningComponent(name="Mesos master", work=master.run)],
            metrics,
            informers=informers,
        )

    run_loop(main)
