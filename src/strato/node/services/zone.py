"""The DNS names of the cluster's services, by Kubernetes' DNS specification. Pure.

``name.namespace.svc.domain`` resolves to a service's address, for a headless service to those of its endpoints, which
also have names of their own below it; an external name has a CNAME record. Named ports have SRV records, addresses PTR
records.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from typing import NamedTuple

from strato.node.services.records import ServiceRecord

A, CNAME, PTR, SRV = "A", "CNAME", "PTR", "SRV"
_REVERSE = ".in-addr.arpa"


class Resource(NamedTuple):
    """A record of a name."""

    type: str
    target: str
    """An address, or a name without a trailing dot."""
    port: int = 0


class Zone:
    """All names of the zone."""

    def __init__(self, domain: str) -> None:
        self._domain = domain
        self._services: dict[tuple[str, str], list[tuple[str, Resource]]] = {}
        self._names: dict[str, dict[Resource, int]] = {}
        """Name in lower case → its records, each with the number of services that have it."""
        self._prefixes: dict[str, int] = {}
        """Name with names below it → the number of these."""

    def put(self, namespace: str, name: str, record: ServiceRecord | None) -> None:
        """Replace the records of a service; None removes them."""
        key = (namespace, name)
        for owner, resource in self._services.pop(key, ()):
            count = self._names[owner]
            count[resource] -= 1
            if not count[resource]:
                del count[resource]
            if not count:
                del self._names[owner]
            self._count_parents(owner, -1)
        if record is None:
            return
        wanted = list(_resources(record, self._domain))
        self._services[key] = wanted
        for owner, resource in wanted:
            count = self._names.setdefault(owner, {})
            count[resource] = count.get(resource, 0) + 1
            self._count_parents(owner, 1)

    def _count_parents(self, name: str, step: int) -> None:
        while (name := name.partition(".")[2]).endswith(self._domain):
            self._prefixes[name] = self._prefixes.get(name, 0) + step
            if not self._prefixes[name]:
                del self._prefixes[name]

    def is_ours(self, name: str) -> bool:
        """Whether this zone is authoritative for a name."""
        return name == self._domain or name.endswith("." + self._domain) or name in self._names

    def find(self, name: str) -> list[Resource] | None:
        """Return the records of a name, given in lower case; None when there is no such name."""
        found = self._names.get(name)
        if found is not None:
            return list(found)
        pod = self._pod(name)
        if pod:
            return [Resource(A, pod)]
        return [] if name in self._prefixes or name == self._domain else None

    def _pod(self, name: str) -> str:
        """Return the address in ``1-2-3-4.namespace.pod.domain``."""
        if not name.endswith(f".pod.{self._domain}"):
            return ""
        parts = name.removesuffix(f".pod.{self._domain}").split(".")
        try:
            return str(ipaddress.IPv4Address(parts[0].replace("-", "."))) if len(parts) == 2 else ""
        except ValueError:
            return ""


def _resources(record: ServiceRecord, domain: str) -> Iterator[tuple[str, Resource]]:
    own = f"{record.name}.{record.namespace}.svc.{domain}"
    if record.external_name:
        yield own, Resource(CNAME, record.external_name)
    elif record.cluster_ip:
        yield own, Resource(A, record.cluster_ip)
        yield _reverse(record.cluster_ip), Resource(PTR, own)
        for port in record.ports:
            if port.name:
                yield f"_{port.name}._{port.protocol.lower()}.{own}", Resource(SRV, own, port.port)
    for host in record.hosts:
        named = f"{host.hostname or host.address.replace('.', '-')}.{own}".lower()
        yield own, Resource(A, host.address)
        yield named, Resource(A, host.address)
        if host.hostname:
            yield _reverse(host.address), Resource(PTR, named)
        for name, protocol, number in host.ports:
            if name:
                yield f"_{name}._{protocol.lower()}.{own}", Resource(SRV, named, number)


def _reverse(address: str) -> str:
    return ".".join(reversed(address.split("."))) + _REVERSE
