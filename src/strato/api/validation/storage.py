"""Rules of StorageClasses and CSIDrivers."""

from __future__ import annotations

from collections.abc import Iterator

from strato.api import names
from strato.api.meta import Json
from strato.api.status import duplicate, invalid_value, invalid_values, not_supported, required
from strato.api.validation.metadata import immutable
from strato.errors import Cause

_GROUP_POLICIES = ("File", "None", "ReadWriteOnceWithFSType")
_LIFECYCLES = ("Persistent", "Ephemeral")
_SHORTEST_TOKEN_SECONDS = 600


def validate_storage_class(storage_class: Json) -> list[Cause]:
    """Check the name of the provisioner."""
    provisioner = storage_class.get("provisioner")
    if not provisioner:
        return [required("provisioner")]
    return list(invalid_values("provisioner", provisioner, names.check_qualified_name(str(provisioner).lower())))


def validate_csi_driver(obj: Json) -> list[Cause]:
    """Check a driver of storage."""
    return list(_driver_problems(obj.get("spec") or {}))


def validate_csi_driver_update(obj: Json, old: Json) -> list[Cause]:
    """Check a driver; whether it attaches and what volumes it makes may not change."""
    causes = validate_csi_driver(obj)
    new, before = obj.get("spec") or {}, old.get("spec") or {}
    for member, field in (("attachRequired", "attachedRequired"), ("volumeLifecycleModes", "volumeLifecycleModes")):
        if new.get(member) != before.get(member):
            causes.append(immutable(f"spec.{field}", new.get(member)))
    return causes


def _driver_problems(spec: Json) -> Iterator[Cause]:
    policy = spec.get("fsGroupPolicy")
    if policy not in _GROUP_POLICIES:
        yield not_supported("spec.fsGroupPolicy", policy, _GROUP_POLICIES)
    known: set[str] = set()
    for index, token in enumerate(spec.get("tokenRequests") or ()):
        place, audience = f"spec.tokenRequests[{index}]", token.get("audience") or ""
        if audience in known:
            yield duplicate(f"{place}.audience", audience)
        known.add(audience)
        seconds = token.get("expirationSeconds")
        if seconds is not None and seconds < _SHORTEST_TOKEN_SECONDS:
            text = "may not specify a duration less than 10 minutes"
            yield invalid_value(f"{place}.expirationSeconds", seconds, text)
    for mode in spec.get("volumeLifecycleModes") or ():
        if mode not in _LIFECYCLES:
            yield not_supported("spec.volumeLifecycleModes", mode, _LIFECYCLES)
