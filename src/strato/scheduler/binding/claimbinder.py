"""`ClaimBinder`: writes the volumes and devices chosen for a pod's claims before the pod is bound.

For volumes it only writes the choice (the volume's ``claimRef``, or the node a volume is to be provisioned for) and
waits until the volume controller and the driver's provisioner have bound the claim. It allocates device claims itself
and adds the pod to their ``reservedFor``. A write that meets a conflict is repeated on the newest state; the choice
itself never changes here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from strato.api import catalog
from strato.api.claims import BOUND_BY_CONTROLLER, SELECTED_NODE, is_bound
from strato.api.core import PersistentVolume, PersistentVolumeClaim
from strato.api.resource import ResourceClaim
from strato.client.cluster import Cluster
from strato.clock import Clock
from strato.errors import ApiError, Conflict, NotFound, StratoError
from strato.scheduler.cache.world import World
from strato.scheduler.claims.reservations import stands
from strato.scheduler.model.jobs import Task
from strato.scheduler.model.reservation import Reservation

_ATTEMPTS = 6
_FIRST_LOOK_SECONDS = 0.1
_LONGEST_LOOK_SECONDS = 1.0
FINALIZER = "resource.kubernetes.io/delete-protection"


class ClaimsNotReady(StratoError):
    """A pod's claims could not be bound or allocated for its node; the message says which and why."""


class ClaimBinder:
    """Binds and allocates the claims of pods that have a node."""

    def __init__(self, cluster: Cluster, clock: Clock, world: World) -> None:
        self._cluster = cluster
        self._clock = clock
        self._world = world

    async def prepare(self, task: Task, given: Reservation, node: str) -> None:
        """Write what was chosen for a task and wait until its volumes are bound.

        Raises:
            ClaimsNotReady: A claim cannot be bound as chosen, or that took too long.
            ApiError: The API refused a write.
        """
        for key, volume in given.volumes.items():
            await self._bind_volume(key, volume)
        for key in given.provisions:
            await self._select_node(key, node)
        if given.volumes or given.provisions:
            await self._wait(task, given, node)
        for key in given.claims:
            await self._reserve(task, key, given.devices.get(key))

    async def undo(self, task: Task, given: Reservation) -> None:
        """Remove the pod from its device claims' ``reservedFor``; volumes stay bound, as in Kubernetes."""
        for key in given.claims:
            namespace, _, name = key.partition("/")
            for _ in range(_ATTEMPTS):
                try:
                    claim = await self._cluster.get(ResourceClaim, name, namespace)
                    others = [_consumer(c.uid, c.name, c.resource) for c in claim.status.reserved_for]
                    kept = [consumer for consumer in others if consumer["uid"] != task.uid]
                    if len(kept) != len(others):
                        await self._write_claim(claim, {"reservedFor": kept})
                except Conflict:
                    continue
                except ApiError:
                    pass  # the claim controller removes pods that are gone
                break

    # -- volumes -------------------------------------------------------------------------------------------------------

    async def _bind_volume(self, key: str, volume: str) -> None:
        namespace, _, name = key.partition("/")
        for _ in range(_ATTEMPTS):
            claim = await self._cluster.get(PersistentVolumeClaim, name, namespace)
            found = await self._cluster.get(PersistentVolume, volume)
            owner = found.spec.claim_ref
            if owner is not None and owner.uid == claim.metadata.uid:
                return
            if owner is not None and (owner.uid or (owner.namespace, owner.name) != (namespace, name)):
                raise ClaimsNotReady(f'volume "{volume}" was taken by claim {owner.namespace}/{owner.name}')
            if is_bound(claim) and claim.spec.volume_name != volume:
                raise ClaimsNotReady(f'claim {key} was bound to volume "{claim.spec.volume_name}"')
            reference = {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": namespace,
                "name": name,
                "uid": claim.metadata.uid,
                "resourceVersion": claim.metadata.resource_version,
            }
            meta: dict[str, Any] = {"resourceVersion": found.metadata.resource_version}
            if owner is None:  # not for a volume whose administrator set the claim, as that outlives the claim
                meta["annotations"] = {BOUND_BY_CONTROLLER: "yes"}
            try:
                body = {"metadata": meta, "spec": {"claimRef": reference}}
                await self._cluster.patch(catalog.PERSISTENTVOLUME, volume, "", body)
            except Conflict:
                continue
            return
        raise ClaimsNotReady(f'volume "{volume}" changed under us {_ATTEMPTS} times')

    async def _select_node(self, key: str, node: str) -> None:
        namespace, _, name = key.partition("/")
        for _ in range(_ATTEMPTS):
            claim = await self._cluster.get(PersistentVolumeClaim, name, namespace)
            selected = claim.metadata.annotation(SELECTED_NODE)
            if is_bound(claim) or selected == node:
                return
            if selected:
                raise ClaimsNotReady(f"the volume of claim {key} is being made for node {selected}")
            meta = {"resourceVersion": claim.metadata.resource_version, "annotations": {SELECTED_NODE: node}}
            try:
                await self._cluster.patch(catalog.PERSISTENTVOLUMECLAIM, name, namespace, {"metadata": meta})
            except Conflict:
                continue
            return
        raise ClaimsNotReady(f"claim {key} changed under us {_ATTEMPTS} times")

    async def _wait(self, task: Task, given: Reservation, node: str) -> None:
        """Wait until the informers show all claims bound to volumes that the node reaches."""
        until = self._clock.monotonic() + given.timeout_seconds
        pause = _FIRST_LOOK_SECONDS
        seen: set[str] = set()
        while True:
            waiting = [key for key in (*given.volumes, *given.provisions) if not self._is_ready(key, node, given, seen)]
            if not waiting:
                return
            if not stands(self._world.tasks.get(task.key), given):
                raise ClaimsNotReady("the pod was placed anew meanwhile")
            if self._clock.monotonic() >= until:
                raise ClaimsNotReady(f"timed out after {given.timeout_seconds:g} s waiting for {', '.join(waiting)}")
            await self._clock.sleep(pause)
            pause = min(2 * pause, _LONGEST_LOOK_SECONDS)

    def _is_ready(self, key: str, node: str, given: Reservation, seen: set[str]) -> bool:
        claim = self._world.volumes.claims.get(key)
        if claim is None:
            raise ClaimsNotReady(f"claim {key} is gone")
        if is_bound(claim):
            volume = self._world.volumes.volumes.get(claim.spec.volume_name)
            if volume is not None and not self._reaches(node, volume):
                raise ClaimsNotReady(f'volume "{claim.spec.volume_name}" cannot be reached from node {node}')
            return volume is not None
        if key in given.provisions:
            selected = claim.metadata.annotation(SELECTED_NODE)
            if selected == node:
                seen.add(key)
            elif selected or key in seen:  # the provisioner cannot provision for this node and removed it
                raise ClaimsNotReady(f"the node selected for claim {key} was reset")
        return False

    def _reaches(self, node: str, volume: PersistentVolume) -> bool:
        affinity = volume.spec.node_affinity
        row = self._world.nodes.row_of.get(node)
        return affinity is None or row is None or bool(self._world.labels.selected(affinity.required)[row])

    # -- devices -------------------------------------------------------------------------------------------------------

    async def _reserve(self, task: Task, key: str, allocation: Mapping[str, Any] | None) -> None:
        """Allocate a claim unless it is allocated, and add the pod to its ``reservedFor``."""
        namespace, _, name = key.partition("/")
        for _ in range(_ATTEMPTS):
            try:
                claim = await self._cluster.get(ResourceClaim, name, namespace)
                if claim.metadata.deletion_timestamp is not None:
                    raise ClaimsNotReady(f"resource claim {key} is being deleted")
                status: dict[str, Any] = {}
                if claim.status.allocation is None:
                    if allocation is None:
                        raise ClaimsNotReady(f"resource claim {key} is no longer allocated")
                    status["allocation"] = allocation
                    claim = await self._protect(claim)
                elif allocation is not None and not _same(claim, allocation):
                    raise ClaimsNotReady(f"resource claim {key} was allocated other devices")
                if any(consumer.uid == task.uid for consumer in claim.status.reserved_for) and not status:
                    return
                users = [_consumer(c.uid, c.name, c.resource) for c in claim.status.reserved_for if c.uid != task.uid]
                status["reservedFor"] = [*users, _consumer(task.uid, task.name, "pods")]
                await self._write_claim(claim, status)
            except Conflict:
                continue
            except NotFound:
                raise ClaimsNotReady(f"resource claim {key} is gone") from None
            return
        raise ClaimsNotReady(f"resource claim {key} changed under us {_ATTEMPTS} times")

    async def _protect(self, claim: ResourceClaim) -> ResourceClaim:
        """Add the finalizer that keeps an allocated claim until its devices are free."""
        finalizers = claim.metadata.finalizers or []
        if FINALIZER in finalizers:
            return claim
        meta = {"resourceVersion": claim.metadata.resource_version, "finalizers": [*finalizers, FINALIZER]}
        body = {"metadata": meta}
        return await self._cluster.patch(ResourceClaim, claim.metadata.name, claim.metadata.namespace, body)

    async def _write_claim(self, claim: ResourceClaim, status: Mapping[str, Any]) -> None:
        body = {"metadata": {"resourceVersion": claim.metadata.resource_version}, "status": status}
        meta = claim.metadata
        await self._cluster.patch(ResourceClaim, meta.name, meta.namespace, body, subresource="status")


def _consumer(uid: str, name: str, resource: str) -> dict[str, str]:
    return {"resource": resource, "name": name, "uid": uid}


def _same(claim: ResourceClaim, allocation: Mapping[str, Any]) -> bool:
    """Whether a claim is allocated exactly these devices, as by this scheduler for another pod of the claim."""
    have = claim.status.allocation.devices.results if claim.status.allocation is not None else ()
    wanted = [(r["driver"], r["pool"], r["device"]) for r in allocation["devices"]["results"]]
    return [(r.driver, r.pool, r.device) for r in have] == wanted
