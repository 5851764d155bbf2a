"""ReplicaSets and ReplicationControllers: keep ``replicas`` live pods of one template.

Source: apps/v1 ReplicaSet, v1 ReplicationController.
"""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec

from strato.api import catalog
from strato.api.apps import ReplicaSet
from strato.api.core import ReplicationController
from strato.api.kinds import Kind
from strato.api.meta import Key
from strato.clock import format_time
from strato.controllers.context import ControllerContext
from strato.controllers.kube.adoption import selector_of
from strato.controllers.kube.ownedpods import OwnedPods, available_count, deletion_order, pod_body
from strato.controllers.reconcile import KeyedController
from strato.errors import StratoError

Replicated = ReplicaSet | ReplicationController
_FAILURE = "ReplicaFailure"


class ReplicaSetController(KeyedController):
    """See the module."""

    name: ClassVar[str] = "kube-replicaset-controller"
    workers: ClassVar[int] = 8
    kind: ClassVar[Kind] = catalog.REPLICASET
    view: ClassVar[type[ReplicaSet | ReplicationController]] = ReplicaSet

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._sets = context.informers.informer(self.view)
        self._owned = OwnedPods(context, self.kind, self.queue.add_after)
        self._sets.add_handler(lambda change: self.queue.add(change.key))

    async def reconcile(self, key: Key) -> float | None:
        """Create missing pods or delete surplus ones, and write the status."""
        wanted = self._sets.get(key)
        if wanted is None:
            return None
        failure: StratoError | None = None
        if wanted.metadata.deletion_timestamp is None:
            try:
                await self._settle(wanted)
            except StratoError as error:
                failure = error
        next_in = await self._write_status(wanted, failure)
        if failure is not None:
            raise failure
        return next_in

    async def _settle(self, wanted: Replicated) -> None:
        """Create missing pods, or delete surplus ones."""
        await self._owned.claim(wanted, lambda pod: not pod.is_finished)
        meta, live = wanted.metadata, self._owned.live(wanted.metadata.uid)
        missing = wanted.spec.replicas - len(live)
        if missing > 0:
            whole = await self._cluster.get(self.kind, meta.name, meta.namespace)
            body = pod_body(self.kind, meta, whole["spec"]["template"], generateName=f"{meta.name}-")
            await self._owned.create(meta, [body] * missing)
        elif missing < 0:
            await self._owned.delete(meta.uid, sorted(live, key=deletion_order)[:-missing])

    async def _write_status(self, wanted: Replicated, failure: StratoError | None) -> float | None:
        live, old = self._owned.live(wanted.metadata.uid), wanted.status
        available, next_in = available_count(live, wanted.spec.min_ready_seconds, self.clock.now())
        labelled = selector_of(wanted)
        status: dict[str, Any] = {
            "replicas": len(live),
            "fullyLabeledReplicas": sum(labelled.matches(pod.metadata.labels) for pod in live),
            "readyReplicas": sum(pod.is_ready for pod in live),
            "availableReplicas": available,
            "observedGeneration": wanted.metadata.generation,
        }
        before = msgspec.to_builtins(old)
        changed = any((before.get(name) or 0) != value for name, value in status.items())
        has_failed = any(condition.type == _FAILURE for condition in old.conditions)
        # as in Kubernetes the condition keeps the first failure until a pass succeeds
        if has_failed is not (failure is not None):
            others = [msgspec.to_builtins(one) for one in old.conditions if one.type != _FAILURE]
            status["conditions"] = others + ([] if failure is None else [self._failed(wanted, len(live), failure)])
            changed = True
        if changed:
            await self.write_status(self.kind, wanted.metadata.key, status)
        return next_in

    def _failed(self, wanted: Replicated, live: int, failure: StratoError) -> dict[str, Any]:
        return {
            "type": _FAILURE,
            "status": "True",
            "reason": "FailedCreate" if live < wanted.spec.replicas else "FailedDelete",
            "message": str(failure),
            "lastTransitionTime": format_time(self.clock.now()),
        }


class ReplicationControllerController(ReplicaSetController):
    """The same for ReplicationControllers."""

    name: ClassVar[str] = "kube-replicationcontroller-controller"
    kind: ClassVar[Kind] = catalog.REPLICATIONCONTROLLER
    view: ClassVar[type[ReplicaSet | ReplicationController]] = ReplicationController
