"""Services and their endpoints."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from strato.api.meta import Object, View
from strato.api.shapes import EMPTY, IntOrString, ObjectReference


class ServicePort(View, frozen=True, kw_only=True):
    """``spec.ports[]``."""

    name: str = ""
    protocol: str = "TCP"
    port: int = 0
    target_port: IntOrString = 0
    node_port: int = 0
    app_protocol: str = ""


class ServiceSpec(View, frozen=True, kw_only=True):
    """``spec``. A ``clusterIP`` of "None" makes it headless."""

    type: str = "ClusterIP"
    selector: Mapping[str, str] = EMPTY
    ports: tuple[ServicePort, ...] = ()
    cluster_ip: str = msgspec.field(default="", name="clusterIP")
    external_name: str = ""
    session_affinity: str = "None"
    session_affinity_config: Mapping[str, Mapping[str, int]] | None = None
    internal_traffic_policy: str = "Cluster"
    external_traffic_policy: str = "Cluster"
    publish_not_ready_addresses: bool = False


class Service(Object, frozen=True, kw_only=True):
    """A service."""

    spec: ServiceSpec = ServiceSpec()


class EndpointAddress(View, frozen=True, kw_only=True):
    """One address behind a service."""

    ip: str = ""
    hostname: str = ""
    node_name: str = ""
    target_ref: ObjectReference | None = None


class EndpointPort(View, frozen=True, kw_only=True):
    """One port behind a service."""

    name: str = ""
    port: int = 0
    protocol: str = "TCP"


class EndpointSubset(View, frozen=True, kw_only=True):
    """Addresses that share ports."""

    addresses: tuple[EndpointAddress, ...] = ()
    not_ready_addresses: tuple[EndpointAddress, ...] = ()
    ports: tuple[EndpointPort, ...] = ()


class Endpoints(Object, frozen=True, kw_only=True):
    """The endpoints of the service with the same name."""

    subsets: tuple[EndpointSubset, ...] = ()
