"""Rules of volume mounts of containers; among others, a sub-path must not lead out of its volume."""

from __future__ import annotations

from strato.api.meta import Json
from strato.api.status import field_not_found, forbidden_field, invalid_value, not_supported, required
from strato.api.validation.volumes import check_descending
from strato.errors import Cause

_PROPAGATIONS = ("Bidirectional", "HostToContainer", "None")
_RECURSIVE = ("Disabled", "Enabled", "IfPossible")


def validate_mounts(
    mounts: list[Json], field: str, volumes: frozenset[str], causes: list[Cause], *, privileged: bool = False
) -> None:
    """Check a container's mounts; causes about sub-paths name the whole list, as on an API server."""
    paths: set[str] = set()
    for index, mount in enumerate(mounts):
        get, place = mount.get, f"{field}[{index}]"
        name, path = get("name"), get("mountPath")
        if not name:
            causes.append(required(f"{place}.name"))
        if name not in volumes:
            causes.append(field_not_found(f"{place}.name", name or ""))
        if not path:
            causes.append(required(f"{place}.mountPath"))
        if path in paths:
            causes.append(invalid_value(f"{place}.mountPath", path or "", "must be unique"))
        paths.add(path or "")
        sub_path, expression = get("subPath"), get("subPathExpr")
        if sub_path:
            check_descending(sub_path, f"{field}.subPath", causes)
        if expression:
            if sub_path:
                text = "subPathExpr and subPath are mutually exclusive"
                causes.append(invalid_value(f"{place}.subPathExpr", expression, text))
            check_descending(expression, f"{field}.subPathExpr", causes)
        propagation, recursive = get("mountPropagation"), get("recursiveReadOnly")
        if propagation is not None:
            _check_propagation(propagation, f"{field}.mountPropagation", causes, privileged=privileged)
        if recursive is not None:
            _check_recursive(mount, f"{field}.recursiveReadOnly", causes)


def _check_propagation(propagation: str, field: str, causes: list[Cause], *, privileged: bool) -> None:
    if propagation not in _PROPAGATIONS:
        causes.append(not_supported(field, propagation, _PROPAGATIONS))
    if propagation == "Bidirectional" and not privileged:
        text = "Bidirectional mount propagation is available only to privileged containers"
        causes.append(forbidden_field(field, text))


def _check_recursive(mount: Json, field: str, causes: list[Cause]) -> None:
    recursive = mount["recursiveReadOnly"]
    if recursive not in _RECURSIVE:
        causes.append(not_supported(field, recursive, _RECURSIVE))
    elif recursive != "Disabled":
        if not mount.get("readOnly"):
            causes.append(forbidden_field(field, "may only be specified when readOnly is true"))
        if mount.get("mountPropagation") not in (None, "None"):
            text = "may only be specified when mountPropagation is None or not specified"
            causes.append(forbidden_field(field, text))
