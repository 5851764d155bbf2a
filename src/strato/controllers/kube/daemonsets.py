"""DaemonSets: one pod on every suitable node.

`daemonsetplan` decides which nodes are suitable; a node affinity makes the scheduler place each pod on its node.

Source: apps/v1 DaemonSet.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any, ClassVar, Final

import msgspec

from strato.api import catalog
from strato.api.apps import DaemonSet, RollingUpdate
from strato.api.core import Node, Pod
from strato.api.meta import Key
from strato.client.informer import Change
from strato.controllers.context import ControllerContext
from strato.controllers.kube.daemonsetplan import (
    NODE_FIELD,
    DaemonSetPlan,
    Rollout,
    age_key,
    daemon_tolerations,
    node_of,
    plan,
)
from strato.controllers.kube.ownedpods import OwnedPods, available_count, pod_body
from strato.controllers.kube.revisions import REVISION_LABEL, Revisions
from strato.controllers.kube.rolloutplan import portion
from strato.controllers.reconcile import KeyedController
from strato.errors import NotFound

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"


class DaemonSetController(KeyedController):
    """See the module. Nodes that join at about the same time cause one pass over all sets."""

    name: ClassVar[str] = "kube-daemonset-controller"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._sets = context.informers.informer(DaemonSet)
        self._nodes = context.informers.informer(Node)
        self._revisions = Revisions(context, catalog.DAEMONSET)
        self._owned = OwnedPods(context, catalog.DAEMONSET, self._on_pod)
        self._sets.add_handler(lambda change: self.queue.add(change.key))
        self._nodes.add_handler(self._on_node)

    def _on_pod(self, key: Key, debounce_seconds: float) -> None:
        self.queue.add_after(key, max(0.05, debounce_seconds))  # a pass looks at every node

    def _on_node(self, change: Change[Node]) -> None:
        old, new = change.old, change.new
        if (
            old is not None
            and new is not None
            and old.metadata.labels == new.metadata.labels
            and old.spec.taints == new.spec.taints
        ):
            return
        for one in self._sets.list():
            self.queue.add_after(one.key, 0.1)

    async def reconcile(self, key: Key) -> float | None:
        """Create and delete pods, replace old ones a few at a time, and write the status."""
        wanted = self._sets.get(key)
        if wanted is None or wanted.metadata.deletion_timestamp is not None:
            return None
        meta = wanted.metadata
        try:
            whole = await self._cluster.get(catalog.DAEMONSET, meta.name, meta.namespace)
        except NotFound:
            return None
        template = whole["spec"]["template"]
        await self._owned.claim(wanted)
        revision = await self._revisions.ensure(meta, template)
        spec, nodes, pods = wanted.spec.template.spec, self._nodes.list(), self._by_node(meta.uid)
        rolling = wanted.spec.update_strategy.rolling_update
        surges = rolling is not None and rolling.max_surge not in (None, 0, "0%")
        steps = planned = plan(spec, nodes, pods, revision if surges else "")
        rollout = self._rollout(wanted, revision, planned.desired)
        if rollout is not None and not planned.create and not planned.delete:
            steps = rollout.plan(planned, pods)
        if steps.delete:
            await self._owned.delete(meta.uid, steps.delete)
        if steps.create:
            bodies = [self._body(wanted, template, revision, node) for node in steps.create]
            await self._owned.create(meta, bodies)
        return await self._write_status(wanted, planned, revision)

    def _by_node(self, uid: str) -> dict[str, list[Pod]]:
        found: defaultdict[str, list[Pod]] = defaultdict(list)
        for pod in self._owned.all_of(uid):
            if not self._owned.is_terminating(pod):
                found[node_of(pod)].append(pod)
        return found

    def _rollout(self, wanted: DaemonSet, revision: str, desired: int) -> Rollout | None:
        """Return how old pods are replaced; None with the strategy OnDelete, which waits for users to delete them."""
        strategy = wanted.spec.update_strategy
        if strategy.type != "RollingUpdate":
            return None
        rolling = strategy.rolling_update or RollingUpdate()
        surge = portion(rolling.max_surge or 0, desired, up=True)
        unavailable = portion(1 if rolling.max_unavailable is None else rolling.max_unavailable, desired, up=True)
        now, ready_seconds = self.clock.now(), wanted.spec.min_ready_seconds
        return Rollout(
            revision,
            surge,
            unavailable if surge or unavailable else 1,
            lambda pod: available_count([pod], ready_seconds, now)[0] > 0,
        )

    def _body(self, wanted: DaemonSet, template: Mapping[str, Any], revision: str, node: str) -> dict[str, Any]:
        meta = wanted.metadata
        body = pod_body(
            catalog.DAEMONSET,
            meta,
            template,
            generateName=f"{meta.name}-",
            labels={REVISION_LABEL: revision, "pod-template-generation": str(meta.generation)},
        )
        spec = body["spec"]
        spec["tolerations"] = [*(spec.get("tolerations") or ()), *daemon_tolerations(wanted.spec.template.spec)]
        affinity = dict(spec.get("affinity") or {})
        node_affinity = dict(affinity.get("nodeAffinity") or {})
        place = [{"key": NODE_FIELD, "operator": "In", "values": [node]}]
        terms = (node_affinity.get(_REQUIRED) or {}).get("nodeSelectorTerms") or [{}]
        node_affinity[_REQUIRED] = {"nodeSelectorTerms": [{**term, "matchFields": place} for term in terms]}
        spec["affinity"] = {**affinity, "nodeAffinity": node_affinity}
        return body

    async def _write_status(self, wanted: DaemonSet, planned: DaemonSetPlan, revision: str) -> float | None:
        meta = wanted.metadata
        oldest = {node_of(pod): pod for pod in sorted(self._owned.live(meta.uid), key=age_key, reverse=True)}
        live = list(oldest.values())
        available, next_in = available_count(live, wanted.spec.min_ready_seconds, self.clock.now())
        status: dict[str, Any] = {
            "observedGeneration": meta.generation,
            "currentNumberScheduled": min(planned.desired, len(live)),
            "desiredNumberScheduled": planned.desired,
            "numberMisscheduled": planned.misscheduled,
            "numberReady": sum(pod.is_ready for pod in live),
            "numberAvailable": available,
            "numberUnavailable": max(0, planned.desired - available),
            "updatedNumberScheduled": sum(pod.metadata.label(REVISION_LABEL) == revision for pod in live),
        }
        before = msgspec.to_builtins(wanted.status)
        if any((before.get(name) or 0) != value for name, value in status.items()):
            await self.write_status(DaemonSet, meta.key, status)
        in_use = {revision, *(pod.metadata.label(REVISION_LABEL) for pod in self._owned.live(meta.uid))}
        await self._revisions.prune(meta, in_use, wanted.spec.revision_history_limit)
        return next_in
