"""Patches of pod templates, merged as Kubernetes does it: maps by key, named lists by name, all else replaced. Pure.

What a TrainJob's ``runtimePatches`` may change is known (its definition says it), so the lists are too.
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
"""By member: what tells the elements of a list apart."""


def merged(base: Any, patch: Any) -> Any:
    """Return a value with a patch of it; neither is changed."""
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
    """Return a list with further elements, each in the place of the one that is told by the same key."""
    result = {one.get(key): dict(one) for one in base}
    for one in more:
        known = result.get(one.get(key))
        result[one.get(key)] = merged(known, dict(one)) if known is not None else dict(one)
    return list(result.values())


def with_variables(base: Iterable[Json] | None, more: Iterable[Mapping[str, Any]]) -> list[Json]:
    """Return the variables of a container with further ones; a new value takes the place of an old one whole."""
    result = {one.get("name"): dict(one) for one in base or ()}
    result.update({one.get("name"): dict(one) for one in more})
    return list(result.values())
