"""Every kind the scheduler reads, in one table: how the world takes an object and how it forgets one.

The service's feed, the dry run and the tests all use this table, so a kind is added here only. A kind that only some
plugins read is watched only when one of them is configured, because a watch costs memory and CPU.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from strato.api import catalog
from strato.api.kinds import Kind
from strato.api.meta import Object
from strato.scheduler.cache.world import World

SHARDING = "core:sharding"
"""Used like a plugin's name for a feature of the core: sharding of nodes."""

PREEMPTION = "core:preemption"
"""Likewise for the preemption of pods without a PodGroup."""

Take = Callable[[World, Any], None]
"""Takes an object as the API has it now; raises ValueError when a quantity in it cannot be read."""
Drop = Callable[[World, str, str], None]
"""Forgets an object by namespace (empty when cluster-scoped) and name."""


@dataclass(frozen=True, slots=True)
class WorldKind:
    """One kind.

    Attributes:
        kind: The kind in the API.
        take, drop: See `Take` and `Drop`.
        plugins: Names of the plugins that read it; empty means that every scheduler does.
        optional: Whether an API server may lack it (an older Kubernetes); the scheduler then works without it.
    """

    kind: Kind
    take: Take
    drop: Drop
    plugins: frozenset[str] = frozenset()
    optional: bool = False

    def wanted(self, plugins: Collection[str]) -> bool:
        """Whether a scheduler with these plugins has to watch the kind."""
        return not self.plugins or not self.plugins.isdisjoint(plugins)


def _keep(kind: Kind, *plugins: str, optional: bool = False) -> WorldKind:
    """Return a kind whose objects are kept as they are (`World.objects`), for the plugins that look them up."""

    def take(world: World, view: Object) -> None:
        world.keep(view)

    def drop(world: World, namespace: str, name: str) -> None:
        world.unkeep(kind.view, f"{namespace}/{name}" if namespace else name)

    return WorldKind(kind, take, drop, frozenset(plugins), optional)


def _storage(kind: Kind) -> WorldKind:
    """Return a kind that binding of volumes reads."""

    def drop(world: World, namespace: str, name: str) -> None:
        world.remove_storage(kind.view, f"{namespace}/{name}" if namespace else name)

    return WorldKind(kind, World.set_storage, drop, frozenset(("predicates",)))


def _device(kind: Kind, *plugins: str) -> WorldKind:
    """Return a kind that allocation of devices reads."""

    def drop(world: World, namespace: str, name: str) -> None:
        world.remove_device(kind.view, f"{namespace}/{name}" if namespace else name)

    return WorldKind(kind, World.set_device, drop, frozenset(("predicates", *plugins)), optional=True)


KINDS: tuple[WorldKind, ...] = (
    WorldKind(catalog.PRIORITYCLASS, World.set_priority_class, lambda w, _, name: w.remove_priority_class(name)),
    WorldKind(catalog.QUEUE, World.set_queue, lambda w, _, name: w.remove_queue(name)),
    WorldKind(
        catalog.NAMESPACE,
        lambda w, view: w.set_namespace(view.metadata.name, view.metadata.labels or {}),
        lambda w, _, name: w.remove_namespace(name),
    ),
    _storage(catalog.STORAGECLASS),
    _storage(catalog.CSIDRIVER),
    _storage(catalog.CSINODE),
    _storage(catalog.CSISTORAGECAPACITY),
    _storage(catalog.PERSISTENTVOLUME),
    _storage(catalog.PERSISTENTVOLUMECLAIM),
    _device(catalog.DEVICECLASS),
    _device(catalog.RESOURCESLICE),
    _device(catalog.RESOURCECLAIM, "capacity"),
    WorldKind(catalog.RESOURCEQUOTA, World.set_quota, World.remove_quota),
    WorldKind(catalog.NODE, World.set_node, lambda w, _, name: w.remove_node(name)),
    WorldKind(catalog.HYPERNODE, World.set_hyper_node, lambda w, _, name: w.remove_hyper_node(name)),
    WorldKind(catalog.PODGROUP, World.set_group, lambda w, ns, name: w.remove_group(f"{ns}/{name}")),
    WorldKind(catalog.POD, World.set_pod, lambda w, ns, name: w.remove_pod(f"{ns}/{name}")),
    WorldKind(catalog.NODESHARD, World.set_shard, lambda w, _, name: w.remove_shard(name), frozenset((SHARDING,))),
    _keep(catalog.PODDISRUPTIONBUDGET, "pdb", PREEMPTION),
    _keep(catalog.NUMATOPOLOGY, "numa-aware", optional=True),
)
"""The table."""

_BY_NAME: Mapping[str, tuple[WorldKind, ...]] = {
    name: tuple(k for k in KINDS if k.kind.name == name) for name in {k.kind.name for k in KINDS}
}


def find(api_version: str, name: str) -> WorldKind | None:
    """Return the kind of a manifest; an absent ``apiVersion`` matches by name alone, another group not at all."""
    for known in _BY_NAME.get(name, ()):
        group = api_version.rpartition("/")[0]
        if not api_version or group == known.kind.group:
            return known
    return None


def of(kind: Kind) -> WorldKind:
    """Return the entry of a kind that is in the table."""
    return next(known for known in KINDS if known.kind is kind)


def wanted(plugins: Collection[str]) -> Iterator[WorldKind]:
    """Return the kinds that a scheduler with these plugins reads, in the order of the table."""
    return (known for known in KINDS if known.wanted(plugins))
