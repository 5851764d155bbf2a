"""What the components of ``strato run`` share: their common options, leases, metrics, an orderly end."""

from __future__ import annotations

import asyncio
import functools
import logging
import os
import socket
import uuid
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING

import click

from strato.api.meta import Key
from strato.cli.serving import configure_logging, run_together, stop_on_signals
from strato.client.cluster import Cluster
from strato.client.leases import LeaderElector, LeaseTiming
from strato.clock import Clock, SystemClock
from strato.errors import AlreadyExists, ApiError, Unavailable
from strato.metrics import Registry
from strato.units import duration_seconds

if TYPE_CHECKING:
    from strato.controllers import ControllerSettings

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
        no_leader_elect: bool,
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
            leader_elect=leader_elect and not no_leader_elect,
            lease_namespace=leader_elect_resource_namespace,
            timing=timing,
            listen_address=listen_address,
        )
        command(common=common, **own)

    options = (
        click.option("--kubeconfig", "kubeconfig_file", default=None, metavar="FILE", help="Kubeconfig to use."),
        # both spellings: --leader-elect=false as Go's flags, and --no-leader-elect
        click.option(
            "--leader-elect",
            type=bool,
            is_flag=False,
            flag_value="true",
            default=True,
            show_default=True,
            help="One at a time works.",
        ),
        click.option("--no-leader-elect", is_flag=True, hidden=True),
        click.option("--leader-elect-resource-namespace", default="volcano-system", show_default=True),
        duration_option("--leader-elect-lease-duration", "15s", "How long others wait for a silent leader."),
        duration_option("--leader-elect-renew-deadline", "10s", "After how long without renewal the leader stops."),
        duration_option("--leader-elect-retry-period", "2s", "Time between attempts to take or renew the lease."),
        click.option("--listen-address", default="", help="Serve /metrics and /healthz here, for example :8080."),
        click.option("-v", "--verbose", is_flag=True, help="Log details of decisions."),
    )
    for option in reversed(options):
        bundled = option(bundled)
    return bundled


def duration_option(name: str, default: str, text: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return an option that takes a Go duration and gives seconds."""
    return click.option(name, type=DURATION, default=default, show_default=True, help=text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One part of the process."""

    name: str
    work: Work
    lease: str = ""
    """Lease under which it runs; empty when several may run at once."""
    prepare: Callable[[], None] | None = None
    """What takes seconds and holds up everything else; done in a thread, before the lease is asked for."""


async def serve(cluster: Cluster, random: Random, common: Common, members: Sequence[Member], metrics: Registry) -> None:
    """Run the members until a signal, each under its lease if leaders are elected, with metrics if asked for."""
    parts: list[tuple[str, Awaitable[object]]]
    parts = [(member.name, _run_member(cluster, random, common, member)) for member in members]
    if common.listen_address:
        from strato.cli.monitoring import serve_metrics

        parts.append(("metrics server", serve_metrics(common.listen_address, metrics)))
    stop = asyncio.Event()
    try:
        with stop_on_signals(stop):
            await run_together(parts, stop)
    finally:
        await cluster.close()


def controller_settings(common: Common) -> ControllerSettings:
    """Return the controllers' settings: their ConfigMaps are in the namespace of the leases."""
    from strato.controllers import ControllerSettings

    defaults = ControllerSettings()
    here = common.lease_namespace
    return ControllerSettings(
        topology_configmap=Key(here, defaults.topology_configmap.name),
        sharding_configmap=Key(here, defaults.sharding_configmap.name),
    )


async def _run_member(cluster: Cluster, random: Random, common: Common, member: Member) -> None:
    if member.prepare is not None:
        await asyncio.to_thread(member.prepare)
    if member.lease and common.leader_elect:
        await _lead(cluster, random, common, member)
    else:
        await member.work()


async def _lead(cluster: Cluster, random: Random, common: Common, member: Member) -> None:
    clock = SystemClock()
    await ensure_namespace(cluster, clock, common.lease_namespace, common.timing.retry_seconds)
    elector = LeaderElector(
        cluster,
        clock,
        random,
        name=member.lease,
        namespace=common.lease_namespace,
        identity=f"{socket.gethostname()}_{os.getpid()}_{uuid.uuid4().hex[:8]}",
        timing=common.timing,
    )
    await elector.run(member.work)


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
