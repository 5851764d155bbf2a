"""The controllers' options, and how the controllers are built, alone or with other components in a process."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import click

from strato.cli.goflags import switch
from strato.cli.history import history_member
from strato.cli.mailing import MailOptions, mail_options
from strato.cli.optiongroups import option_group
from strato.cli.run.common import DURATION, Common, RunningComponent, Work
from strato.cli.run.ignoredflags import CONTROLLERS, foreign_options
from strato.cli.training import TrainingOptions, training_options
from strato.client.cluster import Cluster
from strato.client.informer import Informers
from strato.clock import Clock
from strato.metrics import Registry

DEFAULT_NAMES = ("volcano",)
"""Default names of the schedulers for whose pods the controllers create pod groups."""
DEFAULT_CONTROLLERS = "*,-sharding-controller"
_LEASE = "vc-controller-manager"


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerFlags:
    """Options of the controllers (spec volcano-cli C3)."""

    chosen: tuple[str, ...]
    """The controllers to run: words such as ``*`` and ``-gc-controller``."""
    max_requeue: int
    inherit_owner_annotations: bool
    scheduler_configs: tuple[str, ...]
    """Empty is the built-in one."""
    shard_sync_seconds: float
    shard_on_events: bool
    sharding_configmap: str
    sharding_configmap_namespace: str
    """Empty is the namespace of the leases."""
    history_file: str
    """Database in which runs of jobs and their usage are recorded; empty records none."""
    flow_probe_image: str
    mail: MailOptions
    training: TrainingOptions


def _controller_flags(*, chosen: tuple[str, ...], scheduler_configs: tuple[str, ...], **others: Any) -> ControllerFlags:
    from strato.controllers import choose_controllers

    names = tuple(part for word in chosen for part in word.split(","))
    choose_controllers(names)  # a wrong name is reported before a server is looked for
    configs = tuple(part for word in scheduler_configs for part in word.split(",") if part)
    return ControllerFlags(chosen=names, scheduler_configs=configs, **others)


_OPTIONS = (
    click.option("--controllers", "chosen", multiple=True, default=(DEFAULT_CONTROLLERS,), show_default=True,
                 help="Names to run, * for all, -name to leave out."),
    click.option("--max-requeue-num", "max_requeue", default=15, show_default=True, type=int,
                 help="Attempts before a job that cannot be handled is terminated; negative is no limit."),
    switch("--inherit-owner-annotations", default=True, show_default=True,
           help="Pod groups take annotations of what owns their pods."),
    click.option("--scheduler-configs", multiple=True, metavar="NAME:TYPE:…",
                 help="Schedulers to share nodes among when there is no ConfigMap; deprecated."),
    click.option("--shard-sync-period", "shard_sync_seconds", type=DURATION, default="60s", show_default=True,
                 help="Time between passes of the sharding controller."),
    switch("--enable-node-event-trigger", "shard_on_events", default=True, show_default=True,
           help="Changes of nodes start such a pass too."),
    click.option("--sharding-configmap", default="volcano-sharding-configmap", show_default=True,
                 help="Configuration of the sharding controller."),
    click.option("--history-file", default="", metavar="FILE",
                 help="Record runs of jobs and what they use, for 'strato advise' and 'strato report'."),
    click.option("--flow-probe-image", default="busybox:stable", show_default=True,
                 help="Image of pods that look into claims for steps of JobFlows; it needs a shell."),
    click.option("--sharding-configmap-namespace", default="", help="Its namespace; that of the leases without."),
)  # fmt: skip
_GROUP = option_group(
    "controllers", _controller_flags, _OPTIONS, inner={"mail": mail_options, "training": training_options}
)


def controller_options(command: Callable[..., None]) -> Any:
    """Add the controllers' options; ``command`` gets them as one `ControllerFlags`."""
    return _GROUP(foreign_options(CONTROLLERS)(command))


def controllers_member(
    cluster: Cluster,
    informers: Informers,
    clock: Clock,
    random: Random,
    common: Common,
    metrics: Registry,
    flags: ControllerFlags,
    names: tuple[str, ...],
) -> RunningComponent:
    """Return the controllers as a member of this process; their ConfigMaps are in the namespace of the leases.

    Raises:
        UnknownController: No controller has one of the names.
    """
    from strato.api.meta import Key
    from strato.controllers import ControllerManager, ControllerSettings, choose_controllers, controllers_of

    defaults = ControllerSettings()
    here = common.lease_namespace
    settings = ControllerSettings(
        scheduler_names=tuple(names),
        max_requeue=flags.max_requeue,
        topology_configmap=Key(here, defaults.topology_configmap.name),
        sharding_configmap=Key(flags.sharding_configmap_namespace or here, flags.sharding_configmap),
        overcommit_configmap=Key(here, defaults.overcommit_configmap.name),
        scheduler_configs=flags.scheduler_configs or defaults.scheduler_configs,
        shard_sync_seconds=flags.shard_sync_seconds,
        shard_on_events=flags.shard_on_events,
        inherit_owner_annotations=flags.inherit_owner_annotations,
        smtp_server=flags.mail.smtp_server,
        mail_from=flags.mail.mail_from,
        flow_probe_image=flags.flow_probe_image,
        training=flags.training.over(defaults.training),
    )
    enabled = controllers_of(choose_controllers(flags.chosen), flags.training.off)
    manager = ControllerManager(cluster, informers, clock, random, enabled=enabled, metrics=metrics, settings=settings)
    work: Work = manager.run
    if flags.history_file:
        record = partial(history_member, Path(flags.history_file), cluster, informers, clock, metrics)
        work = partial(_recorded, manager.run, record)
    return RunningComponent(name="controllers", work=work, lease=_LEASE)


async def _recorded(work: Work, record: Callable[[], Work]) -> None:
    """Run the controllers and the recorder of runs. Only the leader records, as the file allows one writer."""
    async with asyncio.TaskGroup() as group:
        group.create_task(_task(work()))
        group.create_task(_task(record()()))


async def _task(work: Awaitable[None]) -> None:
    await work
