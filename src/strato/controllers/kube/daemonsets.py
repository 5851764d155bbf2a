"""DaemonSets: one pod on every node that suits.

`fits` says which nodes suit; the scheduler places the pods, each bound to its node by an affinity.

Source: apps/v1 DaemonSet.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

import msgspec

from strato.api import catalog
from strato.api.apps import DaemonSet
from strato.api.core import Node, Pod, PodSpec, Toleration
from strato.api.core.affinity import NodeSelectorRequirement
from strato.api.meta import Key
from strato.api.selectors import Requirement, Selector
from strato.client.informer import Change
from strato.controllers.context import ControllerContext
from strato.controllers.kube.ownedpods import OwnedPods, available_count, pod_body
from strato.controllers.kube.revisions import REVISION_LABEL, Revisions
from strato.controllers.kube.rolloutplan import resolve_bounds
from strato.controllers.kube.taints import tolerates
from strato.controllers.reconcile import KeyedController
from strato.errors import NotFound

_NODE_FIELD: Final = "metadata.name"
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
DAEMON_TOLERATIONS: Final = tuple(
    {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": effect}
    for key, effect in (
        ("not-ready", "NoExecute"),
        ("unreachable", "NoExecute"),
        ("disk-pressure", "NoSchedule"),
        ("memory-pressure", "NoSchedule"),
        ("pid-pressure", "NoSchedule"),
        ("unschedulable", "NoSchedule"),
    )
)
"""What daemons bear on top of what their template says."""

_HOST_NETWORK_TOLERATION: Final = {
    "key": "node.kubernetes.io/network-unavailable",
    "operator": "Exists",
    "effect": "NoSchedule",
}


def fits(spec: PodSpec, node: Node) -> tuple[bool, bool]:
    """Return whether a daemon should be made for a node, and whether one that runs there may go on."""
    if spec.node_name and spec.node_name != node.metadata.name:
        return False, False
    labels = node.metadata.labels or {}
    if any(labels.get(key) != value for key, value in spec.node_selector.items()):
        return False, False
    if not _affine(spec, node):
        return False, False
    pod_tolerations = [*spec.tolerations, *msgspec.convert(_tolerations(spec), list[Toleration])]
    refused = [taint for taint in node.spec.taints if not any(tolerates(t, taint) for t in pod_tolerations)]
    return (
        not any(taint.effect in ("NoSchedule", "NoExecute") for taint in refused),
        not any(taint.effect == "NoExecute" for taint in refused),
    )


def _tolerations(spec: PodSpec) -> list[dict[str, str]]:
    return [*DAEMON_TOLERATIONS, *([_HOST_NETWORK_TOLERATION] if spec.host_network else [])]


def _affine(spec: PodSpec, node: Node) -> bool:
    affinity = spec.affinity.node_affinity if spec.affinity is not None else None
    if affinity is None or affinity.required is None:
        return True
    labels, fields = node.metadata.labels or {}, {_NODE_FIELD: node.metadata.name}
    return any(
        (term.match_expressions or term.match_fields)
        and _holds(term.match_expressions, labels)
        and _holds(term.match_fields, fields)
        for term in affinity.required.node_selector_terms
    )


def _holds(requirements: Sequence[NodeSelectorRequirement], values: Mapping[str, str]) -> bool:
    return Selector([Requirement(r.key, r.operator, r.values) for r in requirements]).matches(values)


@dataclass(slots=True)
class DaemonSetPlan:
    """What to do now, and the numbers of the status."""

    create: list[str] = field(default_factory=list)
    """Nodes that lack a pod."""
    delete: list[Pod] = field(default_factory=list)
    desired: int = 0
    misscheduled: int = 0


def node_of(pod: Pod) -> str:
    """Return the node of a daemon, also before it is bound: the one its affinity names."""
    if pod.spec.node_name:
        return pod.spec.node_name
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity is not None else None
    for term in affinity.required.node_selector_terms if affinity is not None and affinity.required is not None else ():
        for requirement in term.match_fields:
            if requirement.key == _NODE_FIELD and requirement.values:
                return requirement.values[0]
    return ""


def plan(spec: PodSpec, nodes: Sequence[Node], pods: Mapping[str, Sequence[Pod]]) -> DaemonSetPlan:
    """Decide where pods are missing and which are too many.

    Args:
        spec: The template's pod spec.
        nodes: All nodes.
        pods: The set's pods that stay, by node.
    """
    planned = DaemonSetPlan()
    known = set()
    for node in nodes:
        name = node.metadata.name
        known.add(name)
        should_run, may_stay = fits(spec, node)
        here = pods.get(name, ())
        planned.delete += [pod for pod in here if pod.is_finished]
        running = sorted(
            (pod for pod in here if not pod.is_finished), key=lambda pod: pod.metadata.creation_timestamp or ""
        )
        if should_run:
            planned.desired += 1
            if not here:
                planned.create.append(name)
            planned.delete += running[1:]
        elif running:
            planned.misscheduled += 1
            if not may_stay:
                planned.delete += running
    planned.delete += [pod for name, here in pods.items() if name not in known for pod in here]
    return planned


class DaemonSetController(KeyedController):
    """See the module. Nodes that join together are one pass over all sets."""

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
        """Make and delete pods, update them a few at a time, and report."""
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
        planned = plan(wanted.spec.template.spec, self._nodes.list(), self._by_node(meta.uid))
        if planned.delete:
            await self._owned.delete(meta.uid, planned.delete)
        if planned.create:
            bodies = [self._body(wanted, template, revision, node) for node in planned.create]
            await self._owned.create(meta, bodies)
        if not planned.create and not planned.delete:
            await self._owned.delete(meta.uid, self._outdated(wanted, revision, planned.desired))
        return await self._write_status(wanted, planned, revision)

    def _by_node(self, uid: str) -> dict[str, list[Pod]]:
        found: defaultdict[str, list[Pod]] = defaultdict(list)
        for pod in self._owned.all_of(uid):
            if not self._owned.is_terminating(pod):
                found[node_of(pod)].append(pod)
        return found

    def _outdated(self, wanted: DaemonSet, revision: str, desired: int) -> list[Pod]:
        """Return the old pods to replace now, so that no more than ``maxUnavailable`` are missing."""
        strategy = wanted.spec.update_strategy
        if strategy.type != "RollingUpdate":
            return []
        live = self._owned.live(wanted.metadata.uid)
        old = [pod for pod in live if pod.metadata.label(REVISION_LABEL) != revision]
        if not old:
            return []
        rolling = strategy.rolling_update
        allowed = rolling.max_unavailable if rolling is not None and rolling.max_unavailable is not None else 1
        _, most = resolve_bounds(desired, 0, allowed)
        idle = [pod for pod in old if not pod.is_ready]
        missing = desired - sum(pod.is_ready for pod in live) - len(idle)
        room = max(0, most - missing)
        return [*idle, *(pod for pod in old if pod.is_ready)][:room]

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
        spec["tolerations"] = [*(spec.get("tolerations") or ()), *_tolerations(wanted.spec.template.spec)]
        affinity = dict(spec.get("affinity") or {})
        node_affinity = dict(affinity.get("nodeAffinity") or {})
        place = [{"key": _NODE_FIELD, "operator": "In", "values": [node]}]
        terms = (node_affinity.get(_REQUIRED) or {}).get("nodeSelectorTerms") or [{}]
        node_affinity[_REQUIRED] = {"nodeSelectorTerms": [{**term, "matchFields": place} for term in terms]}
        spec["affinity"] = {**affinity, "nodeAffinity": node_affinity}
        return body

    async def _write_status(self, wanted: DaemonSet, planned: DaemonSetPlan, revision: str) -> float | None:
        meta = wanted.metadata
        live = self._owned.live(meta.uid)
        nodes = {node_of(pod) for pod in live}
        available, next_in = available_count(live, wanted.spec.min_ready_seconds, self.clock.now())
        status: dict[str, Any] = {
            "observedGeneration": meta.generation,
            "currentNumberScheduled": min(planned.desired, len(nodes)),
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
        in_use = {revision, *(pod.metadata.label(REVISION_LABEL) for pod in live)}
        await self._revisions.prune(meta, in_use, wanted.spec.revision_history_limit)
        return next_in
