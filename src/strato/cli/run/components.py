"""``strato run scheduler|controllers|node``: one component as a process of its own."""

from __future__ import annotations

import click

from strato.cli.connect import connect
from strato.cli.goflags import GoCommand
from strato.cli.monitoring import TlsFiles
from strato.cli.run import controlling, scheduling
from strato.cli.run.common import Common, component_options, serve
from strato.cli.run.controlling import ControllerFlags, controller_options, controllers_member
from strato.cli.run.scheduling import SchedulerFlags, scheduler_member, scheduler_options
from strato.cli.run.tls import tls_options
from strato.cli.serving import make_random, run_loop
from strato.client.informer import Informers
from strato.clock import SystemClock
from strato.metrics import Registry

names_option = click.option("--scheduler-name", "names", multiple=True, help="Value of schedulerName; may be repeated.")


@click.command(cls=GoCommand)
@component_options(metrics_address=":8080")
@tls_options
@scheduler_options
@names_option
@click.pass_context
def scheduler(
    ctx: click.Context, common: Common, tls: TlsFiles | None, scheduler: SchedulerFlags, names: tuple[str, ...]
) -> None:
    """Run the scheduler of pods with schedulerName volcano (and poseidon, placed by minimum-cost flow).

    Several work side by side, each on its share of pods and nodes, when MULTI_SCHEDULER_ENABLE is true: SCHEDULER_NUM
    says how many, SCHEDULER_POD_NAME (BASE-ORDINAL) which one this is.
    """

    async def main() -> None:
        clock, random, metrics = SystemClock(), make_random(), Registry()
        cluster = connect(ctx, retries_overload=False)
        informers = Informers(cluster, clock, random)
        chosen = names or scheduling.DEFAULT_NAMES
        member = scheduler_member(cluster, informers, clock, random, metrics, scheduler, chosen)
        await serve(cluster, random, common, [member], metrics, tls=tls, informers=informers)

    run_loop(main)


@click.command(cls=GoCommand)
@component_options(metrics_address=":8081")
@tls_options
@controller_options
@names_option
@click.pass_context
def controllers(
    ctx: click.Context, common: Common, tls: TlsFiles | None, controllers: ControllerFlags, names: tuple[str, ...]
) -> None:
    """Run the controllers of Volcano's kinds; pods with schedulerName volcano get pod groups."""

    async def main() -> None:
        clock, random, metrics = SystemClock(), make_random(), Registry()
        cluster = connect(ctx, retries_overload=False)
        informers = Informers(cluster, clock, random, absent=controllers.training.off)
        chosen = names or controlling.DEFAULT_NAMES
        member = controllers_member(cluster, informers, clock, random, common, metrics, controllers, chosen)
        await serve(cluster, random, common, [member], metrics, tls=tls, informers=informers)

    run_loop(main)
