"""Rules about claims and volumes that the scheduler and the volume controller share. Pure.

Source: core/v1 PersistentVolumeClaim and PersistentVolume, storage.k8s.io/v1 StorageClass.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from strato.api.core import PersistentVolume, PersistentVolumeClaim, Pod
from strato.api.quantity import InvalidQuantity, value
from strato.api.selectors import from_label_selector

SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
BOUND_BY_CONTROLLER: Final = "pv.kubernetes.io/bound-by-controller"
CLASS_ANNOTATION: Final = "volume.beta.kubernetes.io/storage-class"
NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"
WAIT: Final = "WaitForFirstConsumer"
ONE_POD: Final = "ReadWriteOncePod"
CLAIM_PROTECTION: Final = "kubernetes.io/pvc-protection"
"""Finalizer that keeps a claim while a pod uses it."""
VOLUME_PROTECTION: Final = "kubernetes.io/pv-protection"
"""Finalizer that keeps a volume while it is bound."""
LOCAL_PROVISIONER: Final = "strato.dev/local"
"""Name of the provisioner whose volumes are directories of this machine."""


class UsedClaim(NamedTuple):
    """A claim that a volume of a pod uses."""

    name: str
    """Name of the claim."""
    key: str
    """``namespace/name`` of the claim."""
    ephemeral: bool
    """Whether the claim is made for the pod and deleted with it."""


def claims_of(pod: Pod) -> list[UsedClaim]:
    """Return the claims that a pod's volumes use, each once."""
    found: dict[str, UsedClaim] = {}
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim is not None:
            name, ephemeral = volume.persistent_volume_claim.claim_name, False
        elif volume.ephemeral is not None:
            name, ephemeral = f"{pod.metadata.name}-{volume.name}", True
        else:
            continue
        key = f"{pod.metadata.namespace}/{name}"
        found.setdefault(key, UsedClaim(name, key, ephemeral))
    return list(found.values())


def is_bound(claim: PersistentVolumeClaim) -> bool:
    """Whether the binding of claim and volume is complete."""
    done = claim.status.phase == "Bound" or BIND_COMPLETED in (claim.metadata.annotations or {})
    return bool(claim.spec.volume_name) and done


def class_name_of(claim: PersistentVolumeClaim) -> str:
    """Return the name of a claim's storage class, empty without one."""
    return claim.metadata.annotation(CLASS_ANNOTATION) or claim.spec.storage_class_name or ""


def size_of(amounts: Mapping[str, str | int | float]) -> int:
    """Return the bytes of ``storage`` in a resource list; 0 when it is not there or cannot be read."""
    try:
        return value(amounts.get("storage", 0))
    except InvalidQuantity:
        return 0


def is_for(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Whether the ``claimRef`` of a volume is this claim."""
    owner = volume.spec.claim_ref
    if owner is None:
        return False
    same = (owner.namespace, owner.name) == (claim.metadata.namespace, claim.metadata.name)
    return same and owner.uid in ("", claim.metadata.uid)


def satisfies(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Whether a volume has the size and mode that a claim asks for; suffices for a volume that is reserved for it."""
    spec, want = volume.spec, claim.spec
    return size_of(spec.capacity) >= size_of(want.resources.requests) and spec.volume_mode == want.volume_mode


def suits(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Whether a volume can be bound to a claim, not considering nodes."""
    spec, want = volume.spec, claim.spec
    if not satisfies(volume, claim):
        return False
    if spec.claim_ref is not None:
        return is_for(volume, claim)
    if volume.status.phase != "Available" or spec.storage_class_name != class_name_of(claim):
        return False
    if want.selector is not None and not from_label_selector(want.selector).matches(volume.metadata.labels or {}):
        return False
    return set(want.access_modes) <= set(spec.access_modes)
