"""Host names of pods, and each pod's ``/etc/hosts``. Pure.

The ``/etc/hosts`` of a pod with a ``subdomain`` (the name of a headless service, as the ``svc`` plugin sets it) has the
pods with the same subdomain under every name that DNS would give them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from strato.api.core import Pod

CLUSTER_DOMAIN = "cluster.local"


@dataclass(frozen=True, slots=True)
class Peer:
    """Names and address of a pod, for the ``/etc/hosts`` of its siblings."""

    ip: str
    hostname: str
    subdomain: str
    namespace: str

    def names(self) -> list[str]:
        """Return all names of the pod, the full one first as the kubelet writes it."""
        if not self.subdomain:
            return [self.hostname]
        service = [
            f"{self.subdomain}.{self.namespace}.svc.{CLUSTER_DOMAIN}",
            f"{self.subdomain}.{self.namespace}.svc",
            f"{self.subdomain}.{self.namespace}",
            self.subdomain,
        ]
        return [*(f"{self.hostname}.{name}" for name in service), self.hostname, *service]


def hostname_of(pod: Pod) -> str:
    """Return the pod's host name: as asked, or its name cut to 63 characters."""
    return pod.spec.hostname or pod.metadata.name[:63].rstrip("-.")


def peer_of(pod: Pod, ip: str) -> Peer:
    """Return the `Peer` of a pod."""
    return Peer(ip, hostname_of(pod), pod.spec.subdomain, pod.metadata.namespace)


def host_network_file(machine: str, aliases: Sequence[tuple[str, Sequence[str]]]) -> str:
    """Return ``/etc/hosts`` of a pod that shares the machine's network: the machine's own, then ``hostAliases``."""
    return (
        "\n".join(["# Kubernetes-managed hosts file (host network).", machine.rstrip("\n"), *_aliased(aliases)]) + "\n"
    )


def hosts_file(own: Peer, siblings: Iterable[Peer], aliases: Sequence[tuple[str, Sequence[str]]] = ()) -> str:
    """Return ``/etc/hosts`` of a pod: itself first, then its siblings by name, then the pod's ``hostAliases``."""
    lines = [
        "# Kubernetes-managed hosts file.",
        "127.0.0.1\tlocalhost",
        "::1\tlocalhost ip6-localhost ip6-loopback",
        "\t".join([own.ip, *own.names()]),
    ]
    others = sorted((p for p in siblings if p.ip != own.ip), key=lambda p: (p.hostname, p.ip))
    lines += ["\t".join([peer.ip, *peer.names()]) for peer in others]
    return "\n".join([*lines, *_aliased(aliases)]) + "\n"


def _aliased(aliases: Sequence[tuple[str, Sequence[str]]]) -> list[str]:
    if not aliases:
        return []
    return ["# Entries added by HostAliases.", *("\t".join([ip, *names]) for ip, names in aliases)]
