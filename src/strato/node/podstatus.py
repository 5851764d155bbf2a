"""A pod's status, computed from the states of its containers as by the kubelet. Pure.

A `ContainerRecord` is the state of one container; `pod_status` makes a strategic merge patch of ``status`` from the
records of a pod. The patch does not mention the conditions of other components, and so leaves them unchanged. Hollow
nodes and the sandbox node both use it, so that their pods look the same to clients.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import msgspec

from strato.api.core import ResourceRequirements
from strato.api.meta import Json
from strato.clock import format_time
from strato.node.restarts import ALWAYS, NEVER

State = Literal["waiting", "running", "terminated"]

CREATING, INITIALIZING, CRASH_LOOP = "ContainerCreating", "PodInitializing", "CrashLoopBackOff"
COMPLETED, ERROR, OOM_KILLED = "Completed", "Error", "OOMKilled"
STATUS_UNKNOWN = "ContainerStatusUnknown"
NOT_LOCATED = "The container could not be located when the pod was terminated"
RESIZE_PENDING, RESIZE_IN_PROGRESS = "PodResizePending", "PodResizeInProgress"
_DISRUPTION = "DisruptionTarget"
TERMINATED, NODE_SHUTDOWN = "Terminated", "Pod was terminated in response to imminent node shutdown."

_NO_RESOURCES = ResourceRequirements()
_time_cache: tuple[int, str] = (0, format_time(0))


def time_text(instant: float) -> str:
    """Write an instant as ``metav1.Time``; equal seconds cost nothing."""
    global _time_cache
    second = int(instant)
    if _time_cache[0] != second:
        _time_cache = (second, format_time(second))
    return _time_cache[1]


@dataclass(frozen=True, slots=True)
class Ending:
    """How a run of a container ended."""

    exit_code: int
    reason: str
    started_at: float
    finished_at: float
    signal: int = 0
    message: str = ""
    container_id: str = ""

    def to_json(self) -> Json:
        """Return the ``terminated`` member."""
        body: Json = {
            "exitCode": self.exit_code,
            "reason": self.reason,
            "startedAt": time_text(self.started_at),
            "finishedAt": time_text(self.finished_at),
        }
        if self.signal:
            body["signal"] = self.signal
        if self.message:
            body["message"] = self.message
        if self.container_id:
            body["containerID"] = self.container_id
        return body


@dataclass(slots=True)
class ContainerRecord:
    """The present state of one container."""

    name: str
    image: str
    init: bool = False
    sidecar: bool = False
    """An init container with ``restartPolicy: Always``."""
    ephemeral: bool = False
    allocated: ResourceRequirements = _NO_RESOURCES
    """Resources that the node has allocated to it: those of the spec, unless a resize is pending."""
    actual: ResourceRequirements = _NO_RESOURCES
    """Resources that it runs with; the identical object as ``allocated`` unless a resize is in progress."""
    state: State = "waiting"
    reason: str = CREATING
    """Reason why it is waiting."""
    message: str = ""
    started_at: float = 0.0
    ending: Ending | None = None
    """End of its run, while it is terminated."""
    last: Ending | None = None
    """End of the previous run."""
    restart_count: int = 0
    ready: bool = False
    started: bool = False
    container_id: str = ""
    image_id: str = ""

    def run(self, now: float, container_id: str, *, ready: bool = True) -> None:
        """Record that the container's process has started."""
        if self.state == "terminated":
            self.last, self.ending = self.ending, None
        self.state, self.started_at, self.container_id = "running", now, container_id
        self.reason = self.message = ""
        self.ready = self.started = ready

    def end(self, ending: Ending) -> None:
        """Record that the container's process has ended."""
        self.state, self.ending = "terminated", ending
        self.ready = self.started = False

    def wait(self, reason: str, message: str = "") -> None:
        """Record that the container is waiting; the end of its run becomes `last`."""
        if self.ending is not None:
            self.last, self.ending = self.ending, None
        self.state, self.reason, self.message = "waiting", reason, message
        self.ready = self.started = False

    @property
    def succeeded(self) -> bool:
        """Whether the container ended with exit code 0."""
        return self.ending is not None and self.ending.exit_code == 0

    @property
    def is_resizing(self) -> bool:
        """Whether it runs with other resources than the node has allocated to it."""
        return self.actual is not self.allocated and self.state == "running" and self.actual != self.allocated

    def to_json(self) -> Json:
        """Return the entry of ``containerStatuses``."""
        state: Json
        if self.state == "running":
            state = {"running": {"startedAt": time_text(self.started_at)}}
        elif self.ending is not None:
            state = {"terminated": self.ending.to_json()}
        else:
            waiting: Json = {"reason": self.reason}
            if self.message:
                waiting["message"] = self.message
            state = {"waiting": waiting}
        # An init container that succeeded is ready; sidecars and all other containers are ready only while they run.
        ready = self.succeeded if self.init and not self.sidecar else self.ready
        body: Json = {
            "name": self.name,
            "image": self.image,
            "imageID": self.image_id,
            "ready": ready,
            "restartCount": self.restart_count,
            "state": state,
            "lastState": {"terminated": self.last.to_json()} if self.last is not None else {},
            "resources": resources_json(self.actual if self.state == "running" else self.allocated),
        }
        if not self.ephemeral:
            body["started"] = self.started
        if self.allocated.requests:
            body["allocatedResources"] = self.allocated.requests
        if self.container_id:
            body["containerID"] = self.container_id
        return body


def resources_json(resources: ResourceRequirements) -> Json:
    """Return resources as JSON, read only."""
    body: Json = {}
    if resources.limits:
        body["limits"] = resources.limits
    if resources.requests:
        body["requests"] = resources.requests
    if resources.claims:
        body["claims"] = msgspec.to_builtins(resources.claims)
    return body


@dataclass(slots=True)
class PodRecord:
    """The present state of one pod and its containers."""

    restart_policy: str
    containers: list[ContainerRecord]
    host_ip: str = ""
    pod_ip: str = ""
    start_time: float = 0.0
    generation: int = 0
    """``metadata.generation`` of the spec that the node has applied."""
    reason: str = ""
    """Set when the node has ended the pod itself (``DeadlineExceeded``, ``Evicted``, ``Terminated``), so that its phase
    is Failed."""
    message: str = ""
    conditions: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Type → (status, lastTransitionTime) as last written."""
    resources: ResourceRequirements | None = None
    """Resources that the node has allocated to the pod as a whole; None if it has no pod-level resources."""
    ephemeral: list[ContainerRecord] = field(default_factory=list)
    """Ephemeral containers; their states do not affect the pod's phase and conditions."""
    pending_resize: tuple[str, str] | None = None
    """Reason and message of a resize that the node cannot begin."""
    resize_problem: str = ""
    """Why a resize that the node has begun is not completed."""
    unmet_gates: str = ""
    """The kubelet's message about readiness gates whose conditions are not True; empty when all are."""
    known_ips: tuple[str, str] = ("", "")
    """Addresses of host and pod that the API had when the record was made."""
    disruption: Json | None = None
    """The condition DisruptionTarget of a pod that the node itself ends."""
    is_stopped: bool = False
    """Whether the pod was deleted and its containers have ended for good, so that its phase is final."""

    @property
    def has_begun(self) -> bool:
        """Whether a container has run."""
        return any(c.state != "waiting" or c.last is not None for c in self.containers)

    def disrupt(self, reason: str, message: str, now: float) -> None:
        """Record that the node ends the pod, through no fault of the pod."""
        self.reason, self.message = reason, message
        condition = {"type": _DISRUPTION, "status": "True", "reason": "TerminationByKubelet", "message": message}
        self.disruption = condition | {"lastTransitionTime": time_text(now)}

    def lose(self, now: float) -> None:
        """Record that the machine has lost all containers of the pod, as a kubelet does.

        Under restart policy Never none of them runs again, not even those that had not begun.
        """
        for container in (*self.containers, *self.ephemeral):
            if container.state == "running" or (container.state == "waiting" and self.restart_policy == NEVER):
                began, at = container.started_at or now, container.container_id
                container.end(Ending(137, STATUS_UNKNOWN, began, now, message=NOT_LOCATED, container_id=at))

    def stop(self, now: float) -> None:
        """Record that the containers have ended for good because the pod was deleted, as a kubelet does.

        A container that waited for its next run gets the end of its last run; one that may have begun but has no known
        end gets the reason ContainerStatusUnknown.
        """
        self.is_stopped = True
        may_have_begun = _have_begun(self.mains) or initialized([c for c in self.containers if c.init])
        for container in self.containers:
            if container.state != "waiting":
                continue
            if container.last is not None:
                container.state, container.ending, container.last = "terminated", container.last, None
            elif may_have_begun:
                container.end(Ending(137, STATUS_UNKNOWN, now, now, message=NOT_LOCATED))

    @property
    def mains(self) -> list[ContainerRecord]:
        """The containers that are not init containers."""
        return [c for c in self.containers if not c.init]


def initialized(inits: Sequence[ContainerRecord]) -> bool:
    """Return whether the main containers may start: every init container succeeded, every sidecar started."""
    return all(c.started if c.sidecar else c.succeeded for c in inits)


def phase_of(pod: PodRecord) -> str:
    """Decide the phase."""
    if pod.reason:
        return "Failed"
    if pod.is_stopped:
        return "Succeeded" if all(c.succeeded for c in pod.mains) else "Failed"
    mains = pod.containers
    if len(mains) != 1:
        mains = pod.mains
        plain = [c for c in pod.containers if c.init and not c.sidecar]
        if pod.restart_policy == NEVER and any(c.ending is not None and not c.succeeded for c in plain):
            return "Failed"
    running, failed = pod.restart_policy == ALWAYS, False
    for container in mains:
        if container.state == "waiting" and container.last is None:
            return "Pending"
        if container.state == "running":
            running = True
        elif not container.succeeded:
            failed = True
    if running:
        return "Running"
    if not failed:
        return "Succeeded"
    return "Failed" if pod.restart_policy == NEVER else "Running"


def _have_begun(mains: Sequence[ContainerRecord]) -> bool:
    return any(c.state != "waiting" or c.last is not None for c in mains)


def _names(containers: Sequence[ContainerRecord]) -> str:
    return "[" + " ".join(c.name for c in containers) + "]"


_YES = (True, "", "")


def _conditions(pod: PodRecord, phase: str, now: str, inits: Sequence[ContainerRecord]) -> list[Json]:
    done = "PodCompleted" if phase == "Succeeded" else "PodFailed" if phase == "Failed" else ""
    unready = [c for c in pod.containers if not c.ready and (not c.init or c.sidecar)]
    containers_ready = start = _YES
    if done:
        containers_ready = (False, done, "")
    elif unready:
        containers_ready = (False, "ContainersNotReady", f"containers with unready status: {_names(unready)}")
    ready = containers_ready
    if ready is _YES and pod.unmet_gates:
        ready = (False, "ReadinessGatesNotReady", pod.unmet_gates)
    if phase == "Succeeded":
        start = (True, "PodCompleted", "")
    elif inits and not _have_begun(pod.mains) and not initialized(inits):
        open_inits = [c for c in inits if not (c.started if c.sidecar else c.succeeded)]
        start = (False, "ContainersNotInitialized", f"containers with incomplete status: {_names(open_inits)}")
    return [
        _condition(pod, "PodReadyToStartContainers", _YES if pod.pod_ip and not done else (False, "", ""), now),
        _condition(pod, "Initialized", start, now),
        _condition(pod, "Ready", ready, now),
        _condition(pod, "ContainersReady", containers_ready, now),
        *_resize_conditions(pod, now),
        *(() if pod.disruption is None else (pod.disruption,)),
    ]


def _resize_conditions(pod: PodRecord, now: str) -> list[Json]:
    """Return the conditions of a resize that is pending or in progress; mostly there are none."""
    found = []
    if pod.pending_resize is not None:
        found.append(_condition(pod, RESIZE_PENDING, (True, *pod.pending_resize), now))
    elif RESIZE_PENDING in pod.conditions:
        found.append(_no_condition(pod, RESIZE_PENDING))
    if pod.resize_problem or any(container.is_resizing for container in pod.containers):
        problem = ("Error", pod.resize_problem) if pod.resize_problem else ("", "")
        found.append(_condition(pod, RESIZE_IN_PROGRESS, (True, *problem), now))
    elif RESIZE_IN_PROGRESS in pod.conditions:
        found.append(_no_condition(pod, RESIZE_IN_PROGRESS))
    return found


def _no_condition(pod: PodRecord, kind: str) -> Json:
    """Take a condition back, with every status from now on: who knows which of them arrives."""
    pod.conditions[kind] = ("", "")
    return {"type": kind, "$patch": "delete"}


def _condition(pod: PodRecord, kind: str, verdict: tuple[bool, str, str], now: str) -> Json:
    holds, reason, message = verdict
    status = "True" if holds else "False"
    before = pod.conditions.get(kind)
    since = before[1] if before is not None and before[0] == status else now
    pod.conditions[kind] = (status, since)
    body: Json = {"type": kind, "status": status, "lastTransitionTime": since}
    if pod.generation:
        body["observedGeneration"] = pod.generation
    # Null takes away what the condition said before, the words of others among it.
    body["reason"], body["message"] = reason or None, message or None
    return body


def _addresses(address: str, known: str) -> list[Json]:
    """Return one address in the place of the known one, which it would otherwise be added to."""
    listed: list[Json] = [{"ip": address}]
    return listed if known in ("", address) else [{"$patch": "replace"}, *listed]


def pod_status(pod: PodRecord, now: float) -> Json:
    """Return the node's part of the pod's ``status``, as a strategic merge patch.

    Remembers condition times in ``pod.conditions``.
    """
    phase = phase_of(pod)
    inits = [c for c in pod.containers if c.init]
    body: Json = {
        "phase": phase,
        "conditions": _conditions(pod, phase, time_text(now), inits),
        "hostIP": pod.host_ip,
        "hostIPs": _addresses(pod.host_ip, pod.known_ips[0]),
        "startTime": time_text(pod.start_time),
        "containerStatuses": [c.to_json() for c in pod.containers if not c.init],
    }
    if pod.generation:
        body["observedGeneration"] = pod.generation
    if pod.pod_ip:
        body["podIP"] = pod.pod_ip
        body["podIPs"] = _addresses(pod.pod_ip, pod.known_ips[1])
    if inits:
        body["initContainerStatuses"] = [c.to_json() for c in inits]
    if pod.ephemeral:
        body["ephemeralContainerStatuses"] = [c.to_json() for c in pod.ephemeral]
    if pod.resources is not None:
        body["resources"], body["allocatedResources"] = resources_json(pod.resources), {**pod.resources.requests}
    if pod.reason:
        body["reason"], body["message"] = pod.reason, pod.message
    return body


OUR_CONDITIONS = frozenset(
    {"PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", RESIZE_PENDING, RESIZE_IN_PROGRESS}
)
"""Conditions that `pod_status` computes; all others belong to other components."""
