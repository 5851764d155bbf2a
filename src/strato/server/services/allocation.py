"""Check, allocate and release the cluster IPs and node ports of services.

The allocator learns the numbers in use from the stored services and keeps them by number, so that an allocation need
not search all services. As in kube-apiserver, the lower part of each range is allocated last, so that it stays free for
users who choose a number.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping

import msgspec

from strato.api import catalog
from strato.api.defaults.service import needs_node_ports
from strato.api.status import invalid, invalid_value
from strato.errors import InternalError
from strato.server.preparation import Json, at_revision
from strato.server.rest.state import State, object_key
from strato.server.seed import ensure
from strato.server.services.ranges import Networks, ServiceRanges, is_ours, manifest
from strato.server.snapshot import Change

DEFAULT_NETWORK = ipaddress.IPv4Network("10.96.0.0/12")
"""The default range of cluster IPs, as in kubeadm."""
NODE_PORTS = range(30000, 32768)
_STATIC_PORTS = 86
_RESERVED = "ipaddresses/"
"""Prefix of the owner's name of an address that a user has reserved by an IPAddress; a service's name is its key."""

_decode = msgspec.json.Decoder().decode


class NumberPool:
    """Numbers of some ranges, each with at most one owner.

    Args:
        numbers: The range.
        static: How many of the lowest numbers are allocated last.
        first: Offset among the others of the number that is allocated first.
    """

    def __init__(self, numbers: range, static: int, first: int = 0) -> None:
        self._static = {numbers: static}
        self._owners: dict[int, str] = {}
        self._held: dict[str, frozenset[int]] = {}
        self._next = {numbers: first}

    def serve(self, ranges: Mapping[range, int]) -> None:
        """Allocate from these ranges only, in their order; the value is how many lowest numbers are allocated last."""
        self._static = dict(ranges)

    def owner(self, number: int) -> str | None:
        """Return the owner of a number, None if it is free."""
        return self._owners.get(number)

    def hold(self, owner: str, numbers: Iterable[int]) -> None:
        """Set all numbers of an owner."""
        wanted = frozenset(numbers)
        for number in self._held.pop(owner, frozenset()) - wanted:
            del self._owners[number]
        if wanted:
            self._held[owner] = wanted
            self._owners.update(dict.fromkeys(wanted, owner))

    def find(self, besides: Iterable[int] = ()) -> int | None:
        """Return a free number, but not the one found last; None if all are taken."""
        wanted = frozenset(besides)
        for whole, static in self._static.items():
            dynamic = whole[static:]
            for numbers, first in ((dynamic, self._next.get(whole, 0)), (whole[:static], 0)):
                for step in range(len(numbers)):
                    index = (first + step) % len(numbers)
                    if numbers[index] not in self._owners and numbers[index] not in wanted:
                        if numbers is dynamic:
                            self._next[whole] = index + 1
                        return numbers[index]
        return None


class ServiceAddresses:
    """The allocator (see the module).

    Args:
        network: The cluster's own range of cluster IPs; ServiceCIDRs add others.
    """

    def __init__(self, state: State, network: ipaddress.IPv4Network = DEFAULT_NETWORK) -> None:
        self._state = state
        self._addresses = NumberPool(*_numbers(network))
        # clusters on one machine have different networks; starting at different ports keeps them apart
        self._ports = NumberPool(NODE_PORTS, _STATIC_PORTS, first=(int(network[0]) >> 12) * 97)
        for address in state.iterate(catalog.IPADDRESS):
            self._reserve(address["metadata"]["name"], address)
        for service in state.iterate(catalog.SERVICE):
            self._note(_key(service), service)
            self._keep_object(service)
        state.store.on_publish(catalog.SERVICE.resource, self._published)
        state.store.on_publish(catalog.IPADDRESS.resource, self._address_published)
        self._networks: Networks = (network,)
        ServiceRanges(state, network, self._ranges_changed)

    def _ranges_changed(self, networks: Networks) -> None:
        self._networks = networks
        self._addresses.serve(dict(map(_numbers, networks)))

    def allocate(self, obj: Json, old: Json | None, *, dry_run: bool) -> None:
        """Set the addresses and node ports that a service's type needs and it lacks, in place; it must be valid.

        Raises:
            Invalid: A number it asks for is taken, or outside of the range.
            InternalError: No number is free.
        """
        spec = obj["spec"]
        if spec.get("type") == "ExternalName":
            if not dry_run:
                self._note(_key(obj), obj)
            return
        key = _key(obj)
        if not (spec.get("clusterIP") == "None" and not spec.get("selector")):  # without a selector any family will do
            _check_families(obj)
        self._check_address(key, obj, old)
        if not spec.get("clusterIP"):
            number = self._addresses.find()
            if number is None:
                raise InternalError(f"failed to allocate a serviceIP for Service {key}: range is full")
            spec["clusterIP"] = str(ipaddress.IPv4Address(number))
        spec["clusterIPs"] = [spec["clusterIP"]]
        self._give_ports(key, obj)
        if not dry_run:
            self._note(key, obj)

    def _check_address(self, key: str, obj: Json, old: Json | None) -> None:
        address = obj["spec"].get("clusterIP")
        if not address or address == "None" or (old is not None and old["spec"].get("clusterIP") == address):
            return
        problem = ""
        if all(ipaddress.ip_address(address) not in network for network in self._networks):
            problem = "the provided network does not match the current range"
        elif self._addresses.owner(int(ipaddress.ip_address(address))) not in (None, key):
            problem = "provided IP is already allocated"
        if problem:
            text = f"failed to allocate IP {address}: {problem}"
            raise invalid(catalog.SERVICE, _name(obj), [invalid_value("spec.clusterIPs", [address], text)])

    def _give_ports(self, key: str, obj: Json) -> None:
        spec = obj["spec"]
        ports = spec.get("ports") or ()
        given = {port["nodePort"] for port in ports if port.get("nodePort")}
        by_number: dict[int, int] = {}
        """Node port by port number, which a port's several protocols share if possible."""
        for index, port in enumerate(ports):
            number = port.get("nodePort")
            if number:
                self._check_port(key, obj, index, number)
                by_number.setdefault(port["port"], number)
        if not needs_node_ports(spec):
            return
        for port in ports:
            if port.get("nodePort"):
                continue
            shared = by_number.get(port["port"])
            taken = {(one.get("protocol"), one.get("nodePort")) for one in ports}
            if shared is None or (port.get("protocol"), shared) in taken:
                shared = self._ports.find(given)
            if shared is None:
                raise InternalError("failed to allocate a nodePort: range is full")
            port["nodePort"] = by_number[port["port"]] = shared
            given.add(shared)

    def _check_port(self, key: str, obj: Json, index: int, number: int) -> None:
        problem = ""
        if number not in NODE_PORTS:
            last = NODE_PORTS.stop - 1
            problem = f"provided port is not in the valid range. The range of valid ports is {NODE_PORTS.start}-{last}"
        elif self._ports.owner(number) not in (None, key):
            problem = "provided port is already allocated"
        if problem:
            cause = invalid_value(f"spec.ports[{index}].nodePort", number, problem)
            raise invalid(catalog.SERVICE, _name(obj), [cause])

    def _published(self, resource: str, change: Change) -> None:
        del resource
        service = None if change.body is None else _decode(change.body)
        before = None if change.previous is None else _address(_decode(change.previous))
        self._note(change.key, service)
        if before and (service is None or _address(service) != before):
            self._drop_object(before)
        if service is not None:
            self._keep_object(service)

    def _address_published(self, resource: str, change: Change) -> None:
        del resource
        self._reserve(change.key, None if change.body is None else _decode(change.body))

    def _reserve(self, name: str, address: Json | None) -> None:
        """Reserve an address for which a user has made an IPAddress; restore a service's IPAddress that was deleted."""
        number = ipaddress.ip_address(name)
        if number.version != 4:
            return
        owner = self._addresses.owner(int(number))
        is_users = address is not None and not is_ours(address)
        if owner is None or owner.startswith(_RESERVED):
            self._addresses.hold(f"{_RESERVED}{name}", [int(number)] if is_users else [])
        elif address is None:
            ensure(self._state, catalog.IPADDRESS, manifest(name, owner))

    def _keep_object(self, service: Json) -> None:
        address = _address(service)
        if address:
            ensure(self._state, catalog.IPADDRESS, manifest(address, _key(service)))

    def _drop_object(self, address: str) -> None:
        """Delete the IPAddress of an address that a service no longer has."""
        store = self._state.store
        body = self._state.bucket(catalog.IPADDRESS).latest(address)
        if body is not None and is_ours(_decode(body)):
            tombstone = at_revision(body, store.next_revision())
            store.write(catalog.IPADDRESS.resource, address, None, tombstone)

    def _note(self, key: str, service: Json | None) -> None:
        """Record the numbers of a service; none if it was deleted."""
        spec = {} if service is None else service.get("spec") or {}
        address = "" if service is None else _address(service)
        self._addresses.hold(key, [int(ipaddress.ip_address(address))] if address else [])
        self._ports.hold(key, (port["nodePort"] for port in spec.get("ports") or () if port.get("nodePort")))


def _numbers(network: ipaddress.IPv4Network) -> tuple[range, int]:
    """Return the addresses of a network for services, and how many of the lowest are allocated last."""
    first, size = int(network[0]), network.num_addresses
    return range(first + 1, first + size - 1), min(max(16, size // 16), 256) if size > 16 else 0


def _address(service: Json) -> str:
    """Return the cluster IP of a service; empty if it has none."""
    address = (service.get("spec") or {}).get("clusterIP") or ""
    return "" if address == "None" else str(address)


def _check_families(obj: Json) -> None:
    spec, causes = obj["spec"], []
    if spec.get("ipFamilyPolicy") == "RequireDualStack":
        text = "this cluster is not configured for dual-stack services"
        causes.append(invalid_value("spec.ipFamilyPolicy", "RequireDualStack", text))
    for index, family in enumerate(spec.get("ipFamilies") or ()):
        if family != "IPv4":
            causes.append(invalid_value(f"spec.ipFamilies[{index}]", family, "not configured on this cluster"))
    if causes:
        raise invalid(catalog.SERVICE, _name(obj), causes)


def _name(obj: Json) -> str:
    name: str = obj["metadata"]["name"]
    return name


def _key(obj: Json) -> str:
    return object_key(catalog.SERVICE, obj["metadata"]["namespace"], obj["metadata"]["name"])
