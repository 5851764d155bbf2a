"""``strato run all``: scheduler, controllers and webhook in one process, for clusters that need no more."""

from __future__ import annotations

from pathlib import Path

import click

from strato.cli.connect import connect
from strato.cli.run.common import (
    DURATION,
    Common,
    Member,
    component_options,
    ensure_namespace,
    serve,
)
from strato.cli.run.components import controllers_member, scheduler_lease
from strato.cli.run.webhook import WebhookFlags, build_webhook, webhook_options
from strato.cli.serving import make_random, run_loop
from strato.client.informer import Informers
from strato.clock import SystemClock
from strato.metrics import Registry


@click.command()
@component_options
@webhook_options
@click.option("--scheduler-name", "names", multiple=True, default=("volcano",), show_default=True)
@click.option("--scheduler-conf", type=click.Path(path_type=Path), default=None, help="Configuration file.")
@click.option("--schedule-period", type=DURATION, default="1s", show_default=True, help="Longest time between cycles.")
@click.option("--default-queue", default="default", show_default=True)
@click.option("--controllers", default="*", show_default=True, help="Names to run, * for all, -name to leave out.")
@click.pass_context
def run_all(
    ctx: click.Context,
    common: Common,
    flags: WebhookFlags,
    names: tuple[str, ...],
    scheduler_conf: Path | None,
    schedule_period: float,
    default_queue: str,
    controllers: str,
) -> None:
    """Run scheduler, controllers and webhook in one process.

    Of several such processes one leads as scheduler and one as controllers, each by its own lease; all answer reviews.
    """

    async def main() -> None:
        from strato.scheduler import Scheduler
        from strato.scheduler.cache.audit import AUDIT_SECONDS
        from strato.scheduler.placement import warm_up

        clock, random, metrics = SystemClock(), make_random(), Registry()
        cluster = connect(ctx)
        # one set of informers: an event is decoded once
        informers = Informers(cluster, clock, random)
        scheduler = Scheduler(
            cluster,
            informers,
            clock,
            random,
            config=scheduler_conf,
            names=names,
            period_seconds=schedule_period,
            default_queue=default_queue,
            metrics=metrics,
            audit_seconds=AUDIT_SECONDS,
        )
        webhook = build_webhook(cluster, clock, metrics, flags, names)

        async def admit() -> None:
            await ensure_namespace(cluster, clock, flags.namespace, common.timing.retry_seconds)
            await webhook.run()

        members = [
            Member(name="scheduler", work=scheduler.run, lease=scheduler_lease(names), prepare=warm_up),
            controllers_member(cluster, informers, clock, random, common, metrics, controllers, names),
            Member(name="webhook", work=admit),
        ]
        await serve(cluster, random, common, members, metrics)

    run_loop(main)
