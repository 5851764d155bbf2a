"""What the data plane is told of a service, or of a pod's host ports: addresses, ports, endpoints. Pure.

Which endpoints count is as with kube-proxy: those that are ready; if there are none, those that still serve while they
are terminating; of these the node's own alone where the traffic policy says ``Local``.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence

import msgspec

from strato.api.core import Pod, Service
from strato.api.discovery import Endpoint, EndpointSlice

_EVERY_ADDRESS = "0.0.0.0"
MAX_BACKENDS = 4096
"""Endpoints of a service that are used, at most."""


class Backend(msgspec.Struct, frozen=True, array_like=True):
    """Where connections to a port end."""

    address: str
    port: int


class PortRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A port of a service."""

    name: str = ""
    protocol: str = "TCP"
    port: int = 0
    node_port: int = 0
    """Opened at the node's addresses: a service's node port, or a pod's host port."""
    node_address: str = ""
    """The one of the node's addresses that it is opened at; empty: each."""
    backends: tuple[Backend, ...] = ()
    """For connections from within the cluster."""
    outer_backends: tuple[Backend, ...] = ()
    """For connections to the node port."""


class HostRecord(msgspec.Struct, frozen=True, kw_only=True):
    """An endpoint of a headless service, by name."""

    address: str
    hostname: str = ""
    ports: tuple[tuple[str, str, int], ...] = ()
    """Name, protocol and number."""


class ServiceRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A service."""

    namespace: str
    name: str
    cluster_ip: str = ""
    """Empty for headless services and external names."""
    external_name: str = ""
    affinity_seconds: int = 0
    """For how long a client keeps its endpoint; 0: it does not."""
    ports: tuple[PortRecord, ...] = ()
    hosts: tuple[HostRecord, ...] = ()
    """Of a headless service."""


def record_of(service: Service, slices: Iterable[EndpointSlice], nodes: Container[str]) -> ServiceRecord:
    """Return what the data plane of a machine needs to know, which is these nodes."""
    spec, meta = service.spec, service.metadata
    name, namespace = meta.name, meta.namespace
    if spec.type == "ExternalName":
        return ServiceRecord(namespace=namespace, name=name, external_name=spec.external_name.rstrip("."))
    slices = [one for one in slices if one.address_type == "IPv4"]
    if spec.cluster_ip in ("", "None"):
        return ServiceRecord(namespace=namespace, name=name, hosts=_hosts(slices))
    ports = []
    for port in spec.ports:
        endpoints = [
            (endpoint, number)
            for one in slices
            for number in [_number(one, port.name, port.protocol)]
            if number
            for endpoint in one.endpoints
        ]
        own = [pair for pair in endpoints if pair[0].node_name in nodes]
        ports.append(
            PortRecord(
                name=port.name,
                protocol=port.protocol,
                port=port.port,
                node_port=port.node_port,
                backends=_backends(own if spec.internal_traffic_policy == "Local" else endpoints),
                outer_backends=_backends(own if spec.external_traffic_policy == "Local" else endpoints),
            )
        )
    config = spec.session_affinity_config or {}
    seconds = (config.get("clientIP") or {}).get("timeoutSeconds") or 10800
    return ServiceRecord(
        namespace=namespace,
        name=name,
        cluster_ip=spec.cluster_ip,
        affinity_seconds=seconds if spec.session_affinity == "ClientIP" else 0,
        ports=tuple(ports),
    )


def host_ports_of(pod: Pod, *, shares_network: bool, node_address: str = "") -> ServiceRecord | None:
    """Return the host ports of a pod that runs; None: it has none to be opened.

    Those of a pod in the machine's network are its own to open, and so is, where pods share that network, a host port
    equal to its container port.

    Args:
        pod: One of this node.
        shares_network: Whether pods are in the machine's network, at loopback addresses.
        node_address: Of its node, where others of this machine have addresses of their own; empty: all addresses.
    """
    spec, address = pod.spec, pod.status.pod_ip
    if spec.host_network or not address or pod.is_finished:
        return None
    sidecars = (container for container in spec.init_containers if container.restart_policy == "Always")
    ports = tuple(
        PortRecord(
            protocol=port.protocol,
            node_port=port.host_port,
            node_address=node_address if port.host_ip in ("", _EVERY_ADDRESS) else port.host_ip,
            outer_backends=(Backend(address, port.container_port),),
        )
        for container in (*spec.containers, *sidecars)
        for port in container.ports
        if port.host_port and not (shares_network and port.host_port == port.container_port)
    )
    return ServiceRecord(namespace=pod.metadata.namespace, name=pod.metadata.name, ports=ports) if ports else None


def _number(one: EndpointSlice, name: str, protocol: str) -> int:
    for port in one.ports:
        if (port.name or "") == name and (port.protocol or "TCP") == protocol:
            return port.port or 0
    return 0


def _backends(endpoints: Sequence[tuple[Endpoint, int]]) -> tuple[Backend, ...]:
    usable = [pair for pair in endpoints if pair[0].conditions.ready is not False]
    if not usable:
        usable = [pair for pair in endpoints if pair[0].conditions.serving and pair[0].conditions.terminating]
    found = {Backend(endpoint.addresses[0], number) for endpoint, number in usable if endpoint.addresses}
    return tuple(sorted(found, key=lambda backend: (backend.address, backend.port)))[:MAX_BACKENDS]


def _hosts(slices: Iterable[EndpointSlice]) -> tuple[HostRecord, ...]:
    by_address: dict[tuple[str, str], set[tuple[str, str, int]]] = {}
    for one in slices:
        ports = {(port.name or "", port.protocol or "TCP", port.port or 0) for port in one.ports}
        for endpoint in one.endpoints:
            if endpoint.addresses and endpoint.conditions.ready is not False:
                by_address.setdefault((endpoint.addresses[0], endpoint.hostname or ""), set()).update(ports)
    found = sorted(by_address.items())[:MAX_BACKENDS]
    return tuple(HostRecord(address=at, hostname=host, ports=tuple(sorted(ports))) for (at, host), ports in found)


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What the data plane is told once, before any service."""

    network: str
    """Of the cluster IPs."""
    pods: str
    """Network of this node's pods."""
    is_routed: bool
    """Whether the cluster IPs have to be made this machine's; those on loopback are."""
    node_addresses: tuple[str, ...]
    """Of this machine, those of loopback left out: where node ports are opened, beside ``127.0.0.1``."""
    neighbour_addresses: tuple[str, ...] = ()
    """Of further nodes that this machine is: node ports are opened there too, and the host ports of their pods."""
    is_open: bool
    """Whether node ports take clients that are not on this machine."""
    reaches_beyond: bool
    """Whether pods may reach what is neither a pod nor this machine."""
    api: tuple[str, int]
    """Where the API server listens, as this machine reaches it."""
    api_service: tuple[str, str] = ("default", "kubernetes")
    dns: str = ""
    """Address of the name server; empty: there is none."""
    domain: str = "cluster.local"
    upstreams: tuple[str, ...] = ()
    """The machine's name servers; without any, only the cluster's names are known."""


class Update(msgspec.Struct, frozen=True, kw_only=True):
    """One message to the data plane: the settings first, then services and pods with host ports."""

    settings: Settings | None = None
    key: str = ""
    """Namespace and name of the service or pod."""
    is_pod: bool = False
    """Whether it is a pod, whose host ports the record holds."""
    service: ServiceRecord | None = None
    """None: it is gone."""


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """One message from the data plane."""

    key: str = ""
    """The service or pod that cannot be served as it asks; empty: all of them."""
    is_pod: bool = False
    problem: str = ""
    is_ready: bool = False
    """The settings have been taken."""
    has_dns: bool = False
