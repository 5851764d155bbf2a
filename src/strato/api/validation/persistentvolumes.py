"""Rules of persistent volumes."""

from __future__ import annotations

import posixpath

from strato.api import names
from strato.api.meta import Json
from strato.api.quantity import NANO, InvalidQuantity, parse
from strato.api.status import forbidden_field, invalid_value, not_supported, required
from strato.api.validation.volumes import validate_source
from strato.errors import Cause

ACCESS_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_PERSISTENT = (
    "hostPath",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "glusterfs",
    "flocker",
    "nfs",
    "rbd",
    "quobyte",
    "cephfs",
    "iscsi",
    "cinder",
    "fc",
    "flexVolume",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "scaleIO",
    "local",
    "storageos",
    "csi",
)
_PERSISTENT_ORDER = {source: place for place, source in enumerate(_PERSISTENT)}


def validate_persistent_volume(obj: Json) -> list[Cause]:
    """Check a persistent volume."""
    spec = obj.get("spec") or {}
    causes: list[Cause] = []
    modes = spec.get("accessModes") or ()
    if not modes:
        causes.append(required("spec.accessModes"))
    causes += [not_supported("spec.accessModes", mode, ACCESS_MODES) for mode in modes if mode not in ACCESS_MODES]
    if "ReadWriteOncePod" in modes and any(mode in ACCESS_MODES[:3] for mode in modes):
        causes.append(forbidden_field("spec.accessModes", "may not use ReadWriteOncePod with other access modes"))
    _check_capacity(spec.get("capacity") or {}, causes)
    policy = spec.get("persistentVolumeReclaimPolicy")
    if policy and policy not in ("Delete", "Recycle", "Retain"):
        field = "spec.persistentVolumeReclaimPolicy"
        causes.append(not_supported(field, policy, ("Delete", "Recycle", "Retain")))
    affinity = spec.get("nodeAffinity")
    if affinity is not None:
        _check_volume_affinity(affinity, causes)
    source = validate_source(spec, "spec", _PERSISTENT_ORDER, causes)
    if source == "local" and affinity is None:
        causes.append(required("spec.nodeAffinity", "Local volume requires node affinity"))
    elif source == "csi" and not spec["csi"].get("volumeHandle"):
        causes.append(required("spec.csi.volumeHandle"))
    host_path = (spec.get("hostPath") or {}).get("path")
    if host_path and policy == "Recycle" and posixpath.normpath(host_path) in ("/", "//"):
        text = "may not be 'recycle' for a hostPath mount of '/'"
        causes.append(forbidden_field("spec.persistentVolumeReclaimPolicy", text))
    name = spec.get("storageClassName")
    if name:
        causes += [invalid_value("spec.storageClassName", name, text) for text in names.check_subdomain(name)]
    mode = spec.get("volumeMode")
    if mode is not None and mode not in ("Block", "Filesystem"):
        causes.append(not_supported("spec.volumeMode", mode, ("Block", "Filesystem")))
    return causes


def _check_capacity(capacity: Json, causes: list[Cause]) -> None:
    if not capacity:
        causes.append(required("spec.capacity"))
    if set(capacity) != {"storage"}:
        causes.append(not_supported("spec.capacity", dict(sorted(capacity.items())), ("storage",)))
    for name, amount in capacity.items():
        field = f"spec.capacity[{name}]"
        try:
            nanos = parse(amount).nanos
        except InvalidQuantity as err:
            causes.append(invalid_value(field, amount, str(err)))
            continue
        if nanos < 0:
            causes.append(invalid_value(field, -(-nanos // NANO), "must be a valid resource quantity"))
        if nanos <= 0:
            causes.append(invalid_value(field, amount, "must be greater than zero"))


def _check_volume_affinity(affinity: Json, causes: list[Cause]) -> None:
    terms = affinity.get("required")
    if terms is None:
        causes.append(required("spec.nodeAffinity.required", "must specify required node constraints"))
    elif not terms.get("nodeSelectorTerms"):
        field = "spec.nodeAffinity.required.nodeSelectorTerms"
        causes.append(required(field, "must have at least one node selector term"))


def validate_persistent_volume_update(obj: Json, old: Json) -> list[Cause]:
    """Check a persistent volume; its source may not change."""
    causes = validate_persistent_volume(obj)
    new_spec, old_spec = obj.get("spec") or {}, old.get("spec") or {}
    if any(new_spec.get(source) != old_spec.get(source) for source in _PERSISTENT):
        text = "spec.persistentvolumesource is immutable after creation"
        causes.append(forbidden_field("spec.persistentvolumesource", text))
    if new_spec.get("volumeMode") != old_spec.get("volumeMode"):
        causes.append(invalid_value("volumeMode", new_spec.get("volumeMode"), "field is immutable"))
    return causes
