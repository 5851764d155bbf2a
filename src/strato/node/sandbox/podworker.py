"""One pod on this machine, from bind to deletion: the kubelet's part.

A worker prepares the sandbox, runs the init containers in order and then the others side by side, restarts what the
policy says, and ends everything when the pod is deleted or its deadline has passed. After a restart of the node it
finds on disk what runs and goes on from there. All machine work goes through `Runtime` and `PodSandbox`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from strato.api.core import Container, LifecycleHandler, Pod
from strato.clock import Clock
from strato.errors import ApiError
from strato.node.podstatus import (
    COMPLETED,
    CRASH_LOOP,
    ERROR,
    NODE_SHUTDOWN,
    OOM_KILLED,
    TERMINATED,
    ContainerRecord,
    Ending,
    PodRecord,
    phase_of,
    pod_status,
)
from strato.node.restarts import ALWAYS, NEVER, Backoff, should_restart
from strato.node.sandbox.environment import ConfigProblem
from strato.node.sandbox.hooks import NO_LIMIT_SECONDS, HookFailed, run_hook
from strato.node.sandbox.probes import Prober
from strato.node.sandbox.runtime import Ended, Launch, Run, Runtime, RuntimeProblem
from strato.node.sandbox.sandbox import MESSAGE_BYTES, ImageMissing
from strato.node.sandbox.security import Refusal

CONFIG_RETRY_SECONDS = 2.0
"""Between two looks for what a pod refers to and is not there."""
REFRESH_SECONDS = 30.0
"""Between two looks whether the files of a pod's ConfigMaps, Secrets and tokens are still the newest."""
EVICTION_GRACE_SECONDS = 1.0
"""Of pods that have used too much of the disk, as a kubelet gives them."""
KILL_TIMEOUT_SECONDS = 5.0
_KEPT_ATTEMPTS = 2
_OVER = ("Succeeded", "Failed")

_log = logging.getLogger(__name__)

ReportEvent = Callable[[str, str, str], None]
"""Record an event of the pod: type, reason, message."""


class Sandbox(Protocol):
    """What a worker needs of `PodSandbox`."""

    ip: str

    def refusal(self) -> Refusal | None:
        """Return why the pod cannot run on this machine, None when it can."""
        ...

    @property
    def is_unknown(self) -> bool:
        """Whether nothing on this machine tells that the pod was here."""
        ...

    async def prepare(self, hosts: str) -> None:
        """Make what the containers need."""
        ...

    @property
    def has_payloads(self) -> bool:
        """Whether there are files that can change while the pod runs."""
        ...

    async def refresh(self, now: float) -> None:
        """Bring those files up to date."""
        ...

    def write_hosts(self, text: str) -> None:
        """Bring ``/etc/hosts`` up to date."""
        ...

    def launch(self, container: Container, attempt: int) -> tuple[Launch, bool]:
        """Decide how a container is run."""
        ...

    def last_attempt(self, container: str) -> int:
        """Return the newest run of a container on disk, -1 before the first."""
        ...

    def attempt(self, container: str, number: int) -> str:
        """Return the directory of a run."""
        ...

    def drop_attempt(self, container: str, number: int) -> None:
        """Forget an old run."""
        ...

    def oom_killed(self, container: str) -> bool:
        """Return whether the kernel killed something of it for lack of memory."""
        ...

    def termination_message(self, container: Container, number: int, *, failed: bool) -> str:
        """Return the container's termination message."""
        ...

    def unenforced_limits(self, container: Container) -> list[str]:
        """Return which limits of a container that was launched the kernel does not hold it to."""
        ...

    def note_substitution(self) -> None:
        """Count a container that runs on the machine's root instead of its image."""
        ...

    def give_back_gpus(self) -> None:
        """Let other pods have its GPUs."""
        ...

    async def release(self) -> None:
        """Let go of the machine's resources."""
        ...


class PodWorker:
    """Runs one pod.

    Args:
        pod: As bound.
        record: Its record, fresh or from its status.
        hosts: Returns the content of ``/etc/hosts`` now.
        submit: Asks for the status to be written.
        confirm: Returns when what the watch showed of the pod is committed; awaited before its processes start, and
            before a deletion ends them.
        event: Records events.
        refresh_seconds: Between two looks at what the pod's files should be.
    """

    def __init__(
        self,
        pod: Pod,
        record: PodRecord,
        sandbox: Sandbox,
        runtime: Runtime,
        clock: Clock,
        *,
        hosts: Callable[[], str],
        submit: Callable[[PodWorker], None],
        confirm: Callable[[], Awaitable[None]],
        event: ReportEvent,
        backoff: Backoff | None = None,
        refresh_seconds: float = REFRESH_SECONDS,
    ) -> None:
        self.pod = pod
        self.namespace = pod.metadata.namespace
        self.name = pod.metadata.name
        self.uid = pod.metadata.uid
        self.record = record
        self.sandbox = sandbox
        self._runtime = runtime
        self._clock = clock
        self._hosts = hosts
        self._submit = submit
        self._confirm = confirm
        self._event = event
        self._backoff = backoff or Backoff()
        self._refresh_seconds = refresh_seconds
        self._runs: dict[str, Run] = {}
        self._terminating = asyncio.Event()
        self._evicted = asyncio.Event()
        self._grace_seconds = float(pod.spec.termination_grace_period_seconds)
        self.stopped = False
        """Whether all processes of a deleted pod have ended: the API object may be removed."""
        self._is_released = False
        self._is_lost = False
        """Whether containers that its status tells of are gone without a trace."""
        self.ended = asyncio.Event()
        """Set when all its processes have ended and its last status waits to be written."""

    @property
    def is_terminating(self) -> bool:
        """Whether it is being ended and what it wrote is still there."""
        return (self._terminating.is_set() or self._evicted.is_set()) and not self._is_released

    def next_write(self, now: float) -> dict[str, Any] | None:
        """Return the status to write; None deletes the pod."""
        return None if self.stopped else pod_status(self.record, now)

    def terminate(self, grace_seconds: float) -> None:
        """End the pod: it was deleted. A later, shorter grace is not honoured once ending has begun."""
        if not self._terminating.is_set():
            self._grace_seconds = grace_seconds
            self._terminating.set()

    def evict(self, message: str) -> None:
        """End the pod soon, which uses more of the machine than it may; its status and an event say why."""
        if not (self._evicted.is_set() or self._terminating.is_set() or self._is_over()):
            self._event("Warning", "Evicted", message)
            self._disrupt("Evicted", message, EVICTION_GRACE_SECONDS)

    def shut_down(self, grace_seconds: float) -> bool:
        """End the pod as a kubelet whose node is shut down; return whether it is a pod that has begun and not ended."""
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
        """Run the pod; returns when it is finished or, if deleted, when all its processes have ended."""
        await self._confirm()
        serving = asyncio.create_task(self._serve(), name=f"pod {self.namespace}/{self.name}")
        ends = [asyncio.create_task(event.wait()) for event in (self._terminating, self._evicted)]
        try:
            await asyncio.wait({serving, *ends}, timeout=self._deadline_left(), return_when=asyncio.FIRST_COMPLETED)
            if serving.done():
                serving.result()
            elif not (self._terminating.is_set() or self._evicted.is_set()):
                self.record.reason = "DeadlineExceeded"
                self.record.message = "Pod was active on the node longer than the specified deadline"
                self._event("Warning", "DeadlineExceeded", self.record.message)
        finally:
            for task in (serving, *ends):
                task.cancel()
            await asyncio.gather(serving, *ends, return_exceptions=True)
        if self._terminating.is_set():
            await self._confirm()
        await self._stop_all()
        await self._release()
        self.stopped = self._terminating.is_set()
        self._submit(self)
        self.ended.set()

    async def wait_deleted(self) -> None:
        """After `run`, wait for the deletion of a finished pod."""
        await self._terminating.wait()
        self.stopped = True
        self._submit(self)

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
        refused = self.sandbox.refusal()
        if refused is not None:
            self.record.reason, self.record.message = refused.reason, f"Pod was rejected: {refused.message}"
            self._event("Warning", refused.reason, refused.message)
            return
        self._submit(self)
        await self._prepare()
        specs = (*self.pod.spec.init_containers, *self.pod.spec.containers)
        pairs = list(zip(self.record.containers, specs, strict=True))
        beside: list[asyncio.Task[None]] = []
        if self.sandbox.has_payloads:
            beside.append(asyncio.create_task(self._refresh()))
        try:
            for record, spec in pairs:
                if not record.init:
                    continue
                if record.sidecar:
                    begun = asyncio.Event()
                    beside.append(asyncio.create_task(self._run(record, spec, begun)))
                    await begun.wait()
                else:
                    await self._run(record, spec)
                    if not record.succeeded:
                        return
            await asyncio.gather(*(self._run(record, spec) for record, spec in pairs if not record.init))
        finally:
            for task in beside:
                task.cancel()
            await asyncio.gather(*beside, return_exceptions=True)

    async def _prepare(self) -> None:
        while True:
            try:
                await self.sandbox.prepare(self._hosts())
            except (ConfigProblem, RuntimeProblem, OSError) as err:
                self._event(
                    "Warning", "FailedMount" if isinstance(err, ConfigProblem) else "FailedCreatePodSandBox", str(err)
                )
                await self._clock.sleep(CONFIG_RETRY_SECONDS)
            else:
                self.record.pod_ip = self.sandbox.ip
                return

    async def _refresh(self) -> None:
        """Keep mounted files new; what cannot be read stays as it is and is reported once."""
        reported = ""
        while True:
            await self._clock.sleep(self._refresh_seconds)
            try:
                await self.sandbox.refresh(self._clock.monotonic())
                reported = ""
            except (ConfigProblem, ApiError, OSError) as err:
                if reported != str(err):
                    reported = str(err)
                    self._event("Warning", "FailedMount", f"the files of the volumes stay as they are: {err}")

    async def _run(self, record: ContainerRecord, spec: Container, begun: asyncio.Event | None = None) -> None:
        """Run a container until it need not run again."""
        policy = ALWAYS if record.sidecar else self.record.restart_policy
        if record.init and not record.sidecar and policy == ALWAYS:
            policy = "OnFailure"  # an init container that passed does not run again
        attempt = max(0, self.sandbox.last_attempt(spec.name))
        if self._is_lost and (record.ending is not None or record.last is not None):
            if not record.init and record.ending is not None and not should_restart(policy, record.ending.exit_code):
                return
            attempt = record.restart_count + 1
        wait = 0.0
        while True:
            ended = await self._run_once(record, spec, attempt, begun)
            if not should_restart(policy, ended.exit_code):
                if self._is_over():  # the next pod may arrive before this one is cleaned up
                    self.sandbox.give_back_gpus()
                self._submit(self)
                return
            wait = self._backoff.next_wait(wait, ended.finished_at - ended.started_at)
            await self._back_off(record, spec, wait)
            attempt += 1
            self.sandbox.drop_attempt(spec.name, attempt - _KEPT_ATTEMPTS)

    def _is_over(self) -> bool:
        return phase_of(self.record) in _OVER and all(run.ended.done() for run in self._runs.values())

    async def _back_off(self, record: ContainerRecord, spec: Container, wait: float) -> None:
        pod_ref = f"{self.name}_{self.namespace}({self.uid})"
        self._submit(self)
        self._event("Warning", "BackOff", f"Back-off restarting failed container {spec.name} in pod {pod_ref}")
        message = f"back-off {wait:g}s restarting failed container={spec.name} pod={pod_ref}"
        record.wait(CRASH_LOOP, message)
        self._submit(self)
        await self._clock.sleep(wait)

    async def _run_once(
        self, record: ContainerRecord, spec: Container, attempt: int, begun: asyncio.Event | None
    ) -> Ended:
        directory = self.sandbox.attempt(spec.name, attempt)
        record.restart_count = attempt
        run = self._runtime.adopt(directory)
        if run is None:
            run = self._runs[spec.name] = await self._launch(record, spec, attempt)
            await self._post_start(spec, run)
        self._runs[spec.name] = run
        container_id = f"strato://{self.uid}-{spec.name}-{attempt}"
        prober = Prober(
            self._runtime,
            self._clock,
            run,
            record,
            spec,
            self.sandbox.ip,
            lambda: self._submit(self),
            self._event,
        )
        if not (run.ended.done() and run.ended.result().never_started):
            record.run(run.started_at, container_id, ready=False)
            record.started, record.ready = prober.first_verdict()
        self._submit(self)
        if begun is not None:
            begun.set()
        probing = asyncio.create_task(prober.run())
        try:
            ended = await asyncio.shield(run.ended)
        finally:
            probing.cancel()
            await asyncio.gather(probing, return_exceptions=True)
        record.end(self._ending(spec, attempt, container_id, ended))
        return ended

    async def _launch(self, record: ContainerRecord, spec: Container, attempt: int) -> Run:
        """Start the container's process; waits as long as something it needs is missing."""
        reported = ""
        while True:
            try:
                launch, substituted = self.sandbox.launch(spec, attempt)
                run = await self._runtime.start(launch)
            except (ConfigProblem, RuntimeProblem, OSError) as err:
                reason = "CreateContainerConfigError"
                if isinstance(err, ImageMissing):
                    reason = "ErrImageNeverPull"
                elif not isinstance(err, ConfigProblem):
                    reason = "CreateContainerError"
                record.wait(reason, str(err))
                self._submit(self)
                if reported != str(err):
                    reported = str(err)
                    self._event("Warning", reason if reason == "ErrImageNeverPull" else "Failed", f"Error: {err}")
                await self._clock.sleep(CONFIG_RETRY_SECONDS)
                continue
            record.image_id = launch.base or "strato/host"
            self._report_start(spec, run, substituted)
            return run

    def _report_start(self, spec: Container, run: Run, substituted: bool) -> None:
        if substituted:
            self.sandbox.note_substitution()
            message = f"Image {spec.image!r} is not in the local store; container {spec.name} runs on strato/host"
            self._event("Normal", "ImageSubstituted", message)
        else:
            self._event("Normal", "Pulled", f"Container image {spec.image!r} already present on machine")
        self._event("Normal", "Created", f"Created container: {spec.name}")
        if run.ended.done() and run.ended.result().never_started:
            self._event("Warning", "Failed", f"Error: {run.ended.result().error}")
        else:
            self._event("Normal", "Started", f"Started container {spec.name}")
        unenforced = self.sandbox.unenforced_limits(spec)
        if unenforced:
            message = f"Container {spec.name}: this node does not enforce its limit of {' and '.join(unenforced)}"
            self._event("Warning", "LimitsNotEnforced", message)

    def _ending(self, spec: Container, attempt: int, container_id: str, ended: Ended) -> Ending:
        reason = COMPLETED if ended.exit_code == 0 else ERROR
        if ended.never_started:
            reason = "StartError"
        elif ended.exit_code == 137 and self.sandbox.oom_killed(spec.name):
            reason = OOM_KILLED
        return Ending(
            exit_code=ended.exit_code,
            reason=reason,
            started_at=ended.started_at,
            finished_at=ended.finished_at,
            signal=ended.signal,
            message=ended.error[:MESSAGE_BYTES]
            or self.sandbox.termination_message(spec, attempt, failed=ended.exit_code != 0),
            container_id=container_id,
        )

    # Ending

    async def _stop_all(self) -> None:
        """End what still runs, the containers proper first, the sidecars after them in reverse order."""
        self._find_left_over()
        records = self.record.containers
        mains = [r for r in records if not r.init and self._is_running(r)]
        await asyncio.gather(*(self._stop(record) for record in mains))
        for record in [r for r in records if r.init and self._is_running(r)][::-1]:
            await self._stop(record)

    def _find_left_over(self) -> None:
        """Find processes from before a restart that have not been adopted yet."""
        for record in self.record.containers:
            attempt = self.sandbox.last_attempt(record.name)
            if record.name not in self._runs and attempt >= 0:
                run = self._runtime.adopt(self.sandbox.attempt(record.name, attempt))
                if run is not None:
                    self._runs[record.name] = run

    def _is_running(self, record: ContainerRecord) -> bool:
        run = self._runs.get(record.name)
        return run is not None and not run.ended.done()

    async def _stop(self, record: ContainerRecord) -> None:
        run = self._runs[record.name]
        self._event("Normal", "Killing", f"Stopping container {record.name}")
        left = self._grace_seconds - await self._pre_stop(record, run)
        if left > 0:
            self._runtime.signal(run, kill=False)
        if not await _ends_within(run, left):
            self._runtime.signal(run, kill=True)
            await _ends_within(run, KILL_TIMEOUT_SECONDS)
        if not run.ended.done():
            _log.warning("a container cannot be killed: pod=%s/%s container=%s", self.namespace, self.name, record.name)
            return
        specs = (*self.pod.spec.init_containers, *self.pod.spec.containers)
        spec = next(s for s in specs if s.name == record.name)
        record.end(self._ending(spec, record.restart_count, record.container_id, run.ended.result()))

    async def _pre_stop(self, record: ContainerRecord, run: Run) -> float:
        """Run the preStop hook; return the seconds it took."""
        specs = (*self.pod.spec.init_containers, *self.pod.spec.containers)
        spec = next(s for s in specs if s.name == record.name)
        hook = spec.lifecycle.pre_stop if spec.lifecycle is not None else None
        if hook is None or self._grace_seconds <= 0:
            return 0.0
        began = self._clock.monotonic()
        await self._hook(hook, spec, run, "PreStop", self._grace_seconds)
        return self._clock.monotonic() - began

    async def _post_start(self, spec: Container, run: Run) -> None:
        """Run the postStart hook; a container whose hook fails is ended."""
        hook = spec.lifecycle.post_start if spec.lifecycle is not None else None
        if hook is None or run.ended.done():
            return
        if not await self._hook(hook, spec, run, "PostStart", NO_LIMIT_SECONDS):
            self._event("Normal", "Killing", f"FailedPostStartHook: container {spec.name} is stopped")
            self._runtime.signal(run, kill=False)
            if not await _ends_within(run, self._grace_seconds):
                self._runtime.signal(run, kill=True)

    async def _hook(self, hook: LifecycleHandler, spec: Container, run: Run, kind: str, seconds: float) -> bool:
        try:
            await run_hook(
                hook,
                spec,
                run,
                runtime=self._runtime,
                address=self.sandbox.ip,
                timeout_seconds=seconds,
            )
        except HookFailed as err:
            self._event("Warning", f"Failed{kind}Hook", f"{kind}Hook failed: {err}")
            return False
        return True


async def _ends_within(run: Run, seconds: float) -> bool:
    if not run.ended.done() and seconds > 0:
        await asyncio.wait({run.ended}, timeout=seconds)
    return run.ended.done()
