"""``strato run``: one component as a process of its own, against any cluster."""

from __future__ import annotations

import asyncio
import functools
import logging
import os
import socket
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random

import click

from strato.cli.connect import connect
from strato.cli.serving import configure_logging, make_random, run_loop, run_together, stop_on_signals
from strato.client.cluster import Cluster
from strato.client.informer import Informers
from strato.client.leases import LeaderElector, LeaseTiming
from strato.clock import Clock, SystemClock
from strato.errors import AlreadyExists, ApiError, Unavailable
from strato.metrics import Registry
from strato.units import duration_seconds

_log = logging.getLogger(__name__)

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Common:
    """What every component is told on its command line."""

    leader_elect: bool
    lease_namespace: str
    timing: LeaseTiming
    listen_address: str


def component_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options all components share; ``command`` gets them as one `Common`.

    Raises:
        UsageError: The durations of the lease contradict each other.
    """

    @functools.wraps(command)
    def bundled(
        *,
        kubeconfig_file: str | None,
        leader_elect: bool,
        leader_elect_resource_namespace: str,
        leader_elect_lease_duration: float,
        leader_elect_renew_deadline: float,
        leader_elect_retry_period: float,
        listen_address: str,
        verbose: bool,
        **own: object,
    ) -> None:
        timing = LeaseTiming(
            duration_seconds=leader_elect_lease_duration,
            renew_deadline_seconds=leader_elect_renew_deadline,
            retry_seconds=leader_elect_retry_period,
        )
        if kubeconfig_file:
            click.get_current_context().find_root().obj["kubeconfig"] = kubeconfig_file
        configure_logging(verbose)
        common = Common(
            leader_elect=leader_elect,
            lease_namespace=leader_elect_resource_namespace,
            timing=timing,
            listen_address=listen_address,
        )
        command(common=common, **own)

    options = (
        click.option("--kubeconfig", "kubeconfig_file", default=None, metavar="FILE", help="Kubeconfig to use."),
        click.option("--leader-elect/--no-leader-elect", default=True, show_default=True, help="One at a time."),
        click.option("--leader-elect-resource-namespace", default="volcano-system", show_default=True),
        _duration_option("--leader-elect-lease-duration", "15s", "How long others wait for a silent leader."),
        _duration_option("--leader-elect-renew-deadline", "10s", "After how long without renewal the leader stops."),
        _duration_option("--leader-elect-retry-period", "2s", "Time between attempts to take or renew the lease."),
        click.option("--listen-address", default="", help="Serve /metrics and /healthz here, for example :8080."),
        click.option("-v", "--verbose", is_flag=True, help="Log details of decisions."),
    )
    for option in reversed(options):
        bundled = option(bundled)
    return bundled


def _duration_option(name: str, default: str, text: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    return click.option(name, type=DURATION, default=default, show_default=True, help=text)


@run.command()
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
    lease = names[0] if len(names) == 1 else "volcano"
    if replicas is not None:
        lease = f"{lease}-{replicas.name}"  # one leader for each share

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
            shard_mode=scheduler_sharding_mode,
            shard_name=scheduler_sharding_name,
            replicas=replicas,
        )
        await _serve(cluster, random, common, lease, part.run, metrics)

    run_loop(main)


@run.command()
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
        await _serve(cluster, random, common, "vc-controller-manager", part.run, metrics)

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
        await _serve(cluster, random, common, "", part.run, Registry())

    run_loop(main)


async def _serve(cluster: Cluster, random: Random, common: Common, lease: str, work: Work, metrics: Registry) -> None:
    """Run ``work``, under a lease when one is named and wanted, with metrics when an address is, until a signal."""
    parts: list[tuple[str, Awaitable[object]]] = []
    if lease and common.leader_elect:
        parts.append(("component", _lead(cluster, random, common, lease, work)))
    else:
        parts.append(("component", work()))
    if common.listen_address:
        from strato.cli.monitoring import serve_metrics

        parts.append(("metrics server", serve_metrics(common.listen_address, metrics)))
    stop = asyncio.Event()
    try:
        with stop_on_signals(stop):
            await run_together(parts, stop)
    finally:
        await cluster.close()


async def _lead(cluster: Cluster, random: Random, common: Common, lease: str, work: Work) -> None:
    clock = SystemClock()
    await ensure_namespace(cluster, clock, common.lease_namespace, common.timing.retry_seconds)
    elector = LeaderElector(
        cluster,
        clock,
        random,
        name=lease,
        namespace=common.lease_namespace,
        identity=f"{socket.gethostname()}_{os.getpid()}_{uuid.uuid4().hex[:8]}",
        timing=common.timing,
    )
    await elector.run(work)


async def ensure_namespace(cluster: Cluster, clock: Clock, name: str, retry_seconds: float) -> None:
    """Create a namespace unless it is there; wait for a server that is not up yet.

    A refusal is not an error here: a component's role need not allow it to make namespaces, and whether this one is
    missing shows when it is used.
    """
    from strato.api import catalog

    while True:
        try:
            await cluster.create(
                catalog.NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
            )
        except AlreadyExists:
            return
        except Unavailable as error:
            _log.info("namespace not created yet: namespace=%s: %s", name, error)
            await clock.sleep(retry_seconds)
        except ApiError as error:
            _log.info("namespace not created: namespace=%s: %s", name, error)
            return
        else:
            return
