"""The parts of a pod that writes of ``pods/resize`` and ``pods/ephemeralcontainers`` may change.

Source: the strategies of these subresources in Kubernetes 1.36, ``pkg/registry/core/pod``.
"""

from __future__ import annotations

import copy

from strato.api.meta import Json

RESIZE, EPHEMERAL_CONTAINERS = "resize", "ephemeralcontainers"
ALL = frozenset((RESIZE, EPHEMERAL_CONTAINERS))
_RESIZED = ("resources", "resizePolicy")
_SECTIONS = ("containers", "initContainers")


def keep_rest(subresource: str, obj: Json, old: Json) -> None:
    """Restore in ``obj``, in place, all members of the stored pod ``old`` that the subresource may not change.

    Containers that the client has added, removed or renamed are left alone: validation refuses them.
    """
    sent, before = obj.get("spec") or {}, old["spec"]
    if subresource == RESIZE and any(len(sent.get(name) or ()) != len(before.get(name) or ()) for name in _SECTIONS):
        return
    obj["metadata"] = {**old["metadata"]}
    if subresource == EPHEMERAL_CONTAINERS:
        taken = {"ephemeralContainers": sent.get("ephemeralContainers")}
    else:
        taken = {name: _containers(sent.get(name) or [], before.get(name) or []) for name in _SECTIONS}
        taken["resources"] = copy.deepcopy(sent.get("resources"))
    kept = {name: value for name, value in before.items() if name not in taken}
    obj["spec"] = kept | {name: value for name, value in taken.items() if value}


def _containers(sent: list[Json], before: list[Json]) -> list[Json]:
    if any(new.get("name") != was["name"] for new, was in zip(sent, before, strict=True)):
        return sent
    return [
        {name: value for name, value in was.items() if name not in _RESIZED}
        | {name: copy.deepcopy(new[name]) for name in _RESIZED if new.get(name) is not None}
        for new, was in zip(sent, before, strict=True)
    ]
