"""Set missing members to defaults; null counts as missing, and an empty value too where Kubernetes treats it so."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from strato.api.meta import Json


def fill(obj: Json, members: Mapping[str, Any]) -> None:
    """Set the members that are absent or null, in this order; a default that is an object fills in its members."""
    for name, value in members.items():
        if isinstance(value, dict):
            if obj.get(name) is None:
                obj[name] = {}
            fill(obj[name], value)
        elif obj.get(name) is None:
            obj[name] = list(value) if isinstance(value, list) else value


def fill_empty(obj: Json, members: Mapping[str, Any]) -> None:
    """Set the members that are absent, null, empty or zero, in this order."""
    for name, value in members.items():
        if not obj.get(name):
            obj[name] = value
