"""``strato run``: one component as a process of its own, against any cluster."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import uuid
from collections.abc import Awaitable, Callable
from pathlib import Path

import click

from strato.cli.connect import connect
from strato.cli.serving import configure_logging, make_random, run_loop, run_together, stop_on_signals
from strato.client.cluster import Cluster
from strato.client.informer import Informers
from strato.clock import SystemClock
from strato.errors import AlreadyExists
from strato.metrics import Registry
from strato.units import duration_seconds

Work = Callable[[], Awaitable[None]]


class DurationType(click.ParamType[float]):
    """A Go duration such as ``1s`` or ``250ms``; gives seconds."""

    name = "duration"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Read the text."""
        if isinstance(value, float):
            return value
        try:
            return duration_seconds(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


DURATION = DurationType()


@click.group()
def run() -> None:
    """Run one component against a cluster until it is told to stop."""


def component_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options all components share."""
    for option in reversed(
        (
            click.option("--kubeconfig", "kubeconfig_file", default=None, metavar="FILE", help="Kubeconfig to use."),
            click.option("--leader-elect/--no-leader-elect", default=True, show_default=True, help="One at a time."),
            click.option("--leader-elect-resource-namespace", default="volcano-system", show_default=True),
            click.option("--listen-address", default="", help="Serve /metrics and /healthz here, for example :8080."),
            click.option("-v", "--verbose", is_flag=True, help="Log details of decisions."),
        )
    ):
        command = option(command)
    return command


@run.command()
@component_options
@click.option("--scheduler-name", "names", multiple=True, default=("volcano",), show_default=True)
@click.option("--scheduler-conf", type=click.Path(path_type=Path), default=None, help="Configuration file.")
@click.option("--schedule-period", type=DURATION, default="1s", show_default=True, help="Longest time between cycles.")
@click.option("--default-queue", default="default", show_default=True)
@click.pass_context
def scheduler(
    ctx: click.Context,
    kubeconfig_file: str | None,
    leader_elect: bool,
    leader_elect_resource_namespace: str,
    listen_address: str,
    verbose: bool,
    names: tuple[str, ...],
    scheduler_conf: Path | None,
    schedule_period: float,
    default_queue: str,
) -> None:
    """Run the scheduler."""
    _use(ctx, kubeconfig_file)
    configure_logging(verbose)
    lease = names[0] if len(names) == 1 else "volcano"

    async def main() -> None:
        from strato.scheduler import Scheduler

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
        )
        await _serve(
            cluster,
            lease if leader_elect else None,
            leader_elect_resource_namespace,
            part.run,
            metrics,
            listen_address,
        )

    run_loop(main)


@run.command()
@component_options
@click.option("--scheduler-name", "names", multiple=True, default=("volcano",), show_default=True)
@click.option("--controllers", default="*", show_default=True, help="Names to run, * for all, -name to leave out.")
@click.pass_context
def controllers(
    ctx: click.Context,
    kubeconfig_file: str | None,
    leader_elect: bool,
    leader_elect_resource_namespace: str,
    listen_address: str,
    verbose: bool,
    names: tuple[str, ...],
    controllers: str,
) -> None:
    """Run the controllers of Volcano's kinds."""
    _use(ctx, kubeconfig_file)
    configure_logging(verbose)

    async def main() -> None:
        from strato.controllers import ControllerManager, choose_controllers

        clock, random, metrics = SystemClock(), make_random(), Registry()
        cluster = connect(ctx)
        informers = Informers(cluster, clock, random)
        part = ControllerManager(
            cluster,
            informers,
            clock,
            random,
            enabled=choose_controllers(controllers.split(",")),
            scheduler_names=names,
            metrics=metrics,
        )
        await _serve(
            cluster,
            "vc-controller-manager" if leader_elect else None,
            leader_elect_resource_namespace,
            part.run,
            metrics,
            listen_address,
        )

    run_loop(main)


@run.command()
@component_options
@click.option("--hollow-nodes", default=1, show_default=True, type=click.IntRange(1), help="How many nodes to pretend.")
@click.option("--prefix", default="hollow", show_default=True, help="Nodes are called PREFIX-0, PREFIX-1, …")
@click.option("--cpu", default="32", show_default=True, help="Cpus of each.")
@click.option("--memory", default="256Gi", show_default=True, help="Memory of each.")
@click.pass_context
def node(
    ctx: click.Context,
    kubeconfig_file: str | None,
    leader_elect: bool,
    leader_elect_resource_namespace: str,
    listen_address: str,
    verbose: bool,
    hollow_nodes: int,
    prefix: str,
    cpu: str,
    memory: str,
) -> None:
    """Run hollow nodes: they pretend to run what is bound to them."""
    del leader_elect, leader_elect_resource_namespace  # every process has nodes of its own
    _use(ctx, kubeconfig_file)
    configure_logging(verbose)

    async def main() -> None:
        from strato.node.hollow import HollowNodes

        clock, random = SystemClock(), make_random()
        cluster = connect(ctx)
        part = HollowNodes(cluster, None, clock, random, count=hollow_nodes, name_prefix=prefix, cpu=cpu, memory=memory)
        await _serve(cluster, None, "", part.run, Registry(), listen_address)

    run_loop(main)


def _use(ctx: click.Context, kubeconfig_file: str | None) -> None:
    if kubeconfig_file:
        ctx.find_root().obj["kubeconfig"] = kubeconfig_file


async def _serve(
    cluster: Cluster, lease: str | None, namespace: str, work: Work, metrics: Registry, listen_address: str
) -> None:
    """Run ``work`` under a lease when one is named, with metrics when an address is, until a signal."""
    parts: list[tuple[str, Awaitable[object]]] = []
    if lease is None:
        parts.append(("component", work()))
    else:
        parts.append(("component", _lead(cluster, lease, namespace, work)))
    if listen_address:
        from strato.cli.monitoring import serve_metrics

        parts.append(("metrics server", serve_metrics(listen_address, metrics)))
    stop = asyncio.Event()
    try:
        with stop_on_signals(stop):
            await run_together(parts, stop)
    finally:
        await cluster.close()


async def _lead(cluster: Cluster, lease: str, namespace: str, work: Work) -> None:
    from strato.api import catalog
    from strato.client.leases import LeaderElector

    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
    with contextlib.suppress(AlreadyExists):
        await cluster.create(catalog.NAMESPACE, body)
    elector = LeaderElector(
        cluster,
        SystemClock(),
        make_random(),
        name=lease,
        namespace=namespace,
        identity=f"{socket.gethostname()}_{os.getpid()}_{uuid.uuid4().hex[:8]}",
    )
    await elector.run(work)
