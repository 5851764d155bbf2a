"""Views of discovery.k8s.io/v1."""

from __future__ import annotations

from strato.api.meta import Object, View
from strato.api.shapes import ObjectReference


class EndpointConditions(View, frozen=True, kw_only=True):
    """What an endpoint is good for."""

    ready: bool | None = None
    serving: bool | None = None
    terminating: bool | None = None


class Endpoint(View, frozen=True, kw_only=True):
    """One endpoint."""

    addresses: tuple[str, ...] = ()
    conditions: EndpointConditions = EndpointConditions()
    hostname: str = ""
    node_name: str = ""
    target_ref: ObjectReference | None = None


class EndpointPort(View, frozen=True, kw_only=True):
    """One port."""

    name: str = ""
    protocol: str = "TCP"
    port: int | None = None


class EndpointSlice(Object, frozen=True, kw_only=True):
    """Some of the endpoints of a service."""

    address_type: str = ""
    endpoints: tuple[Endpoint, ...] | None = None
    ports: tuple[EndpointPort, ...] | None = None
