"""A pod's ``/etc/resolv.conf``, with the name servers that its network reaches."""

from __future__ import annotations

import enum
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass

from strato.api.core import PodSpec

MACHINES_FILES = ("/etc/resolv.conf", "/run/systemd/resolve/resolv.conf")
"""Files with the machine's name servers; the second is read if the first names only a stub resolver on loopback."""
_NO_SERVER = ("nameserver 127.0.0.1", "options timeout:1 attempts:1")
"""Makes look-ups fail at once for pods that reach no name server."""


class DnsScope(enum.Enum):
    """What a pod's network reaches."""

    MACHINE = "the machine's own network"
    TRANSLATED = "what the machine reaches, by address translation"
    PODS = "other pods and the machine"


@dataclass(frozen=True, slots=True)
class ClusterDns:
    """The address of the cluster's name server, and the domain of its names."""

    server: str
    namespace: str
    domain: str


_MAX_SEARCHES, _MAX_SEARCH_CHARACTERS, _MAX_SERVERS = 32, 2048, 3
"""A kubelet's limits; what exceeds them is left out."""


def resolv_conf(
    spec: PodSpec, scope: DnsScope, cluster: ClusterDns | None = None, files: Sequence[str] = MACHINES_FILES
) -> str:
    """Return the file's content: by the pod's ``dnsPolicy``, then its ``dnsConfig``.

    Args:
        spec: Spec of the pod.
        scope: What its network reaches.
        cluster: The cluster's name server; None if there is none, then all pods use the machine's.
        files: The machine's files.
    """
    machine = _fields(_machines_lines(scope, files))
    options: dict[str, str] = {}
    if spec.dns_policy == "None":
        servers, searches = [], []
    elif cluster is not None and _asks_cluster(spec):
        below = [f"{cluster.namespace}.svc.{cluster.domain}", f"svc.{cluster.domain}", cluster.domain]
        servers, searches, options = [cluster.server], [*below, *machine["search"]], {"ndots": "ndots:5"}
    else:
        servers, searches = machine["nameserver"], machine["search"]
        options = {word.partition(":")[0]: word for word in machine["options"]}
    config = spec.dns_config
    if config is not None:
        servers, searches = [*servers, *config.nameservers], [*searches, *config.searches]
        for option in config.options:
            options[option.name] = option.name if option.value is None else f"{option.name}:{option.value}"
    kept: list[str] = []
    for one in dict.fromkeys(searches):
        if len(kept) < _MAX_SEARCHES and len(" ".join((*kept, one))) <= _MAX_SEARCH_CHARACTERS:
            kept.append(one)
    lines = ["search " + " ".join(kept)] if kept else []
    lines += [f"nameserver {server}" for server in [*dict.fromkeys(servers)][:_MAX_SERVERS]]
    if options:
        lines.append("options " + " ".join(options.values()))
    return "\n".join(lines) + "\n"


def name_servers(files: Sequence[str] = MACHINES_FILES) -> list[str]:
    """Return the addresses of the machine's own name servers, including those on its loopback."""
    return _fields(_lines(files[0]))["nameserver"][:_MAX_SERVERS]


def _asks_cluster(spec: PodSpec) -> bool:
    return spec.dns_policy == "ClusterFirstWithHostNet" or (spec.dns_policy == "ClusterFirst" and not spec.host_network)


def _machines_lines(scope: DnsScope, files: Sequence[str]) -> list[str]:
    """Return the lines of the machine's file that are useful for a pod."""
    if scope is DnsScope.PODS:
        return list(_NO_SERVER)
    lines = _lines(files[0])
    if scope is DnsScope.TRANSLATED:
        return _beyond_loopback(lines) or _beyond_loopback(_lines(files[1])) or list(_NO_SERVER)
    return lines


def _fields(lines: Sequence[str]) -> dict[str, list[str]]:
    """Return the values of the lines by keyword; of several search and options lines the last counts."""
    found: dict[str, list[str]] = {"nameserver": [], "search": [], "options": []}
    for line in lines:
        word, *rest = line.split()[:_MAX_SEARCHES] or [""]
        if word == "nameserver" and rest:
            found[word].append(rest[0])
        elif word in ("search", "domain"):
            found["search"] = rest
        elif word == "options":
            found[word] = rest
    return found


def _lines(path: str) -> list[str]:
    try:
        with open(path) as file:
            return file.read().splitlines()
    except OSError:  # a machine without DNS
        return []


def _beyond_loopback(lines: Sequence[str]) -> list[str]:
    """Return the lines without name servers on the machine's loopback; empty if there is no other name server."""
    kept = [line for line in lines if not _is_loopback(line)]
    return kept if any(line.startswith("nameserver") for line in kept) else []


def _is_loopback(line: str) -> bool:
    word, _, address = line.partition(" ")
    try:
        return word == "nameserver" and ipaddress.ip_address(address.strip()).is_loopback
    except ValueError:
        return False
