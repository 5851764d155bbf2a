"""JSON merge patch (RFC 7386)."""

from __future__ import annotations

from typing import Any


def apply_merge_patch(target: Any, patch: Any) -> Any:
    """Return ``target`` with ``patch`` merged in; mutates and returns ``target`` where both are objects."""
    if not isinstance(patch, dict):
        return patch
    result = target if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        elif isinstance(value, dict):
            result[name] = apply_merge_patch(result.get(name), value)
        else:
            result[name] = value
    return result
