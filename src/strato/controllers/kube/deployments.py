"""Deployments: one ReplicaSet per template, and an orderly change from one to the next.

`plan_scales` decides how many pods each ReplicaSet should have now; every change of a ReplicaSet's status asks again
until the new one has them all.

Source: apps/v1 Deployment.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from strato.api import catalog
from strato.api.apps import Deployment, ReplicaSet
from strato.api.meta import Key
from strato.client.cluster import Cluster
from strato.client.informer import Change, Informers
from strato.clock import Clock, format_time
from strato.controllers.owners import controller_reference
from strato.controllers.reconcile import KeyedController
from strato.controllers.recorder import Recorder
from strato.errors import AlreadyExists, NotFound

HASH_LABEL: Final = "pod-template-hash"
REVISION: Final = "deployment.kubernetes.io/revision"
_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"


@dataclass(frozen=True, slots=True)
class Scale:
    """A ReplicaSet in a rollout."""

    name: str
    replicas: int
    """Pods asked of it."""
    available: int
    current: int
    """Pods it has."""


def template_hash(template: Mapping[str, Any]) -> str:
    """Return the name part that stands for a pod template."""
    digest = hashlib.sha256(json.dumps(template, sort_keys=True, separators=(",", ":")).encode()).digest()
    return "".join(_LETTERS[byte % len(_LETTERS)] for byte in digest[:10])


def resolve_bounds(replicas: int, surge: int | str | None, unavailable: int | str | None) -> tuple[int, int]:
    """Return maxSurge (rounded up) and maxUnavailable (rounded down) in pods; at least one of them is positive."""
    most = _portion("25%" if surge is None else surge, replicas, up=True)
    least = _portion("25%" if unavailable is None else unavailable, replicas, up=False)
    if most == 0 and least == 0:
        least = 1
    return most, min(least, replicas)


def _portion(value: int | str, whole: int, *, up: bool) -> int:
    if isinstance(value, int):
        return value
    exact = whole * int(value.rstrip("%") or 0) / 100
    return math.ceil(exact) if up else math.floor(exact)


def plan_scales(
    replicas: int, new: Scale, old: Sequence[Scale], *, recreate: bool, surge: int, unavailable: int
) -> dict[str, int]:
    """Decide the replicas of the new and the old ReplicaSets (oldest first); only differences are returned."""
    wanted: dict[str, int] = {}
    if recreate:
        wanted.update((scale.name, 0) for scale in old)
        if not any(scale.current for scale in old):
            wanted[new.name] = replicas
        return _differences(wanted, (new, *old))
    total = new.replicas + sum(scale.replicas for scale in old)
    room = replicas + surge - total
    if new.replicas > replicas or not old:
        wanted[new.name] = replicas
    elif room > 0:
        wanted[new.name] = min(replicas, new.replicas + room)
    spare = sum(s.available for s in old) + min(new.available, replicas) - (replicas - unavailable)
    for scale in old:
        idle = max(0, scale.replicas - scale.available)  # pods that serve nobody go first and cost nothing
        drop = min(scale.replicas, idle + max(0, min(spare, scale.available)))
        spare -= max(0, drop - idle)
        wanted[scale.name] = scale.replicas - drop
    return _differences(wanted, (new, *old))


def _differences(wanted: Mapping[str, int], scales: Sequence[Scale]) -> dict[str, int]:
    present = {scale.name: scale.replicas for scale in scales}
    return {name: count for name, count in wanted.items() if present[name] != count}


class DeploymentController(KeyedController):
    """See the module."""

    name: ClassVar[str] = "kube-deployment-controller"

    def __init__(self, cluster: Cluster, informers: Informers, clock: Clock, *, recorder: Recorder) -> None:
        super().__init__(clock)
        self._cluster = cluster
        self._recorder = recorder
        self._deployments = informers.informer(Deployment)
        self._sets = informers.informer(ReplicaSet)
        self._sets.add_index(
            "owner", lambda item: [o.uid for o in item.metadata.owner_references or () if o.controller]
        )
        self._deployments.add_handler(self._on_deployment)
        self._sets.add_handler(self._on_set)

    def _on_deployment(self, change: Change[Deployment]) -> None:
        if change.new is not None:
            self.queue.add(change.key)

    def _on_set(self, change: Change[ReplicaSet]) -> None:
        owner = change.object.metadata.controller
        if owner is not None and owner.kind == "Deployment":
            self.queue.add(Key(change.key.namespace, owner.name))

    async def reconcile(self, key: Key) -> float | None:
        """Take one step of the rollout and report where it stands."""
        deployment = self._deployments.get(key)
        if deployment is None or deployment.metadata.deletion_timestamp is not None:
            return None
        try:
            whole = await self._cluster.get(catalog.DEPLOYMENT, key.name, key.namespace)
        except NotFound:
            return None
        owned = sorted(
            self._sets.index("owner", deployment.metadata.uid), key=lambda s: (_revision(s), s.metadata.name)
        )
        name = f"{key.name}-{template_hash(whole['spec']['template'])}"
        new = next((item for item in owned if item.metadata.name == name), None)
        old = [item for item in owned if item.metadata.name != name]
        if new is None:
            if deployment.spec.paused and owned:
                await self._write_status(deployment, None, old)
                return None
            new = await self._create_set(deployment, whole, name, old)
        elif not deployment.spec.paused and _revision(new) <= max(map(_revision, old), default=0):
            await self._set_revision(new, max(map(_revision, old)) + 1)
        await self._scale(deployment, new, old)
        await self._write_status(deployment, new, old)
        await self._forget_old(deployment, old)
        return None

    async def _create_set(
        self, deployment: Deployment, whole: Mapping[str, Any], name: str, old: Sequence[ReplicaSet]
    ) -> ReplicaSet:
        meta, spec = deployment.metadata, whole["spec"]
        digest = name.removeprefix(f"{meta.name}-")
        template = dict(spec["template"])
        metadata = dict(template.get("metadata") or {})
        labels = {**(metadata.get("labels") or {}), HASH_LABEL: digest}
        template["metadata"] = {**metadata, "labels": labels}
        selector = dict(spec.get("selector") or {})
        selector["matchLabels"] = {**(selector.get("matchLabels") or {}), HASH_LABEL: digest}
        body = {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": {
                "name": name,
                "namespace": meta.namespace,
                "labels": labels,
                "annotations": {
                    REVISION: str(max(map(_revision, old), default=0) + 1),
                    "deployment.kubernetes.io/desired-replicas": str(deployment.spec.replicas),
                },
                "ownerReferences": [controller_reference("apps/v1", "Deployment", meta)],
            },
            "spec": {
                "replicas": 0,
                "minReadySeconds": deployment.spec.min_ready_seconds,
                "selector": selector,
                "template": template,
            },
        }
        try:
            return await self._cluster.create(ReplicaSet, body, meta.namespace)
        except AlreadyExists:
            return await self._cluster.get(ReplicaSet, name, meta.namespace)

    async def _set_revision(self, item: ReplicaSet, revision: int) -> None:
        meta = item.metadata
        change = {"metadata": {"annotations": {REVISION: str(revision)}}}
        await self._cluster.patch(ReplicaSet, meta.name, meta.namespace, change)

    async def _scale(self, deployment: Deployment, new: ReplicaSet, old: Sequence[ReplicaSet]) -> None:
        spec = deployment.spec
        rolling = spec.strategy.rolling_update
        surge, unavailable = resolve_bounds(
            spec.replicas,
            rolling.max_surge if rolling is not None else None,
            rolling.max_unavailable if rolling is not None else None,
        )
        live = [item for item in old if item.spec.replicas or item.status.replicas]
        changes = plan_scales(
            spec.replicas,
            _scale_of(new),
            [_scale_of(item) for item in live],
            recreate=spec.strategy.type == "Recreate",
            surge=surge,
            unavailable=unavailable,
        )
        present = {item.metadata.name: item.spec.replicas for item in (new, *old)}
        for name, count in changes.items():
            await self._cluster.patch(ReplicaSet, name, deployment.metadata.namespace, {"spec": {"replicas": count}})
            direction = "up" if count > present[name] else "down"
            message = f"Scaled {direction} replica set {name} from {present[name]} to {count}"
            self._recorder.event(deployment, "Normal", "ScalingReplicaSet", message)

    async def _write_status(self, deployment: Deployment, new: ReplicaSet | None, old: Sequence[ReplicaSet]) -> None:
        every = [*old, *([new] if new is not None else [])]
        wanted = deployment.spec.replicas
        replicas = sum(item.status.replicas for item in every)
        updated = new.status.replicas if new is not None else 0
        available = sum(item.status.available_replicas for item in every)
        _, unavailable = resolve_bounds(wanted, 0, _max_unavailable(deployment))
        enough = available >= wanted - unavailable
        complete = updated == wanted and replicas == wanted and available >= wanted
        conditions = [
            _condition(
                deployment,
                "Available",
                "True" if enough else "False",
                "MinimumReplicasAvailable" if enough else "MinimumReplicasUnavailable",
                "Deployment has minimum availability." if enough else "Deployment does not have minimum availability.",
                self.clock.now(),
            ),
            _condition(
                deployment,
                "Progressing",
                "True",
                "NewReplicaSetAvailable" if complete else "ReplicaSetUpdated",
                f'ReplicaSet "{new.metadata.name if new is not None else ""}" '
                f"{'has successfully progressed' if complete else 'is progressing'}.",
                self.clock.now(),
            ),
        ]
        counts = {
            "observedGeneration": deployment.metadata.generation,
            "replicas": replicas,
            "updatedReplicas": updated,
            "readyReplicas": sum(item.status.ready_replicas for item in every),
            "availableReplicas": available,
            "unavailableReplicas": max(0, wanted - available),
        }
        status = deployment.status
        present = {
            "observedGeneration": status.observed_generation,
            "replicas": status.replicas,
            "updatedReplicas": status.updated_replicas,
            "readyReplicas": status.ready_replicas,
            "availableReplicas": status.available_replicas,
            "unavailableReplicas": status.unavailable_replicas,
        }
        known = {c.type: (c.status, c.reason) for c in status.conditions}
        if counts == present and all(known.get(c["type"]) == (c["status"], c["reason"]) for c in conditions):
            return
        meta = deployment.metadata
        body = {"status": {**counts, "conditions": conditions}}
        try:
            await self._cluster.patch(Deployment, meta.name, meta.namespace, body, subresource="status")
            if new is not None and meta.annotation(REVISION) != (number := str(_revision(new))):
                change = {"metadata": {"annotations": {REVISION: number}}}
                await self._cluster.patch(Deployment, meta.name, meta.namespace, change)
        except NotFound:
            return

    async def _forget_old(self, deployment: Deployment, old: Sequence[ReplicaSet]) -> None:
        """Delete empty ReplicaSets beyond the history limit, oldest first."""
        empty = [item for item in old if not item.spec.replicas and not item.status.replicas]
        for item in empty[: max(0, len(empty) - deployment.spec.revision_history_limit)]:
            try:
                await self._cluster.delete(
                    ReplicaSet, item.metadata.name, item.metadata.namespace, uid=item.metadata.uid
                )
            except NotFound:
                continue


def _scale_of(item: ReplicaSet) -> Scale:
    return Scale(item.metadata.name, item.spec.replicas, item.status.available_replicas, item.status.replicas)


def _revision(item: ReplicaSet) -> int:
    text = item.metadata.annotation(REVISION)
    return int(text) if text.isdecimal() else 0


def _max_unavailable(deployment: Deployment) -> int | str | None:
    rolling = deployment.spec.strategy.rolling_update
    return rolling.max_unavailable if rolling is not None else None


def _condition(
    deployment: Deployment, type_: str, status: str, reason: str, message: str, now: float
) -> dict[str, str]:
    """Return a condition; its time of transition stays while its status does."""
    known = next((c for c in deployment.status.conditions if c.type == type_), None)
    time = format_time(now)
    since = known.last_transition_time if known is not None and known.status == status else None
    return {
        "type": type_,
        "status": status,
        "reason": reason,
        "message": message,
        "lastUpdateTime": time,
        "lastTransitionTime": since or time,
    }
