"""What to discover: the key ``volcano-controller.conf`` of a ConfigMap.

Source: volcano-controllers Part H, "Topology discovery configuration".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from strato.api.configtext import read_mapping
from strato.errors import InvalidInput, Problem, StratoError, called, one_line
from strato.units import duration_seconds

CONFIG_KEY: Final = "volcano-controller.conf"
_MEMBER: Final = "networkTopologyDiscovery"
DEFAULT_INTERVAL_SECONDS: Final = 3600.0


class BadDiscovery(StratoError):
    """The configuration cannot be used; the previous one stays in force."""


class SecretReference(msgspec.Struct, frozen=True):
    """The Secret that holds the credentials."""

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


class Discovery(msgspec.Struct, frozen=True, kw_only=True):
    """One source that is switched on."""

    source: str
    interval_seconds: float
    credentials: SecretReference
    config: Mapping[str, Any]


def parse_discovery(text: str) -> dict[str, Discovery]:
    """Read the configuration; returns the sources that are switched on, by name.

    Raises:
        BadDiscovery: The text is invalid; the message lists all problems with their places.
    """
    try:
        return _read(read_mapping(text, CONFIG_KEY).get(_MEMBER) or [])
    except InvalidInput as error:
        raise BadDiscovery(str(error)) from error


def _read(sources: object) -> dict[str, Discovery]:
    if not isinstance(sources, list):
        raise InvalidInput(CONFIG_KEY, [Problem(_MEMBER, f"must be a list, not {called(sources)}")])
    problems: list[Problem] = []
    found = {}
    for index, body in enumerate(sources):
        where = f"{_MEMBER}[{index}]"
        try:
            one = msgspec.convert(body, _Source, strict=False)
        except msgspec.ValidationError as error:
            problems.append(Problem(where, one_line(error)))
            continue
        interval_seconds = 0.0
        if one.interval:
            try:
                interval_seconds = duration_seconds(one.interval)
            except ValueError as error:
                problems.append(Problem(f"{where}.interval", str(error)))
        if one.enabled:
            found[one.source] = Discovery(
                source=one.source,
                interval_seconds=interval_seconds if interval_seconds > 0 else DEFAULT_INTERVAL_SECONDS,
                credentials=one.credentials.secret_ref,
                config=one.config,
            )
    if problems:
        raise InvalidInput(CONFIG_KEY, problems)
    return found
