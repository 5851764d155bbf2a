"""Statuses of tasks, and task classes: equivalence classes of pods.

A class is everything of a pod that filters and resource scores read. Pods made from one template share it, so a gang of
a thousand pods is filtered and scored once.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from strato.api.core import PodSpec
from strato.api.pods import host_ports
from strato.scheduler.model.resources import PODS, Dimensions, Vector

PENDING: Final = 0
ALLOCATED: Final = 1
PIPELINED: Final = 2
BINDING: Final = 3
BOUND: Final = 4
RUNNING: Final = 5
RELEASING: Final = 6
SUCCEEDED: Final = 7
FAILED: Final = 8
UNKNOWN: Final = 9
STATUS_COUNT: Final = 10
STATUS_NAMES: Final = (
    "Pending",
    "Allocated",
    "Pipelined",
    "Binding",
    "Bound",
    "Running",
    "Releasing",
    "Succeeded",
    "Failed",
    "Unknown",
)
"""Names of the statuses, by number (spec scheduler-core 5.3)."""

ALLOCATED_SET: Final = frozenset((BOUND, BINDING, RUNNING, ALLOCATED))
AGENT_SCHEDULER: Final = "agent-scheduler"
"""Scheduler of single pods that wait neither for a gang nor for victims, and may have a NodeShard of their own."""
COMPLETED_SET: Final = frozenset((SUCCEEDED, FAILED))


class TaskClass:
    """What equal pods share.

    Attributes:
        number: Counts up; stable identity inside one `World`.
        spec: The pod spec of one member; filters read selectors, tolerations, affinity, … from it.
        namespace: The namespace of one member.
        request: int64[width], with ``pods`` = 1.
        amounts: The same as Python integers, for decisions about a single node.
        asked: ``(column, amount)`` that a node is checked for: cpu, memory, and whatever else is requested.
        scored_request: int64[2], cpu and memory with Kubernetes' defaults for containers that request none.
        best_effort: Requests nothing but a pod slot.
        needs: ``(column, amount)`` of what it requests without the pod slot, as charged to queues.
        host_ports: ``(host ip, protocol, port)`` of every host port.
        pairwise: It has inter-pod affinity or topology spread, so that placing one member may change where others fit
            or score; members are placed one by one.
        uses_claims: Members use claims for volumes or devices, so each is filtered by itself.
    """

    __slots__ = (
        "amounts",
        "asked",
        "best_effort",
        "host_ports",
        "namespace",
        "needs",
        "number",
        "pairwise",
        "request",
        "scored_request",
        "spec",
        "uses_claims",
    )

    def __init__(self, number: int, spec: PodSpec, namespace: str, request: Vector, scored: tuple[int, int]) -> None:
        self.number = number
        self.spec = spec
        self.namespace = namespace
        self.request = request
        self.amounts: list[int] = request.tolist()
        self.asked: tuple[tuple[int, int], ...] = tuple(
            (column, need) for column, need in enumerate(self.amounts) if need > 0 or column < 2
        )
        self.scored_request: Vector = np.array(scored, np.int64)
        self.needs: tuple[tuple[int, int], ...] = tuple(
            (c, need) for c, need in enumerate(request.tolist()) if need > 0 and c != PODS
        )
        self.best_effort: bool = not self.needs
        self.host_ports: tuple[tuple[str, str, int], ...] = host_ports(spec)
        self.uses_claims: bool = uses_claims(spec)
        affinity = spec.affinity
        self.pairwise: bool = bool(spec.topology_spread_constraints) or (
            affinity is not None and (affinity.pod_affinity is not None or affinity.pod_anti_affinity is not None)
        )

    def __repr__(self) -> str:
        return f"TaskClass({self.number}, {self.request.tolist()})"


def uses_claims(spec: PodSpec) -> bool:
    """Whether a pod uses claims for volumes or devices."""
    if spec.resource_claims:
        return True
    return any(v.persistent_volume_claim is not None or v.ephemeral is not None for v in spec.volumes)


def grow_class(cls: TaskClass, dims: Dimensions) -> None:
    """Lengthen a class's vector after dimensions were added."""
    if cls.request.size < dims.width:
        request = dims.zeros()
        request[: cls.request.size] = cls.request
        cls.request, cls.amounts = request, request.tolist()
