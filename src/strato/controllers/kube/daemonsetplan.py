"""Where daemons belong and what replaces old ones. Pure.

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
    """Return whether a daemon should be made for a node, and whether one that runs there may go on."""
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
    """Return what daemons of a template bear on top of what it says."""
    return [*DAEMON_TOLERATIONS, *([_HOST_NETWORK_TOLERATION] if spec.host_network else [])]


@dataclass(slots=True)
class DaemonSetPlan:
    """What to do now, and the numbers of the status."""

    create: list[str] = field(default_factory=list)
    """Nodes that lack a pod."""
    delete: list[Pod] = field(default_factory=list)
    desired: int = 0
    misscheduled: int = 0
    suitable: set[str] = field(default_factory=set)
    """Nodes that should have a pod."""


def node_of(pod: Pod) -> str:
    """Return the node of a daemon, also before it is bound: the one its affinity names."""
    if pod.spec.node_name:
        return pod.spec.node_name
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity is not None else None
    for term in affinity.required.node_selector_terms if affinity is not None and affinity.required is not None else ():
        for requirement in term.match_fields:
            if requirement.key == NODE_FIELD and requirement.values:
                return requirement.values[0]
    return ""


def plan(spec: PodSpec, nodes: Sequence[Node], pods: Mapping[str, Sequence[Pod]], revision: str = "") -> DaemonSetPlan:
    """Decide where pods are missing and which are too many.

    Args:
        spec: The template's pod spec.
        nodes: All nodes.
        pods: The set's pods that stay, by node.
        revision: With a surge, the newest: a node may have a pod of it beside an older one. Empty: one pod is enough.
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
    """Return what sorts pods, the oldest first."""
    return pod.metadata.creation_timestamp or ""


def split(pods: Sequence[Pod], revision: str) -> tuple[list[Pod], list[Pod]]:
    """Return pods of a revision and the others, in the order they have; all are of the empty one."""
    new = [pod for pod in pods if not revision or pod.metadata.label(REVISION_LABEL) == revision]
    return new, [pod for pod in pods if revision and pod.metadata.label(REVISION_LABEL) != revision]


@dataclass(frozen=True, slots=True)
class Rollout:
    """How old pods are replaced.

    Args:
        revision: The newest.
        surge: Nodes that may have a new pod beside one that works, at the same time; 0: old pods go first.
        unavailable: Nodes that may be without a pod that works.
        is_available: Whether a pod has been ready long enough.
    """

    revision: str
    surge: int
    unavailable: int
    is_available: Callable[[Pod], bool]

    def plan(self, planned: DaemonSetPlan, pods: Mapping[str, Sequence[Pod]]) -> DaemonSetPlan:
        """Return what replaces old pods now, where every node has what it should.

        Args:
            planned: What says which nodes are suitable and how many pods are desired.
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
                surging += 1  # what is too much goes first
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
