"""`TrainingController`: reads the objects of a training job, lets `plan` decide, and writes.

It writes the status before it creates or deletes anything, so that the status records how pods ended before they are
gone, and so that a controller which stops between two writes plans the remaining ones again. There is one controller
for each kind, so that each can be switched on and off.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

import msgspec

from strato.api import catalog
from strato.api.batch import Job
from strato.api.core import Pod
from strato.api.frameworks import LAUNCHER, JobShape, is_ours, is_run_as
from strato.api.kubeflow import TrainingJob, TrainingJobStatus
from strato.api.meta import Json, Key
from strato.api.scheduling import PriorityClass
from strato.api.volcano.scheduling import PodGroup, PodGroupSpec
from strato.client.cluster import PatchType
from strato.client.informer import Change
from strato.client.workqueue import WorkQueue, run_workers
from strato.controllers.context import ControllerContext
from strato.controllers.kube.ownedpods import OwnedPods
from strato.controllers.ownwrites import OwnWrites
from strato.controllers.training import bodies, gang
from strato.controllers.training.adapters import Adapter
from strato.controllers.training.companions import CompanionOfOthers, Companions
from strato.controllers.training.foreign import ForeignOperator
from strato.controllers.training.mpi.launcher import Launchers
from strato.controllers.training.record import Gang, LauncherPlan, Replica, TrainingPlan, TrainingRecord
from strato.controllers.training.services import OwnedServices
from strato.controllers.training.telemetry import TrainingMetrics
from strato.errors import AlreadyExists, NotFound, StratoError

_log = logging.getLogger(__name__)

_WORKERS: Final = 8


class GroupOfOthers(StratoError):
    """A PodGroup with the name of the job has another owner."""

    def __init__(self, key: Key) -> None:
        self.key = key
        super().__init__(f"the PodGroup {key} belongs to something else; rename the job or delete the PodGroup")


class TrainingController:
    """Runs the jobs of one kind.

    Args:
        context: The context of all controllers.
        adapter: The kind of job.
    """

    def __init__(self, context: ControllerContext, adapter: Adapter) -> None:
        self._adapter = adapter
        self._framework = adapter.framework
        self._cluster, self._clock, self._recorder = context.cluster, context.clock, context.recorder
        self._renderer = adapter.renderer(context.settings.training)
        options = context.settings.training
        self._scheduler = options.scheduler
        gangs = Gang(
            scheduler=options.scheduler,
            priority_of=self._priority_of,
            enforces_timeout=options.enforces_schedule_timeout,
        )
        self._gang = gangs if options.scheduler else None
        self._operator = ForeignOperator(
            context.cluster, context.clock, self.name, self._framework.manager, self._recorder
        )
        self._metrics = TrainingMetrics(context.metrics, adapter.framework)
        kind, informers = adapter.framework.kind, context.informers
        self._queue: WorkQueue[Key] = WorkQueue(context.clock)
        self._jobs = informers.informer(kind.view)
        self._groups = informers.informer(PodGroup)
        self._priorities = informers.informer(PriorityClass)
        self._pods = OwnedPods(context, kind, self._queue.add_after, adopts=False)
        self._companions = Companions(context.cluster, kind)
        self._companions_of = adapter.companions_of(context.settings.training)
        self._launchers = Launchers(context, self._queue.add) if kind is catalog.MPIJOB else None
        self._services = OwnedServices(context.cluster, informers, kind, self._queue.add)
        self._written: OwnWrites[TrainingJob] = OwnWrites()
        self._decided: dict[Key, tuple[str, TrainingJobStatus]] = {}
        """The resource version of the last status write and the status that was sent.

        The API's answer may lack some of it: a server with Kubeflow's definitions drops the fields that are ours.
        """
        self._reported: dict[str, set[Any]] = {}
        """Observations that have been reported, by uid of the job."""
        self._groups.add_owned_handler(kind, self._on_group)
        self._jobs.add_handler(self._on_job)

    @property
    def name(self) -> str:
        """The name by which the controller is switched on and off."""
        return self._framework.controller

    async def run(self) -> None:
        """Work until cancelled; does nothing while Kubeflow's own operator runs."""
        await self._operator.run_beside(
            partial(run_workers, self._queue, self._reconcile_ours, _WORKERS, name=self.name)
        )

    async def _reconcile_ours(self, key: Key) -> float | None:
        if not self._operator.is_running:
            return await self.reconcile(key)
        job: Any = self._jobs.get(key)
        return self._operator.leave(job if job is not None and self._is_ours(job) else None)

    def _on_job(self, change: Change[Any]) -> None:
        if change.new is not None:
            self._queue.add(change.key)
            return
        uid = change.object.metadata.uid
        self._metrics.deleted(change.key.namespace)
        self._written.forget(change.key)
        self._decided.pop(change.key, None)
        self._reported.pop(uid, None)
        self._services.forget(uid)
        self._operator.forget(uid)
        self._companions.forget(uid)
        if self._launchers is not None:
            self._launchers.forget(uid)

    def _on_group(self, change: Change[PodGroup]) -> None:
        owner = change.object.metadata.controller
        assert owner is not None, "handlers get owned groups only"
        self._queue.add(Key(change.key.namespace, owner.name))

    async def reconcile(self, key: Key) -> float | None:
        """Take the next step of one job; returns the seconds until one is due by time, if any."""
        job: TrainingJob | None = self._written.newest(key, self._jobs.get(key))  # type: ignore[arg-type] # the view is that of the kind
        if job is None or job.metadata.deletion_timestamp is not None or not self._is_ours(job):
            return None
        record = self._record(job)
        planned = self._adapter.plan(record)
        await self._apply(record, planned)
        return planned.again_seconds

    def _is_ours(self, job: TrainingJob) -> bool:
        framework = self._framework
        return is_run_as(framework, job) and is_ours(job.spec.run_policy.managed_by, framework.manager)

    def _refuse(self, job: TrainingJob, error: StratoError) -> StratoError:
        """Record a warning event that an object of another owner has a name that the job needs."""
        self._recorder.event(job, "Warning", "ErrResourceExists", str(error))
        return error

    def _record(self, job: TrainingJob) -> TrainingRecord:
        uid = job.metadata.uid
        pods = self._pods.all_of(uid)
        group = self._groups.get(job.key)
        holder = group.metadata.controller if group is not None else None
        is_other = holder is not None and holder.uid != uid
        if is_other and self._scheduler:
            raise self._refuse(job, GroupOfOthers(job.key))
        shape = JobShape.of(self._framework, job)
        launcher: Job | None = None
        launcher_pods: Sequence[Pod] = ()
        if self._launchers is not None:
            try:
                launcher, launcher_pods = self._launchers.of(shape, job.metadata)
            except CompanionOfOthers as error:
                raise self._refuse(job, error) from None
        return TrainingRecord(
            framework=self._framework,
            judge=self._adapter.judge,
            job=job,
            shape=shape,
            pods=pods,
            terminating=frozenset(pod.metadata.uid for pod in pods if self._pods.is_terminating(pod)),
            services=self._services.all_of(uid),
            group=group,
            gang=self._gang,
            now=self._clock.now(),
            companions_of=self._companions_of,
            while_it_runs=self._adapter.while_it_runs,
            launcher=launcher,
            launcher_pods=launcher_pods,
        )

    def _priority_of(self, name: str) -> int:
        found = self._priorities.get(Key("", name)) if name else None
        return found.value if found is not None else 0

    async def _apply(self, record: TrainingRecord, planned: TrainingPlan) -> None:
        """Write the plan, in an order in which a crash between any two writes does no harm."""
        job, meta = record.job, record.job.metadata
        if planned.group is not None:
            await self._ensure_group(record, planned.group)
        if planned.status is not None:
            await self._write_status(job, planned.status)
            self._metrics.written(meta.namespace, job.status, planned.status)
        for event in planned.events:
            self._recorder.event(job, event.type, event.reason, event.message)
        reported = self._reported.setdefault(meta.uid, set())
        for event in planned.observations:
            if event not in reported:
                reported.add(event)
                self._recorder.event(job, event.type, event.reason, event.message)
        if planned.problem:
            _log.warning("a training job cannot be handled: job=%s problem=%s", job.key, planned.problem)
        if planned.delete_group and record.group is not None:
            await self._delete(catalog.PODGROUP, record.group.metadata.name, record.group.metadata.uid, meta.namespace)
        await self._pods.delete(meta.uid, planned.delete_pods)
        await self._services.delete(meta.uid, planned.delete_services)
        for kind in planned.delete_companions:
            await self._companions.remove(meta, kind, look=record.shape.is_elastic)
        if planned.companions:
            try:
                await self._companions.ensure(meta, planned.companions)
            except CompanionOfOthers as error:
                raise self._refuse(job, error) from None
        if planned.create_services:
            made = [bodies.service(record.shape, meta, replica) for replica in planned.create_services]
            await self._services.create(meta, made)
        if planned.create_pods or planned.launch is not None:
            await self._create_pods(record, planned.create_pods, planned.launch)
        if planned.delete_job:
            await self._delete(self._framework.kind, meta.name, meta.uid, meta.namespace)

    async def _ensure_group(self, record: TrainingRecord, wanted: PodGroupSpec) -> None:
        shape, job = record.shape, record.job
        if record.group is None:
            try:
                await self._cluster.create(PodGroup, gang.body(shape, job, wanted), shape.namespace)
            except AlreadyExists:
                return  # the watch will show it
        elif (patch := gang.patch(record.group, wanted)) is not None:
            await self._cluster.patch(PodGroup, shape.name, shape.namespace, patch)

    async def _write_status(self, job: TrainingJob, status: TrainingJobStatus) -> None:
        meta = job.metadata
        if self._decided.get(job.key) == (meta.resource_version, status):
            return
        patch = [
            {"op": "test", "path": "/metadata/uid", "value": meta.uid},
            {"op": "add", "path": "/status", "value": msgspec.to_builtins(status)},
        ]
        written: TrainingJob = await self._cluster.patch(
            self._framework.kind.view,  # type: ignore[arg-type] # every kind's view is a TrainingJob
            meta.name,
            meta.namespace,
            patch,
            patch_type=PatchType.JSON,
            subresource="status",
        )
        self._decided[job.key] = written.metadata.resource_version, status
        if job.key in self._jobs:
            self._written.note(written)

    async def _create_pods(self, record: TrainingRecord, wanted: list[Replica], launch: LauncherPlan | None) -> None:
        shape, meta = record.shape, record.job.metadata
        whole: Json = await self._cluster.get(self._framework.kind, meta.name, meta.namespace)
        if whole["metadata"]["uid"] != meta.uid:
            return
        templates = _templates(whole["spec"].get(self._framework.replica_map) or {})
        # roles that are gone since the plan was made have no template
        made = [
            self._renderer.pod(shape, meta, templates[role], replica)
            for replica in wanted
            if (role := replica.role.lower()) in templates
        ]
        await self._pods.create(meta, made)
        template = templates.get(LAUNCHER.lower())
        if launch is not None and template is not None and self._launchers is not None:
            await self._launchers.apply(shape, meta, template, launch)

    async def _delete(self, kind: Any, name: str, uid: str, namespace: str) -> None:
        try:
            await self._cluster.delete(kind, name, namespace, uid=uid, propagation="Background")
        except NotFound:
            return


def _templates(replicas: Mapping[str, Json | None]) -> Mapping[str, Json]:
    """Return templates by role in lower case; if a role occurs in several spellings the first counts."""
    found: dict[str, Json] = {}
    for role, replica in replicas.items():
        if replica is not None:
            found.setdefault(role.lower(), replica.get("template") or {})
    return found
