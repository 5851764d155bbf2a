"""Rules of the downward API: which fields of a pod its files and variables may name."""

from __future__ import annotations

import re
from typing import Final

from strato.api import names
from strato.api.meta import Json
from strato.api.status import invalid_value, not_supported, required
from strato.errors import Cause

FILE_FIELDS: Final = ("metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid")
"""Fields that files may name."""
VARIABLE_FIELDS: Final = (
    *("metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName"),
    *("status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs"),
)
"""Fields that variables may name, besides a single annotation or label."""
_FIELDS: Final = frozenset(
    (
        *FILE_FIELDS,
        *("spec.nodeName", "spec.host", "spec.restartPolicy", "spec.serviceAccountName", "spec.schedulerName"),
        *("status.phase", "status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs"),
    )
)
"""All fields that exist."""
_SUBSCRIPT: Final = re.compile(r"(.*)\['([^']*)'\]", re.DOTALL)


def check_field(reference: Json, allowed: tuple[str, ...], field: str, causes: list[Cause]) -> None:
    """Check a ``fieldRef``.

    Args:
        reference: The ``fieldRef``.
        allowed: Fields that may be named as a whole.
        field: Path of the reference.
        causes: Gets the problems.
    """
    version, path = reference.get("apiVersion") or "", reference.get("fieldPath") or ""
    if not version or not path:
        causes.append(required(f"{field}.fieldPath" if version else f"{field}.apiVersion"))
        return
    keyed = _SUBSCRIPT.fullmatch(path)
    problem = ""
    if version != "v1":
        problem = f"unsupported pod version: {version}"
    elif keyed is not None and keyed[1] not in ("metadata.annotations", "metadata.labels"):
        problem = f"field label does not support subscript: {path}"
    elif keyed is None and path not in _FIELDS:
        problem = f"field label not supported: {path}"
    if problem:
        causes.append(invalid_value(f"{field}.fieldPath", path, f"error converting fieldPath: {problem}"))
        return
    if keyed is not None:
        key = keyed[2].lower() if keyed[1] == "metadata.annotations" else keyed[2]
        causes += [invalid_value(field, key, text) for text in names.check_qualified_name(key)]
        return
    shown = "spec.nodeName" if path == "spec.host" else path
    if shown not in allowed:
        causes.append(not_supported(f"{field}.fieldPath", shown, allowed))
