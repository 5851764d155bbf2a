"""The variables by which containers find services, as the kubelet sets them. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from strato.api.core import Pod, Service

_API_SERVER = ("default", "kubernetes")


def service_variables(pod: Pod, services: Iterable[Service]) -> dict[str, str]:
    """Return the variables of the services in the pod's namespace, and always those of the API server's service."""
    chosen: dict[str, Service] = {}
    for service in services:
        meta, address = service.metadata, service.spec.cluster_ip
        if not address or address == "None":
            continue
        if (meta.namespace, meta.name) == _API_SERVER:
            chosen.setdefault(meta.name, service)  # a service of that name in the pod's own namespace takes precedence
        elif meta.namespace == pod.metadata.namespace and pod.spec.enable_service_links:
            chosen[meta.name] = service
    values: dict[str, str] = {}
    for name in sorted(chosen):
        values |= _variables(chosen[name])
    return values


def _variables(service: Service) -> dict[str, str]:
    prefix, address, ports = _variable_name(service.metadata.name), service.spec.cluster_ip, service.spec.ports
    values = {f"{prefix}_SERVICE_HOST": address}
    if not ports:
        return values
    values[f"{prefix}_SERVICE_PORT"] = str(ports[0].port)
    for port in ports:
        if port.name:
            values[f"{prefix}_SERVICE_PORT_{_variable_name(port.name)}"] = str(port.port)
    for index, port in enumerate(ports):
        protocol = port.protocol.lower()
        url = f"{protocol}://{address}:{port.port}"
        if index == 0:
            values[f"{prefix}_PORT"] = url
        one = f"{prefix}_PORT_{port.port}_{port.protocol.upper()}"
        values |= {one: url, f"{one}_PROTO": protocol, f"{one}_PORT": str(port.port), f"{one}_ADDR": address}
    return values


def _variable_name(name: str) -> str:
    return name.upper().replace("-", "_")
