"""Endpoints and EndpointSlices: the addresses behind every Service that selects pods.

Pod events keep the members of each service up to date. `Selectors` finds services by one pair of their selector, the
rarest, so that a pod event costs little besides the services that select the pod. Changes of one service are batched
for `BATCH_SECONDS`, because the pods of a job become ready together.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, ClassVar, Final

from strato.api import catalog
from strato.api.core import Endpoints, Pod, Service
from strato.api.discovery import EndpointSlice
from strato.api.meta import Key
from strato.client.informer import Change
from strato.controllers.context import ControllerContext
from strato.controllers.kube.endpointslices import MANAGED_BY, SERVICE_NAME, put, slice_bodies, write_slices
from strato.controllers.owners import controller_reference
from strato.controllers.reconcile import KeyedController
from strato.errors import Forbidden, NotFound

MANAGER: Final = "endpointslice-controller.k8s.io"
HEADLESS: Final = "service.kubernetes.io/headless"

BATCH_SECONDS: Final = 0.1
"""Changes of one service within this time are written together."""

MAX_ENDPOINTS: Final = 1000
"""Most addresses in an Endpoints object; its slices hold all."""

Pair = tuple[str, str, str]
"""Namespace, label key, label value."""

_BY_LABEL: Final = "label"
"""Name of the index of pods by namespace and label, so that a new service need not scan all pods of its namespace."""


class Selectors:
    """Services by the rarest pair of their selector at the time they were added."""

    def __init__(self) -> None:
        self._by_pair: dict[Pair, dict[Key, Mapping[str, str]]] = {}
        self._pair_of: dict[Key, Pair] = {}

    def __len__(self) -> int:
        """Return how many services select anything."""
        return len(self._pair_of)

    def put(self, key: Key, selector: Mapping[str, str]) -> None:
        """Add a service or change its selector; an empty selector selects nothing."""
        self.remove(key)
        if not selector:
            return
        pairs = [(key.namespace, name, value) for name, value in selector.items()]
        pair = min(pairs, key=lambda p: len(self._by_pair.get(p, ())))
        self._by_pair.setdefault(pair, {})[key] = selector
        self._pair_of[key] = pair

    def remove(self, key: Key) -> None:
        """Forget a service."""
        pair = self._pair_of.pop(key, None)
        if pair is not None:
            services = self._by_pair[pair]
            del services[key]
            if not services:
                del self._by_pair[pair]

    def matching(self, namespace: str, labels: Mapping[str, str] | None) -> list[Key]:
        """Return the services that select a pod with these labels."""
        found: list[Key] = []
        for name, value in (labels or {}).items():
            services = self._by_pair.get((namespace, name, value))
            if services:
                assert labels is not None
                found.extend(key for key, selector in services.items() if selector.items() <= labels.items())
        return found


def address_of(pod: Pod, *, publish_not_ready: bool) -> dict[str, Any] | None:
    """Return a pod's endpoint as a slice holds it, None when the pod has no address or has ended."""
    status, meta = pod.status, pod.metadata
    if not status.pod_ip or pod.is_finished:
        return None
    serving = pod.is_ready
    terminating = meta.deletion_timestamp is not None
    endpoint: dict[str, Any] = {
        "addresses": [status.pod_ip],
        "conditions": {
            "ready": publish_not_ready or (serving and not terminating),
            "serving": serving,
            "terminating": terminating,
        },
        "targetRef": {"kind": "Pod", "name": meta.name, "namespace": meta.namespace, "uid": meta.uid},
    }
    if pod.spec.node_name:
        endpoint["nodeName"] = pod.spec.node_name
    if pod.spec.hostname and pod.spec.subdomain:
        endpoint["hostname"] = pod.spec.hostname
    return endpoint


def ports_of(service: Service, pod: Pod | None) -> list[dict[str, Any]]:
    """Return the ports of a service; named target ports are looked up in a pod."""
    ports = []
    for port in service.spec.ports:
        number = _target_port(port.target_port or port.port, pod)
        if number:
            ports.append({"name": port.name, "port": number, "protocol": port.protocol})
    return ports


def _target_port(target: int | str, pod: Pod | None) -> int:
    if isinstance(target, int):
        return target
    for container in pod.spec.containers if pod is not None else ():
        for declared in container.ports:
            if declared.name == target:
                return declared.container_port
    return 0


def port_groups(
    service: Service, members: Sequence[tuple[Pod | None, dict[str, Any]]]
) -> list[tuple[list[dict[str, Any]], list[dict[str, Any]]]]:
    """Return groups of endpoints with equal ports; a named port may have a different number in each pod."""
    if not any(isinstance(port.target_port, str) for port in service.spec.ports) or not members:
        return [(ports_of(service, None), [endpoint for _, endpoint in members])]
    groups: dict[str, tuple[list[dict[str, Any]], list[dict[str, Any]]]] = {}
    for pod, endpoint in members:
        ports = ports_of(service, pod)
        groups.setdefault(str(ports), (ports, []))[1].append(endpoint)
    return list(groups.values())


def build_endpoints(
    service: Service, endpoints: Sequence[Mapping[str, Any]], ports: Sequence[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Return the subsets of an Endpoints object."""
    groups: dict[str, list[dict[str, Any]]] = {"addresses": [], "notReadyAddresses": []}
    for endpoint in endpoints[:MAX_ENDPOINTS]:
        conditions = endpoint["conditions"]
        if conditions["terminating"] and not service.spec.publish_not_ready_addresses:
            continue
        address: dict[str, Any] = {"ip": endpoint["addresses"][0], "targetRef": endpoint["targetRef"]}
        for member in ("nodeName", "hostname"):
            if member in endpoint:
                address[member] = endpoint[member]
        groups["addresses" if conditions["ready"] else "notReadyAddresses"].append(address)
    subset: dict[str, Any] = {member: addresses for member, addresses in groups.items() if addresses}
    if not subset:
        return []
    if ports:
        subset["ports"] = list(ports)
    return [subset]


class EndpointsController(KeyedController):
    """See the module."""

    name: ClassVar[str] = "kube-endpoints-controller"
    workers: ClassVar[int] = 8

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._selectors = Selectors()
        self._members: defaultdict[Key, dict[Key, dict[str, Any]]] = defaultdict(dict)
        self._written: dict[Key, tuple[Any, Any]] = {}
        self._deleted: set[Key] = set()
        """Services whose Endpoints or slices somebody deleted since their last reconcile began."""
        self._services = context.informers.informer(Service)
        self._pods = context.informers.informer(Pod)
        self._pods.add_index(_BY_LABEL, lambda pod: _label_values(pod.metadata.namespace, pod.metadata.labels))
        self._endpoints = context.informers.informer(Endpoints)
        self._slices = context.informers.informer(EndpointSlice)
        self._slices.add_index("service", _service_of)
        self._services.add_handler(self._on_service)
        self._endpoints.add_handler(self._on_endpoints)
        self._slices.add_handler(self._on_slice)
        self._pods.add_handler(self._on_pod, among=lambda changes: changes if len(self._selectors) else ())

    # Events

    def _on_service(self, change: Change[Service]) -> None:
        key, new = change.key, change.new
        if new is None:
            self._selectors.remove(key)
            self._members.pop(key, None)
            self._written.pop(key, None)
            self._deleted.discard(key)
            self.queue.add(key)
            return
        old = change.old
        if old is not None and old.spec == new.spec:
            return
        self._selectors.put(key, new.spec.selector)
        if (
            old is None
            or old.spec.selector != new.spec.selector
            or (old.spec.publish_not_ready_addresses != new.spec.publish_not_ready_addresses)
        ):
            self._members[key] = self._scan(new)
        self.queue.add(key)

    def _scan(self, service: Service) -> dict[Key, dict[str, Any]]:
        """Return the members of a service that is new or has a new selector; scans the pods with its rarest label."""
        selector, namespace = service.spec.selector, service.metadata.namespace
        found: dict[Key, dict[str, Any]] = {}
        wanted = selector.items()
        for pod in self._pods.index_fewest(_BY_LABEL, _label_values(namespace, selector)):
            if wanted <= (pod.metadata.labels or {}).items():
                endpoint = address_of(pod, publish_not_ready=service.spec.publish_not_ready_addresses)
                if endpoint is not None:
                    found[pod.key] = endpoint
        return found

    def _on_pod(self, change: Change[Pod]) -> None:
        old, new = change.old, change.new
        if new is None or (old is not None and old.metadata.labels != new.metadata.labels):
            assert old is not None
            for key in self._selectors.matching(change.key.namespace, old.metadata.labels):
                self._change(key, change.key, None)
        if new is None or (not new.status.pod_ip and (old is None or not old.status.pod_ip)):
            return
        for key in self._selectors.matching(change.key.namespace, new.metadata.labels):
            service = self._services.get(key)
            if service is not None:
                publish = service.spec.publish_not_ready_addresses
                self._change(key, change.key, address_of(new, publish_not_ready=publish))

    def _on_endpoints(self, change: Change[Endpoints]) -> None:
        if change.new is None:
            self._write_again(change.key)

    def _on_slice(self, change: Change[EndpointSlice]) -> None:
        if change.new is None and change.old is not None:
            for text in _service_of(change.old):
                namespace, _, name = text.partition("/")
                self._write_again(Key(namespace, name))

    def _write_again(self, service: Key) -> None:
        """Queue a service whose Endpoints or slices somebody deleted: they are written again, with unchanged pods."""
        if service in self._services:
            self._written.pop(service, None)
            self._deleted.add(service)
            self.queue.add(service)

    def _change(self, service: Key, pod: Key, endpoint: dict[str, Any] | None) -> None:
        members = self._members[service]
        if members.get(pod) == endpoint:
            return
        if endpoint is None:
            members.pop(pod, None)
        else:
            members[pod] = endpoint
        self.queue.add_after(service, BATCH_SECONDS)

    # Work

    async def reconcile(self, key: Key) -> float | None:
        """Write the endpoints of one service."""
        service = self._services.get(key)
        if service is None:
            await self._clean(key)
            return None
        if not service.spec.selector or service.spec.type == "ExternalName":
            return None
        members = self._members[key]
        names = sorted(members)
        endpoints = [members[name] for name in names]
        groups = port_groups(service, [(self._pods.get(name), members[name]) for name in names])
        subsets = [subset for ports, group in groups for subset in build_endpoints(service, group, ports)]
        if self._written.get(key) == (subsets, endpoints):
            return None
        self._deleted.discard(key)
        try:
            await self._write_endpoints(service, subsets)
            labels = {**(service.metadata.labels or {}), SERVICE_NAME: key.name, MANAGED_BY: MANAGER}
            if service.spec.cluster_ip == "None":
                labels[HEADLESS] = ""
            bodies = slice_bodies(controller_reference("v1", "Service", service.metadata), key, labels, groups)
            present = {item.metadata.name for item in self._slices.index("service", str(key))}
            await write_slices(self._cluster, bodies, present, key.namespace)
        except Forbidden:
            return None  # the namespace is going away
        if key not in self._deleted:
            self._written[key] = (subsets, endpoints)
        return None

    async def _clean(self, key: Key) -> None:
        """Delete the Endpoints of a deleted service; the garbage collector deletes its slices, which it owned."""
        if key in self._endpoints:
            with suppress(NotFound):
                await self._cluster.delete(Endpoints, key.name, key.namespace)

    async def _write_endpoints(self, service: Service, subsets: list[dict[str, Any]]) -> None:
        labels = {**(service.metadata.labels or {}), "endpoints.kubernetes.io/managed-by": "endpoint-controller"}
        if service.spec.cluster_ip == "None":
            labels[HEADLESS] = ""
        body = {
            "apiVersion": "v1",
            "kind": "Endpoints",
            "metadata": {"name": service.metadata.name, "namespace": service.metadata.namespace, "labels": labels},
            "subsets": subsets,
        }
        await put(self._cluster, catalog.ENDPOINTS, body, {"subsets": subsets}, service.key in self._endpoints)


def _label_values(namespace: str, labels: Mapping[str, str] | None) -> list[str]:
    return [f"{namespace}/{name}={value}" for name, value in (labels or {}).items()]


def _service_of(item: EndpointSlice) -> Iterable[str]:
    name = item.metadata.label(SERVICE_NAME)
    if name and item.metadata.label(MANAGED_BY) == MANAGER:
        yield f"{item.metadata.namespace}/{name}"
