"""ServiceCIDRs, the ranges of cluster IPs, and IPAddresses, one for each address in use.

ServiceCIDRs add ranges to that of the cluster, which is the ServiceCIDR ``kubernetes``. From a deleted one no more
addresses are allocated, and it stays until none that only it contains is in use. `ServiceAddresses` keeps an IPAddress
for each address of a service; an IPAddress that a user creates reserves its address.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterator

import msgspec

from strato.api import catalog
from strato.clock import format_time
from strato.server.preparation import Json, at_revision, encode
from strato.server.rest.state import State
from strato.server.seed import ensure
from strato.server.snapshot import Change

DEFAULT_NAME = "kubernetes"
_FINALIZER = "networking.k8s.io/service-cidr-finalizer"
_LABELS = {"ipaddress.kubernetes.io/ip-family": "IPv4", "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io"}
_STILL_USED = "There are still IPAddresses referencing the ServiceCIDR, please remove them or create a new ServiceCIDR"
_decode = msgspec.json.Decoder().decode
Networks = tuple[ipaddress.IPv4Network, ...]


class ServiceRanges:
    """Follows the ServiceCIDRs, and maintains their finalizers and conditions.

    Args:
        network: The cluster's own range.
        when_changed: Called with the ranges, the cluster's own first, at once and whenever they change.
    """

    def __init__(self, state: State, network: ipaddress.IPv4Network, when_changed: Callable[[Networks], None]) -> None:
        self._state, self._network, self._when_changed = state, network, when_changed
        self._networks: Networks = ()
        self._reconcile()
        state.store.on_publish(catalog.SERVICECIDR.resource, self._published)
        state.store.on_publish(catalog.IPADDRESS.resource, self._released)

    def _published(self, _resource: str, _change: Change) -> None:
        self._reconcile()

    def _released(self, _resource: str, change: Change) -> None:
        if change.body is None:
            self._reconcile()

    def _reconcile(self) -> None:
        spec = {"cidrs": [str(self._network)]}
        ensure(self._state, catalog.SERVICECIDR, {"metadata": {"name": DEFAULT_NAME}, "spec": spec})
        stored = list(self._newest())
        open_ones = [one for one in stored if not one["metadata"].get("deletionTimestamp")]
        networks = tuple(dict.fromkeys((self._network, *(net for one in open_ones for net in _networks(one)))))
        if networks != self._networks:
            self._networks = networks
            self._when_changed(networks)
        for one in stored:
            self._bring_up_to_date(one, _orphans(self._state, one, networks) if one not in open_ones else False)

    def _newest(self) -> Iterator[Json]:
        bucket = self._state.bucket(catalog.SERVICECIDR)
        for name in bucket.newest_keys():
            body = bucket.latest(name)
            if body is not None:
                yield _decode(body)

    def _bring_up_to_date(self, obj: Json, is_used: bool) -> None:
        """Set a ServiceCIDR's finalizer and condition, or remove the finalizer of a deleted one that is unused."""
        store, metadata = self._state.store, obj["metadata"]
        name, is_deleted = metadata["name"], bool(metadata.get("deletionTimestamp"))
        others = [one for one in metadata.get("finalizers") or () if one != _FINALIZER]
        before = encode(obj)
        if is_deleted and not is_used:
            metadata["finalizers"] = others
            if not others:
                store.write(catalog.SERVICECIDR.resource, name, None, at_revision(before, store.next_revision()))
                return
        else:
            if _FINALIZER not in (metadata.get("finalizers") or ()):
                metadata["finalizers"] = [*others, _FINALIZER]
            conditions = (obj.get("status") or {}).get("conditions") or ()
            status, reason = ("False", "Terminating") if is_used else ("True", "")
            if not any((one.get("type"), one.get("status")) == ("Ready", status) for one in conditions):
                ready = {
                    "type": "Ready",
                    "status": status,
                    "reason": reason,
                    "message": _STILL_USED if is_used else "Kubernetes Service CIDR is ready",
                    "lastTransitionTime": format_time(self._state.clock.now()),
                }
                obj["status"] = {"conditions": [*(one for one in conditions if one.get("type") != "Ready"), ready]}
        if encode(obj) != before:
            metadata["resourceVersion"] = str(store.next_revision())
            store.write(catalog.SERVICECIDR.resource, name, encode(obj))


def _networks(obj: Json) -> Iterator[ipaddress.IPv4Network]:
    for text in obj["spec"].get("cidrs") or ():
        network = ipaddress.ip_network(text)
        if isinstance(network, ipaddress.IPv4Network):
            yield network


def _orphans(state: State, obj: Json, others: Networks) -> bool:
    """Whether some service's address is in this ServiceCIDR and in none of the others."""
    own = tuple(_networks(obj))
    taken = (ipaddress.ip_address(one["metadata"]["name"]) for one in state.iterate(catalog.IPADDRESS) if is_ours(one))
    return any(
        any(one in network for network in own) and not any(one in network for network in others) for one in taken
    )


def is_ours(address: Json) -> bool:
    """Whether an IPAddress is one that `ServiceAddresses` keeps for a service."""
    return _LABELS.items() <= (address["metadata"].get("labels") or {}).items()


def manifest(address: str, service: str) -> Json:
    """Return the IPAddress of a service, ``namespace/name``."""
    namespace, _, name = service.partition("/")
    parent = {"group": "", "resource": "services", "namespace": namespace, "name": name}
    return {"metadata": {"name": address, "labels": dict(_LABELS)}, "spec": {"parentRef": parent}}
