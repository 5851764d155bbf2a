"""HyperNodes from NVIDIA's Unified Fabric Manager: leaf switches that share hosts are one domain.

Source: volcano-controllers Part H, "Source ufm".
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from strato.api.core import Secret
from strato.controllers.topology.desired import SOURCE_LABEL, WantedHyperNode
from strato.controllers.topology.settings import BadDiscovery
from strato.decoding import UNDECODABLE
from strato.errors import one_line
from strato.http.fetch import fetch
from strato.http.tls import client_context

SOURCE: Final = "ufm"
PORTS_PATH: Final = "/ufmRest/resources/ports"
TIMEOUT_SECONDS: Final = 30.0
ANSWER_MAX_BYTES: Final = 100 << 20
_COMPUTER: Final = "Computer"


class FabricPort(msgspec.Struct, frozen=True):
    """One port as the fabric manager lists it."""

    description: str = ""
    peer_node_name: str = ""
    """The switch at the other end."""
    system_name: str = ""
    """The host."""


class UfmConfig(msgspec.Struct, frozen=True, rename="camel"):
    """``config`` of the source."""

    endpoint: str
    insecure_skip_verify: bool = False


class HttpsFabric:
    """Asks a fabric manager, over HTTPS with basic authentication."""

    async def ports(self, config: UfmConfig, user: str, password: str) -> bytes:
        """Return the list of ports as JSON.

        Raises:
            BadDiscovery: There is no usable answer.
        """
        base = config.endpoint if "://" in config.endpoint else f"https://{config.endpoint}"
        url = base.rstrip("/") + PORTS_PATH
        token = base64.b64encode(f"{user}:{password}".encode()).decode()
        tls = client_context(insecure=True) if config.insecure_skip_verify else None
        try:
            answer = await fetch(
                url,
                headers=[("Authorization", f"Basic {token}")],
                tls=tls,
                limit_bytes=ANSWER_MAX_BYTES,
                seconds=TIMEOUT_SECONDS,
            )
        except (OSError, ValueError) as error:
            raise BadDiscovery(f"fabric manager {url} cannot be asked: {one_line(error)}") from error
        if answer.status != 200:
            raise BadDiscovery(f"fabric manager {url} answers {answer.status}")
        return answer.body


def parse_config(config: Mapping[str, Any]) -> UfmConfig:
    """Read ``config`` of the source.

    Raises:
        BadDiscovery: It has no endpoint, or a wrong type.
    """
    try:
        parsed = msgspec.convert(config, UfmConfig, strict=False)
    except msgspec.ValidationError as error:
        raise BadDiscovery(f"source {SOURCE}: {error}") from error
    if not parsed.endpoint:
        raise BadDiscovery(f"source {SOURCE}: endpoint is empty")
    return parsed


def login(secret: Secret) -> tuple[str, str]:
    """Return user name and password of a Secret.

    Raises:
        BadDiscovery: One of them is missing.
    """
    values = []
    for key in ("username", "password"):
        try:
            value = base64.b64decode(secret.data.get(key, "")).decode()
        except (binascii.Error, UnicodeDecodeError):
            value = ""
        if not value:
            raise BadDiscovery(f"Secret {secret.key} has no usable {key}")
        values.append(value)
    return values[0], values[1]


def parse_ports(body: bytes) -> list[FabricPort]:
    """Read the fabric manager's answer.

    Raises:
        BadDiscovery: It is not a list of ports.
    """
    try:
        return msgspec.json.decode(body, type=list[FabricPort], strict=False)
    except UNDECODABLE as error:
        raise BadDiscovery(f"the fabric manager's answer cannot be read: {error}") from error


def discover(ports: Sequence[FabricPort]) -> list[WantedHyperNode]:
    """Return one HyperNode per group of leaf switches that share hosts, and one that holds them all."""
    hosts_of: dict[str, set[str]] = {}
    for port in ports:
        if _COMPUTER in port.description and port.peer_node_name and port.system_name:
            hosts_of.setdefault(port.peer_node_name, set()).add(port.system_name)
    found = []
    for number, hosts in enumerate(_joined(hosts_of)):
        found.append(_hyper_node(f"leaf-hn-{number}", 1, "Node", hosts))
    if found:
        found.append(_hyper_node("spine-hn", 2, "HyperNode", [leaf.name for leaf in found]))
    return found


def _joined(hosts_of: Mapping[str, set[str]]) -> list[set[str]]:
    """Join the hosts of leaves that share one; in the order of the leaves' names."""
    groups: list[set[str] | None] = []
    group_of: dict[str, int] = {}
    for leaf in sorted(hosts_of):
        hosts = set(hosts_of[leaf])
        touched = sorted({group_of[host] for host in hosts if host in group_of})
        place = touched[0] if touched else len(groups)
        if not touched:
            groups.append(set())
        for other in touched[1:]:
            hosts |= groups[other] or set()
            groups[other] = None
        joined = groups[place] or set()
        joined |= hosts
        groups[place] = joined
        group_of.update(dict.fromkeys(hosts, place))
    return [group for group in groups if group is not None]


def _hyper_node(name: str, tier: int, member_type: str, members: Any) -> WantedHyperNode:
    return WantedHyperNode(name, tier, "", member_type, tuple(sorted(members)), {SOURCE_LABEL: SOURCE})
