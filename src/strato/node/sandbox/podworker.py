"""`PodWorker`: runs one pod on this machine from its bind to its deletion, as a kubelet does.

A worker prepares the sandbox, runs the init containers in order and then the others side by side, restarts them by the
restart policy, and ends all when the pod is deleted or its deadline has passed. After a restart of the node it finds
the running containers on disk and continues. It uses the machine only through `Runtime` and `PodSandbox`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence
from typing import Any

from strato.api.core import Container, Pod, PodSpec
from strato.clock import Clock
from strato.errors import ApiError, one_line
from strato.node.podstatus import NODE_SHUTDOWN, TERMINATED, ContainerRecord, PodRecord, phase_of, pod_status
from strato.node.records import ephemeral_record, unmet_gates
from strato.node.resizes import allocated_spec, event_text
from strato.node.restarts import NEVER
from strato.node.sandbox.containerworker import CONFIG_RETRY_SECONDS, ContainerWorker, NodeServices
from strato.node.sandbox.environment import ConfigProblem
from strato.node.sandbox.runtime import Runtime, RuntimeProblem
from strato.node.sandbox.sandbox import PodSandbox
from strato.node.sandbox.settings import NodePeriods

EVICTION_GRACE_SECONDS = 1.0
"""Grace period of pods that are evicted for their disk usage, the same as a kubelet's."""
RESIZE_RETRY_SECONDS = 3.0
"""Seconds between two checks whether a container uses less memory than its new limit."""
OVER = ("Succeeded", "Failed")
"""Phases of pods that have ended and hold no resources."""

_log = logging.getLogger(__name__)


class PodWorker:
    """Runs one pod."""

    def __init__(
        self,
        pod: Pod,
        record: PodRecord,
        sandbox: PodSandbox,
        runtime: Runtime,
        clock: Clock,
        node: NodeServices,
        periods: NodePeriods,
    ) -> None:
        self.pod = pod
        self.namespace = pod.metadata.namespace
        self.name = pod.metadata.name
        self.uid = pod.metadata.uid
        self.record = record
        self.sandbox = sandbox
        self._clock = clock
        self._node = node
        self._refresh_seconds = periods.refresh_seconds
        self._worker_of: Callable[[ContainerRecord, Container], ContainerWorker] = lambda container, spec: (
            ContainerWorker(self.pod, container, spec, sandbox, runtime, clock, node, periods.backoff)
        )
        self._containers = list(map(self._worker_of, record.containers, _resizable(self.allocated_spec)))
        self._ephemeral = list(map(self._worker_of, record.ephemeral, pod.spec.ephemeral_containers))
        self._beside: list[asyncio.Task[None]] = []
        """Tasks beside the main containers: sidecars, ephemeral containers, the refresh of mounted files."""
        self.is_admitted = record.has_begun
        """Whether the node has admitted the pod."""
        self._is_served = False
        """Whether containers may be started."""
        self._is_resizing = False
        self._reported_pending = ("", 0)
        """Reason and generation of the pending resize about which the last event was recorded."""
        self._terminating = asyncio.Event()
        self._deadline_changed = asyncio.Event()
        self._evicted = asyncio.Event()
        self._grace_seconds = float(pod.spec.termination_grace_period_seconds)
        self.is_stopped = False
        """Whether all processes of a deleted pod have ended, so that the API object may be removed."""
        self._is_released = False
        self._is_lost = False
        """Whether containers that the pod's status describes have vanished without a trace."""
        self.ended = asyncio.Event()
        """Set when all its processes have ended and its final status is queued."""

    @property
    def is_terminating(self) -> bool:
        """Whether the pod is being ended and its files still exist."""
        return (self._terminating.is_set() or self._evicted.is_set()) and not self._is_released

    def next_write(self, now: float) -> dict[str, Any] | None:
        """Return the status members to write; None for a stopped pod that no finalizer keeps."""
        if self.is_stopped and not self.pod.is_awaited:
            return None
        record = self.record
        if self._is_resizing and not (record.resize_problem or any(one.is_resizing for one in record.containers)):
            self._is_resizing = False
            self._node.event("Normal", "ResizeCompleted", event_text("completed", self.pod))
        return pod_status(self.record, now)

    def update(self, pod: Pod) -> None:
        """Apply the changes that a running pod allows.

        These are labels, annotations, the deadline, images and resources of containers, and new ephemeral containers.
        """
        before, self.pod = self.pod.spec, pod
        self.sandbox.update(pod)
        seen = pod.metadata.generation, unmet_gates(pod)
        if seen != (self.record.generation, self.record.unmet_gates):
            self.record.generation, self.record.unmet_gates = seen
            self._node.submit()
        if pod.spec is before or pod.spec == before:
            return
        if pod.spec.active_deadline_seconds != before.active_deadline_seconds:
            self._deadline_changed.set()
        self.resize()
        known = {debugger.name for debugger in self.record.ephemeral}
        for added in [one for one in pod.spec.ephemeral_containers if one.name not in known]:
            self.record.ephemeral.append(ephemeral_record(added))
            self._ephemeral.append(self._worker_of(self.record.ephemeral[-1], added))
            if self._is_served:
                self._beside.append(asyncio.create_task(self._debug(self._ephemeral[-1])))

    @property
    def allocated_spec(self) -> PodSpec:
        """The pod's spec with the resources that the node has allocated to it."""
        return allocated_spec(self.pod.spec, self.record)

    def resize(self) -> None:
        """Allocate the resources that the spec asks for now, if the node has them, and resize the containers."""
        record, pod = self.record, self.pod
        is_wanted = pod.spec != self.allocated_spec
        record.pending_resize = self._node.admit_resize(pod) if is_wanted else None
        given = pod.spec
        if record.pending_resize is not None:
            given = self.allocated_spec
            reason, message = record.pending_resize
            # compare without the message, whose amounts may change from check to check
            if self._reported_pending != (reason, pod.metadata.generation):
                self._reported_pending = reason, pod.metadata.generation
                self._node.event("Warning", f"Resize{reason}", event_text(reason, pod, message))
        elif is_wanted:
            self._is_resizing = True
            self._node.event("Normal", "ResizeStarted", event_text("started", pod))
        record.resources = given.resources
        is_due = bool(record.resize_problem) or (is_wanted and record.pending_resize is None)
        if is_due:
            self.sandbox.resize_pod(given)
        problems = [worker.update(spec) for worker, spec in zip(self._containers, _resizable(given), strict=True)]
        problems.append(self.sandbox.resize_pod(given) if is_due else "")
        problem = ", ".join(filter(None, problems))
        if problem and not record.resize_problem:
            self._node.event("Warning", "ResizeError", event_text("error", pod, problem))
            self._beside.append(asyncio.create_task(self._retry_resize()))
        record.resize_problem = f"cannot decrease memory limits: {problem}" if problem else ""
        self._node.submit()

    async def _retry_resize(self) -> None:
        while self.record.resize_problem:
            await self._clock.sleep(RESIZE_RETRY_SECONDS)
            self.resize()

    def terminate(self, grace_seconds: float) -> None:
        """End the pod because it was deleted. Once that has begun, a shorter grace period has no effect any more."""
        if not self._terminating.is_set():
            self._grace_seconds = grace_seconds
            self._terminating.set()

    def evict(self, message: str) -> None:
        """Evict the pod, which uses more of the machine than it may; its status and an event have the message."""
        if not (self._evicted.is_set() or self._terminating.is_set() or self._is_over()):
            self._node.event("Warning", "Evicted", message)
            self._disrupt("Evicted", message, EVICTION_GRACE_SECONDS)

    def shut_down(self, grace_seconds: float) -> bool:
        """End the pod as a kubelet does at a shutdown; return False for a pod that has not begun or has ended."""
        if self._is_over() or not self.record.has_begun:
            return False
        if not (self._evicted.is_set() or self._terminating.is_set()):
            self._disrupt(TERMINATED, NODE_SHUTDOWN, grace_seconds)
        return True

    def _disrupt(self, reason: str, message: str, grace_seconds: float) -> None:
        self.record.disrupt(reason, message, self._clock.now())
        self._grace_seconds = min(self._grace_seconds, grace_seconds)
        self._evicted.set()

    async def run(self) -> None:
        """Run the pod; returns when it has finished or, if it was deleted, when all its processes have ended."""
        await self._node.confirm()
        serving = asyncio.create_task(self._serve(), name=f"pod {self.namespace}/{self.name}")
        ends = [asyncio.create_task(event.wait()) for event in (self._terminating, self._evicted)]
        try:
            await self._wait_for_end({serving, *ends})
            if serving.done():
                self._note_end_of(serving)
            elif not (self._terminating.is_set() or self._evicted.is_set()):
                self.record.reason = "DeadlineExceeded"
                self.record.message = "Pod was active on the node longer than the specified deadline"
                self._node.event("Warning", "DeadlineExceeded", self.record.message)
        finally:
            for task in (serving, *ends):
                task.cancel()
            await asyncio.gather(serving, *ends, return_exceptions=True)
        if self._terminating.is_set():
            await self._node.confirm()
        await self._stop_all()
        await self._release()
        if self._terminating.is_set():
            self._stop()
        else:
            self._node.submit()
        self.ended.set()

    def _note_end_of(self, serving: asyncio.Task[None]) -> None:
        """Fail the pod if the task that serves it ended by a bug, so that its containers end and it can be deleted."""
        error = serving.exception()
        if error is not None:
            _log.error("a pod cannot be served: pod=%s/%s", self.namespace, self.name, exc_info=error)
            self.record.reason = "UnexpectedError"
            self.record.message = f"The node cannot run the pod: {type(error).__name__}: {one_line(error)}"
            self._node.event("Warning", self.record.reason, self.record.message)

    def _stop(self) -> None:
        """Record that no process of a deleted pod runs, and that none will be started."""
        self.record.stop(self._clock.now())
        self.is_stopped = True
        self._node.submit()

    async def _wait_for_end(self, ends: set[asyncio.Task[Any]]) -> None:
        """Wait until one of the tasks ends or the pod's deadline has passed, which may change meanwhile."""
        while True:
            self._deadline_changed.clear()
            moved = asyncio.create_task(self._deadline_changed.wait())
            left = self._deadline_left()
            try:
                await asyncio.wait({*ends, moved}, timeout=left, return_when=asyncio.FIRST_COMPLETED)
            finally:
                moved.cancel()
            if not self._deadline_changed.is_set() or any(end.done() for end in ends):
                return

    async def wait_deleted(self) -> None:
        """After `run`, wait for the deletion of a finished pod."""
        await self._terminating.wait()
        self._stop()

    def _deadline_left(self) -> float | None:
        seconds = self.pod.spec.active_deadline_seconds
        return None if seconds is None else max(0.0, self.record.start_time + seconds - self._clock.now())

    async def _release(self) -> None:
        try:
            await self.sandbox.release()
        except RuntimeProblem as err:
            _log.warning("resources of a pod were not released: pod=%s/%s error=%s", self.namespace, self.name, err)
        self._is_released = True

    # From preparation to the last container's end

    async def _serve(self) -> None:
        self._is_lost = self.record.has_begun and self.sandbox.is_unknown
        if self._is_lost:
            self.record.lose(self._clock.now())
            if self.record.restart_policy == NEVER:
                return
        refused = self.sandbox.refusal() or (None if self.is_admitted else self._node.admit(self.pod))
        if refused is not None:
            self.record.reason, self.record.message = refused.reason, f"Pod was rejected: {refused.message}"
            self._node.event("Warning", refused.reason, refused.message)
            return
        self.is_admitted = True
        self._node.submit()
        await self._prepare()
        beside, self._is_served = self._beside, True
        if self.sandbox.volumes.has_payloads:
            beside.append(asyncio.create_task(self._refresh()))
        if self.pod.spec != self.allocated_spec:  # the pod was resized while the node did not run
            self.resize()
        beside += [asyncio.create_task(self._debug(container)) for container in self._ephemeral]
        try:
            for container in self._containers:
                if not container.record.init:
                    continue
                if container.record.sidecar:
                    begun = asyncio.Event()
                    beside.append(asyncio.create_task(self._run(container, begun)))
                    await begun.wait()
                else:
                    await self._run(container)
                    if not container.record.succeeded:
                        return
            await asyncio.gather(*(self._run(c) for c in self._containers if not c.record.init))
        finally:
            self._is_served = False
            for task in beside:
                task.cancel()
            await asyncio.gather(*beside, return_exceptions=True)

    async def _debug(self, container: ContainerWorker) -> None:
        """Run an ephemeral container, which may refer to objects that were not read for this pod before."""
        with contextlib.suppress(ConfigProblem, ApiError, OSError):  # the container's start reports what is missing
            await self.sandbox.volumes.refresh(self._clock.monotonic())
        await container.run(is_lost=self._is_lost)
        self._node.submit()

    async def _prepare(self) -> None:
        while True:
            try:
                await self.sandbox.prepare(self._node.hosts(), self.allocated_spec)
            except (ConfigProblem, RuntimeProblem, OSError) as err:
                reason = "FailedMount" if isinstance(err, ConfigProblem) else "FailedCreatePodSandBox"
                self._node.event("Warning", reason, one_line(err))
                await self._clock.sleep(CONFIG_RETRY_SECONDS)
            else:
                self.record.pod_ip = self.sandbox.ip
                return

    async def _refresh(self) -> None:
        """Keep mounted files up to date; if an object cannot be read, its files stay, and that is logged once."""
        reported = ""
        while True:
            await self._clock.sleep(self._refresh_seconds)
            try:
                await self.sandbox.volumes.refresh(self._clock.monotonic())
                reported = ""
            except (ConfigProblem, ApiError, OSError) as err:
                if reported != one_line(err):
                    reported = one_line(err)
                    self._node.event(
                        "Warning", "FailedMount", f"the files of the volumes stay as they are: {one_line(err)}"
                    )

    async def _run(self, container: ContainerWorker, begun: asyncio.Event | None = None) -> None:
        await container.run(is_lost=self._is_lost, begun=begun)
        if self._is_over():  # free the GPUs at once, for a new pod that arrives before this one is cleaned up
            self.sandbox.give_back_gpus()
        self._node.submit()

    def _is_over(self) -> bool:
        return phase_of(self.record) in OVER and not any(container.is_running for container in self._containers)

    async def _stop_all(self) -> None:
        """End all running containers: the main containers first, then the sidecars in reverse order."""
        everyone = (*self._containers, *self._ephemeral)
        for container in everyone:
            container.find_left_over()
        running = [container for container in everyone if container.is_running]
        await asyncio.gather(*(c.stop(self._grace_seconds) for c in running if not c.record.init))
        for container in [c for c in running if c.record.init and c.is_running][::-1]:
            await container.stop(self._grace_seconds)


def _resizable(spec: PodSpec) -> Sequence[Container]:
    return (*spec.init_containers, *spec.containers)
