"""All controllers of one process: the table of them, the choice of those that run, and their start.

Volcano's controllers keep Volcano's names and run on any cluster. Those named ``kube-…`` do what
kube-controller-manager does; only the embedded cluster needs them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from random import Random

from strato.api import catalog
from strato.api.kinds import Kind
from strato.client.cluster import Cluster
from strato.client.events import EventRecorder
from strato.client.informer import Informers
from strato.clock import Clock
from strato.controllers.colocation import ColocationController
from strato.controllers.context import ControllerContext, ControllerSettings
from strato.controllers.cron import VolcanoCronController
from strato.controllers.flow import JobFlowController, JobTemplateController
from strato.controllers.gc import JobGarbageCollector
from strato.controllers.job import JobController
from strato.controllers.joblifetimes import JobLifetimes
from strato.controllers.kube.registry import KUBE
from strato.controllers.mail import MailController
from strato.controllers.overcommit import CpuOvercommitController
from strato.controllers.podgroup import PodGroupController
from strato.controllers.queue import QueueController
from strato.controllers.reconcile import Controller, Factory
from strato.controllers.sharding import ShardingController
from strato.controllers.topology import HyperNodeController
from strato.controllers.trackedinformers import TrackedInformers
from strato.controllers.training.adapters import ADAPTERS, Adapter
from strato.controllers.training.controller import TrainingController
from strato.controllers.training.trainer.controller import TrainJobController
from strato.controllers.vpa import VerticalAutoscalerController
from strato.errors import UsageError
from strato.metrics import Registry

COMPONENT = "vc-controller-manager"
"""Source of the events the controllers record."""


def _training(adapter: Adapter) -> Factory:
    return lambda context: TrainingController(context, adapter)


VOLCANO: Mapping[str, Factory] = {
    "job-controller": JobController,
    "pg-controller": PodGroupController,
    "queue-controller": QueueController,
    "gc-controller": JobGarbageCollector,
    JobLifetimes.name: JobLifetimes,
    "cronjob-controller": VolcanoCronController,
    "jobflow-controller": JobFlowController,
    "jobtemplate-controller": JobTemplateController,
    "hyperNode-controller": HyperNodeController,
    "colocation-config-controller": ColocationController,
    "sharding-controller": ShardingController,
    "mail-controller": MailController,
    "cpu-overcommit-controller": CpuOvercommitController,
    "vpa-recommender": VerticalAutoscalerController,
    **{adapter.framework.controller: _training(adapter) for adapter in ADAPTERS.values()},
    TrainJobController.name: TrainJobController,
}
"""Volcano's controllers by name, and ours for any cluster."""

OFF_BY_DEFAULT = frozenset({"sharding-controller"})
"""Controllers that run only when named. Sharding divides nodes among schedulers, and most clusters have only one."""

DEFAULT: tuple[str, ...] = tuple(name for name in VOLCANO if name not in OFF_BY_DEFAULT)
"""The controllers that run on any cluster unless others are chosen."""

EMBEDDED: tuple[str, ...] = (*DEFAULT, *KUBE)
"""The controllers of the embedded cluster: also Kubernetes' own."""

_FACTORIES: Mapping[str, Factory] = {**VOLCANO, **KUBE}


class UnknownController(UsageError):
    """There is no controller of that name."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f"unknown controller {name!r}; known are: {', '.join(_FACTORIES)}")


def choose_controllers(names: Iterable[str]) -> tuple[str, ...]:
    """Read a list like ``*,-gc-controller``: ``*`` is all of Volcano's, ``+name`` or ``name`` adds, ``-name`` removes.

    An empty list chooses `DEFAULT`. Kubernetes' own controllers (``kube-…``) run only when they are named.

    Raises:
        UnknownController: There is no controller of a name.
        UsageError: A controller is named twice, so that it is ambiguous which entry counts.
    """
    asked: dict[str, bool] = {}
    everything = False
    for word in (text.strip() for text in names):
        if word in ("", "*"):
            everything = everything or word == "*"
            continue
        name = word[1:] if word[0] in "+-" else word
        if name not in _FACTORIES:
            raise UnknownController(name)
        if name in asked:
            raise UsageError(f"controller {name!r} is named twice in the list of controllers; name it once")
        asked[name] = word[0] != "-"
    if not asked and not everything:
        return DEFAULT
    return tuple(name for name in _FACTORIES if asked.get(name, everything and name in VOLCANO))


def controllers_of(names: Iterable[str], off: Collection[Kind]) -> tuple[str, ...]:
    """Return the names without those of controllers whose kind is switched off."""
    idle = {adapter.framework.controller for kind, adapter in ADAPTERS.items() if kind in off}
    if catalog.TRAINJOB in off:
        idle.add(TrainJobController.name)
    return tuple(name for name in names if name not in idle)


class ControllerManager:
    """Runs controllers side by side on shared informers.

    Args:
        enabled: Names of the controllers to run.
    """

    def __init__(
        self,
        cluster: Cluster,
        informers: Informers,
        clock: Clock,
        random: Random,
        *,
        enabled: Sequence[str] = DEFAULT,
        metrics: Registry | None = None,
        settings: ControllerSettings | None = None,
    ) -> None:
        registry = metrics if metrics is not None else Registry()
        for name in enabled:
            if name not in _FACTORIES:
                raise UnknownController(name)
        common = ControllerContext(
            cluster=cluster,
            informers=informers,
            clock=clock,
            random=random,
            recorder=EventRecorder(cluster, clock, COMPONENT, registry=registry),
            metrics=registry,
            settings=settings if settings is not None else ControllerSettings(),
        )
        made = []
        for name in enabled:
            used = TrackedInformers(informers)
            made.append((_FACTORIES[name](replace(common, informers=used)), used))
        self._made = tuple(made)
        self.controllers: tuple[Controller, ...] = tuple(controller for controller, _ in made)
        """The controllers that run, in the order of ``enabled``."""

    async def run(self) -> None:
        """Run until cancelled; each controller starts when the informers that it reads are synced."""
        async with asyncio.TaskGroup() as group:
            for controller, used in self._made:
                group.create_task(_run(controller, used), name=controller.name)


async def _run(controller: Controller, used: TrackedInformers) -> None:
    await used.wait_synced()
    await controller.run()
