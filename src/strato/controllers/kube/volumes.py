"""Bind persistent volumes and claims, provision volumes as directories of this machine, reclaim and protect them.

All nodes of an embedded cluster are this machine, so that any number of pods on any node can mount a directory: volumes
need no node affinity and have every access mode that a claim asks for. `volumeplan` decides; this controller writes.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any, ClassVar

from strato.api import catalog
from strato.api.claims import (
    BIND_COMPLETED,
    BOUND_BY_CONTROLLER,
    CLAIM_PROTECTION,
    VOLUME_PROTECTION,
    claims_of,
    class_name_of,
    is_bound,
    is_for,
    size_of,
)
from strato.api.core import PersistentVolume, PersistentVolumeClaim, Pod
from strato.api.meta import Key, Object
from strato.api.storage import StorageClass
from strato.client.cluster import PatchType
from strato.client.informer import Change
from strato.controllers.context import ControllerContext
from strato.controllers.kube import volumeplan
from strato.controllers.owners import controller_reference
from strato.controllers.parallel import off_loop
from strato.controllers.reconcile import KeyedController
from strato.errors import AlreadyExists, NotFound


class VolumeController(KeyedController):
    """See the module. A key with a namespace names a claim, one without names a volume."""

    name: ClassVar[str] = "kube-persistentvolume-controller"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._local = context.settings.local_volumes
        self._leaving: set[Key] = set()
        """Claims that are being deleted."""
        self._claims = context.informers.informer(PersistentVolumeClaim)
        self._volumes = context.informers.informer(PersistentVolume)
        self._classes = context.informers.informer(StorageClass)
        self._pods = context.informers.informer(Pod)
        self._claims.add_index("open", lambda one: () if one.spec.volume_name else (class_name_of(one),))
        self._volumes.add_index("offers", _offered_to)
        self._pods.add_index("claims", lambda pod: [used.key for used in claims_of(pod)])
        self._claims.add_handler(self._on_claim)
        self._volumes.add_handler(self._on_volume)
        self._classes.add_handler(self._on_class)
        self._pods.add_handler(self._on_pod, among=lambda changes: changes if self._leaving else ())

    # Events

    def _on_claim(self, change: Change[PersistentVolumeClaim]) -> None:
        if change.new is None:
            self._leaving.discard(change.key)
            for volume in self._volumes.index("offers", str(change.key)):
                self.queue.add(volume.key)
            return
        if change.new.metadata.deletion_timestamp is not None:
            self._leaving.add(change.key)
        self.queue.add(change.key)

    def _on_volume(self, change: Change[PersistentVolume]) -> None:
        volume = change.object
        owner = volume.spec.claim_ref
        if change.new is not None:
            self.queue.add(change.key)
        if owner is not None:
            self.queue.add(Key(owner.namespace, owner.name))
        elif change.new is not None and (change.old is None or change.old.status.phase != volume.status.phase):
            for claim in self._claims.index("open", volume.spec.storage_class_name):
                self.queue.add(claim.key)

    def _on_class(self, change: Change[StorageClass]) -> None:
        for claim in self._claims.index("open", change.key.name):
            self.queue.add(claim.key)

    def _on_pod(self, change: Change[Pod]) -> None:
        pod = change.object
        if change.new is None or pod.is_finished:
            for used in claims_of(pod):
                key = Key(pod.metadata.namespace, used.name)
                if key in self._leaving:
                    self.queue.add(key)

    # Work

    async def reconcile(self, key: Key) -> float | None:
        """Bring one claim or volume up to date."""
        with suppress(NotFound):  # deleted meanwhile; the watch will show that and queue what depends on it
            if key.namespace:
                claim = self._claims.get(key)
                if claim is not None:
                    await self._claim(claim)
            else:
                volume = self._volumes.get(key)
                if volume is not None:
                    await self._volume(volume)
        return None

    async def _claim(self, claim: PersistentVolumeClaim) -> None:
        meta = claim.metadata
        if meta.deletion_timestamp is not None:
            if not any(pod.spec.node_name and not pod.is_finished for pod in self._pods.index("claims", str(meta.key))):
                await self._unprotect(claim, CLAIM_PROTECTION)
            if not is_bound(claim):
                return
        named = self._volumes.get(Key("", claim.spec.volume_name)) if claim.spec.volume_name else None
        offers = (
            *self._volumes.index("offers", str(meta.key)),
            *self._volumes.index("offers", f"class {class_name_of(claim)}"),
        )
        found = self._classes.get(Key("", class_name_of(claim)))
        step = volumeplan.plan_claim(claim, named, offers, found)
        if step.bind is not None:
            await self._bind(claim, step.bind, found)
        elif step.make:
            assert found is not None, "volumes are made by a class"
            await self._make(claim, found)
        if step.wait_for and meta.annotation("volume.kubernetes.io/storage-provisioner") != step.wait_for:
            names = ("volume.kubernetes.io/storage-provisioner", "volume.beta.kubernetes.io/storage-provisioner")
            await self._patch(claim, {"metadata": {"annotations": dict.fromkeys(names, step.wait_for)}})
        if step.notice is not None and not (step.lost and claim.status.phase == "Lost"):
            self._recorder.event(claim, *step.notice)
        if step.lost and claim.status.phase != "Lost":
            await self._patch(claim, {"status": {"phase": "Lost", "accessModes": None, "capacity": None}}, "status")

    async def _make(self, claim: PersistentVolumeClaim, storage_class: StorageClass) -> None:
        """Create a volume for a claim; its watch event causes the pass that binds the two."""
        name = volumeplan.made_name(claim)
        local = self._local
        path = os.path.join(local.directory if local is not None else "/var/lib/strato/volumes", name)
        if local is not None:
            await off_loop(self.clock, lambda: local.make(name))
        try:
            body = volumeplan.volume_body(claim, storage_class, path)
            await self._cluster.create(catalog.PERSISTENTVOLUME, body)
        except AlreadyExists:
            return
        self._recorder.event(claim, "Normal", "ProvisioningSucceeded", f"Successfully provisioned volume {name}")

    async def _bind(
        self, claim: PersistentVolumeClaim, volume: PersistentVolume, storage_class: StorageClass | None
    ) -> None:
        """Write the binding, first into the volume: after a crash in between, the volume is reserved for the claim."""
        owner = volume.spec.claim_ref
        meta: dict[str, Any] = {}
        spec: dict[str, Any] = {}
        if owner is None or not owner.uid:
            spec["claimRef"] = volumeplan.claim_reference(claim)
            if owner is None:
                meta["annotations"] = {BOUND_BY_CONTROLLER: "yes"}
        requests = claim.spec.resources.requests
        is_ours = volume.metadata.name == volumeplan.made_name(claim)
        if is_ours and size_of(requests) > size_of(volume.spec.capacity):
            spec["capacity"] = {"storage": requests["storage"]}
        if spec:
            volume = await self._cluster.patch(
                PersistentVolume, volume.metadata.name, "", {"metadata": self._same(volume) | meta, "spec": spec}
            )
            if "capacity" in spec:
                self._recorder.event(claim, "Normal", "VolumeResizeSuccessful", "Resize volume succeeded")
        if volume.status.phase != "Bound":
            await self._write_phase(volume, "Bound")
        annotations = {} if claim.metadata.annotation(BIND_COMPLETED) else {BIND_COMPLETED: "yes"}
        change: dict[str, Any] = {}
        if not claim.spec.volume_name:
            annotations[BOUND_BY_CONTROLLER] = "yes"
            change["spec"] = {"volumeName": volume.metadata.name}
        if annotations:
            claim = await self._patch(claim, {"metadata": {"annotations": annotations}, **change})
        status = volumeplan.bound_status(claim, volume)
        old = claim.status
        if (old.phase, list(old.access_modes), dict(old.capacity)) != tuple(status.values()):
            await self._patch(claim, {"status": status}, "status")

    async def _volume(self, volume: PersistentVolume) -> None:
        meta = volume.metadata
        step = volumeplan.plan_volume(volume, await self._holder(volume))
        if meta.deletion_timestamp is not None:
            if step.phase not in ("Bound", ""):
                await self._unprotect(volume, VOLUME_PROTECTION)
            return
        if step.free:
            # keep the part of claimRef that an administrator wrote, remove what this controller added
            change = {"metadata": self._same(volume) | {"annotations": {BOUND_BY_CONTROLLER: None}}}
            body = {**change, "spec": {"claimRef": None}}
            volume = await self._cluster.patch(PersistentVolume, meta.name, "", body, patch_type=PatchType.MERGE)
        if step.phase and (step.phase, step.message) != (volume.status.phase, volume.status.message):
            await self._write_phase(volume, step.phase, step.message)
        if step.delete:
            await self._remove(volume)
            await self._cluster.delete(PersistentVolume, meta.name, "", uid=meta.uid)

    async def _holder(self, volume: PersistentVolume) -> PersistentVolumeClaim | None:
        """Return the claim of a volume; reads it from the API if the cache does not have it, to be sure it is gone."""
        owner = volume.spec.claim_ref
        if owner is None or not owner.uid:
            return None
        claim = self._claims.get(Key(owner.namespace, owner.name))
        if claim is None or not is_for(volume, claim):
            try:
                claim = await self._cluster.get(PersistentVolumeClaim, owner.name, owner.namespace)
            except NotFound:
                return None
        return claim if is_for(volume, claim) else None

    async def _remove(self, volume: PersistentVolume) -> None:
        """Remove the directory of a volume that we made; the path in the object alone is not trusted."""
        local, source, owner = self._local, volume.spec.host_path, volume.spec.claim_ref
        if local is None or source is None or owner is None or volume.metadata.name != f"pvc-{owner.uid}":
            return
        path = os.path.join(local.directory, volume.metadata.name)
        if source.path == path:
            await off_loop(self.clock, lambda: local.remove(path))

    # Writes

    async def _write_phase(self, volume: PersistentVolume, phase: str, message: str = "") -> None:
        body = {"status": {"phase": phase, "message": message or None}}
        await self._cluster.patch(PersistentVolume, volume.metadata.name, "", body, subresource="status")

    async def _patch(
        self, claim: PersistentVolumeClaim, change: dict[str, Any], subresource: str = ""
    ) -> PersistentVolumeClaim:
        meta = claim.metadata
        return await self._cluster.patch(
            PersistentVolumeClaim, meta.name, meta.namespace, change, subresource=subresource
        )

    async def _unprotect(self, one: Object, finalizer: str) -> None:
        finalizers = one.metadata.finalizers or []
        if finalizer not in finalizers:
            return
        kept = [name for name in finalizers if name != finalizer]
        body = {"metadata": self._same(one) | {"finalizers": kept or None}}
        meta = one.metadata
        await self._cluster.patch(
            catalog.kind_of(type(one)), meta.name, meta.namespace, body, patch_type=PatchType.MERGE
        )

    @staticmethod
    def _same(one: Object) -> dict[str, Any]:
        """Return the metadata that makes a patch fail when the object has changed."""
        return {"uid": one.metadata.uid, "resourceVersion": one.metadata.resource_version}


def _offered_to(volume: PersistentVolume) -> Iterable[str]:
    """Yield the claim of a volume's ``claimRef``, or else the class of claims that it can be bound to."""
    owner = volume.spec.claim_ref
    yield f"class {volume.spec.storage_class_name}" if owner is None else str(Key(owner.namespace, owner.name))


class EphemeralClaimController(KeyedController):
    """Creates the claims of pods' ephemeral volumes; each is owned by its pod, and is deleted with it."""

    name: ClassVar[str] = "kube-ephemeral-volume-controller"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._pods = context.informers.informer(Pod)
        self._claims = context.informers.informer(PersistentVolumeClaim)
        self._pods.add_handler(lambda change: self.queue.add(change.key), among=_with_ephemeral_volumes)

    async def reconcile(self, key: Key) -> float | None:
        """Create the missing claims; one that has another owner is left alone, and the scheduler reports that."""
        pod = self._pods.get(key)
        missing = {used.name for used in claims_of(pod) if used.ephemeral} if pod is not None else set()
        missing = {name for name in missing if Key(key.namespace, name) not in self._claims}
        if pod is None or not missing or pod.is_finished or pod.metadata.deletion_timestamp is not None:
            return None
        try:
            whole = await self._cluster.get(catalog.POD, key.name, key.namespace)
        except NotFound:
            return None
        for volume in whole["spec"].get("volumes") or ():
            name = f"{key.name}-{volume['name']}"
            template = (volume.get("ephemeral") or {}).get("volumeClaimTemplate")
            if template is None or name not in missing:
                continue
            given = template.get("metadata") or {}
            metadata = {member: given[member] for member in ("labels", "annotations") if member in given}
            owners = [controller_reference("v1", "Pod", pod.metadata)]
            body = {"metadata": {**metadata, "name": name, "ownerReferences": owners}, "spec": template["spec"]}
            with suppress(AlreadyExists):
                await self._cluster.create(
                    catalog.PERSISTENTVOLUMECLAIM,
                    {"apiVersion": "v1", "kind": "PersistentVolumeClaim", **body},
                    key.namespace,
                )
        return None


def _with_ephemeral_volumes(changes: Sequence[Change[Pod]]) -> Sequence[Change[Pod]]:
    """Return the changes that show new pods with ephemeral volumes."""
    return [
        change
        for change in changes
        if change.old is None
        and change.new is not None
        and any(volume.ephemeral is not None for volume in change.new.spec.volumes)
    ]
