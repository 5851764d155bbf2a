"""ReplicaSets: as many live pods of one template as asked for.

Source: apps/v1 ReplicaSet.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from strato.api import catalog
from strato.api.apps import ReplicaSet
from strato.api.core import Pod
from strato.api.meta import Key
from strato.api.selectors import from_label_selector
from strato.client.cluster import Cluster
from strato.client.informer import Change, Informers
from strato.clock import Clock, parse_time
from strato.controllers.job.pods import revision_of
from strato.controllers.owners import controller_reference
from strato.controllers.parallel import for_each
from strato.controllers.reconcile import KeyedController
from strato.errors import Conflict, NotFound

_PHASE_ORDER: Mapping[str, int] = {"Pending": 0, "Running": 1}
_CONCURRENT = 32


def deletion_order(pod: Pod) -> tuple[Any, ...]:
    """Sort key of pods to delete first: unassigned, then not running, then not ready, then the youngest."""
    meta = pod.metadata
    created = parse_time(meta.creation_timestamp) if meta.creation_timestamp else 0.0
    return (
        bool(pod.spec.node_name),
        _PHASE_ORDER.get(pod.status.phase, 1),
        pod.is_ready,
        -created,
        meta.name,
    )


def available_count(pods: Sequence[Pod], min_ready_seconds: int, now: float) -> tuple[int, float | None]:
    """Return how many pods have been ready long enough, and in how many seconds the next one will have been."""
    count, next_in = 0, None
    for pod in pods:
        condition = pod.status.condition("Ready")
        if condition is None or condition.status != "True":
            continue
        since = parse_time(condition.last_transition_time) if condition.last_transition_time else now
        left = since + min_ready_seconds - now
        if min_ready_seconds == 0 or left <= 0:
            count += 1
        else:
            next_in = left if next_in is None else min(next_in, left)
    return count, next_in


class ReplicaSetController(KeyedController):
    """See the module. Pods we created and the watch has not shown yet count as there."""

    name: ClassVar[str] = "kube-replicaset-controller"
    workers: ClassVar[int] = 8

    def __init__(self, cluster: Cluster, informers: Informers, clock: Clock) -> None:
        super().__init__(clock)
        self._cluster = cluster
        self._sets = informers.informer(ReplicaSet)
        self._pods = informers.informer(Pod)
        self._owned: defaultdict[str, set[Key]] = defaultdict(set)
        self._created: defaultdict[str, dict[Key, int]] = defaultdict(dict)
        """Pods of a set (by uid) that only our create vouches for, with the revision of the create."""
        self._deleted: defaultdict[str, set[str]] = defaultdict(set)
        """Uids of pods of a set whose deletion the watch has not shown."""
        self._sets.add_handler(self._on_set)
        self._pods.add_handler(self._on_pod)

    def _on_set(self, change: Change[ReplicaSet]) -> None:
        if change.new is None:
            uid = change.object.metadata.uid
            self._created.pop(uid, None)
            self._deleted.pop(uid, None)
            return
        self.queue.add(change.key)

    def _on_pod(self, change: Change[Pod]) -> None:
        pod = change.object
        owner = pod.metadata.controller
        if owner is None or owner.kind != "ReplicaSet":
            return
        key = pod.key
        if change.new is None:
            self._owned[owner.uid].discard(key)
            self._deleted[owner.uid].discard(pod.metadata.uid)
            if not self._owned[owner.uid]:
                del self._owned[owner.uid]
        else:
            self._owned[owner.uid].add(key)
            if change.new.metadata.deletion_timestamp is not None:
                self._deleted[owner.uid].discard(pod.metadata.uid)
        self._created[owner.uid].pop(key, None)
        self.queue.add(Key(pod.metadata.namespace, owner.name))

    async def reconcile(self, key: Key) -> float | None:
        """Create or delete what the set lacks or has too many of, and say how it stands."""
        wanted = self._sets.get(key)
        if wanted is None:
            return None
        uid = wanted.metadata.uid
        if wanted.metadata.deletion_timestamp is None:
            live = self._live(uid)
            missing = wanted.spec.replicas - len(live) - self._pending_creates(uid)
            if missing > 0:
                await self._create(wanted, missing)
            elif missing < 0:
                await self._delete(uid, sorted(live, key=deletion_order)[: min(-missing, len(live))])
        return await self._write_status(wanted)

    def _live(self, uid: str) -> list[Pod]:
        pods = (self._pods.get(key) for key in self._owned.get(uid, ()))
        gone = self._deleted.get(uid, set())
        return [
            pod
            for pod in pods
            if pod is not None
            and not pod.is_finished
            and pod.metadata.deletion_timestamp is None
            and pod.metadata.uid not in gone
        ]

    def _pending_creates(self, uid: str) -> int:
        created = self._created[uid]
        seen = revision_of(self._pods.resource_version)
        for key in [key for key, revision in created.items() if seen >= revision]:
            del created[key]  # the watch is past it: shown, or gone again
        return len(created)

    async def _create(self, wanted: ReplicaSet, count: int) -> None:
        meta = wanted.metadata
        whole = await self._cluster.get(catalog.REPLICASET, meta.name, meta.namespace)
        template = whole["spec"]["template"]
        metadata = {
            "generateName": f"{meta.name}-",
            "namespace": meta.namespace,
            "labels": (template.get("metadata") or {}).get("labels") or {},
            "annotations": (template.get("metadata") or {}).get("annotations") or {},
            "ownerReferences": [controller_reference("apps/v1", "ReplicaSet", meta)],
        }
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}

        async def create(_: int) -> None:
            pod = await self._cluster.create(Pod, body, meta.namespace)
            if pod.key not in self._pods:
                self._created[meta.uid][pod.key] = revision_of(pod.metadata.resource_version)

        failures = await for_each(range(count), create, _CONCURRENT)
        if failures:
            raise failures[0]

    async def _delete(self, uid: str, pods: Sequence[Pod]) -> None:
        async def delete(pod: Pod) -> None:
            self._deleted[uid].add(pod.metadata.uid)
            try:
                await self._cluster.delete(Pod, pod.metadata.name, pod.metadata.namespace, uid=pod.metadata.uid)
            except (NotFound, Conflict):
                return
            except BaseException:
                self._deleted[uid].discard(pod.metadata.uid)
                raise

        failures = await for_each(pods, delete, _CONCURRENT)
        if failures:
            raise failures[0]

    async def _write_status(self, wanted: ReplicaSet) -> float | None:
        live = self._live(wanted.metadata.uid)
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
