"""The objects of a whole cluster as an immutable value: `cluster()` collects manifests for a test.

    TWO_NODES = cluster().node("a", cpu="4").node("b", cpu="4").queue("q", weight=2)
    scene = TWO_NODES.pod_group("g", min_member=2).pod("p1", cpu="1", group="g")

A scene is immutable: each step returns an extended copy, so that cases of a test table can share a common part.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from strato.api import catalog
from strato.api.meta import Object
from strato.client.cluster import Cluster, Json
from strato.client.codec import kind_of
from strato.errors import AlreadyExists
from strato.testing import manifests
from strato.testing.manifests import Manifest

V = TypeVar("V", bound=Object)


@dataclass(frozen=True, slots=True)
class Scene:
    """An ordered set of manifests."""

    objects: tuple[Manifest, ...] = ()

    def add(self, *objects: Mapping[str, Any]) -> Scene:
        """Add manifests unchanged."""
        made = (item if isinstance(item, Manifest) else Manifest(item) for item in objects)
        return Scene((*self.objects, *made))

    def node(self, name: str, **fields: Any) -> Scene:
        """Add a node; arguments as `manifests.node`."""
        return self.add(manifests.node(name, **fields))

    def nodes(self, count: int, *, prefix: str = "node", **fields: Any) -> Scene:
        """Add equal nodes ``prefix-0``, ``prefix-1`` and so on."""
        return self.add(*(manifests.node(f"{prefix}-{number}", **fields) for number in range(count)))

    def queue(self, name: str, **fields: Any) -> Scene:
        """Add a queue; arguments as `manifests.queue`."""
        return self.add(manifests.queue(name, **fields))

    def pod_group(self, name: str, **fields: Any) -> Scene:
        """Add a pod group; arguments as `manifests.podgroup`."""
        return self.add(manifests.podgroup(name, **fields))

    def pod(self, name: str, *, on: str = "", phase: str = "", **fields: Any) -> Scene:
        """Add a pod; ``on`` binds it to a node (Running unless ``phase`` says another)."""
        made = manifests.pod(name, **fields)
        if on:
            made = made.on(on, phase=phase or "Running")
        elif phase:
            return self.add(made.status(phase=phase))
        return self.add(made)

    def pods(self, count: int, *, prefix: str = "pod", **fields: Any) -> Scene:
        """Add equal pods ``prefix-0``, ``prefix-1`` and so on."""
        scene = self
        for number in range(count):
            scene = scene.pod(f"{prefix}-{number}", **fields)
        return scene

    def gang(
        self,
        name: str,
        size: int,
        *,
        namespace: str = "default",
        queue: str = "default",
        min_member: int | None = None,
        phase: str = "",
        **fields: Any,
    ) -> Scene:
        """Add a pod group and its equal pods ``name-0``, ``name-1`` and so on."""
        members = size if min_member is None else min_member
        scene = self.pod_group(name, namespace=namespace, queue=queue, min_member=members, phase=phase)
        return scene.pods(size, prefix=name, namespace=namespace, group=name, **fields)

    def priority_class(self, name: str, value: int) -> Scene:
        """Add a priority class."""
        return self.add(manifests.priority_class(name, value))

    def namespace(self, name: str) -> Scene:
        """Add a namespace."""
        return self.add(manifests.namespace(name))

    def __iter__(self) -> Iterator[Manifest]:
        return iter(self.objects)

    def manifests(self) -> Sequence[Json]:
        """Return all objects as JSON, in the order they were added."""
        return list(self.objects)

    def views(self, view: type[V]) -> list[V]:
        """Return the objects of one kind as typed views; uids and revisions are numbered when absent."""
        kind = kind_of(view)
        found = []
        for number, item in enumerate(self.objects, start=1):
            if item["kind"] == kind.name and item["apiVersion"] == kind.api_version:
                metadata = {"uid": f"uid-{number}", "resourceVersion": str(number), **item["metadata"]}
                found.append(item.set("metadata", metadata).view(view))
        return found

    async def create_in(self, cluster: Cluster) -> None:
        """Create all objects through an API, with statuses and bindings; existing objects are left unchanged."""
        for item in self.objects:
            await create_with_status(cluster, item)


async def create_with_status(cluster: Cluster, manifest: Mapping[str, Any]) -> Json:
    """Create an object and, if its kind has a status subresource, write its status; queues are set to Open at once."""
    kind = manifests.kind_of_manifest(manifest)
    metadata = manifest["metadata"]
    name, space = metadata["name"], metadata.get("namespace", "")
    try:
        made: Json = await cluster.create(kind, {**manifest}, space)
    except AlreadyExists:
        return await cluster.get(kind, name, space)
    status = manifest.get("status")
    if kind is catalog.QUEUE and not status:
        status = {"state": "Open"}  # set here, as jobs are refused until the queue's controller has opened it
    if status and kind.has_status:
        made = await cluster.patch(kind, name, space, {"status": status}, subresource="status")
    return made


def cluster() -> Scene:
    """Return an empty scene."""
    return Scene()
