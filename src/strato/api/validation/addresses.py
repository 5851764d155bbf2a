"""Rules of IP addresses and ranges, as Kubernetes reads them: leading zeros are found, not taken for octal numbers."""

from __future__ import annotations

import ipaddress
import json
import re
from collections.abc import Iterator

from strato.api import names
from strato.api.status import invalid_value
from strato.errors import Cause

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_NO_RANGE = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
_LEADING_ZEROS = re.compile(r"(?<![0-9a-fA-F:])0+(?=[0-9])")
_LINK_LOCAL_MULTICAST = ipaddress.ip_network("224.0.0.0/24"), ipaddress.ip_network("ff02::/16")


def read_address(text: str) -> tuple[Address | None, str]:
    """Return an address and what is wrong with how it is written; None if it is none."""
    plain = _without_zeros(text)
    address = names.parse_ip(plain)
    if address is None:
        return None, names.NO_ADDRESS
    if plain != text:
        return address, "must not have leading 0s"
    return address, "must not be an IPv4-mapped IPv6 address" if _is_mapped(address) else ""


def read_range(text: str) -> tuple[Network | None, str]:
    """Return a range and what is wrong with how it is written; None if it is none."""
    address, _, length = text.partition("/")
    plain = f"{_without_zeros(address)}/{_without_zeros(length)}"
    try:
        found = ipaddress.ip_network(plain, strict=False) if length.isdecimal() and "%" not in address else None
    except ValueError:
        found = None
    if found is None:
        return None, _NO_RANGE
    if plain != text:
        return found, "must not have leading 0s in IP or prefix length"
    if _is_mapped(found.network_address):
        return found, "must not have an IPv4-mapped IPv6 address"
    if ipaddress.ip_address(address) != found.network_address:
        return found, "must not have bits set beyond the prefix length"
    return found, ""


def external_address_problems(text: str, field: str) -> list[Cause]:
    """Return why a Service cannot have an address from outside of the cluster."""
    address, problem = read_address(text)
    if address is None or problem:
        return [invalid_value(field, text, problem)]
    causes = list(of_no_endpoint(address, field, text))
    if address.is_loopback:
        causes.insert(0, invalid_value(field, text, "may not be in the loopback range (127.0.0.0/8, ::1/128)"))
    return causes


def ip_warning(field: str, text: str) -> Iterator[str]:
    """Yield the warning about an address that is accepted but not written as it should be, if it is one."""
    address, problem = read_address(text)
    if address is None:
        return
    if problem:
        plain = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else address
        yield f"{field}: non-standard IP address {quoted(text)} is invalid: use {quoted(str(plain))}"
    elif address.version == 6 and str(address) != text:
        shown = f"({quoted(str(address))})"
        yield f"{field}: IPv6 address {quoted(text)} should be in RFC 5952 canonical format {shown}"


def range_warnings(field: str, text: str) -> Iterator[str]:
    """Yield the warnings about a range that is accepted but not written as it should be."""
    found, _ = read_range(text)
    if found is None:
        return
    plain = _without_zeros(text.partition("/")[0])
    address, is_bad = ipaddress.ip_address(plain), False
    if address != found.network_address:
        is_bad = True
        single = f"{address}/{address.max_prefixlen}"
        shown = f"(should be {quoted(str(found))} or {quoted(single)}?)"
        yield f"{field}: CIDR value {quoted(text)} is ambiguous in this context {shown}"
    if _without_zeros(text) != text or _is_mapped(address):
        is_bad = True
        yield f"{field}: non-standard CIDR value {quoted(text)} is invalid: use {quoted(str(found))}"
    if not is_bad and found.version == 6 and str(found) != text:
        shown = f"({quoted(str(found))})"
        yield f"{field}: IPv6 CIDR value {quoted(text)} should be in RFC 5952 canonical format {shown}"


def quoted(text: str) -> str:
    """Return a text in double quotes, as in Kubernetes' messages."""
    return json.dumps(text, ensure_ascii=False)


def of_no_endpoint(address: Address, field: str, text: str) -> Iterator[Cause]:
    """Yield why an endpoint cannot have an address: nobody else reaches it there.

    Unlike on Kubernetes it may be one of loopback: pods of an ordinary user's node have such addresses.
    """
    if address.is_unspecified:
        yield invalid_value(field, text, f"may not be unspecified ({address})")
    if address.is_link_local:
        yield invalid_value(field, text, "may not be in the link-local range (169.254.0.0/16, fe80::/10)")
    if any(address in network for network in _LINK_LOCAL_MULTICAST):
        yield invalid_value(field, text, "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)")


def _without_zeros(text: str) -> str:
    return text if ":" in text else _LEADING_ZEROS.sub("", text)


def _is_mapped(address: Address) -> bool:
    return isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None
