"""What to discover: the key ``volcano-controller.conf`` of a ConfigMap.

Source: volcano-controllers Part H, "Topology discovery configuration".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from strato.api import yamltext
from strato.errors import StratoError
from strato.units import duration_seconds

CONFIG_KEY: Final = "volcano-controller.conf"
DEFAULT_INTERVAL_SECONDS: Final = 3600.0


class BadDiscovery(StratoError):
    """The configuration cannot be used; what was in force stays."""


class SecretReference(msgspec.Struct, frozen=True):
    """Where credentials are."""

    name: str = ""
    namespace: str = ""


class Credentials(msgspec.Struct, frozen=True, rename="camel"):
    """How to log in."""

    secret_ref: SecretReference = SecretReference()


class NodeLabel(msgspec.Struct, frozen=True, rename="camel"):
    """One level of a topology: the label of nodes that names the domain."""

    node_label: str


class _Source(msgspec.Struct, frozen=True):
    source: str
    enabled: bool = False
    interval: str = ""
    credentials: Credentials = Credentials()
    config: Mapping[str, Any] = {}


class _File(msgspec.Struct, frozen=True, rename="camel"):
    network_topology_discovery: list[_Source] = []


class Discovery(msgspec.Struct, frozen=True, kw_only=True):
    """One source that is switched on."""

    source: str
    interval_seconds: float
    credentials: SecretReference
    config: Mapping[str, Any]


def parse_discovery(text: str) -> dict[str, Discovery]:
    """Read the configuration; returns the sources that are switched on, by name.

    Raises:
        BadDiscovery: The text is not what it should be; the message says where.
    """
    try:
        parsed = msgspec.convert(yamltext.load(text) or {}, _File, strict=False)
        found = {}
        for one in parsed.network_topology_discovery:
            interval = duration_seconds(one.interval) if one.interval else DEFAULT_INTERVAL_SECONDS
            if one.enabled:
                found[one.source] = Discovery(
                    source=one.source,
                    interval_seconds=interval if interval > 0 else DEFAULT_INTERVAL_SECONDS,
                    credentials=one.credentials.secret_ref,
                    config=one.config,
                )
    except (yamltext.InvalidYaml, msgspec.ValidationError, ValueError) as error:
        raise BadDiscovery(f"{CONFIG_KEY}: {error}") from error
    return found
