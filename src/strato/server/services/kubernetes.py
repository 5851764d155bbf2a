"""The services of every cluster: ``default/kubernetes``, for this server, and ``kube-system/kube-dns``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv4Network

from strato.api import catalog
from strato.api.kinds import Kind
from strato.server.preparation import Json
from strato.server.rest.state import State
from strato.server.seed import ensure
from strato.server.snapshot import Change

DNS_OFFSET = 10
"""Index in the range of the name server's address, as in kubeadm; the first address is the API server's."""
_SERVICE_NAME = "kubernetes.io/service-name"


@dataclass(frozen=True, slots=True, kw_only=True)
class Advertised:
    """The addresses at which clients inside the cluster find the server."""

    network: IPv4Network
    """The range of cluster IPs."""
    service_port: int
    """Port of the service; 443 unless only root may use low ports on this machine."""
    address: str
    """Of the machine."""
    port: int

    @property
    def cluster_ip(self) -> str:
        """Address of the server's own service."""
        return str(self.network[1])


def publish(state: State, advertised: Advertised) -> None:
    """Create both services, and restore them whenever they are changed or deleted."""
    wanted = _manifests(advertised)
    names = {kind.resource: kind for kind, _ in wanted}

    def keep(resource: str, change: Change) -> None:
        manifest = wanted.get((names[resource], change.key))
        if manifest is not None and change.previous is not None:
            ensure(state, names[resource], manifest, renew=True)

    for (kind, _), manifest in wanted.items():
        ensure(state, kind, manifest, renew=True)
    for resource in names:
        state.store.on_publish(resource, keep)


def _manifests(advertised: Advertised) -> Mapping[tuple[Kind, str], Json]:
    metadata = {"name": "kubernetes", "namespace": "default"}
    endpoint_port = {"name": "https", "port": advertised.port, "protocol": "TCP"}
    service_port = {**endpoint_port, "port": advertised.service_port, "targetPort": advertised.port}
    skip = {"endpointslice.kubernetes.io/skip-mirror": "true"}
    address = advertised.address
    family = "IPv6" if ":" in address else "IPv4"
    dns_ports = [
        {"name": name, "port": 53, "protocol": protocol, "targetPort": 53}
        for name, protocol in (("dns", "UDP"), ("dns-tcp", "TCP"))
    ]
    dns_labels = {"k8s-app": "kube-dns", "kubernetes.io/name": "CoreDNS"}
    return {
        (catalog.SERVICE, "default/kubernetes"): {
            "metadata": {**metadata, "labels": {"component": "apiserver", "provider": "kubernetes"}},
            "spec": _spec(advertised.cluster_ip, [service_port]),
        },
        (catalog.ENDPOINTS, "default/kubernetes"): {
            "metadata": {**metadata, "labels": skip},
            "subsets": [{"addresses": [{"ip": address}], "ports": [endpoint_port]}],
        },
        (catalog.ENDPOINTSLICE, "default/kubernetes"): {
            "metadata": {**metadata, "labels": {_SERVICE_NAME: "kubernetes"}},
            "addressType": family,
            "endpoints": [{"addresses": [address], "conditions": {"ready": True}}],
            "ports": [endpoint_port],
        },
        (catalog.SERVICE, "kube-system/kube-dns"): {
            "metadata": {"name": "kube-dns", "namespace": "kube-system", "labels": dns_labels},
            "spec": _spec(str(advertised.network[DNS_OFFSET]), dns_ports),
        },
    }


def _spec(address: str, ports: list[Json]) -> Json:
    return {"type": "ClusterIP", "clusterIP": address, "clusterIPs": [address], "ports": ports}
