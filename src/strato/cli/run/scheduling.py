"""The scheduler's options, and how the scheduler is built, alone or with other components in a process."""

from __future__ import annotations

import asyncio
import functools
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import click

from strato.cli.goflags import switch
from strato.cli.optiongroups import option_group
from strato.cli.publishedconfig import publishing_configuration
from strato.cli.recordoptions import RecordOptions, record_options, recorded, recorder_of
from strato.cli.run.common import DURATION, RunningComponent, Work
from strato.cli.run.ignoredflags import SCHEDULER, foreign_options
from strato.cli.startpredictions import predicting
from strato.client.cluster import Cluster
from strato.client.informer import Informers
from strato.clock import Clock
from strato.errors import UsageError
from strato.metrics import Registry
from strato.seeding import child

DEFAULT_NAMES = ("volcano", "poseidon")
"""Default values of ``spec.schedulerName`` that are served; pods of the second one are placed by flow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerFlags:
    """Options of the scheduler (spec volcano-cli C2)."""

    config: Path | None
    period_seconds: float
    default_queue: str
    shard_mode: str
    shard_name: str
    """Name of the scheduler's NodeShard; empty is the scheduler's name."""
    agents: bool
    """Whether pods that name Volcano's agent scheduler are served too."""
    node_labels: frozenset[tuple[str, str]]
    shadow: Path | None
    predict_starts: bool
    record: RecordOptions = field(default_factory=RecordOptions)
    """Whether and where its state and decisions are recorded."""


def labels_of(words: Sequence[str]) -> frozenset[tuple[str, str]]:
    """Read ``key:value`` labels, comma-separated or repeated; as in Volcano those without a value do not count."""
    pairs = (part.strip().partition(":") for word in words for part in word.split(","))
    return frozenset((key, value) for key, _, value in pairs if key and value)


def _scheduler_flags(
    *,
    config: str,
    disable_default_scheduler_config: bool,
    node_labels: Sequence[str],
    shadow: str,
    **others: Any,
) -> SchedulerFlags:
    if disable_default_scheduler_config and not config:
        raise UsageError("--disable-default-scheduler-config: there is no other one; give --scheduler-conf FILE")
    return SchedulerFlags(
        config=Path(config) if config else None,
        node_labels=labels_of(node_labels),
        shadow=Path(shadow) if shadow else None,
        **others,
    )


_OPTIONS = (
    click.option("--scheduler-conf", "config", default="", metavar="FILE",
                 help="Configuration, read again when it changes."),
    switch("--disable-default-scheduler-config", help="Refuse to start without a configuration file."),
    click.option("--schedule-period", "period_seconds", type=DURATION, default="1s", show_default=True,
                 help="Longest time between cycles."),
    click.option("--default-queue", default="default", show_default=True, help="Of pod groups that name none."),
    click.option("--scheduler-sharding-mode", "shard_mode",
                 type=click.Choice(["none", "hard", "soft"]), default="none", show_default=True,
                 help="Whether nodes outside the own NodeShard are used, and when."),
    click.option("--scheduler-sharding-name", "shard_name", default="",
                 help="Name of the NodeShard.  [default: volcano, agent-scheduler for its pods]"),
    switch("--agent-scheduler", "agents", help="Serve pods with schedulerName agent-scheduler too."),
    click.option("--node-selector", "node_labels", multiple=True, metavar="KEY:VALUE,…",
                 help="Only nodes with one of these labels."),
    click.option("--shadow", default="", metavar="FILE",
                 help="Configuration that decides too, and of which nothing is applied; see strato shadow."),
    switch("--predict-starts", help="Write to waiting pod groups when they are expected to start; see strato when."),
)  # fmt: skip
_GROUP = option_group("scheduler", _scheduler_flags, _OPTIONS, inner={"record": record_options})


def scheduler_options(command: Callable[..., None]) -> Any:
    """Add the scheduler's options; ``command`` gets them as one `SchedulerFlags`, the names beside them."""
    return _GROUP(foreign_options(SCHEDULER)(command))


def lease_of(names: Sequence[str]) -> str:
    """Return the name of the lease for which schedulers of these names compete."""
    return names[0] if len(names) == 1 else "volcano"


def scheduler_member(
    cluster: Cluster,
    informers: Informers,
    clock: Clock,
    random: Random,
    metrics: Registry,
    flags: SchedulerFlags,
    names: tuple[str, ...],
) -> RunningComponent:
    """Return the scheduler as a member of this process.

    If environment variables name a replica (`strato.scheduler.cache.replicas`), it schedules a share of pods and nodes.

    Raises:
        InvalidInput: The configuration is wrong.
        UsageError: Those variables contradict each other.
    """
    from strato.scheduler import Scheduler
    from strato.scheduler.cache.audit import AUDIT_SECONDS
    from strato.scheduler.cache.journal import NO_JOURNAL
    from strato.scheduler.cache.replicas import from_environment
    from strato.scheduler.config import agent_config
    from strato.scheduler.model.tasks import AGENT_SCHEDULER
    from strato.scheduler.optimal.loading import load
    from strato.scheduler.options import SchedulerOptions
    from strato.scheduler.placement.placer import warm_up
    from strato.scheduler.shadow.service import ShadowOptions

    if flags.agents and AGENT_SCHEDULER not in names:
        names = (*names, AGENT_SCHEDULER)
    alone = names == (AGENT_SCHEDULER,)
    replicas = from_environment(os.environ)
    lease = lease_of(names)
    if replicas is not None:
        lease = f"{lease}-{replicas.name}"  # one leader for each share
    recorder = recorder_of(flags.record, clock)
    part = Scheduler(
        cluster,
        informers,
        clock,
        child(random),
        config=flags.config or (agent_config() if alone else None),
        options=SchedulerOptions(
            names=names,
            period_seconds=flags.period_seconds,
            default_queue=flags.default_queue,
            shard_mode=flags.shard_mode,
            shard_name=flags.shard_name or (AGENT_SCHEDULER if alone else "volcano"),
            node_labels=flags.node_labels,
            replicas=replicas,
            shadow=ShadowOptions(config=flags.shadow) if flags.shadow is not None else None,
            audit_seconds=AUDIT_SECONDS,
            journal=recorder or NO_JOURNAL,
        ),
        metrics=metrics,
        load_flow=functools.partial(asyncio.to_thread, load),
    )
    # warm_up runs before the lease is acquired: compiling kernels can take longer than a lease lasts
    work = beside(recorded(recorder, part.run), publishing_configuration(part, cluster, informers, clock))
    if flags.predict_starts:
        work = beside(work, predicting(part, cluster, informers, clock, metrics))
    return RunningComponent(name="scheduler", work=work, lease=lease, prepare=warm_up)


def beside(work: Work, more: Work) -> Work:
    """Return work that runs both until both end or one fails."""

    async def both() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(_of(work))
            group.create_task(_of(more))

    return both


async def _of(work: Work) -> None:
    await work()
