"""`Volumes`: claims, persistent volumes, storage classes and CSI drivers, as the scheduler needs them.

Only keeps the state; `strato.scheduler.plugins.volumebinding` decides which nodes suit a claim. Has no cost while there
are no claims.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from strato.api.claims import NO_PROVISIONER, WAIT, claims_of, class_name_of
from strato.api.core import PersistentVolume, PersistentVolumeClaim
from strato.api.meta import Object
from strato.api.storage import CSIDriver, CSINode, CSIStorageCapacity, StorageClass
from strato.scheduler.claims.reservations import Reservations
from strato.scheduler.model.jobs import Task


class Volumes:
    """Claims, volumes and other storage objects.

    Attributes:
        claims: PersistentVolumeClaims by ``namespace/name``.
        volumes: PersistentVolumes by name.
        classes: StorageClasses by name.
        drivers: CSIDrivers by name.
        nodes: CSINodes by name.
        capacities: CSIStorageCapacities by ``namespace/name``.
        users: Tasks that use a claim, by claim key and task key.
        reservations: The tasks' reservations; shared with `strato.scheduler.claims.devices.Devices`.
    """

    def __init__(self, reservations: Reservations) -> None:
        self.claims: dict[str, PersistentVolumeClaim] = {}
        self.volumes: dict[str, PersistentVolume] = {}
        self.classes: dict[str, StorageClass] = {}
        self.drivers: dict[str, CSIDriver] = {}
        self.nodes: dict[str, CSINode] = {}
        self.capacities: dict[str, CSIStorageCapacity] = {}
        self.users: dict[str, dict[str, Task]] = {}
        self.reservations = reservations

    def put(self, view: Object) -> bool:
        """Take an object of a kind kept here; return whether it is new or differs from what was known."""
        table, key = self._table(type(view)), _key(view)
        old = table.get(key)
        table[key] = view
        return old is None or old != view

    def remove(self, view: type[Object], key: str) -> None:
        """Forget an object by name or ``namespace/name``."""
        self._table(view).pop(key, None)

    def _table(self, view: type[Object]) -> dict[str, Any]:
        tables: dict[type[Object], dict[str, Any]] = {
            PersistentVolumeClaim: self.claims,
            PersistentVolume: self.volumes,
            StorageClass: self.classes,
            CSIDriver: self.drivers,
            CSINode: self.nodes,
            CSIStorageCapacity: self.capacities,
        }
        return tables[view]

    def use(self, task: Task) -> None:
        """Note that a task's pod uses its claims."""
        for claim in claims_of(task.pod):
            self.users.setdefault(claim.key, {})[task.key] = task

    def unuse(self, task: Task) -> None:
        """Note that a task's pod is gone."""
        for claim in claims_of(task.pod):
            users = self.users.get(claim.key)
            if users is not None:
                users.pop(task.key, None)
                if not users:
                    del self.users[claim.key]

    def waits_for_consumer(self, claim: PersistentVolumeClaim) -> bool:
        """Whether the claim is bound only once a pod that uses it has a node."""
        found = self.classes.get(class_name_of(claim))
        return found is not None and found.volume_binding_mode == WAIT

    def picked(self) -> tuple[dict[str, str], dict[str, int]]:
        """Return what valid reservations hold: volume by claim key, and row by key of a claim to provision."""
        volumes: dict[str, str] = {}
        provisions: dict[str, int] = {}
        for _, reservation in self.reservations.standing():
            volumes.update(reservation.volumes)
            for key in reservation.provisions:
                provisions[key] = reservation.row
        return volumes, provisions

    def driver_of(self, claim: PersistentVolumeClaim) -> tuple[str, str]:
        """Return the CSI driver that attaches a claim's volume, and the volume's identity; empty without a driver."""
        volume = self.volumes.get(claim.spec.volume_name) if claim.spec.volume_name else None
        if volume is not None:
            source = volume.spec.csi
            return (source.driver, source.volume_handle) if source is not None else ("", "")
        found = self.classes.get(class_name_of(claim))
        if found is None or found.provisioner == NO_PROVISIONER:
            return "", ""
        return found.provisioner, f"claim {claim.metadata.namespace}/{claim.metadata.name}"

    def limits_of(self, node: str) -> dict[str, int]:
        """Return how many volumes of each CSI driver a node takes; drivers without a limit are left out."""
        found = self.nodes.get(node)
        if found is None:
            return {}
        return {
            driver.name: driver.allocatable.count
            for driver in found.spec.drivers
            if driver.allocatable is not None and driver.allocatable.count is not None
        }

    def attached(self, tasks: Iterable[Task]) -> dict[str, set[str]]:
        """Return identities of the CSI volumes that pods use, by driver."""
        out: dict[str, set[str]] = {}
        for task in tasks:
            if not task.cls.uses_claims:
                continue
            for used in claims_of(task.pod):
                claim = self.claims.get(used.key)
                driver, handle = self.driver_of(claim) if claim is not None else ("", "")
                if driver:
                    out.setdefault(driver, set()).add(handle)
        return out


def _key(view: Object) -> str:
    meta = view.metadata
    return f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name
