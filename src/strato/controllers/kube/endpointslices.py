"""Write EndpointSlices: those of services, and those mirrored from Endpoints that users make."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, ClassVar, Final

from strato.api import catalog
from strato.api.core import Endpoints, Service
from strato.api.core.service import EndpointAddress
from strato.api.discovery import EndpointSlice
from strato.api.kinds import Kind
from strato.api.meta import Key
from strato.client.cluster import Cluster
from strato.client.informer import Change
from strato.controllers.context import ControllerContext
from strato.controllers.owners import controller_reference
from strato.controllers.reconcile import KeyedController
from strato.errors import AlreadyExists, NotFound

SERVICE_NAME: Final = "kubernetes.io/service-name"
MANAGED_BY: Final = "endpointslice.kubernetes.io/managed-by"
MIRROR: Final = "endpointslicemirroring-controller.k8s.io"
MAX_ENDPOINTS_PER_SLICE: Final = 100

Group = tuple[Sequence[Mapping[str, Any]], Sequence[Mapping[str, Any]]]
"""Ports, and the endpoints that have these ports."""


def slice_bodies(
    owner: Mapping[str, Any], key: Key, labels: Mapping[str, str], groups: Iterable[Group]
) -> list[dict[str, Any]]:
    """Return the slices of a service; each slice holds endpoints of one group and one address family, up to a limit."""
    bodies: list[dict[str, Any]] = []
    for ports, endpoints in groups:
        families: dict[str, list[Mapping[str, Any]]] = {}
        for endpoint in endpoints:
            families.setdefault("IPv6" if ":" in endpoint["addresses"][0] else "IPv4", []).append(endpoint)
        for family, found in (families or {"IPv4": []}).items():
            for start in range(0, max(1, len(found)), MAX_ENDPOINTS_PER_SLICE):
                suffix = "" if family == "IPv4" else "-ipv6"  # the family of a slice cannot be changed
                body = {
                    "apiVersion": "discovery.k8s.io/v1",
                    "kind": "EndpointSlice",
                    "metadata": {
                        "name": f"{key.name}-{len(bodies)}{suffix}",
                        "namespace": key.namespace,
                        "labels": dict(labels),
                        "ownerReferences": [owner],
                    },
                    "addressType": family,
                    "endpoints": found[start : start + MAX_ENDPOINTS_PER_SLICE],
                    "ports": ports,
                }
                bodies.append(body)
    return bodies


async def write_slices(cluster: Cluster, bodies: Iterable[dict[str, Any]], present: set[str], namespace: str) -> None:
    """Bring the slices of a service up to date, and delete those of its present slices that are no longer wanted."""
    left = set(present)
    for body in bodies:
        name = body["metadata"]["name"]
        change = {"endpoints": body["endpoints"], "ports": body["ports"]}
        await put(cluster, catalog.ENDPOINTSLICE, body, change, name in present)
        left.discard(name)
    for name in left:
        with suppress(NotFound):
            await cluster.delete(EndpointSlice, name, namespace)


async def put(cluster: Cluster, kind: Kind, body: dict[str, Any], change: dict[str, Any], exists: bool) -> None:
    """Create an object, or patch it if it exists; when the cache was wrong about that, do the other."""
    name, namespace = body["metadata"]["name"], body["metadata"]["namespace"]
    if not exists:
        try:
            await cluster.create(kind, body, namespace)
        except AlreadyExists:
            pass
        else:
            return
    try:
        await cluster.patch(kind, name, namespace, change)
    except NotFound:
        await cluster.create(kind, body, namespace)


def mirrored_groups(endpoints: Endpoints) -> list[Group]:
    """Return the subsets of an Endpoints object as groups of a slice."""

    def endpoint(address: EndpointAddress, ready: bool) -> dict[str, Any]:
        optional = {"hostname": address.hostname, "nodeName": address.node_name}
        found: dict[str, Any] = {"addresses": [address.ip], "conditions": {"ready": ready}}
        return found | {name: value for name, value in optional.items() if value}

    return [
        (
            [{"name": port.name, "port": port.port, "protocol": port.protocol} for port in subset.ports],
            [endpoint(one, True) for one in subset.addresses]
            + [endpoint(one, False) for one in subset.not_ready_addresses],
        )
        for subset in endpoints.subsets
        if subset.addresses or subset.not_ready_addresses
    ]


class EndpointSliceMirror(KeyedController):
    """Mirrors the Endpoints of services without a selector: users who write such Endpoints write no slices."""

    name: ClassVar[str] = "kube-endpointslicemirroring-controller"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._services = context.informers.informer(Service)
        self._endpoints = context.informers.informer(Endpoints)
        self._slices = context.informers.informer(EndpointSlice)
        self._slices.add_index(
            "mirrors",
            lambda one: (
                [f"{one.metadata.namespace}/{one.metadata.label(SERVICE_NAME)}"]
                if one.metadata.label(MANAGED_BY) == MIRROR
                else ()
            ),
        )
        for informer in (self._services, self._endpoints):
            informer.add_handler(self._on_change)
        self._slices.add_handler(self._on_slice)

    def _on_slice(self, change: Change[EndpointSlice]) -> None:
        old = change.old
        if change.new is None and old is not None and old.metadata.label(MANAGED_BY) == MIRROR:
            self.queue.add(Key(old.metadata.namespace, old.metadata.label(SERVICE_NAME)))

    def _on_change(self, change: Change[Any]) -> None:
        service = self._services.get(change.key)
        if service is None or not service.spec.selector:
            self.queue.add(change.key)

    async def reconcile(self, key: Key) -> float | None:
        """Write the slices of one Endpoints object, or delete them when they are no longer wanted."""
        service, endpoints = self._services.get(key), self._endpoints.get(key)
        present = {one.metadata.name for one in self._slices.index("mirrors", str(key))}
        bodies: list[dict[str, Any]] = []
        if (
            service is not None
            and endpoints is not None
            and not service.spec.selector
            and endpoints.metadata.label("endpointslice.kubernetes.io/skip-mirror") != "true"
        ):
            labels = {**(endpoints.metadata.labels or {}), SERVICE_NAME: key.name, MANAGED_BY: MIRROR}
            owner = controller_reference("v1", "Endpoints", endpoints.metadata)
            bodies = slice_bodies(owner, key, labels, mirrored_groups(endpoints))
        await write_slices(self._cluster, bodies, present, key.namespace)
        return None
