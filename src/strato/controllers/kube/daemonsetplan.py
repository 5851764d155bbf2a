"""Which nodes get a pod of a DaemonSet, and which pods an update replaces. Pure.

Source: apps/v1 DaemonSet.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from strato.api.core import Node, Pod, PodSpec, Toleration
from strato.api.nodeselection import matches_node, tolerates
from strato.controllers.kube.revisions import REVISION_LABEL

NODE_FIELD: Final = "metadata.name"
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

_HOST_NETWORK_TOLERATION: Final = {
    "key": "node.kubernetes.io/network-unavailable",
    "operator": "Exists",
    "effect": "NoSchedule",
}


def fits(spec: PodSpec, node: Node) -> tuple[bool, bool]:
    """Return whether a node should get a pod, and whether a pod that runs there already may stay."""
    if spec.node_name and spec.node_name != node.metadata.name:
        return False, False
    if not matches_node(spec, node):
        return False, False
    pod_tolerations = [*spec.tolerations, *msgspec.convert(daemon_tolerations(spec), list[Toleration])]
    refused = [taint for taint in node.spec.taints if not tolerates(pod_tolerations, taint)]
    return (
        not any(taint.effect in ("NoSchedule", "NoExecute") for taint in refused),
        not any(taint.effect == "NoExecute" for taint in refused),
    )


def daemon_tolerations(spec: PodSpec) -> list[dict[str, str]]:
    """Return the tolerations that pods of a DaemonSet get besides those of their template."""
    return [*DAEMON_TOLERATIONS, *([_HOST_NETWORK_TOLERATION] if spec.host_network else [])]


@dataclass(slots=True)
class DaemonSetPlan:
    """Pods to create and delete now, and the counters of the status."""

    create: list[str] = field(default_factory=list)
    """Nodes that lack a pod."""
    delete: list[Pod] = field(default_factory=list)
    desired: int = 0
    misscheduled: int = 0
    suitable: set[str] = field(default_factory=set)
    """Nodes that should have a pod."""


def node_of(pod: Pod) -> str:
    """Return the node of a pod of a DaemonSet; before it is bound, the one that its affinity names."""
    if pod.spec.node_name:
        return pod.spec.node_name
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity is not None else None
    for term in affinity.required.node_selector_terms if affinity is not None and affinity.required is not None else ():
        for requirement in term.match_fields:
            if requirement.key == NODE_FIELD and requirement.values:
                return requirement.values[0]
    return ""


def plan(spec: PodSpec, nodes: Sequence[Node], pods: Mapping[str, Sequence[Pod]], revision: str = "") -> DaemonSetPlan:
    """Decide which nodes lack a pod and which pods are surplus.

    Args:
        spec: The template's pod spec.
        nodes: All nodes.
        pods: The set's pods that are not terminating, by node.
        revision: With a surge the newest revision: a node may have a pod of it beside an older one. Empty without a
            surge: a node has one pod.
    """
    planned = DaemonSetPlan()
    known = set()
    for node in nodes:
        name = node.metadata.name
        known.add(name)
        should_run, may_stay = fits(spec, node)
        here = pods.get(name, ())
        planned.delete += [pod for pod in here if pod.is_finished]
        running = sorted((pod for pod in here if not pod.is_finished), key=age_key)
        if should_run:
            planned.desired += 1
            planned.suitable.add(name)
            if not here:
                planned.create.append(name)
            planned.delete += [pod for one in split(running, revision) for pod in one[1:]]
        elif running:
            planned.misscheduled += 1
            if not may_stay:
                planned.delete += running
    planned.delete += [pod for name, here in pods.items() if name not in known for pod in here]
    return planned


def age_key(pod: Pod) -> str:
    """Return the sort key that puts the oldest pod first."""
    return pod.metadata.creation_timestamp or ""


def split(pods: Sequence[Pod], revision: str) -> tuple[list[Pod], list[Pod]]:
    """Return the pods of a revision and the others, in their order; with an empty revision the first list has all."""
    new = [pod for pod in pods if not revision or pod.metadata.label(REVISION_LABEL) == revision]
    return new, [pod for pod in pods if revision and pod.metadata.label(REVISION_LABEL) != revision]


@dataclass(frozen=True, slots=True)
class Rollout:
    """How an update replaces pods of older revisions.

    Args:
        revision: The newest revision.
        surge: Most nodes that may have a new pod beside an available old one; 0 deletes the old pod first.
        unavailable: Most nodes that may be without an available pod.
        is_available: Returns whether a pod has been ready for ``minReadySeconds``.
    """

    revision: str
    surge: int
    unavailable: int
    is_available: Callable[[Pod], bool]

    def plan(self, planned: DaemonSetPlan, pods: Mapping[str, Sequence[Pod]]) -> DaemonSetPlan:
        """Return which old pods to replace now; call it when no node lacks a pod or has a surplus one.

        Args:
            planned: The plan with the suitable nodes and the number of desired pods.
            pods: The set's live pods by node.
        """
        return self._surging(planned, pods) if self.surge else self._replacing(planned, pods)

    def _replacing(self, planned: DaemonSetPlan, pods: Mapping[str, Sequence[Pod]]) -> DaemonSetPlan:
        live = [pod for here in pods.values() for pod in here]
        _, old = split(live, self.revision)
        works = {pod.metadata.uid for pod in live if self.is_available(pod)}
        idle = [pod for pod in old if pod.metadata.uid not in works]
        missing = planned.desired - len(works) - len(idle)
        room = max(0, self.unavailable - missing)
        return DaemonSetPlan(delete=[*idle, *(pod for pod in old if pod.metadata.uid in works)][:room])

    def _surging(self, planned: DaemonSetPlan, pods: Mapping[str, Sequence[Pod]]) -> DaemonSetPlan:
        steps = DaemonSetPlan()
        candidates: list[str] = []
        leaving: list[Pod] = []
        surging = available = 0
        for node, here in pods.items():
            (new, *more), (old, *others) = ([*one, None] for one in split(here, self.revision))
            if len(more) > 1 or len(others) > 1:
                surging += 1  # surplus pods of this node have to be deleted first
                continue
            works = any(pod is not None and self.is_available(pod) for pod in (old or new,))
            available += works
            if old is None:
                continue
            if new is not None:
                if self.is_available(new):
                    steps.delete.append(old)
                else:
                    surging += 1
            elif node not in planned.suitable:
                (leaving if works else steps.delete).append(old)
            else:
                (candidates if works else steps.create).append(node)
        steps.delete += leaving[: max(0, available - planned.desired)]
        steps.create += candidates[: max(0, self.surge - surging)]
        return steps
