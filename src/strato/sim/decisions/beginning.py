"""The scheduler's World before the first job: nodes, queues, priority classes and namespaces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

import msgspec

from strato.api import catalog
from strato.api.core import Node
from strato.api.defaults.jobs import DEFAULT_QUEUE
from strato.api.defaults.queues import ROOT_QUEUE
from strato.api.kinds import Kind
from strato.api.meta import Json
from strato.api.volcano.scheduling import Queue
from strato.clock import run_virtual
from strato.controllers.queue import QueueController
from strato.scheduler.cache import kinds
from strato.scheduler.cache.world import World
from strato.scheduler.framework.options import Config
from strato.scheduler.options import SchedulerOptions
from strato.scheduler.plugins.gang import GANG
from strato.sim.cluster import ClusterOptions, SimulatedCluster
from strato.sim.rest import RestingClock, RestingLoop
from strato.sim.submission import prepare
from strato.sim.traces import TraceJob

_FIRST_QUEUES = frozenset((ROOT_QUEUE, DEFAULT_QUEUE))
_READ: tuple[Kind, ...] = (catalog.NAMESPACE, catalog.QUEUE, catalog.PRIORITYCLASS)
"""Kinds, besides nodes, that have objects before the first job."""


@dataclass(frozen=True, slots=True)
class Stored:
    """The objects of an API server before the first job, for admission to read.

    Attributes:
        objects: Kind → (namespace, name) → object.
    """

    objects: dict[Kind, dict[tuple[str, str], Json]]

    def get(self, kind: Kind, namespace: str, name: str) -> Json | None:
        """Return an object, None if there is none; the namespace of a cluster-scoped object is empty."""
        return self.objects.get(kind, {}).get((namespace, name))

    def list(self, kind: Kind, namespace: str) -> Sequence[Json]:
        """Return all objects of a kind, of one namespace or (empty) of all."""
        return [obj for (where, _), obj in self.objects.get(kind, {}).items() if namespace in ("", where)]


def stored_before(jobs: Sequence[TraceJob], queues: Sequence[Json], start: float) -> Stored:
    """Return the API's objects after a trace's queues and priority classes have been created.

    A cluster without nodes and scheduler creates them, by the code that does so in a simulation with every object.

    Raises:
        ApiError: The API refused a queue or priority class.
    """
    return run_virtual(clock := RestingClock(start), _prepared(clock, jobs, queues), loop=RestingLoop)


async def _prepared(clock: RestingClock, jobs: Sequence[TraceJob], queues: Sequence[Json]) -> Stored:
    cluster = SimulatedCluster(clock, Random(0), ClusterOptions(scheduler=False, controllers=(QueueController.name,)))
    await cluster.start()
    try:
        await cluster.guard(prepare(cluster.admin, cluster.informers.informer(Queue), jobs, queues))
        found: dict[Kind, dict[tuple[str, str], Json]] = {}
        for kind in _READ:
            items = (await cluster.admin.list(kind)).items
            found[kind] = {(obj["metadata"].get("namespace", ""), obj["metadata"]["name"]): obj for obj in items}
    finally:
        await cluster.stop()
    return Stored(found)


def _read_order(obj: Json) -> tuple[bool, str]:
    """Return the key of the order in which a scheduler reads objects.

    Objects that are there when the scheduler starts come first, by name; the trace's queues follow in creation order.
    """
    meta = obj["metadata"]
    is_first = obj["kind"] != catalog.QUEUE.name or meta["name"] in _FIRST_QUEUES
    return not is_first, meta["name"] if is_first else meta["uid"]


def new_world(config: Config, options: SchedulerOptions) -> World:
    """Return an empty world, as a scheduler with this configuration makes it."""
    world = World(options.names, options.default_queue)
    world.gangs_are_whole = any(option.name == GANG for tier in config.tiers for option in tier)
    return world


def fill(world: World, stored: Stored, nodes: Sequence[Node]) -> None:
    """Put nodes and stored objects into a world, in the order in which a scheduler would read them."""
    for known in kinds.KINDS:
        if known.kind is catalog.NODE:
            for node in nodes:
                known.take(world, node)
        for obj in sorted(stored.objects.get(known.kind, {}).values(), key=_read_order):
            known.take(world, msgspec.convert(obj, known.kind.view, strict=False))
