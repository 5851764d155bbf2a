"""The messages to the data plane about services and pods' host ports: addresses, ports, endpoints. Pure.

Endpoints are chosen as by kube-proxy: those that are ready; if there are none, terminating ones that still serve. With
the traffic policy ``Local`` only the node's own endpoints are used.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence

import msgspec

from strato.api.core import Pod, Service
from strato.api.discovery import Endpoint, EndpointSlice

_EVERY_ADDRESS = "0.0.0.0"
MAX_BACKENDS = 4096
"""Most endpoints of a service that are used."""


class Backend(msgspec.Struct, frozen=True, array_like=True):
    """An endpoint of a port."""

    address: str
    port: int


class PortRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A port of a service."""

    name: str = ""
    protocol: str = "TCP"
    port: int = 0
    node_port: int = 0
    """Port to open at the node's addresses: a service's node port, or a pod's host port; 0 for none."""
    node_address: str = ""
    """The one address of the node at which to open it; empty for all."""
    backends: tuple[Backend, ...] = ()
    """Endpoints for connections from within the cluster."""
    outer_backends: tuple[Backend, ...] = ()
    """Endpoints for connections to the node port."""


class HostRecord(msgspec.Struct, frozen=True, kw_only=True):
    """An endpoint of a headless service, by name."""

    address: str
    hostname: str = ""
    ports: tuple[tuple[str, str, int], ...] = ()
    """Ports, each as name, protocol and number."""


class ServiceRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A service."""

    namespace: str
    name: str
    cluster_ip: str = ""
    """Empty for headless services and external names."""
    external_name: str = ""
    affinity_seconds: int = 0
    """For how long a client keeps its endpoint; 0 for no affinity."""
    ports: tuple[PortRecord, ...] = ()
    hosts: tuple[HostRecord, ...] = ()
    """Endpoints of a headless service."""


def record_of(service: Service, slices: Iterable[EndpointSlice], nodes: Container[str]) -> ServiceRecord:
    """Return the record of a service for the data plane of a machine that is the given nodes."""
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
            for endpoint in one.endpoints or ()
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
    """Return the host ports of a running pod that the data plane has to open; None if there are none.

    A pod in the machine's network opens its host ports itself. If all pods share that network, so does a pod whose host
    port equals its container port.

    Args:
        pod: A pod of this node.
        shares_network: Whether pods are in the machine's network, at loopback addresses.
        node_address: Address of its node, if the machine's nodes have different ones; empty for all addresses.
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
    for port in one.ports or ():
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
        ports = {(port.name or "", port.protocol or "TCP", port.port or 0) for port in one.ports or ()}
        for endpoint in one.endpoints or ():
            if endpoint.addresses and endpoint.conditions.ready is not False:
                by_address.setdefault((endpoint.addresses[0], endpoint.hostname or ""), set()).update(ports)
    found = sorted(by_address.items())[:MAX_BACKENDS]
    return tuple(HostRecord(address=at, hostname=host, ports=tuple(sorted(ports))) for (at, host), ports in found)


class DataPlaneSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of the data plane, sent once before any service."""

    network: str
    """Network of the cluster IPs."""
    pods: str
    """Network of this node's pods."""
    is_routed: bool
    """Whether the cluster IPs need a local route; loopback addresses do not."""
    node_addresses: tuple[str, ...]
    """Addresses of this machine except loopback, at which node ports are opened, besides ``127.0.0.1``."""
    neighbour_addresses: tuple[str, ...] = ()
    """Addresses of further nodes on this machine; node ports are opened there too, and the host ports of their pods."""
    is_open: bool
    """Whether node ports accept clients that are not on this machine."""
    reaches_beyond: bool
    """Whether pods may reach addresses that are neither pods nor this machine."""
    api: tuple[str, int]
    """Address and port at which this machine reaches the API server."""
    api_service: tuple[str, str] = ("default", "kubernetes")
    dns: str = ""
    """Address of the name server; empty for none."""
    domain: str = "cluster.local"
    upstreams: tuple[str, ...] = ()
    """The machine's name servers; without any, only the cluster's names can be resolved."""


class Update(msgspec.Struct, frozen=True, kw_only=True):
    """One message to the data plane: the settings first, then services and pods with host ports."""

    settings: DataPlaneSettings | None = None
    key: str = ""
    """Namespace and name of the service or pod."""
    is_pod: bool = False
    """Whether it is a pod, whose host ports the record holds."""
    service: ServiceRecord | None = None
    """The record; None when the service or pod is gone."""


class DataPlaneReport(msgspec.Struct, frozen=True, kw_only=True):
    """One message from the data plane."""

    key: str = ""
    """The service or pod that the report is about; empty for all, and where `client` names a pod."""
    is_pod: bool = False
    problem: str = ""
    client: str = ""
    """Address of a pod that asked for a name beyond what pods reach here."""
    name: str = ""
    """That name."""
    is_ready: bool = False
    """Whether the settings have been applied."""
    has_dns: bool = False
