"""Patches of pod templates, merged as in Kubernetes: maps by key, named lists by name, all else replaced. Pure.

The definition of TrainJob says which members ``runtimePatches`` may change, so a fixed table of their lists suffices.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from strato.api.meta import Json

_KEYS: Final[Mapping[str, str]] = {
    "replicatedJobs": "name",
    "containers": "name",
    "initContainers": "name",
    "volumes": "name",
    "imagePullSecrets": "name",
    "schedulingGates": "name",
    "env": "name",
    "claims": "name",
    "volumeMounts": "mountPath",
}
"""Member → merge key of its list."""


def merged(base: Any, patch: Any) -> Any:
    """Return a value with a patch applied; changes neither of the two."""
    if not isinstance(base, dict) or not isinstance(patch, dict):
        return patch
    result = dict(base)
    for member, value in patch.items():
        if value is None:
            result.pop(member, None)
        elif member in _KEYS and isinstance(value, list | tuple):
            result[member] = upserted(base.get(member) or (), value, _KEYS[member])
        else:
            result[member] = merged(base[member], value) if member in base else value
    return result


def upserted(base: Iterable[Json], more: Iterable[Mapping[str, Any]], key: str = "name") -> list[Json]:
    """Return a list with further elements; each replaces the element with the same merge key, or is appended."""
    result = {one.get(key): dict(one) for one in base}
    for one in more:
        known = result.get(one.get(key))
        result[one.get(key)] = merged(known, dict(one)) if known is not None else dict(one)
    return list(result.values())


def with_variables(base: Iterable[Json] | None, more: Iterable[Mapping[str, Any]]) -> list[Json]:
    """Return the variables of a container with further ones; a new variable replaces the old one of its name."""
    result = {one.get("name"): dict(one) for one in base or ()}
    result.update({one.get("name"): dict(one) for one in more})
    return list(result.values())
