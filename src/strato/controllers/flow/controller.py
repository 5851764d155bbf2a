"""The JobFlow controller: create the jobs whose dependencies are met, and write the flow's status.

Source: volcano-controllers Part F.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any, ClassVar, Final

from strato.api import catalog
from strato.api.core import Pod
from strato.api.meta import Key
from strato.api.volcano.batch import Job, TaskSpec
from strato.api.volcano.flow import Flow, JobFlow, JobTemplate, WaitingStep
from strato.client.informer import Change, Informer
from strato.client.retry import is_server_error
from strato.controllers.context import ControllerContext
from strato.controllers.flow import build, conditions, probes
from strato.controllers.flow import status as statuses
from strato.controllers.flow.heldsteps import HeldSteps
from strato.controllers.flow.probes import NetworkProber, Target
from strato.controllers.ownwrites import OwnWrites
from strato.controllers.reconcile import KeyedController
from strato.errors import AlreadyExists, Conflict, NotFound, StratoError

SYNC_JOB_FLOW: Final = "SyncJobFlow"
STEP_WAITING: Final = "StepWaiting"
_DELETE: Final = "delete"

DEBOUNCE_SECONDS: Final = 0.02
"""Delay before a pass, so that jobs of a flow that change together cause one; a pass reads all jobs of the flow."""


class FlowError(StratoError):
    """A step of a flow cannot be made."""


def index_created_by(jobs: Informer[Job], label: str) -> str:
    """Index jobs by a label that says what they were made from; returns the index' name."""

    def values(job: Job) -> Iterable[str]:
        value = job.metadata.label(label)
        return (value,) if value else ()

    jobs.add_index(label, values)
    return label


class JobFlowController(KeyedController):
    """See the module."""

    name: ClassVar[str] = "jobflow-controller"
    workers: ClassVar[int] = 4

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._prober = NetworkProber()
        self._max_requeue = context.settings.max_requeue
        self._written: OwnWrites[JobFlow] = OwnWrites()
        label = ("jobflow_namespace",)
        self._ended = {
            statuses.SUCCEED: context.metrics.counter(
                "volcano_jobflow_succeed_phase_count", "Flows that succeeded", label, plain=True
            ),
            statuses.FAILED: context.metrics.counter(
                "volcano_jobflow_failed_phase_count", "Flows that failed", label, plain=True
            ),
        }
        self._flows = context.informers.informer(JobFlow)
        self._templates = context.informers.informer(JobTemplate)
        self._jobs = context.informers.informer(Job)
        self._pods = context.informers.informer(Pod)
        self._conditions = conditions.Conditions(
            self._cluster, self._prober, self._pods.get, context.settings.flow_probe_image
        )
        self._held = HeldSteps()
        self._by_flow = index_created_by(self._jobs, build.CREATED_BY_FLOW)
        self._flows.add_index("template", _templates_of)
        self._flows.add_handler(self._on_flow)
        self._templates.add_handler(self._on_template)
        self._jobs.add_handler(self._on_job, among=lambda changes: changes if len(self._flows) else ())
        self._pods.add_owned_handler(catalog.JOBFLOW, self._on_pod)

    # Events

    def _on_pod(self, change: Change[Pod]) -> None:
        """Queue the flow that owns a pod which has ended: such a pod has checked a claim."""
        owner = change.object.metadata.controller
        if owner is not None and (change.new is None or change.new.is_finished):
            self.queue.add(Key(change.key.namespace, owner.name))

    def _on_flow(self, change: Change[JobFlow]) -> None:
        old, new = change.old, change.new
        if new is None:
            self._written.forget(change.key)
            self._held.forget(change.key)
        elif (
            old is None
            or old.metadata.generation != new.metadata.generation
            or (old.status.state.phase != new.status.state.phase and new.status.state.phase == statuses.SUCCEED)
        ):
            self.queue.add(change.key)

    def _on_template(self, change: Change[JobTemplate]) -> None:
        if change.old is None and change.new is not None:
            for flow in self._flows.index("template", str(change.key)):
                self.queue.add(flow.key)

    def _on_job(self, change: Change[Job]) -> None:
        owner = change.object.metadata.controller
        if owner is None or (owner.api_version, owner.kind) != (build.FLOW_API_VERSION, build.FLOW_KIND):
            return
        if change.old is None or change.new is None or change.old.status != change.new.status:
            self.queue.add_after(Key(change.key.namespace, owner.name), DEBOUNCE_SECONDS)

    # Work

    async def reconcile(self, key: Key) -> float | None:
        """Create the jobs whose conditions hold, write the status; returns the seconds until the next check, if any."""
        flow = self._written.newest(key, self._flows.get(key))
        if flow is None or flow.metadata.deletion_timestamp is not None or flow.status.state.phase in statuses.TERMINAL:
            return None
        try:
            return await self._sync(flow)
        except Conflict:
            raise
        except StratoError as error:
            if is_server_error(error) or not 0 <= self._max_requeue <= self.queue.failures(key):
                raise
            self._recorder.event(flow, "Warning", SYNC_JOB_FLOW, f"{SYNC_JOB_FLOW} failed: {error}")
            return None

    async def _sync(self, flow: JobFlow) -> float | None:
        jobs = self._jobs_of(flow)
        if flow.status.state.phase == statuses.SUCCEED and flow.spec.job_retain_policy == _DELETE:
            await self._delete_all(jobs)
            return None
        waits_for_probe, failure, waiting = False, None, list[WaitingStep]()
        try:
            waits_for_probe = await self._deploy(flow, jobs, waiting)
        except StratoError as error:  # the status is written even when a step's job cannot be created
            failure = error
        self._report(flow, waiting)
        await self._write_status(flow, self._jobs_of(flow), waiting)
        if failure is not None:
            raise failure
        delays = [self._held.wait_seconds(flow.key, step.name, self.clock.now()) for step in waiting]
        return min([*delays, *((probes.PROBE_PERIOD_SECONDS,) if waits_for_probe else ())], default=None)

    def _report(self, flow: JobFlow, waiting: Sequence[WaitingStep]) -> None:
        """Record an event for each step that begins to wait, or whose message has changed."""
        for step in waiting:
            if step not in flow.status.waiting_steps:
                self._recorder.event(flow, "Normal", STEP_WAITING, f"step {step.name} waits: {step.message}")

    def _jobs_of(self, flow: JobFlow) -> list[Job]:
        """Return the flow's jobs, without those of a deleted flow that had the same name."""
        origin = f"{flow.metadata.namespace}.{flow.metadata.name}"
        return [
            job
            for job in self._jobs.index(self._by_flow, origin)
            if (owner := job.metadata.controller) is not None and owner.uid == flow.metadata.uid
        ]

    async def _delete_all(self, jobs: Sequence[Job]) -> None:
        for job in jobs:
            if job.metadata.deletion_timestamp is not None:
                continue
            with suppress(NotFound):
                await self._cluster.delete(
                    Job, job.metadata.name, job.metadata.namespace, uid=job.metadata.uid, propagation="Background"
                )

    async def _deploy(self, flow: JobFlow, jobs: Sequence[Job], waiting: list[WaitingStep]) -> bool:
        """Create the jobs whose dependencies are met; returns whether some step waits for a network probe of pods.

        Steps whose targets are ready and whose other conditions do not hold are added to ``waiting``.
        """
        by_name = {job.metadata.name: job for job in jobs}
        completed = statuses.remembered_completed(flow.status) | {
            job.metadata.name for job in jobs if statuses.is_completed(job)
        }
        waits_for_probe = False
        for step in flow.spec.flows:
            name = build.step_job_name(flow.metadata.name, step.name)
            if name in by_name or name in completed:
                continue
            if not await self._may_start(flow, step, by_name, completed):
                waits_for_probe = waits_for_probe or _asks_pods(step)
            elif unmet := await self._unmet(flow, step):
                waiting.append(WaitingStep(name=step.name, message=unmet))
            else:
                await self._create(flow, step)
                await self._clear(flow, step)
        return waits_for_probe

    async def _unmet(self, flow: JobFlow, step: Flow) -> str:
        """Return which conditions besides the targets a step still waits for; empty when all hold."""
        probe = step.depends_on.probe if step.depends_on is not None else None
        if probe is None or not conditions.has_conditions(probe):
            return ""
        due = self._held.is_due(flow.key, step.name, self.clock.now())
        unmet = await self._conditions.unmet(flow, step.name, probe, look_again=due)
        if unmet and due:
            self._held.note(flow.key, step.name, self.clock.now())
        return "; ".join(unmet)

    async def _clear(self, flow: JobFlow, step: Flow) -> None:
        self._held.forget(flow.key, step.name)
        if step.depends_on is not None and step.depends_on.probe is not None:
            await self._conditions.clear(flow, step.name, step.depends_on.probe)

    async def _may_start(self, flow: JobFlow, step: Flow, jobs: dict[str, Job], completed: frozenset[str]) -> bool:
        depends = step.depends_on
        for target in depends.targets if depends is not None else ():
            name = build.step_job_name(flow.metadata.name, target)
            if name in completed:
                continue
            job = jobs.get(name)
            if job is None or depends is None or depends.probe is None:
                return False
            if not await probes.is_ready(Target(job, self._finder(job)), depends.probe, self._prober):
                return False
        return True

    def _finder(self, job: Job) -> Any:
        def pods_of(task: TaskSpec) -> list[Pod]:
            meta = job.metadata
            found = (self._pods.get((meta.namespace, f"{meta.name}-{task.name}-{i}")) for i in range(task.replicas))
            return [pod for pod in found if pod is not None]

        return pods_of

    async def _create(self, flow: JobFlow, step: Flow) -> None:
        meta = flow.metadata
        try:
            template = await self._cluster.get(catalog.JOBTEMPLATE, step.name, meta.namespace)
        except NotFound:
            raise FlowError(f"JobTemplate {meta.namespace}/{step.name} of the flow {meta.name} is not found") from None
        body = build.step_job(flow, step.name, template.get("spec") or {}, await self._patch_of(flow, step))
        name = body["metadata"]["name"]
        try:
            await self._cluster.create(catalog.VCJOB, body, meta.namespace)
        except AlreadyExists:
            present = await self._cluster.get(Job, name, meta.namespace)
            owner = present.metadata.controller
            if owner is None or owner.uid != meta.uid:
                raise FlowError(f"job {meta.namespace}/{name} exists but does not belong to the flow") from None
        else:
            self._recorder.event(flow, "Normal", "Created", f"create a job named {name}!")

    async def _patch_of(self, flow: JobFlow, step: Flow) -> dict[str, Any] | None:
        if step.patch is None:
            return None
        whole = await self._cluster.get(catalog.JOBFLOW, flow.metadata.name, flow.metadata.namespace)
        for one in whole["spec"].get("flows") or ():
            if one.get("name") == step.name:
                patch: dict[str, Any] | None = (one.get("patch") or {}).get("jobSpec")
                return patch
        return None

    async def _write_status(self, flow: JobFlow, jobs: Sequence[Job], waiting: Sequence[WaitingStep]) -> None:
        names = [build.step_job_name(flow.metadata.name, step.name) for step in flow.spec.flows]
        status = statuses.flow_status(flow, jobs, names, self.clock.now(), waiting)
        if statuses.same_status(flow.status, status):
            return
        meta, phase = flow.metadata, status["state"]["phase"]
        body = {
            "metadata": {"resourceVersion": meta.resource_version},
            "status": statuses.as_changes(flow.status, status),
        }
        try:
            written = await self._cluster.patch(JobFlow, meta.name, meta.namespace, body, subresource="status")
        except NotFound:
            return
        if flow.key in self._flows:
            self._written.note(written)
        if phase != flow.status.state.phase and phase in self._ended:
            self._ended[phase].labels(meta.namespace).inc()


def _asks_pods(step: Flow) -> bool:
    """Return whether a step has network probes of its targets' pods: no watch event shows when these would succeed."""
    probe = step.depends_on.probe if step.depends_on is not None else None
    if probe is None:
        return False
    return bool(probe.tcp_socket_list) or any(not entry.service_name for entry in probe.http_get_list)


def _templates_of(flow: JobFlow) -> list[str]:
    return sorted({str(Key(flow.metadata.namespace, step.name)) for step in flow.spec.flows})
