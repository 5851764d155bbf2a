"""What the components of ``strato run`` share: common options, leases, metrics and shutdown."""

from __future__ import annotations

import asyncio
import gc
import os
import socket
import uuid
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random

import click

from strato import __version__
from strato.cli.goflags import switch
from strato.cli.monitoring import MonitoringEndpoint, TlsFiles, serve_endpoint
from strato.cli.optiongroups import option_group
from strato.cli.run.ignoredflags import COMMON, foreign_options
from strato.cli.serving import configure_logging, run_together, stop_on_signals
from strato.client.cluster import Cluster
from strato.client.http import HttpCluster
from strato.client.informer import Informers
from strato.client.leases import LeaderElector, LeaseTiming
from strato.client.namespaces import ensure_namespace
from strato.clock import SystemClock
from strato.metrics import Registry
from strato.units import duration_seconds

Work = Callable[[], Awaitable[None]]

_DETAILS = 5
"""From this level of ``-v`` on, details of decisions are logged; Volcano's charts ask for 3 and 4."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Common:
    """Options of every component."""

    leader_elect: bool
    lease_namespace: str
    lease_name: str
    """Name of the lease; empty is the component's own name for it."""
    timing: LeaseTiming
    metrics_address: str
    """Where metrics and health are served; empty is nowhere."""
    health_address: str
    """Where health alone is served; empty is nowhere."""


def component_options(metrics_address: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that adds the options all components share; the command gets them as one `Common`.

    Args:
        metrics_address: Where metrics are served when they are asked for without saying where.

    Raises:
        UsageError: The durations of the lease contradict each other.
    """
    group = option_group("common", partial(_common, metrics_address), _shared_options(metrics_address))
    return lambda command: group(foreign_options(COMMON)(command))


def _common(
    default_metrics_address: str,
    *,
    master_url: str | None,
    kubeconfig_file: str | None,
    leader_elect: bool,
    no_leader_elect: bool,
    leader_elect_resource_namespace: str,
    leader_elect_resource_name: str,
    lock_object_namespace: str,
    leader_elect_lease_duration: float,
    leader_elect_renew_deadline: float,
    leader_elect_retry_period: float,
    listen_address: str,
    enable_metrics: bool | None,
    enable_healthz: bool,
    healthz_address: str,
    level: int,
    verbose: bool,
) -> Common:
    timing = LeaseTiming(
        duration_seconds=leader_elect_lease_duration,
        renew_deadline_seconds=leader_elect_renew_deadline,
        retry_seconds=leader_elect_retry_period,
    )
    choices = click.get_current_context().find_root().obj
    choices["kubeconfig"] = kubeconfig_file or choices["kubeconfig"]
    choices["master"] = master_url or choices["master"]
    configure_logging(verbose or level >= _DETAILS)
    metrics = _metrics_address(listen_address, enable_metrics, default=default_metrics_address)
    return Common(
        leader_elect=leader_elect and not no_leader_elect,
        lease_namespace=lock_object_namespace or leader_elect_resource_namespace,
        lease_name=leader_elect_resource_name,
        timing=timing,
        metrics_address=metrics,
        health_address=healthz_address if enable_healthz and healthz_address != metrics else "",
    )


def _metrics_address(listen: str, enabled: bool | None, *, default: str) -> str:
    """Return where to serve metrics: an address alone asks for them, and so does the switch."""
    if enabled is False:
        return ""
    return listen or (default if enabled else "")


def _shared_options(metrics_address: str) -> tuple[Callable[[Callable[..., None]], Callable[..., None]], ...]:
    return (
        click.option("--master", "master_url", default=None, metavar="URL", help="Address of the API server."),
        click.option("--kubeconfig", "kubeconfig_file", default=None, metavar="FILE", help="Kubeconfig to use."),
        switch("--leader-elect", default=True, show_default=True, help="One at a time works."),
        switch("--no-leader-elect", hidden=True),
        click.option(
            "--leader-elect-resource-namespace", default="volcano-system", show_default=True, help="Of the lease."
        ),
        click.option("--leader-elect-resource-name", default="", help="Name of the lease, instead of the usual one."),
        click.option("--leader-elect-resource-lock", type=click.Choice(["leases"]), expose_value=False, hidden=True),
        click.option("--lock-object-namespace", default="", hidden=True),
        duration_option("--leader-elect-lease-duration", "15s", "How long others wait for a silent leader."),
        duration_option("--leader-elect-renew-deadline", "10s", "After how long without renewal the leader stops."),
        duration_option("--leader-elect-retry-period", "2s", "Time between attempts to take or renew the lease."),
        click.option("--listen-address", default="", help="Serve /metrics and /healthz here, for example :8080."),
        switch("--enable-metrics", default=None, help=f"Serve them; at {metrics_address} by default."),
        switch("--enable-healthz", help="Serve /healthz at an address of its own."),
        click.option("--healthz-address", default=":11251", show_default=True, help="That address."),
        click.option("-v", "--v", "level", type=int, default=3, metavar="LEVEL", help="5 and more logs details."),
        click.option("--verbose", is_flag=True, help="Log details of decisions."),
        click.version_option(__version__, prog_name="strato"),
    )


def duration_option(name: str, default: str, text: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return an option that takes a Go duration and gives seconds."""
    return click.option(name, type=DURATION, default=default, show_default=True, help=text)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningComponent:
    """A component that runs in this process."""

    name: str
    work: Work
    lease: str = ""
    """Lease under which it runs; empty when several may run at once."""
    prepare: Callable[[], None] | None = None
    """Blocking work of some seconds, such as compiling kernels; runs in a thread before the lease is acquired."""


async def serve(
    cluster: Cluster,
    random: Random,
    common: Common,
    members: Sequence[RunningComponent],
    metrics: Registry,
    *,
    tls: TlsFiles | None = None,
    informers: Informers | None = None,
) -> None:
    """Run the members until a signal, each under its lease if leaders are elected.

    Args:
        cluster: The members' client, which is closed at the end.
        random: Source of the leases' jitter.
        common: Options of all components.
        members: The components to run.
        metrics: Registry that ``/metrics`` renders.
        tls: Certificate of the health endpoint; plain HTTP when None.
        informers: The members' informers, stopped before the client is closed: otherwise they would try to reconnect.
    """
    parts: list[tuple[str, Awaitable[object]]]
    parts = [(member.name, _run_member(cluster, random, common, member)) for member in members]
    if common.metrics_address:
        metrics.watch_process()
        endpoint = MonitoringEndpoint(flag="--listen-address", address=common.metrics_address, metrics=metrics)
        parts.append(("metrics server", serve_endpoint(endpoint)))
    if common.health_address:
        endpoint = MonitoringEndpoint(flag="--healthz-address", address=common.health_address, metrics=None, tls=tls)
        parts.append(("health server", serve_endpoint(endpoint)))
    stop = asyncio.Event()
    try:
        with stop_on_signals(stop):
            await run_together(parts, stop)
    finally:
        if informers is not None:
            await informers.stop()
        await cluster.close()


async def _run_member(cluster: Cluster, random: Random, common: Common, member: RunningComponent) -> None:
    if member.prepare is not None:
        await asyncio.to_thread(member.prepare)
    gc.freeze()  # modules and kernels stay for good: garbage collections need not traverse them
    if member.lease and common.leader_elect:
        await _lead(cluster, random, common, member)
    else:
        await member.work()


async def _lead(cluster: Cluster, random: Random, common: Common, member: RunningComponent) -> None:
    clock = SystemClock()
    # connections of its own: a renewal queued behind thousands of writes of pods may come too late
    own = cluster.with_own_connections() if isinstance(cluster, HttpCluster) else cluster
    await ensure_namespace(own, clock, common.lease_namespace, common.timing.retry_seconds)
    elector = LeaderElector(
        own,
        clock,
        random,
        name=common.lease_name or member.lease,
        namespace=common.lease_namespace,
        identity=f"{socket.gethostname()}_{os.getpid()}_{uuid.uuid4().hex[:8]}",
        timing=common.timing,
    )
    try:
        await elector.run(member.work)
    finally:
        if own is not cluster:
            await own.close()
