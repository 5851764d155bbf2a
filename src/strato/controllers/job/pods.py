"""What the controller keeps of a job's pods: a few values of each pod, and counters.

`TaskPods` holds one task's pods. It updates its counters with each pod that is added, changed or removed, instead of
recounting, so that a pod event costs the same in a job of ten pods and of ten thousand.

Source: volcano-controllers A1 (cache), A7.6 (counting), A11 (readiness).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from strato.api.core import Pod, PodStatus
from strato.client.cluster import Created
from strato.controllers.job import terms
from strato.controllers.job.terms import JOB_API_VERSION, JOB_KIND

COUNTED_PHASES = ("Pending", "Running", "Succeeded", "Failed")
UNKNOWN_PHASE = "Unknown"

_NO_NAMES: Final[dict[str, None]] = {}
"""Shared by all tasks without surplus or stale pods, to save memory; never changed."""

_NO_PODS = dict.fromkeys((*COUNTED_PHASES, UNKNOWN_PHASE), 0)


class PodState(msgspec.Struct, eq=False, gc=False):
    """The values of one pod that matter to its job; no container, so garbage collection passes it over."""

    name: str
    task: str
    index: int
    """Its replica index; -1 when the name has none."""
    uid: str = ""
    revision: int = 0
    """Resource version of this state; a record refuses states with an older one."""
    phase: str = "Pending"
    terminating: bool = False
    out_of_sync: bool = False
    partition: str = ""
    restarts: int = 0
    ready: bool = False
    """Succeeded, or Running with every container ready."""
    timed_out: bool = False
    """Failed because it was active longer than its deadline."""
    exit_code: int = 0
    job_uid: str = ""
    job_version: int = 0

    @classmethod
    def created(
        cls, answer: Created, name: str, task: str, index: int, job: tuple[str, int], partition: str
    ) -> PodState:
        """Return a pod that was just created for a job, given by its uid and version."""
        state = cls(name, task, index)
        state.uid = answer.uid
        state.revision = revision_of(answer.resource_version)
        state.job_uid, state.job_version = job
        state.partition = partition
        return state

    @classmethod
    def from_view(cls, pod: Pod) -> PodState | None:
        """Read a pod; None when it is no pod of a Volcano Job."""
        meta = pod.metadata
        owner = meta.controller
        if owner is None or owner.kind != JOB_KIND or owner.api_version != JOB_API_VERSION:
            return None
        annotations = meta.annotations
        if not annotations or terms.JOB_NAME not in annotations:
            return None
        task = annotations.get(terms.TASK_SPEC)
        version = annotations.get(terms.JOB_VERSION, "")
        if task is None or not version.isdecimal():
            return None
        state = cls(meta.name, task, index_of(meta.name))
        state.uid = meta.uid
        state.revision = revision_of(meta.resource_version)
        phase = pod.status.phase
        state.phase = phase if phase in COUNTED_PHASES else (UNKNOWN_PHASE if phase else "Pending")
        state.terminating = meta.deletion_timestamp is not None
        state.out_of_sync = terms.OUT_OF_SYNC in annotations
        state.partition = meta.label(terms.PARTITION_ID)
        state.job_uid = owner.uid
        state.job_version = int(version)
        state.ready = phase == "Succeeded"
        state.timed_out = phase == "Failed" and pod.status.reason == "DeadlineExceeded"
        if pod.status.container_statuses:
            state._take_containers(pod.status, phase)
        return state

    def _take_containers(self, status: PodStatus, phase: str) -> None:
        containers = status.container_statuses
        if phase == "Failed":
            terminated = containers[0].state.terminated
            self.exit_code = terminated.exit_code if terminated is not None else 0
        elif phase in ("Running", "Pending"):
            ready, restarts = phase == "Running", 0
            for container in containers:
                restarts += container.restart_count
                ready = ready and container.ready
            for container in status.init_container_statuses:
                restarts += container.restart_count
            self.ready, self.restarts = ready, restarts

    def looks_like(self, other: PodState) -> bool:
        """Return whether two states are equal in everything that matters to the job."""
        return (
            self.phase == other.phase
            and self.terminating == other.terminating
            and self.out_of_sync == other.out_of_sync
            and self.restarts == other.restarts
            and self.ready == other.ready
            and self.partition == other.partition
        )


def index_of(pod_name: str) -> int:
    """Return the replica index at the end of a pod's name, -1 when there is none."""
    tail = pod_name.rpartition("-")[2]
    return int(tail) if tail.isdecimal() else -1


def revision_of(resource_version: str) -> int:
    """Return a resource version as a number that orders reads of one object."""
    try:
        return int(resource_version)
    except ValueError:  # a version that is no number cannot be compared with others
        return 0


class TaskPods:
    """The pods of one task and their counters.

    Invariant: ``phases``, ``terminating`` and ``present`` count exactly the pods with 0 <= index < ``replicas``;
    ``restarts`` and ``ready`` count all pods.
    """

    __slots__ = (
        "name",
        "phases",
        "pods",
        "present",
        "ready",
        "replicas",
        "restarts",
        "stale",
        "surplus",
        "terminating",
    )

    def __init__(self, name: str, replicas: int = 0) -> None:
        self.name = name
        self.replicas = replicas
        self.pods: dict[str, PodState] = {}
        self._reset()

    def _reset(self) -> None:
        self.phases = _NO_PODS.copy()
        self.terminating = 0
        self.present = 0
        self.surplus = _NO_NAMES
        """Names of pods whose index is outside of 0 <= index < ``replicas``."""
        self.stale = _NO_NAMES
        """Names of live pods inside that range that a kill has marked out-of-sync and not yet deleted."""
        self.restarts = 0
        self.ready = 0

    def put(self, pod: PodState) -> None:
        """Add a pod, or replace its previous state."""
        known = self.pods.get(pod.name)
        if known is not None:
            self._count(known, -1)
        self.pods[pod.name] = pod
        self._count(pod, 1)

    def remove(self, name: str) -> PodState | None:
        """Remove a pod and return it."""
        pod = self.pods.pop(name, None)
        if pod is not None:
            self._count(pod, -1)
        return pod

    def resize(self, replicas: int) -> None:
        """Change the number of replicas; recounts all pods when it differs."""
        if replicas == self.replicas:
            return
        self.replicas = replicas
        self._reset()
        for pod in self.pods.values():
            self._count(pod, 1)

    def missing(self, job: str) -> Iterator[int]:
        """Yield the indexes below ``replicas`` that have no pod; returns at once when none is missing."""
        if self.present >= self.replicas:
            return
        prefix = f"{job}-{self.name}-"
        pods = self.pods
        for index in range(self.replicas):
            if f"{prefix}{index}" not in pods:
                yield index

    def _count(self, pod: PodState, sign: int) -> None:
        self.restarts += sign * pod.restarts
        self.ready += sign * pod.ready
        if not 0 <= pod.index < self.replicas:
            self.surplus = _noted(self.surplus, pod.name, sign)
            return
        self.present += sign
        if pod.terminating:
            self.terminating += sign
            return
        self.phases[pod.phase] += sign
        if pod.out_of_sync:
            self.stale = _noted(self.stale, pod.name, sign)


def _noted(names: dict[str, None], name: str, sign: int) -> dict[str, None]:
    if names is _NO_NAMES:
        return {name: None} if sign > 0 else names
    if sign > 0:
        names[name] = None
    else:
        names.pop(name, None)
    return names
