"""StatefulSets: pods with their own names and claims, created, updated and deleted in order.

`plan` decides the next steps from the present pods; where a step must wait for a pod, the plan ends.

Source: apps/v1 StatefulSet.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

import msgspec

from strato.api import catalog
from strato.api.apps import StatefulSet, StatefulSetSpec
from strato.api.core import Pod
from strato.api.meta import Key
from strato.controllers.context import ControllerContext
from strato.controllers.kube.ownedpods import OwnedPods, available_count, pod_body
from strato.controllers.kube.revisions import REVISION_LABEL, Revisions
from strato.controllers.owners import controller_reference
from strato.controllers.reconcile import KeyedController
from strato.errors import AlreadyExists, NotFound

POD_NAME_LABEL: Final = "statefulset.kubernetes.io/pod-name"
POD_INDEX_LABEL: Final = "apps.kubernetes.io/pod-index"


@dataclass(frozen=True, slots=True)
class Slot:
    """One present pod of the set."""

    ordinal: int
    pod: Pod
    is_terminating: bool
    healthy: bool
    """Whether the pod has been ready for ``minReadySeconds`` and is not terminating."""


@dataclass(slots=True)
class StatefulSetPlan:
    """Ordinals to create and pods to delete now."""

    create: list[int] = field(default_factory=list)
    delete: list[Pod] = field(default_factory=list)


def plan(spec: StatefulSetSpec, slots: Sequence[Slot], update_revision: str) -> StatefulSetPlan:
    """Return the next steps; for a set that is not Parallel at most one."""
    parallel = spec.pod_management_policy == "Parallel"
    by_ordinal = {slot.ordinal: slot for slot in slots}
    first = spec.ordinals.start if spec.ordinals is not None else 0
    wanted = range(first, first + spec.replicas)
    planned = StatefulSetPlan()
    for ordinal in wanted:
        slot = by_ordinal.get(ordinal)
        if slot is None:
            planned.create.append(ordinal)
        elif slot.pod.is_finished and not slot.is_terminating:
            planned.delete.append(slot.pod)  # its replacement needs the name
        elif slot.healthy or parallel:
            continue
        if not parallel:
            return planned
    surplus = sorted((slot for slot in slots if slot.ordinal not in wanted), key=lambda slot: -slot.ordinal)
    if parallel:
        planned.delete += [slot.pod for slot in surplus if not slot.is_terminating]
    elif surplus:
        last, *others = surplus
        # While another surplus pod is unhealthy too, an unhealthy one is not deleted: users should look at it first.
        if not last.is_terminating and (last.healthy or all(slot.healthy for slot in others)):
            planned.delete.append(last.pod)
        return planned
    if not planned.create and not planned.delete:
        planned.delete += _outdated(spec, [by_ordinal[ordinal] for ordinal in wanted], update_revision)
    return planned


def _outdated(spec: StatefulSetSpec, slots: Sequence[Slot], update_revision: str) -> list[Pod]:
    """Return the next pod to replace for an update: in descending order of ordinals, down to the partition."""
    if spec.update_strategy.type != "RollingUpdate":
        return []
    rolling = spec.update_strategy.rolling_update
    partition = rolling.partition if rolling is not None else 0
    for slot in reversed(slots):
        if slot.ordinal < partition:
            break
        if slot.pod.metadata.label(REVISION_LABEL) != update_revision:
            return [] if slot.is_terminating else [slot.pod]
        if not slot.healthy:
            break
    return []


def _ordinal(pod: Pod, name: str) -> int | None:
    """Return the ordinal in the name of a set's pod, None if the name has none."""
    parent, _, tail = pod.metadata.name.rpartition("-")
    return int(tail) if parent == name and tail.isdecimal() else None


class StatefulSetController(KeyedController):
    """See the module."""

    name: ClassVar[str] = "kube-statefulset-controller"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._sets = context.informers.informer(StatefulSet)
        self._revisions = Revisions(context, catalog.STATEFULSET)
        self._owned = OwnedPods(context, catalog.STATEFULSET, self.queue.add_after)
        self._sets.add_handler(lambda change: self.queue.add(change.key))

    async def reconcile(self, key: Key) -> float | None:
        """Take the next steps and write the status."""
        wanted = self._sets.get(key)
        if wanted is None or wanted.metadata.deletion_timestamp is not None:
            return None
        meta, spec = wanted.metadata, wanted.spec
        try:
            whole = await self._cluster.get(catalog.STATEFULSET, meta.name, meta.namespace)
        except NotFound:
            return None
        template = whole["spec"]["template"]
        await self._owned.claim(wanted, lambda pod: _ordinal(pod, meta.name) is not None)
        update = f"{meta.name}-{await self._revisions.ensure(meta, template)}"
        current = wanted.status.current_revision or update
        slots, next_in = self._slots(wanted)
        planned = plan(spec, slots, update)
        if planned.delete:
            if spec.claim_retention.when_scaled == "Delete":
                await self._leave_claims(wanted, planned.delete)
            await self._owned.delete(meta.uid, planned.delete)
        for ordinal in planned.create:
            await self._create(wanted, whole, ordinal, update, current)
        slots, _ = self._slots(wanted)
        await self._write_status(wanted, slots, current, update)
        return next_in

    def _slots(self, wanted: StatefulSet) -> tuple[list[Slot], float | None]:
        slots: list[Slot] = []
        soonest: float | None = None
        for pod in self._owned.all_of(wanted.metadata.uid):
            ordinal = _ordinal(pod, wanted.metadata.name)
            if ordinal is None:
                continue
            is_terminating = self._owned.is_terminating(pod)
            available, left = available_count([pod], wanted.spec.min_ready_seconds, self.clock.now())
            healthy = pod.status.phase == "Running" and bool(available) and not is_terminating
            slots.append(Slot(ordinal, pod, is_terminating, healthy))
            if left is not None:
                soonest = left if soonest is None else min(soonest, left)
        return sorted(slots, key=lambda slot: slot.ordinal), soonest

    async def _create(
        self, wanted: StatefulSet, whole: Mapping[str, Any], ordinal: int, update: str, current: str
    ) -> None:
        meta, spec = wanted.metadata, wanted.spec
        template, revision = whole["spec"]["template"], update
        rolling = spec.update_strategy.rolling_update
        partition = rolling.partition if rolling is not None and spec.update_strategy.type == "RollingUpdate" else 0
        if ordinal < partition and current != update:
            before = await self._revisions.template(meta, current.removeprefix(f"{meta.name}-"))
            if before is not None:
                template, revision = before, current
        name = f"{meta.name}-{ordinal}"
        body = pod_body(
            catalog.STATEFULSET,
            meta,
            template,
            name=name,
            labels={POD_NAME_LABEL: name, POD_INDEX_LABEL: str(ordinal), REVISION_LABEL: revision},
        )
        pod = body["spec"]
        pod["hostname"] = name
        if spec.service_name:
            pod["subdomain"] = spec.service_name
        claims = whole["spec"].get("volumeClaimTemplates") or ()
        if claims:
            own = [
                {
                    "name": c["metadata"]["name"],
                    "persistentVolumeClaim": {"claimName": f"{c['metadata']['name']}-{name}"},
                }
                for c in claims
            ]
            taken = {volume["name"] for volume in own}
            pod["volumes"] = [*(v for v in pod.get("volumes") or () if v["name"] not in taken), *own]
            for claim in claims:
                await self._ensure_claim(wanted, claim, f"{claim['metadata']['name']}-{name}")
        await self._owned.create(meta, [body])

    async def _ensure_claim(self, wanted: StatefulSet, template: Mapping[str, Any], name: str) -> None:
        meta = wanted.metadata
        metadata: dict[str, Any] = {"name": name, "namespace": meta.namespace}
        labels = template["metadata"].get("labels") or {}
        selector = wanted.spec.selector
        metadata["labels"] = {**labels, **(selector.match_labels if selector is not None else {})}
        if wanted.spec.claim_retention.when_deleted == "Delete":
            kind = catalog.STATEFULSET
            reference = controller_reference(kind.api_version, kind.name, meta)
            metadata["ownerReferences"] = [{**reference, "controller": False}]
        body = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": metadata,
            "spec": template.get("spec") or {},
        }
        with suppress(AlreadyExists):  # the claim of the previous pod of this ordinal: its replacement shall use it
            await self._cluster.create(catalog.PERSISTENTVOLUMECLAIM, body, meta.namespace)

    async def _leave_claims(self, wanted: StatefulSet, pods: Sequence[Pod]) -> None:
        """Make surplus pods the owners of their claims, so that these are deleted with them."""
        spec = wanted.spec
        last = (spec.ordinals.start if spec.ordinals is not None else 0) + spec.replicas
        for pod in pods:
            if (_ordinal(pod, wanted.metadata.name) or 0) < last:
                continue
            owner = {**controller_reference("v1", "Pod", pod.metadata), "controller": False}
            for template in spec.volume_claim_templates:
                name = f"{template.metadata.name}-{pod.metadata.name}"
                with suppress(NotFound):
                    change = {"metadata": {"ownerReferences": [owner]}}
                    await self._cluster.patch(catalog.PERSISTENTVOLUMECLAIM, name, pod.metadata.namespace, change)

    async def _write_status(self, wanted: StatefulSet, slots: Sequence[Slot], current: str, update: str) -> None:
        meta, spec = wanted.metadata, wanted.spec
        staying = [slot for slot in slots if not slot.is_terminating]
        updated = sum(slot.pod.metadata.label(REVISION_LABEL) == update for slot in staying)
        rolled_out = updated == spec.replicas == len(staying) and all(slot.healthy for slot in staying)
        if rolled_out:
            current = update
        status: dict[str, Any] = {
            "observedGeneration": meta.generation,
            "replicas": len(slots),
            "readyReplicas": sum(slot.pod.is_ready and not slot.is_terminating for slot in slots),
            "availableReplicas": sum(slot.healthy for slot in slots),
            "currentReplicas": sum(slot.pod.metadata.label(REVISION_LABEL) == current for slot in staying),
            "updatedReplicas": updated,
            "currentRevision": current,
            "updateRevision": update,
        }
        before = msgspec.to_builtins(wanted.status)
        if any((before.get(name) or 0) != (value or 0) for name, value in status.items()):
            await self.write_status(StatefulSet, meta.key, status)
        in_use = {current, update, *(slot.pod.metadata.label(REVISION_LABEL) for slot in slots)}
        digests = {name.removeprefix(f"{meta.name}-") for name in in_use}
        await self._revisions.prune(meta, digests, spec.revision_history_limit)
