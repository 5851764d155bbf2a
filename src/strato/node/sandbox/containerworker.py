"""`ContainerWorker`: runs one container of a pod from its first start to its last end, with probes, hooks, restarts."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from strato.api.core import Container, LifecycleHandler, Pod, Probe
from strato.clock import Clock
from strato.errors import one_line
from strato.node.podstatus import COMPLETED, CRASH_LOOP, ERROR, OOM_KILLED, ContainerRecord, Ending
from strato.node.predicates import PodRejection
from strato.node.resizes import Pending, needs_restart
from strato.node.restarts import ALWAYS, NEVER, Backoff, should_restart
from strato.node.sandbox.environment import ConfigProblem
from strato.node.sandbox.hiddenpaths import end_message, hidden_path
from strato.node.sandbox.hooks import NO_LIMIT_SECONDS, HookFailed, run_hook
from strato.node.sandbox.imagemanager import ERR_IMAGE_PULL, IMAGE_PULL_BACK_OFF, ImageManager, ImageUnavailable, quoted
from strato.node.sandbox.probes import Prober
from strato.node.sandbox.runtime import ContainerRun, Ended, Runtime, RuntimeProblem
from strato.node.sandbox.sandbox import MESSAGE_BYTES, PodSandbox

CONFIG_RETRY_SECONDS = 2.0
"""Seconds between two checks whether an object that a pod refers to exists now."""
KILL_TIMEOUT_SECONDS = 5.0
_KEPT_ATTEMPTS = 2

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeServices:
    """The functions of the node that the workers of one pod call."""

    hosts: Callable[[], str]
    """Returns the present content of ``/etc/hosts``."""
    submit: Callable[[], None]
    """Queues a write of the pod's status."""
    confirm: Callable[[], Awaitable[None]]
    """Waits until the state of the pod that the watch has shown is committed; awaited before its processes start, and
    before they are ended because of a deletion."""
    event: Callable[[str, str, str], None]
    """Records an event of the pod: type, reason, message."""
    images: ImageManager
    """Provides the images of its containers."""
    admit: Callable[[Pod], PodRejection | None]
    """Returns why the new pod cannot start beside the others of the node, None when it can."""
    admit_resize: Callable[[Pod], Pending | None]
    """Returns why the pod cannot be resized to its spec, None when it can."""


class ContainerWorker:
    """Runs one container."""

    def __init__(
        self,
        pod: Pod,
        record: ContainerRecord,
        spec: Container,
        sandbox: PodSandbox,
        runtime: Runtime,
        clock: Clock,
        node: NodeServices,
        backoff: Backoff,
    ) -> None:
        self.record = record
        self._pod = pod
        self._spec = spec
        self._sandbox = sandbox
        self._runtime = runtime
        self._clock = clock
        self._node = node
        self._backoff = backoff
        self._last: ContainerRun | None = None
        self._changed = asyncio.Event()
        self._why_changed = ""
        self._hidden = ""

    def update(self, spec: Container) -> str:
        """Apply the changes that a container allows: its image, which restarts it, and its resources.

        Returns:
            Why the container does not run with its allocated resources yet; empty when it does.
        """
        record, self._spec = self.record, spec
        record.allocated = spec.resources
        if not self.is_running:
            return ""
        if spec.image != record.image:
            self._restart(f"Container {spec.name} definition changed, will be restarted")
        elif record.actual == spec.resources:
            record.actual = spec.resources
        elif needs_restart(spec, record.actual):
            self._restart(f"Container {spec.name} resize requires restart")
        else:
            return self._resize()
        return ""

    def _restart(self, why: str) -> None:
        self._why_changed = why
        self._changed.set()

    def _resize(self) -> str:
        problem = self._sandbox.resize(self._spec)
        if not problem:
            self.record.actual = self._spec.resources
        return problem

    @property
    def is_running(self) -> bool:
        """Whether a process of it runs."""
        return self._last is not None and not self._last.ended.done()

    async def run(self, *, is_lost: bool, begun: asyncio.Event | None = None) -> None:
        """Run the container, again and again as its restart policy says, until its final end.

        Args:
            is_lost: Whether the run that the container's record describes has vanished without a trace.
            begun: Set when the container has started once.
        """
        record, attempt = self.record, max(0, self._sandbox.last_attempt(self._spec.name))
        policy = ALWAYS if record.sidecar else NEVER if record.ephemeral else self._pod.spec.restart_policy
        if record.init and not record.sidecar and policy == ALWAYS:
            policy = "OnFailure"  # an init container that succeeded does not run again
        if is_lost and (record.ending is not None or record.last is not None):
            if not record.init and record.ending is not None and not should_restart(policy, record.ending.exit_code):
                return
            attempt = record.restart_count + 1
        wait = 0.0
        while True:
            ended = await self._run_once(attempt, begun)
            if self._changed.is_set():
                self._changed.clear()
            elif not should_restart(policy, ended.exit_code):
                return
            else:
                wait = self._backoff.next_wait(wait, ended.finished_at - ended.started_at)
                await self._back_off(wait)
            attempt += 1
            self._sandbox.drop_attempt(self._spec.name, attempt - _KEPT_ATTEMPTS)

    async def _back_off(self, wait: float) -> None:
        name, meta = self._spec.name, self._pod.metadata
        pod_ref = f"{meta.name}_{meta.namespace}({meta.uid})"
        self._node.submit()
        self._node.event("Warning", "BackOff", f"Back-off restarting failed container {name} in pod {pod_ref}")
        self.record.wait(CRASH_LOOP, f"back-off {wait:g}s restarting failed container={name} pod={pod_ref}")
        self._node.submit()
        await self._clock.sleep(wait)

    async def _run_once(self, attempt: int, begun: asyncio.Event | None) -> Ended:
        record, spec = self.record, self._spec
        record.restart_count = attempt
        run = self._runtime.adopt(self._sandbox.attempt(spec.name, attempt))
        if run is None:
            run = self._last = await self._launch(attempt)
            if record.actual is not self._spec.resources:  # a resize was applied while the container was starting
                self._resize()
            await self._post_start(run)
        self._last = run
        container_id = f"strato://{self._pod.metadata.uid}-{spec.name}-{attempt}"
        prober = Prober(
            self._runtime, self._clock, run, record, spec, self._sandbox.ip, self._node.submit, self._node.event
        )
        if not (run.ended.done() and run.ended.result().never_started):
            record.run(run.started_at, container_id, ready=False)
            record.started, record.ready = prober.first_verdict()
        self._node.submit()
        if begun is not None:
            begun.set()
        probing = asyncio.create_task(prober.run())
        try:
            ended = await self._wait_for_end(run, probing)
        finally:
            probing.cancel()
            await asyncio.gather(probing, return_exceptions=True)
        record.end(self._ending(attempt, container_id, ended))
        return ended

    async def _wait_for_end(self, run: ContainerRun, probing: asyncio.Task[Probe]) -> Ended:
        """Return how a run ended; ends it when a probe has failed for good, or the container's spec has changed."""
        changed = asyncio.create_task(self._changed.wait())
        waits: set[asyncio.Future[Any]] = {run.ended, changed, probing}
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            changed.cancel()
        if not run.ended.done():
            spec, grace_seconds, why = self._spec, self._pod.spec.termination_grace_period_seconds, self._why_changed
            if probing.done():
                probe = probing.result()
                kind = "startup" if probe is spec.startup_probe else "liveness"
                why = f"Container {spec.name} failed {kind} probe, will be restarted"
                if probe.termination_grace_period_seconds is not None:
                    grace_seconds = probe.termination_grace_period_seconds
            await self.stop(float(grace_seconds), why)
        return await asyncio.shield(run.ended)

    async def _launch(self, attempt: int) -> ContainerRun:
        """Start the container's process; waits while an image, ConfigMap or Secret that it needs is missing."""
        reported, wait = "", 0.0
        while True:
            self._changed.clear()
            try:
                image = await self._node.images.ensure(self._pod, self._spec, self._sandbox, self._node.event)
                wait = 0.0
                launch = self._sandbox.launch(self._spec, attempt, image)
                self.record.actual = self._spec.resources
                is_host_root = image.is_host and self._runtime.isolation != "plain"
                self._hidden = hidden_path(launch.argv, launch.mounts) if is_host_root else ""
                run = await self._runtime.start(launch)
            except ImageUnavailable as err:
                wait = self._backoff.next_wait(wait, 0.0)
                await self._wait_for_image(err, wait)
                continue
            except (ConfigProblem, RuntimeProblem, OSError) as err:
                reason = "CreateContainerConfigError" if isinstance(err, ConfigProblem) else "CreateContainerError"
                text = one_line(err)
                self.record.wait(reason, text)
                self._node.submit()
                if reported != text:
                    reported = text
                    self._node.event("Warning", "Failed", f"Error: {text}")
                await self._clock.sleep(CONFIG_RETRY_SECONDS)
                continue
            self.record.image = self._spec.image
            self.record.image_id = image.reference
            self._report_start(run)
            return run

    async def _wait_for_image(self, problem: ImageUnavailable, wait: float) -> None:
        """Report the image's problem, then that its pull is in back-off, as a kubelet does."""
        self.record.wait(problem.reason, str(problem))
        self._node.event("Warning", "Failed", f"Error: {problem.reason}")
        self._node.submit()
        if problem.reason != ERR_IMAGE_PULL:
            await self._wait(wait)
            return
        shown = min(CONFIG_RETRY_SECONDS, wait / 2)
        await self._clock.sleep(shown)
        message = f"Back-off pulling image {quoted(self._spec.image)}"
        self._node.event("Normal", "BackOff", message)
        self._node.event("Warning", "Failed", f"Error: {IMAGE_PULL_BACK_OFF}")
        self.record.wait(IMAGE_PULL_BACK_OFF, f"{message}: {ERR_IMAGE_PULL}: {problem}")
        self._node.submit()
        await self._wait(wait - shown)

    async def _wait(self, seconds: float) -> None:
        """Wait; returns early when the image has been imported meanwhile, or the container's image has changed."""
        ways: list[asyncio.Task[Any]] = [asyncio.create_task(self._node.images.wait_for(self._spec, seconds))]
        ways.append(asyncio.create_task(self._changed.wait()))
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()

    def _report_start(self, run: ContainerRun) -> None:
        spec, event = self._spec, self._node.event
        event("Normal", "Created", f"Created container: {spec.name}")
        if run.ended.done() and run.ended.result().never_started:
            event("Warning", "Failed", f"Error: {run.ended.result().error}")
        else:
            event("Normal", "Started", f"Started container {spec.name}")
        unenforced = self._sandbox.unenforced_limits(spec)
        if unenforced:
            message = f"Container {spec.name}: this node does not enforce its limit of {' and '.join(unenforced)}"
            event("Warning", "LimitsNotEnforced", message)

    def _ending(self, attempt: int, container_id: str, ended: Ended) -> Ending:
        reason = COMPLETED if ended.exit_code == 0 else ERROR
        if ended.never_started:
            reason = "StartError"
        elif ended.exit_code == 137 and self._sandbox.oom_killed(self._spec.name):
            reason = OOM_KILLED
        written = self._sandbox.termination_message(self._spec, attempt, failed=ended.exit_code != 0)
        return Ending(
            exit_code=ended.exit_code,
            reason=reason,
            started_at=ended.started_at,
            finished_at=ended.finished_at,
            signal=ended.signal,
            message=end_message(ended.exit_code, ended.error, written, self._hidden)[:MESSAGE_BYTES],
            container_id=container_id,
        )

    # Ending

    def find_left_over(self) -> None:
        """Adopt the process from before a restart of the node, unless that was done already."""
        attempt = self._sandbox.last_attempt(self._spec.name)
        if self._last is None and attempt >= 0:
            self._last = self._runtime.adopt(self._sandbox.attempt(self._spec.name, attempt))

    async def stop(self, grace_seconds: float, message: str = "") -> None:
        """End the running process: the preStop hook, SIGTERM, and SIGKILL after the grace period.

        Args:
            grace_seconds: Grace period from now, including the hook.
            message: Message of the event.
        """
        run, record = self._last, self.record
        assert run is not None, "only a container that runs is stopped"
        self._node.event("Normal", "Killing", message or f"Stopping container {record.name}")
        left = grace_seconds - await self._pre_stop(run, grace_seconds)
        if left > 0:
            self._runtime.signal(run, kill=False)
        if not await _ends_within(run, left):
            self._runtime.signal(run, kill=True)
            await _ends_within(run, KILL_TIMEOUT_SECONDS)
        if not run.ended.done():
            _log.warning("a container cannot be killed: pod=%s container=%s", self._pod.key, record.name)
            return
        record.end(self._ending(record.restart_count, record.container_id, run.ended.result()))

    async def _pre_stop(self, run: ContainerRun, grace_seconds: float) -> float:
        """Run the preStop hook; return the seconds it took."""
        lifecycle = self._spec.lifecycle
        hook = lifecycle.pre_stop if lifecycle is not None else None
        if hook is None or grace_seconds <= 0:
            return 0.0
        began = self._clock.monotonic()
        await self._hook(hook, run, "PreStop", grace_seconds)
        return self._clock.monotonic() - began

    async def _post_start(self, run: ContainerRun) -> None:
        """Run the postStart hook; ends the container if the hook fails."""
        lifecycle = self._spec.lifecycle
        hook = lifecycle.post_start if lifecycle is not None else None
        if hook is None or run.ended.done():
            return
        if not await self._hook(hook, run, "PostStart", NO_LIMIT_SECONDS):
            self._node.event("Normal", "Killing", f"FailedPostStartHook: container {self._spec.name} is stopped")
            self._runtime.signal(run, kill=False)
            if not await _ends_within(run, float(self._pod.spec.termination_grace_period_seconds)):
                self._runtime.signal(run, kill=True)

    async def _hook(self, hook: LifecycleHandler, run: ContainerRun, kind: str, seconds: float) -> bool:
        address = self._sandbox.ip
        try:
            await run_hook(hook, self._spec, run, runtime=self._runtime, address=address, timeout_seconds=seconds)
        except HookFailed as err:
            self._node.event("Warning", f"Failed{kind}Hook", f"{kind}Hook failed: {err}")
            return False
        return True


async def _ends_within(run: ContainerRun, seconds: float) -> bool:
    if not run.ended.done() and seconds > 0:
        await asyncio.wait({run.ended}, timeout=seconds)
    return run.ended.done()
