"""``strato run all``: scheduler, controllers and webhook in one process, for clusters that need no more."""

from __future__ import annotations

from dataclasses import replace

import click

from strato.cli.connect import connect
from strato.cli.goflags import GoCommand
from strato.cli.run import controlling, scheduling
from strato.cli.run.common import Common, component_options, serve
from strato.cli.run.components import names_option
from strato.cli.run.controlling import ControllerFlags, controller_options, controllers_member
from strato.cli.run.scheduling import SchedulerFlags, scheduler_member, scheduler_options
from strato.cli.run.webhook import WebhookFlags, webhook_member, webhook_options
from strato.cli.serving import make_random, run_loop
from strato.client.informer import Informers
from strato.clock import SystemClock
from strato.metrics import Registry


@click.command(cls=GoCommand)
@component_options(metrics_address=":8080")
@webhook_options
@scheduler_options
@controller_options
@names_option
@click.pass_context
def run_all(
    ctx: click.Context,
    common: Common,
    webhook: WebhookFlags,
    scheduler: SchedulerFlags,
    controllers: ControllerFlags,
    names: tuple[str, ...],
) -> None:
    """Run scheduler, controllers and webhook in one process.

    Of several such processes one leads as scheduler and one as controllers, each by its own lease; all answer reviews.
    """

    async def main() -> None:
        clock, random, metrics = SystemClock(), make_random(), Registry()
        cluster = connect(ctx, retries_overload=False)
        # shared by all three, so that an event is decoded once
        informers = Informers(cluster, clock, random, absent=controllers.training.off)
        placed, grouped = names or scheduling.DEFAULT_NAMES, names or controlling.DEFAULT_NAMES
        members = [
            scheduler_member(cluster, informers, clock, random, metrics, scheduler, placed),
            controllers_member(cluster, informers, clock, random, common, metrics, controllers, grouped),
            webhook_member(cluster, clock, common, metrics, webhook, grouped, controllers.training.off),
        ]
        # scheduler and controllers each take a lease: one name cannot serve for both
        await serve(cluster, random, replace(common, lease_name=""), members, metrics, informers=informers)

    run_loop(main)
