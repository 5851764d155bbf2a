"""The next step of a claim or persistent volume: bind, provision, release or reclaim it. Pure.

Source: Kubernetes' persistent volume controller, as its API documentation describes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from strato.api.claims import (
    BIND_COMPLETED,
    BOUND_BY_CONTROLLER,
    LOCAL_PROVISIONER,
    NO_PROVISIONER,
    SELECTED_NODE,
    VOLUME_PROTECTION,
    WAIT,
    class_name_of,
    is_for,
    satisfies,
    size_of,
    suits,
)
from strato.api.core import PersistentVolume, PersistentVolumeClaim
from strato.api.storage import StorageClass

PROVISIONED_BY: Final = "pv.kubernetes.io/provisioned-by"

Notice = tuple[str, str, str]
"""Type, reason and message of an event."""


class ClaimStep(NamedTuple):
    """The next step of a claim; with all members unset there is nothing to do until something changes."""

    bind: PersistentVolume | None = None
    """The volume to bind the claim to, or to keep it bound to."""
    make: bool = False
    """Whether to provision a volume for the claim on this machine."""
    wait_for: str = ""
    """Name of the external provisioner that has to make the claim's volume."""
    lost: bool = False
    """Whether the volume that the claim was bound to is gone."""
    notice: Notice | None = None


def plan_claim(
    claim: PersistentVolumeClaim,
    named: PersistentVolume | None,
    offers: Iterable[PersistentVolume],
    storage_class: StorageClass | None,
) -> ClaimStep:
    """Decide the next step of a claim that is not being deleted.

    Args:
        claim: The claim.
        named: The volume that its spec names, None when there is none of that name.
        offers: Volumes whose ``claimRef`` is the claim, and volumes of its class without a ``claimRef``.
        storage_class: Its class, None when it names none or one that does not exist.
    """
    if claim.spec.volume_name:
        return _named(claim, named)
    usable = [volume for volume in offers if volume.metadata.deletion_timestamp is None]
    held = [volume for volume in usable if is_for(volume, claim)]
    waits = storage_class is not None and storage_class.volume_binding_mode == WAIT
    if not held and waits:
        if not claim.metadata.annotation(SELECTED_NODE):
            message = "waiting for first consumer to be created before binding"
            return ClaimStep(notice=("Normal", WAIT, message))
    else:
        found = held or [volume for volume in usable if suits(volume, claim)]
        if found:
            return ClaimStep(bind=min(found, key=lambda one: (size_of(one.spec.capacity), one.metadata.name)))
    return _provision(claim, storage_class)


def _named(claim: PersistentVolumeClaim, named: PersistentVolume | None) -> ClaimStep:
    was_bound = BIND_COMPLETED in (claim.metadata.annotations or {})
    if named is None:
        message = "Bound claim has lost its PersistentVolume. Data on the volume is lost!"
        return ClaimStep(lost=True, notice=("Warning", "ClaimLost", message)) if was_bound else ClaimStep()
    if is_for(named, claim) or (named.spec.claim_ref is None and (was_bound or satisfies(named, claim))):
        return ClaimStep(bind=named)
    name = named.metadata.name
    if named.spec.claim_ref is None:
        message = f'Cannot bind to requested volume "{name}": requested size or volumeMode does not fit'
        return ClaimStep(notice=("Warning", "VolumeMismatch", message))
    if was_bound:
        message = "Two claims are bound to the same volume, this one is bound incorrectly"
        return ClaimStep(lost=True, notice=("Warning", "ClaimMisbound", message))
    return ClaimStep(notice=("Warning", "FailedBinding", f'volume "{name}" already bound to a different claim.'))


def _provision(claim: PersistentVolumeClaim, storage_class: StorageClass | None) -> ClaimStep:
    name = class_name_of(claim)
    if storage_class is None:
        if name:
            message = f'storageclass.storage.k8s.io "{name}" not found'
            return ClaimStep(notice=("Warning", "ProvisioningFailed", message))
        message = "no persistent volumes available for this claim and no storage class is set"
        return ClaimStep(notice=("Normal", "FailedBinding", message))
    provisioner = storage_class.provisioner
    if provisioner == LOCAL_PROVISIONER:
        if claim.spec.volume_mode != "Filesystem":
            message = "volumes of this machine are directories: volumeMode must be Filesystem"
            return ClaimStep(notice=("Warning", "ProvisioningFailed", message))
        return ClaimStep(make=True)
    if provisioner in ("", NO_PROVISIONER):
        message = "no volume plugin matched name: " + provisioner
        return ClaimStep(notice=("Warning", "ProvisioningFailed", message))
    message = (
        f"Waiting for a volume to be created either by the external provisioner '{provisioner}' or manually by the "
        "system administrator. If volume creation is delayed, please verify that the provisioner is running and "
        "correctly registered."
    )
    return ClaimStep(wait_for=provisioner, notice=("Normal", "ExternalProvisioning", message))


class VolumeStep(NamedTuple):
    """The next step of a volume."""

    phase: str = ""
    """The phase to write; empty leaves it unchanged."""
    message: str = ""
    free: bool = False
    """Whether to remove its ``claimRef``, because the claim was bound to another volume."""
    delete: bool = False
    """Whether to delete the volume together with its data."""


def plan_volume(volume: PersistentVolume, claim: PersistentVolumeClaim | None) -> VolumeStep:
    """Decide the next step of a volume; ``claim`` is that of its ``claimRef``, None when it is gone."""
    owner = volume.spec.claim_ref
    if owner is None or not owner.uid:
        return VolumeStep("Available")
    if claim is not None:
        if claim.spec.volume_name == volume.metadata.name:
            return VolumeStep("Bound")
        if not claim.spec.volume_name:
            return VolumeStep()  # the claim's own step writes its side of the binding
        if volume.metadata.annotation(BOUND_BY_CONTROLLER) and not volume.metadata.annotation(PROVISIONED_BY):
            return VolumeStep("Available", free=True)
    policy, maker = volume.spec.persistent_volume_reclaim_policy, volume.metadata.annotation(PROVISIONED_BY)
    if policy == "Retain" or (policy == "Delete" and maker not in ("", LOCAL_PROVISIONER)):
        return VolumeStep("Released")
    if policy == "Delete" and maker:
        return VolumeStep("Released", delete=True)
    return VolumeStep("Failed", f"{policy} is done for volumes that this cluster made; take this one back by hand")


def volume_body(claim: PersistentVolumeClaim, storage_class: StorageClass, path: str) -> dict[str, Any]:
    """Return the volume to create for a claim, with its data in a directory."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {
            "name": made_name(claim),
            "annotations": {PROVISIONED_BY: LOCAL_PROVISIONER},
            "finalizers": [VOLUME_PROTECTION],
        },
        "spec": {
            "capacity": {"storage": claim.spec.resources.requests.get("storage", "0")},
            "accessModes": list(claim.spec.access_modes),
            "claimRef": claim_reference(claim),
            "hostPath": {"path": path, "type": "Directory"},
            "persistentVolumeReclaimPolicy": storage_class.reclaim_policy,
            "storageClassName": storage_class.metadata.name,
            "volumeMode": claim.spec.volume_mode,
        },
    }


def made_name(claim: PersistentVolumeClaim) -> str:
    """Return the name of the volume that is made for a claim."""
    return f"pvc-{claim.metadata.uid}"


def claim_reference(claim: PersistentVolumeClaim) -> Mapping[str, str]:
    """Return the ``claimRef`` of a volume that is bound to a claim."""
    meta = claim.metadata
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": meta.namespace,
        "name": meta.name,
        "uid": meta.uid,
        "resourceVersion": meta.resource_version,
    }


def bound_status(claim: PersistentVolumeClaim, volume: PersistentVolume) -> dict[str, Any]:
    """Return the status of a bound claim; its capacity is that of the volume."""
    return {
        "phase": "Bound",
        "accessModes": list(volume.spec.access_modes),
        "capacity": {**dict.fromkeys(claim.status.capacity), "storage": volume.spec.capacity.get("storage", "0")},
    }
