"""``strato run scheduler|controllers|node``: one component as a process of its own."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from random import Random

import click

from strato.cli.connect import connect
from strato.cli.run.common import DURATION, Common, Member, component_options, controller_settings, serve
from strato.cli.serving import make_random, run_loop
from strato.client.cluster import Cluster
from strato.client.informer import Informers
from strato.clock import Clock, SystemClock
from strato.metrics import Registry

_CONTROLLERS_LEASE = "vc-controller-manager"


def scheduler_lease(names: Sequence[str]) -> str:
    """Return the name of the lease for which schedulers of these names compete."""
    return names[0] if len(names) == 1 else "volcano"


def controllers_member(
    cluster: Cluster,
    informers: Informers,
    clock: Clock,
    random: Random,
    common: Common,
    metrics: Registry,
    chosen: str,
    scheduler_names: tuple[str, ...],
) -> Member:
    """Return the controllers as a part of this process; ``chosen`` is the text of ``--controllers``."""
    from strato.controllers import ControllerManager, choose_controllers

    manager = ControllerManager(
        cluster,
        informers,
        clock,
        random,
        enabled=choose_controllers(chosen.split(",")),
        scheduler_names=scheduler_names,
        metrics=metrics,
        settings=controller_settings(common),
    )
    return Member(name="controllers", work=manager.run, lease=_CONTROLLERS_LEASE)


@click.command()
@component_options
@click.option("--scheduler-name", "names", multiple=True, default=("volcano", "poseidon"), show_default=True)
@click.option("--scheduler-conf", type=click.Path(path_type=Path), default=None, help="Configuration file.")
@click.option("--schedule-period", type=DURATION, default="1s", show_default=True, help="Longest time between cycles.")
@click.option("--default-queue", default="default", show_default=True)
@click.option(
    "--scheduler-sharding-mode", type=click.Choice(["none", "hard", "soft"]), default="none", show_default=True
)
@click.option("--scheduler-sharding-name", default="volcano", show_default=True, help="Name of the own NodeShard.")
@click.pass_context
def scheduler(
    ctx: click.Context,
    common: Common,
    names: tuple[str, ...],
    scheduler_conf: Path | None,
    schedule_period: float,
    default_queue: str,
    scheduler_sharding_mode: str,
    scheduler_sharding_name: str,
) -> None:
    """Run the scheduler.

    Several work side by side, each on its share of pods and nodes, when MULTI_SCHEDULER_ENABLE is true: SCHEDULER_NUM
    says how many, SCHEDULER_POD_NAME (BASE-ORDINAL) which one this is.
    """
    from strato.scheduler.replicas import from_environment

    replicas = from_environment(os.environ)
    lease = scheduler_lease(names)
    if replicas is not None:
        lease = f"{lease}-{replicas.name}"  # one leader for each share

    async def main() -> None:
        from strato.scheduler import Scheduler
        from strato.scheduler.cache.audit import AUDIT_SECONDS
        from strato.scheduler.placement import warm_up

        clock, random, metrics = SystemClock(), make_random(), Registry()
        cluster = connect(ctx)
        informers = Informers(cluster, clock, random)
        part = Scheduler(
            cluster,
            informers,
            clock,
            random,
            config=scheduler_conf,
            names=names,
            period_seconds=schedule_period,
            default_queue=default_queue,
            metrics=metrics,
            shard_mode=scheduler_sharding_mode,
            shard_name=scheduler_sharding_name,
            replicas=replicas,
            audit_seconds=AUDIT_SECONDS,
        )
        # compiling kernels takes longer than a lease lasts, on a slow machine without a cache of them
        member = Member(name="scheduler", work=part.run, lease=lease, prepare=warm_up)
        await serve(cluster, random, common, [member], metrics)

    run_loop(main)


@click.command()
@component_options
@click.option("--scheduler-name", "names", multiple=True, default=("volcano",), show_default=True)
@click.option("--controllers", default="*", show_default=True, help="Names to run, * for all, -name to leave out.")
@click.pass_context
def controllers(
    ctx: click.Context,
    common: Common,
    names: tuple[str, ...],
    controllers: str,
) -> None:
    """Run the controllers of Volcano's kinds."""

    async def main() -> None:
        clock, random, metrics = SystemClock(), make_random(), Registry()
        cluster = connect(ctx)
        informers = Informers(cluster, clock, random)
        member = controllers_member(cluster, informers, clock, random, common, metrics, controllers, names)
        await serve(cluster, random, common, [member], metrics)

    run_loop(main)


@click.command()
@component_options
@click.option("--hollow-nodes", default=1, show_default=True, type=click.IntRange(1), help="How many nodes to pretend.")
@click.option("--prefix", default="hollow", show_default=True, help="Nodes are called PREFIX-0, PREFIX-1, …")
@click.option("--cpu", default="32", show_default=True, help="Cpus of each.")
@click.option("--memory", default="256Gi", show_default=True, help="Memory of each.")
@click.pass_context
def node(
    ctx: click.Context,
    common: Common,
    hollow_nodes: int,
    prefix: str,
    cpu: str,
    memory: str,
) -> None:
    """Run hollow nodes: they pretend to run what is bound to them."""

    async def main() -> None:
        from strato.node.hollow import HollowNodes

        clock, random = SystemClock(), make_random()
        cluster = connect(ctx)
        part = HollowNodes(cluster, None, clock, random, count=hollow_nodes, name_prefix=prefix, cpu=cpu, memory=memory)
        # no lease: every process has nodes of its own
        await serve(cluster, random, common, [Member(name="nodes", work=part.run)], Registry())

    run_loop(main)
