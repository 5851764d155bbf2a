"""Rules of IP addresses and ranges, as Kubernetes reads them: leading zeros are found, not taken for octal numbers."""

from __future__ import annotations

import ipaddress
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
