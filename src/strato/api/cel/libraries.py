"""Addresses, networks, URLs, instants and durations in CEL: Kubernetes' libraries and CEL's own types.

Source: ``k8s.io/apiserver/pkg/cel/library`` (ip, cidr, urls, regex, sets) and the CEL language definition (timestamps
and durations). Durations and instants are exact to the microsecond, not the nanosecond.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from urllib.parse import SplitResult, parse_qs, urlsplit
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from strato.api.cel.cost import charge
from strato.api.cel.operators import equal
from strato.api.cel.values import EvaluationError
from strato.api.patterns import compile_pattern
from strato.units import duration_seconds

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
ADDRESS = (ipaddress.IPv4Address, ipaddress.IPv6Address)
Network = ipaddress.IPv4Interface | ipaddress.IPv6Interface
NETWORK = (ipaddress.IPv4Interface, ipaddress.IPv6Interface)
"""An address with a prefix length, which CEL calls a CIDR; unlike Python's networks it may have host bits."""
Overloads = list[tuple[tuple[Any, ...], Callable[..., Any]]]

_OFFSET = re.compile(r"([+-])?(\d\d):(\d\d)")


def duration(text: str) -> timedelta:
    """Read a duration as Go writes it: ``1h30m``, ``-1.5s``.

    Raises:
        ValueError: It is none.
    """
    try:
        return timedelta(seconds=duration_seconds(text))
    except ValueError as err:
        raise ValueError(f"time: invalid duration {err}") from None


def timestamp(text: str) -> datetime:
    """Read an instant as RFC 3339 has it.

    Raises:
        ValueError: It is none, or has no time zone.
    """
    read = datetime.fromisoformat(text)
    if read.tzinfo is None or "T" not in text.upper():
        raise ValueError(f"cannot parse {text!r} as a timestamp")
    return read


def address(text: str) -> Address:
    """Read an IP address; refuses addresses with zones, and IPv4 addresses mapped to IPv6.

    Raises:
        ValueError: It is none.
    """
    read = ipaddress.ip_address(text)
    if isinstance(read, ipaddress.IPv6Address) and (read.scope_id is not None or read.ipv4_mapped is not None):
        raise ValueError(f"IP Address {text!r} parse error during conversion from string")
    return read


def network(text: str) -> Network:
    """Read an address with a prefix length.

    Raises:
        ValueError: It is none.
    """
    start, slash, length = text.partition("/")
    if not slash or not length.isascii() or not length.isdecimal():
        raise ValueError(f"network address parse error during conversion from string: {text!r}")
    address(start)
    return ipaddress.ip_interface(text)


def url(text: str) -> SplitResult:
    """Read an absolute URL or an absolute path.

    Raises:
        ValueError: It is none.
    """
    read = urlsplit(text)
    _ = read.port  # raises ValueError for a port that is no number
    if not (read.scheme or text.startswith("/")) or re.search(r"[\x00-\x20\x7f]", text):
        raise ValueError(f"URL parse error during conversion from string: {text!r}")
    return read


def reads(read: Callable[[str], Any]) -> Callable[[str], bool]:
    """Return the function that tests whether ``read`` accepts a text."""

    def check(text: str) -> bool:
        try:
            read(text)
        except ValueError:
            return False
        return True

    return check


def _zoned(instant: datetime, name: str = "UTC") -> datetime:
    match = _OFFSET.fullmatch(name)
    if match is not None:
        offset = timedelta(hours=int(match[2]), minutes=int(match[3]))
        return instant.astimezone(timezone(-offset if match[1] == "-" else offset))
    try:
        return instant.astimezone(UTC if name == "UTC" else ZoneInfo(name))
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise EvaluationError(f"unknown time zone {name}") from error


def _of_instant(part: Callable[[datetime], int]) -> Overloads:
    def read(instant: datetime, zone: str = "UTC") -> int:
        return part(_zoned(instant, zone))

    return [((datetime,), read), ((datetime, str), read)]


def _of_both(part: Callable[[datetime], int], unit: timedelta) -> Overloads:
    return [*_of_instant(part), ((timedelta,), lambda span: int(span / unit))]


def _holds(outer: Network, inner: Network | str) -> bool:
    read = network(inner) if isinstance(inner, str) else inner
    if outer.version != read.version:
        return False
    return read.network.prefixlen >= outer.network.prefixlen and read.ip in outer.network


def _holds_address(outer: Network, inner: Address | str) -> bool:
    return (address(inner) if isinstance(inner, str) else inner) in outer.network


def _is_global(one: Address) -> bool:
    is_broadcast = one == ipaddress.IPv4Address("255.255.255.255")
    return not (one.is_unspecified or one.is_loopback or one.is_multicast or one.is_link_local or is_broadcast)


def _find(text: str, pattern: str) -> str:
    return next(iter(_find_all(text, pattern, 1)), "")


def _find_all(text: str, pattern: str, most: int = -1) -> list[str]:
    compiled = compile_pattern(pattern)
    charge(len(text) * compiled.size // 256)
    return compiled.found_in(text, most)


def _among(items: list[Any], others: list[Any]) -> bool:
    """Whether each of ``others`` is among the items."""
    charge(len(items) * len(others))
    return all(any(equal(one, other) for one in items) for other in others)


def _share(items: list[Any], others: list[Any]) -> bool:
    charge(len(items) * len(others))
    return any(equal(one, other) for one in items for other in others)


_LISTS = (list, list)
_HOUR, _MINUTE, _SECOND = timedelta(hours=1), timedelta(minutes=1), timedelta(seconds=1)

METHODS: dict[str, Overloads] = {
    "family": [((ADDRESS,), lambda one: one.version)],
    "isUnspecified": [((ADDRESS,), lambda one: one.is_unspecified)],
    "isLoopback": [((ADDRESS,), lambda one: one.is_loopback)],
    "isLinkLocalMulticast": [
        ((ADDRESS,), lambda one: one in ipaddress.ip_network("224.0.0.0/24" if one.version == 4 else "ff02::/16"))
    ],
    "isLinkLocalUnicast": [((ADDRESS,), lambda one: one.is_link_local)],
    "isGlobalUnicast": [((ADDRESS,), _is_global)],
    "containsIP": [((NETWORK, (*ADDRESS, str)), _holds_address)],
    "containsCIDR": [((NETWORK, (*NETWORK, str)), _holds)],
    "ip": [((NETWORK,), lambda one: one.ip)],
    "masked": [((NETWORK,), lambda one: ipaddress.ip_interface(one.network.with_prefixlen))],
    "prefixLength": [((NETWORK,), lambda one: one.network.prefixlen)],
    "getScheme": [((SplitResult,), lambda one: one.scheme)],
    "getHost": [((SplitResult,), lambda one: one.netloc.rpartition("@")[2])],
    "getHostname": [((SplitResult,), lambda one: one.hostname or "")],
    "getPort": [((SplitResult,), lambda one: "" if one.port is None else str(one.port))],
    "getEscapedPath": [((SplitResult,), lambda one: one.path)],
    "getQuery": [((SplitResult,), lambda one: parse_qs(one.query, keep_blank_values=True))],
    "find": [((str, str), _find)],
    "findAll": [((str, str), _find_all), ((str, str, int), _find_all)],
    "getFullYear": _of_instant(lambda at: at.year),
    "getMonth": _of_instant(lambda at: at.month - 1),
    "getDate": _of_instant(lambda at: at.day),
    "getDayOfMonth": _of_instant(lambda at: at.day - 1),
    "getDayOfWeek": _of_instant(lambda at: at.isoweekday() % 7),
    "getDayOfYear": _of_instant(lambda at: at.timetuple().tm_yday - 1),
    "getHours": _of_both(lambda at: at.hour, _HOUR),
    "getMinutes": _of_both(lambda at: at.minute, _MINUTE),
    "getSeconds": _of_both(lambda at: at.second, _SECOND),
    "getMilliseconds": [
        *_of_instant(lambda at: at.microsecond // 1000),
        ((timedelta,), lambda span: span.microseconds // 1000),
    ],
}
"""Name → function that is called on a value."""

FUNCTIONS: dict[str, Overloads] = {
    "ip": [((str,), address)],
    "isIP": [((str,), reads(address))],
    "ip.isCanonical": [((str,), lambda text: str(address(text)) == text)],
    "cidr": [((str,), network)],
    "isCIDR": [((str,), reads(network))],
    "url": [((str,), url)],
    "isURL": [((str,), reads(url))],
    "duration": [((str,), duration), ((timedelta,), lambda span: span)],
    "timestamp": [((str,), timestamp), ((datetime,), lambda at: at)],
    "sets.contains": [(_LISTS, _among)],
    "sets.equivalent": [(_LISTS, lambda items, others: _among(items, others) and _among(others, items))],
    "sets.intersects": [(_LISTS, _share)],
}
"""Name, for some with a namespace → function that is called by this name."""
