"""ReplicaSets: as many live pods of one template as asked for.

Source: apps/v1 ReplicaSet.
"""

from __future__ import annotations

from typing import ClassVar

from strato.api import catalog
from strato.api.apps import ReplicaSet
from strato.api.meta import Key
from strato.api.selectors import from_label_selector
from strato.client.cluster import Cluster
from strato.client.informer import Change, Informers
from strato.clock import Clock
from strato.controllers.kube.ownedpods import OwnedPods, available_count, deletion_order, pod_body
from strato.controllers.reconcile import KeyedController
from strato.controllers.recorder import Recorder
from strato.errors import NotFound


class ReplicaSetController(KeyedController):
    """See the module."""

    name: ClassVar[str] = "kube-replicaset-controller"
    workers: ClassVar[int] = 8

    def __init__(self, cluster: Cluster, informers: Informers, clock: Clock, *, recorder: Recorder) -> None:
        super().__init__(clock)
        self._cluster = cluster
        self._sets = informers.informer(ReplicaSet)
        self._owned = OwnedPods(cluster, informers, catalog.REPLICASET, recorder, self.queue.add_after)
        self._sets.add_handler(self._on_set)

    def _on_set(self, change: Change[ReplicaSet]) -> None:
        if change.new is None:
            self._owned.forget(change.object.metadata.uid)
            return
        self.queue.add(change.key)

    async def reconcile(self, key: Key) -> float | None:
        """Create or delete what the set lacks or has too many of, and say how it stands."""
        wanted = self._sets.get(key)
        if wanted is None:
            return None
        meta = wanted.metadata
        if meta.deletion_timestamp is None:
            live = self._owned.live(meta.uid)
            missing = wanted.spec.replicas - len(live)
            if missing > 0:
                whole = await self._cluster.get(catalog.REPLICASET, meta.name, meta.namespace)
                body = pod_body(catalog.REPLICASET, meta, whole["spec"]["template"], generateName=f"{meta.name}-")
                await self._owned.create(meta, [body] * missing)
            elif missing < 0:
                await self._owned.delete(meta.uid, sorted(live, key=deletion_order)[:-missing])
        return await self._write_status(wanted)

    async def _write_status(self, wanted: ReplicaSet) -> float | None:
        live = self._owned.live(wanted.metadata.uid)
        available, next_in = available_count(live, wanted.spec.min_ready_seconds, self.clock.now())
        labelled = from_label_selector(wanted.spec.selector)
        status = {
            "replicas": len(live),
            "fullyLabeledReplicas": sum(labelled.matches(pod.metadata.labels) for pod in live),
            "readyReplicas": sum(pod.is_ready for pod in live),
            "availableReplicas": available,
            "observedGeneration": wanted.metadata.generation,
        }
        old = wanted.status
        present = {
            "replicas": old.replicas,
            "fullyLabeledReplicas": old.fully_labeled_replicas,
            "readyReplicas": old.ready_replicas,
            "availableReplicas": old.available_replicas,
            "observedGeneration": old.observed_generation,
        }
        if status != present:
            meta = wanted.metadata
            try:
                await self._cluster.patch(
                    ReplicaSet, meta.name, meta.namespace, {"status": status}, subresource="status"
                )
            except NotFound:
                return None
        return next_in
