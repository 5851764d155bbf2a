"""A pod's ``/etc/resolv.conf``, by what its network reaches."""

from __future__ import annotations

import enum
import ipaddress
from collections.abc import Sequence

from strato.api.core import PodSpec

MACHINES_FILES = ("/etc/resolv.conf", "/run/systemd/resolve/resolv.conf")
"""Where the machine's name servers stand; the second is asked when the first names a stub on loopback."""
_NO_SERVER = ("nameserver 127.0.0.1", "options timeout:1 attempts:1")
"""Makes look-ups fail at once where no name server can be reached."""


class DnsScope(enum.Enum):
    """What a pod's network leads to."""

    MACHINE = "the machine's own network"
    TRANSLATED = "what the machine reaches, by address translation"
    PODS = "other pods and the machine"


def resolv_conf(spec: PodSpec, scope: DnsScope, files: Sequence[str] = MACHINES_FILES) -> str:
    """Return the file's content."""
    config = spec.dns_config
    lines: list[str] = []
    if scope is DnsScope.PODS:
        lines = list(_NO_SERVER)
    elif spec.dns_policy != "None":
        lines = _lines(files[0])
        if scope is DnsScope.TRANSLATED:
            lines = _beyond_loopback(lines) or _beyond_loopback(_lines(files[1])) or list(_NO_SERVER)
    if config is not None:
        lines += [f"nameserver {server}" for server in config.nameservers]
        if config.searches:
            lines.append("search " + " ".join(config.searches))
    return "\n".join(lines) + "\n"


def _lines(path: str) -> list[str]:
    try:
        with open(path) as file:
            return file.read().splitlines()
    except OSError:  # a machine without DNS
        return []


def _beyond_loopback(lines: Sequence[str]) -> list[str]:
    """Leave out name servers that listen on the machine's loopback; nothing when no other is named."""
    kept = [line for line in lines if not _is_loopback(line)]
    return kept if any(line.startswith("nameserver") for line in kept) else []


def _is_loopback(line: str) -> bool:
    word, _, address = line.partition(" ")
    try:
        return word == "nameserver" and ipaddress.ip_address(address.strip()).is_loopback
    except ValueError:
        return False
