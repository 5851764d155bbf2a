"""Choose the address range of a cluster's services, by the rights of this machine's user."""

from __future__ import annotations

import ipaddress
import re
from pathlib import Path
from urllib.parse import urlsplit

from strato.client.kubeconfig import load
from strato.node.sandbox import capabilities, linux
from strato.node.sandbox.network import choose_block, routes_in_use

ANY_HOST = ("0.0.0.0", "::", "")
"""Listen addresses that mean every address of the machine."""
_ROUTED = ipaddress.IPv4Network("10.96.0.0/12")
_LOOPBACK = ipaddress.IPv4Network("127.128.0.0/9")
"""Addresses at which every user may listen; services of ordinary users' clusters have these."""
_LOCAL = re.compile(r"\|-- (\S+)\n\s+/(\d+) \w+ LOCAL")
_HTTPS = 443


def service_network(note: Path, seed: str) -> ipaddress.IPv4Network:
    """Return the range of a cluster's services, the same at every start while the privileges are the same.

    Args:
        note: The file in which the range is kept.
        seed: Text that differs between clusters of the machine, so that their ranges do.
    """
    whole = _ROUTED if "NET_ADMIN" in _held() else _LOOPBACK
    try:
        kept = ipaddress.IPv4Network(note.read_text().strip())
        if kept.subnet_of(whole):
            return kept
    except (OSError, ValueError):
        pass
    chosen = choose_block(seed, (*routes_in_use(), *(net for net in _local_networks() if net.prefixlen > 8)), whole)
    note.write_text(f"{chosen}\n")
    return chosen


def service_port(api_port: int) -> int:
    """Return the port of the API server's service: 443, or ``api_port`` where only root may use ports below 1024."""
    return _HTTPS if may_listen(_HTTPS) else api_port


def may_listen(port: int) -> bool:
    """Return whether this machine lets this user have a port."""
    with open("/proc/sys/net/ipv4/ip_unprivileged_port_start") as file:
        first = int(file.read())
    return first <= port or "NET_BIND_SERVICE" in _held()


def api_address(kubeconfig: Path) -> tuple[str, int]:
    """Return the host and port of a kubeconfig's API server."""
    url = urlsplit(load([kubeconfig]).server)
    return url.hostname or "127.0.0.1", url.port or _HTTPS


def machine_addresses() -> list[str]:
    """Return the IPv4 addresses of this machine's interfaces, those on loopback left out."""
    hosts = (net.network_address for net in _local_networks() if net.prefixlen == net.max_prefixlen)
    return sorted({str(address) for address in hosts if not address.is_loopback})


def _local_networks() -> list[ipaddress.IPv4Network]:
    with open("/proc/net/fib_trie") as file:
        found = _LOCAL.findall(file.read())
    return [ipaddress.IPv4Network(f"{address}/{prefix}") for address, prefix in found]


def _held() -> frozenset[str]:
    return capabilities.names_of(linux.held_capabilities())
