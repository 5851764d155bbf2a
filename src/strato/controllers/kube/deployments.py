"""Deployments: one ReplicaSet per template, and an orderly change from one to the next.

`rolloutplan` decides how many pods each ReplicaSet should have now. Every change of a ReplicaSet's status causes
another pass, until the ReplicaSet of the new template has all pods.

Source: apps/v1 Deployment.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, ClassVar, Final

import msgspec

from strato.api import catalog
from strato.api.apps import Deployment, ReplicaSet
from strato.api.meta import Key, ObjectMeta, OwnerReference
from strato.client.informer import Change
from strato.controllers.context import ControllerContext
from strato.controllers.kube.adoption import adopt_all, index_orphans, orphans, plan_ownership, release_all, selector_of
from strato.controllers.kube.rolloutplan import (
    Scale,
    condition,
    plan_progress,
    plan_resize,
    plan_scales,
    resolve_bounds,
)
from strato.controllers.owners import controller_reference, managers_of
from strato.controllers.reconcile import KeyedController
from strato.errors import AlreadyExists, NotFound

HASH_LABEL: Final = "pod-template-hash"
REVISION: Final = "deployment.kubernetes.io/revision"
DESIRED: Final = "deployment.kubernetes.io/desired-replicas"
MOST: Final = "deployment.kubernetes.io/max-replicas"
HISTORY: Final = "deployment.kubernetes.io/revision-history"
_OWN: Final = frozenset((REVISION, DESIRED, MOST, HISTORY, "kubectl.kubernetes.io/last-applied-configuration"))
"""Annotations that are not copied from a Deployment to its ReplicaSets."""
_LONGEST_HISTORY: Final = 100
_COUNTS: Final = {
    "observedGeneration": "observed_generation",
    "replicas": "replicas",
    "updatedReplicas": "updated_replicas",
    "readyReplicas": "ready_replicas",
    "availableReplicas": "available_replicas",
    "unavailableReplicas": "unavailable_replicas",
}
SAFE_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"


def template_hash(template: Mapping[str, Any], collisions: int = 0) -> str:
    """Return the part of a ReplicaSet's name that identifies the pod template; differs after each name collision."""
    text = json.dumps(template, sort_keys=True, separators=(",", ":")) + (str(collisions) if collisions else "")
    digest = hashlib.sha256(text.encode()).digest()
    return "".join(SAFE_LETTERS[byte % len(SAFE_LETTERS)] for byte in digest[:10])


class DeploymentController(KeyedController):
    """See the module."""

    name: ClassVar[str] = "kube-deployment-controller"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._deployments = context.informers.informer(Deployment)
        self._sets = context.informers.informer(ReplicaSet)
        self._sets.add_index("owner", managers_of)
        index_orphans(self._sets)
        self._deployments.add_handler(self._on_deployment)
        self._sets.add_handler(self._on_set)

    def _on_deployment(self, change: Change[Deployment]) -> None:
        if change.new is not None:
            self.queue.add(change.key)

    def _on_set(self, change: Change[ReplicaSet]) -> None:
        item, old = change.object, change.old
        holders = {one.metadata.controller for one in (item, old) if one is not None}
        self.queue_owners(change.key.namespace, holders)
        if item.metadata.controller is None:
            for deployment in self._deployments.list():
                if deployment.metadata.namespace == change.key.namespace and selector_of(deployment).matches(
                    item.metadata.labels
                ):
                    self.queue.add(deployment.key)

    def queue_owners(self, namespace: str, holders: Iterable[OwnerReference | None]) -> None:
        """Queue the Deployments among some owners."""
        for holder in holders:
            if holder is not None and holder.kind == "Deployment":
                self.queue.add(Key(namespace, holder.name))

    async def reconcile(self, key: Key) -> float | None:
        """Take one step of the rollout and report where it stands."""
        deployment = self._deployments.get(key)
        if deployment is None or deployment.metadata.deletion_timestamp is not None:
            return None
        try:
            whole = await self._cluster.get(catalog.DEPLOYMENT, key.name, key.namespace)
        except NotFound:
            return None
        owned = await self._claim(deployment)
        new = await self._matching(deployment, whole, owned)
        old = [item for item in owned if new is None or item.metadata.name != new.metadata.name]
        if new is None and not (deployment.spec.paused and owned):
            new = await self._create_set(deployment, whole, old)
            if new is None:
                return 0.0
        elif new is not None and not deployment.spec.paused:
            await self._annotate(deployment, new, old)
        await self._scale(deployment, new, old)
        wait = await self._write_status(deployment, new, old)
        await self._forget_old(deployment, old)
        return wait

    async def _claim(self, deployment: Deployment) -> list[ReplicaSet]:
        """Adopt and release ReplicaSets; returns those that the Deployment owns now, sorted by revision."""
        meta = deployment.metadata
        owned = list(self._sets.index("owner", meta.uid))
        among = [*owned, *orphans(self._sets, meta.namespace)]
        adopt, release = plan_ownership(meta, selector_of(deployment), among)
        adopted = await adopt_all(self._cluster, catalog.DEPLOYMENT, meta, adopt)
        await release_all(self._cluster, meta, release)
        gone = {one.metadata.uid for one in release}
        kept = [item for item in owned if item.metadata.uid not in gone]
        return sorted([*kept, *adopted], key=lambda s: (_revision(s), s.metadata.name))

    async def _matching(
        self, deployment: Deployment, whole: Mapping[str, Any], owned: Sequence[ReplicaSet]
    ) -> ReplicaSet | None:
        """Return the ReplicaSet of the present template: the one named by its hash, or one with an equal template."""
        name = _set_name(deployment, whole)
        for item in owned:
            if item.metadata.name == name:
                return item
        for item in owned:
            found = await self._cluster.get(catalog.REPLICASET, item.metadata.name, item.metadata.namespace)
            if _content(found["spec"]["template"]) == _content(whole["spec"]["template"]):
                return item
        return None

    async def _create_set(
        self, deployment: Deployment, whole: Mapping[str, Any], old: Sequence[ReplicaSet]
    ) -> ReplicaSet | None:
        """Create the ReplicaSet of a new template; None on a name collision, after which another name is tried."""
        meta, spec, name = deployment.metadata, whole["spec"], _set_name(deployment, whole)
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
                    **_passed_on(meta),
                    REVISION: str(max(map(_revision, old), default=0) + 1),
                    **self._sizes(deployment),
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
            found = await self._cluster.get(ReplicaSet, name, meta.namespace)
        holder = found.metadata.controller
        if holder is not None and holder.uid == meta.uid:
            return found
        status = {"collisionCount": (deployment.status.collision_count or 0) + 1}
        await self._cluster.patch(Deployment, meta.name, meta.namespace, {"status": status}, subresource="status")
        return None

    @staticmethod
    def _sizes(deployment: Deployment) -> dict[str, str]:
        """Return the annotations from which a later resize computes each ReplicaSet's share."""
        replicas = deployment.spec.replicas
        return {DESIRED: str(replicas), MOST: str(replicas + _bounds(deployment)[0])}

    async def _annotate(self, deployment: Deployment, new: ReplicaSet, old: Sequence[ReplicaSet]) -> None:
        """Give the ReplicaSet of the present template the highest revision, and the Deployment's annotations."""
        changes = {k: v for k, v in _passed_on(deployment.metadata).items() if new.metadata.annotation(k) != v}
        latest = max(map(_revision, old), default=0)
        if _revision(new) <= latest or not _revision(new):
            changes[REVISION] = str(latest + 1)
            if before := new.metadata.annotation(REVISION):
                history = [*filter(None, new.metadata.annotation(HISTORY).split(",")), before]
                changes[HISTORY] = ",".join(history[-_LONGEST_HISTORY:])
        if changes:
            change = {"metadata": {"annotations": changes}}
            await self._cluster.patch(ReplicaSet, new.metadata.name, new.metadata.namespace, change)

    async def _scale(self, deployment: Deployment, new: ReplicaSet | None, old: Sequence[ReplicaSet]) -> None:
        spec, sizes = deployment.spec, self._sizes(deployment)
        surge, unavailable = _bounds(deployment)
        live = [item for item in old if item.spec.replicas or item.status.replicas]
        every = [*live, *([new] if new is not None else [])]
        asked = {item.metadata.annotation(DESIRED) for item in every if item.spec.replicas} - {"", sizes[DESIRED]}
        recreate = spec.strategy.type == "Recreate"
        resized = spec.paused or new is None or (bool(asked) and not recreate)
        scales = [_scale_of(item) for item in live]
        if resized or new is None:
            changes = plan_resize(spec.replicas, _scale_of(new) if new is not None else None, scales, surge=surge)
        else:
            changes = plan_scales(
                spec.replicas, _scale_of(new), scales, recreate=recreate, surge=surge, unavailable=unavailable
            )
        for item in every:
            name, before = item.metadata.name, item.spec.replicas
            count = changes.get(name, before)
            stale = resized and any(item.metadata.annotation(key) != value for key, value in sizes.items())
            if count == before and not stale:
                continue
            body = {"metadata": {"annotations": sizes}, "spec": {"replicas": count}}
            await self._cluster.patch(ReplicaSet, name, deployment.metadata.namespace, body)
            if count != before:
                direction = "up" if count > before else "down"
                message = f"Scaled {direction} replica set {name} from {before} to {count}"
                self._recorder.event(deployment, "Normal", "ScalingReplicaSet", message)

    async def _write_status(
        self, deployment: Deployment, new: ReplicaSet | None, old: Sequence[ReplicaSet]
    ) -> float | None:
        every = [*old, *([new] if new is not None else [])]
        meta, status, wanted, now = deployment.metadata, deployment.status, deployment.spec.replicas, self.clock.now()
        available = sum(item.status.available_replicas for item in every)
        counts = {
            "observedGeneration": meta.generation,
            "replicas": sum(item.status.replicas for item in every),
            "updatedReplicas": new.status.replicas if new is not None else 0,
            "readyReplicas": sum(item.status.ready_replicas for item in every),
            "availableReplicas": available,
            "unavailableReplicas": max(0, wanted - available),
        }
        enough = available >= wanted - _bounds(deployment)[1]
        conditions = [
            condition(
                next((c for c in status.conditions if c.type == "Available"), None),
                "Available",
                "True" if enough else "False",
                "MinimumReplicasAvailable" if enough else "MinimumReplicasUnavailable",
                "Deployment has minimum availability." if enough else "Deployment does not have minimum availability.",
                now,
            )
        ]
        progress, wait = plan_progress(deployment, counts, new.metadata.name if new is not None else "", now)
        conditions += [progress] if progress is not None else []
        for failed in (c for item in every for c in item.status.conditions if c.type == "ReplicaFailure"):
            known = next((c for c in status.conditions if c.type == failed.type), None)
            conditions.append(condition(known, failed.type, failed.status, failed.reason, failed.message, now))
            break
        before = {name: getattr(status, field) for name, field in _COUNTS.items()}
        if counts != before or conditions != [msgspec.to_builtins(one) for one in status.conditions]:
            await self.write_status(Deployment, meta.key, {**counts, "conditions": conditions})
        if new is not None and (number := new.metadata.annotation(REVISION)) != meta.annotation(REVISION) and number:
            change = {"metadata": {"annotations": {REVISION: number}}}
            await self._cluster.patch(Deployment, meta.name, meta.namespace, change)
        return wait

    async def _forget_old(self, deployment: Deployment, old: Sequence[ReplicaSet]) -> None:
        """Delete empty ReplicaSets beyond the history limit, oldest first."""
        empty = [item for item in old if not item.spec.replicas and not item.status.replicas]
        for item in empty[: max(0, len(empty) - deployment.spec.revision_history_limit)]:
            with suppress(NotFound):
                await self._cluster.delete(
                    ReplicaSet, item.metadata.name, item.metadata.namespace, uid=item.metadata.uid
                )


def _scale_of(item: ReplicaSet) -> Scale:
    most = item.metadata.annotation(MOST)
    return Scale(
        item.metadata.name,
        item.spec.replicas,
        item.status.available_replicas,
        item.status.replicas,
        int(most) if most.isdecimal() else 0,
    )


def _set_name(deployment: Deployment, whole: Mapping[str, Any]) -> str:
    digest = template_hash(whole["spec"]["template"], deployment.status.collision_count or 0)
    return f"{deployment.metadata.name}-{digest}"


def _content(template: Mapping[str, Any]) -> dict[str, Any]:
    """Return a pod template without the label that holds its hash."""
    metadata = dict(template.get("metadata") or {})
    labels = {name: value for name, value in (metadata.pop("labels", None) or {}).items() if name != HASH_LABEL}
    return {**template, "metadata": {**metadata, "labels": labels}}


def _passed_on(meta: ObjectMeta) -> dict[str, str]:
    """Return the annotations of a Deployment that are copied to its ReplicaSet, such as the cause of a change."""
    return {name: value for name, value in (meta.annotations or {}).items() if name not in _OWN}


def _bounds(deployment: Deployment) -> tuple[int, int]:
    """Return by how many pods a rollout may exceed ``replicas``, and how many may be unavailable."""
    rolling = deployment.spec.strategy.rolling_update
    if deployment.spec.strategy.type == "Recreate":
        return 0, 0
    surge, unavailable = (rolling.max_surge, rolling.max_unavailable) if rolling is not None else (None, None)
    return resolve_bounds(deployment.spec.replicas, surge, unavailable)


def _revision(item: ReplicaSet) -> int:
    text = item.metadata.annotation(REVISION)
    return int(text) if text.isdecimal() else 0
