"""Fields that a write through a (sub)resource cannot change: such a write neither owns them nor conflicts on them.

Source: ``GetResetFields`` of the strategies in kubernetes/kubernetes 1.36, ``pkg/registry``.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from strato.api.kinds import Kind
from strato.server.fieldmanager.paths import FieldSet, insert, only, without
from strato.server.fieldmanager.updater import Filter

_CERTIFICATES: Mapping[str, tuple[str, ...]] = {
    "": ("spec", "status"),
    "status": ("spec", "status.conditions"),
    "approval": ("spec", "status.certificate"),
}
_OF_STATUS: Mapping[str, tuple[str, ...]] = {
    "apps/deployments": ("metadata.labels", "spec"),
    "/pods": ("metadata.deletionTimestamp", "metadata.ownerReferences", "spec"),
}
_WITHOUT_METADATA = frozenset(
    (
        "admissionregistration.k8s.io/validatingadmissionpolicies",
        "flowcontrol.apiserver.k8s.io/flowschemas",
        "flowcontrol.apiserver.k8s.io/prioritylevelconfigurations",
        "networking.k8s.io/servicecidrs",
        "resource.k8s.io/devicetaintrules",
        "resource.k8s.io/resourceclaims",
        "scheduling.k8s.io/podgroups",
        "storage.k8s.io/volumeattachments",
    )
)
"""Fields beside the spec that writes of a status do not change."""
_ONLY: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("pods", "ephemeralcontainers"): ("spec.ephemeralContainers",),
    ("pods", "resize"): tuple(
        f"spec.{containers}.*.{member}"
        for containers in ("containers", "initContainers")
        for member in ("resources", "resizePolicy")
    ),
}
"""The only fields that writes of some subresources change."""


@cache
def filter_of(kind: Kind, subresource: str, *, is_custom: bool) -> Filter | None:
    """Return the filter of the paths that a write can change; None if it can change all."""
    included = _ONLY.get((kind.plural, subresource)) if kind.group == "" else None
    if included is not None:
        return _only(_set(included))
    if kind.plural == "certificatesigningrequests":
        excluded = _CERTIFICATES.get(subresource, ())
    elif subresource != "status":
        excluded = ("status",) if kind.has_status else ()
    elif is_custom or f"{kind.group}/{kind.plural}" in _WITHOUT_METADATA:
        excluded = ("metadata", "spec")
    else:
        excluded = _OF_STATUS.get(f"{kind.group}/{kind.plural}", ("spec",))
    return _without(_set(excluded)) if excluded else None


def _set(paths: tuple[str, ...]) -> FieldSet:
    found: FieldSet = {}
    for path in paths:
        insert(found, [part if part == "*" else f"f:{part}" for part in path.split(".")])
    return found


def _without(excluded: FieldSet) -> Filter:
    return lambda fields: without(fields, excluded)


def _only(included: FieldSet) -> Filter:
    return lambda fields: only(fields, included)
