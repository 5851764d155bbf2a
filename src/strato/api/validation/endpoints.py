"""Rules of Endpoints and EndpointSlices."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Sequence

from strato.api import names
from strato.api.meta import Json
from strato.api.status import duplicate, invalid_value, invalid_values, not_supported, required, too_many
from strato.api.validation.addresses import of_no_endpoint, read_address
from strato.api.validation.metadata import NameCheck, immutable
from strato.errors import Cause

_PROTOCOLS = ("SCTP", "TCP", "UDP")
_FAMILIES = {"IPv4": ipaddress.IPv4Address, "IPv6": ipaddress.IPv6Address}
_ADDRESS_TYPES = ("FQDN", "IPv4", "IPv6")
_MOST_ENDPOINTS, _MOST_ADDRESSES, _MOST_PORTS, _MOST_HINTS = 1000, 100, 20_000, 8


def validate_endpoints(obj: Json) -> list[Cause]:
    """Check addresses and ports of Endpoints."""
    causes: list[Cause] = []
    for index, subset in enumerate(obj.get("subsets") or ()):
        causes += _subset_problems(subset, f"subsets[{index}]")
    return causes


def validate_endpoints_update(obj: Json, old: Json) -> list[Cause]:
    """Check Endpoints whose subsets have changed."""
    return [] if obj.get("subsets") == old.get("subsets") else validate_endpoints(obj)


def _subset_problems(subset: Json, field: str) -> Iterator[Cause]:
    if not subset.get("addresses") and not subset.get("notReadyAddresses"):
        yield required(field, "must specify `addresses` or `notReadyAddresses`")
    for member in ("addresses", "notReadyAddresses"):
        for index, address in enumerate(subset.get(member) or ()):
            yield from _address_problems(address, f"{field}.{member}[{index}]")
    ports = subset.get("ports") or ()
    for index, port in enumerate(ports):
        place, number = f"{field}.ports[{index}]", port.get("port") or 0
        if not port.get("name") and len(ports) > 1:
            yield required(f"{place}.name")
        elif port.get("name"):
            yield from invalid_values(f"{place}.name", port["name"], names.check_label(port["name"]))
        yield from invalid_values(f"{place}.port", number, names.check_port_number(number))
        yield from _protocol_problems(port, place)


def _address_problems(address: Json, field: str) -> Iterator[Cause]:
    text = address.get("ip") or ""
    found, problem = read_address(text)
    if problem:
        yield invalid_value(f"{field}.ip", text, problem)
    if address.get("hostname"):
        yield from invalid_values(f"{field}.hostname", address["hostname"], names.check_label(address["hostname"]))
    if address.get("nodeName") is not None:
        yield from invalid_values(f"{field}.nodeName", address["nodeName"], names.check_subdomain(address["nodeName"]))
    if found is None:
        yield invalid_value(f"{field}.ip", text, "must be a valid IP address")
    else:
        yield from of_no_endpoint(found, f"{field}.ip", text)


def _protocol_problems(port: Json, field: str) -> Iterator[Cause]:
    protocol, application = port.get("protocol") or "", port.get("appProtocol")
    if protocol not in _PROTOCOLS:
        yield not_supported(f"{field}.protocol", protocol, _PROTOCOLS)
    if application is not None:
        yield from invalid_values(f"{field}.appProtocol", application, names.check_qualified_name(application))


def validate_slice(obj: Json) -> list[Cause]:
    """Check a slice of endpoints."""
    return list(_slice_problems(obj))


def validate_slice_update(obj: Json, old: Json) -> list[Cause]:
    """Check a slice, whose type of addresses may not change."""
    new, before = obj.get("addressType") or "", old.get("addressType") or ""
    changed = {**obj, "endpoints": None} if obj.get("endpoints") == old.get("endpoints") else obj
    return [*_slice_problems(changed), *([immutable("addressType", new)] if new != before else [])]


def _slice_problems(obj: Json) -> Iterator[Cause]:
    kind, endpoints, ports = obj.get("addressType") or "", obj.get("endpoints") or (), obj.get("ports") or ()
    if not kind:
        yield required("addressType")
    elif kind not in _ADDRESS_TYPES:
        yield not_supported("addressType", kind, _ADDRESS_TYPES)
    if len(ports) > _MOST_PORTS:
        yield too_many("ports", len(ports), _MOST_PORTS)
    else:
        yield from _slice_port_problems(ports)
    if len(endpoints) > _MOST_ENDPOINTS:
        yield too_many("endpoints", len(endpoints), _MOST_ENDPOINTS)
        return
    for index, endpoint in enumerate(endpoints):
        yield from _endpoint_problems(endpoint, kind, f"endpoints[{index}]")


def _slice_port_problems(ports: Sequence[Json]) -> Iterator[Cause]:
    known: set[str] = set()
    for index, port in enumerate(ports):
        place, name = f"ports[{index}]", port.get("name") or ""
        if name:
            yield from invalid_values(f"{place}.name", name, names.check_label(name))
        if name in known:
            yield duplicate(f"{place}.name", name)
        known.add(name)
        yield from _protocol_problems(port, place)


def _endpoint_problems(endpoint: Json, kind: str, field: str) -> Iterator[Cause]:
    addresses, place = endpoint.get("addresses") or (), f"{field}.addresses"
    if not addresses:
        yield required(place, "must contain at least 1 address")
    elif len(addresses) > _MOST_ADDRESSES:
        yield too_many(place, len(addresses), _MOST_ADDRESSES)
    for index, address in enumerate(addresses):
        if kind == "FQDN":
            yield from invalid_values(f"{place}[{index}]", address, _domain_problems(address))
        elif kind in _FAMILIES:
            yield from _family_problems(address, kind, place, index)
    for member, check in (("nodeName", names.check_subdomain), ("hostname", names.check_label)):
        if endpoint.get(member) is not None:
            yield from invalid_values(f"{field}.{member}", endpoint[member], check(endpoint[member]))
    hints = endpoint.get("hints") or {}
    for member, check in (("forZones", names.check_label_value), ("forNodes", names.check_subdomain)):
        yield from _hint_problems(hints.get(member) or (), check, f"{field}.hints.{member}")


def _family_problems(text: str, kind: str, field: str, index: int) -> Iterator[Cause]:
    found, problem = read_address(text)
    place = f"{field}[{index}]"
    if found is None or problem:
        yield invalid_value(place, text, problem)
        return
    if not isinstance(found, _FAMILIES[kind]):
        yield invalid_value(field, text, f"must be an {kind} address")
    elif str(found) != text:
        yield invalid_value(place, text, f'must be in canonical form ("{found}")')
    yield from of_no_endpoint(found, place, text)


def _domain_problems(name: str) -> list[str]:
    if problems := names.check_subdomain(name):
        return problems
    return [] if "." in name else ["should be a domain with at least two segments separated by dots"]


def _hint_problems(hints: Sequence[Json], check: NameCheck, field: str) -> Iterator[Cause]:
    if len(hints) > _MOST_HINTS:
        yield too_many(field, len(hints), _MOST_HINTS)
        return
    known: set[str] = set()
    for index, hint in enumerate(hints):
        place, name = f"{field}[{index}].name", hint.get("name") or ""
        yield from invalid_values(place, name, check(name))
        if name in known:
            yield duplicate(place, name)
        known.add(name)
