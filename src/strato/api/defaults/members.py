"""Members that get a value when none is given: null counts as none, and an empty one where Kubernetes says so."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from strato.api.meta import Json


def fill(obj: Json, members: Mapping[str, Any]) -> None:
    """Set the members that are absent or null, in this order; in an object those of it."""
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
