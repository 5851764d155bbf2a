"""`TrainJobController`: reads the objects of a TrainJob, lets `plan` decide, and writes."""

from __future__ import annotations

from collections import defaultdict
from contextlib import suppress
from functools import partial
from typing import Any, ClassVar, Final

import msgspec

from strato.api import catalog, trainer
from strato.api.batch import Job
from strato.api.kinds import Kind
from strato.api.meta import Json, Key
from strato.api.trainer import TrainJob, TrainJobStatus
from strato.api.volcano.scheduling import PodGroup
from strato.client.informer import Change
from strato.client.workqueue import run_workers
from strato.controllers.context import ControllerContext
from strato.controllers.ownwrites import OwnWrites
from strato.controllers.reconcile import KeyedController
from strato.controllers.training.companions import CompanionOfOthers, Companions
from strato.controllers.training.controller import GroupOfOthers
from strato.controllers.training.foreign import ForeignOperator
from strato.controllers.training.trainer.plan import Restarts, TrainJobPlan, TrainJobRecord, plan
from strato.controllers.training.trainer.rendering import PlannedJob, Rendering, group_body, render
from strato.controllers.training.trainer.runtimes import Runtimes
from strato.controllers.training.trainer.steps import BadRuntime
from strato.errors import AlreadyExists, ApiError, Invalid, NotFound, StratoError

_RESTARTS: Final = "strato.io/restarts"
"""Annotation of a TrainJob: how often all of its Jobs were restarted, and how many of these count as failures."""
_MAY_CHANGE: Final = ("nodeSelector", "affinity", "tolerations", "schedulingGates")
"""Members of a pod template that a suspended Job may change."""


class TrainJobController(KeyedController):
    """Runs TrainJobs."""

    name: ClassVar[str] = "trainjob-controller"
    workers: ClassVar[int] = 8

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._scheduler = context.settings.training.scheduler
        self._operator = ForeignOperator(
            context.cluster, context.clock, self.name, trainer.CONTROLLER, context.recorder
        )
        self._train_jobs = context.informers.informer(TrainJob)
        self._jobs = context.informers.informer(Job)
        self._groups = context.informers.informer(PodGroup)
        self._companions = Companions(context.cluster, catalog.TRAINJOB)
        self._runtimes = Runtimes(context.cluster)
        self._owned: defaultdict[str, dict[Key, None]] = defaultdict(dict)
        """Keys of the Jobs that the watch has shown, by uid of the TrainJob."""
        self._rendered: dict[str, tuple[int, Rendering]] = {}
        """Generation of a TrainJob and the rendering of that generation, by the TrainJob's uid."""
        self._written: OwnWrites[TrainJob] = OwnWrites()
        self._train_jobs.add_handler(self._on_train_job)
        self._jobs.add_owned_handler(catalog.TRAINJOB, self._on_job)
        self._groups.add_owned_handler(catalog.TRAINJOB, self._on_group)

    async def run(self) -> None:
        """Work until cancelled; does nothing while Kubeflow's own controller runs."""
        work = partial(run_workers, self.queue, self._reconcile_ours, self.workers, name=self.name)
        await self._operator.run_beside(work)

    async def _reconcile_ours(self, key: Key) -> float | None:
        if not self._operator.is_running:
            return await self.reconcile(key)
        job = self._train_jobs.get(key)
        return self._operator.leave(job if job is not None and trainer.is_ours(job.spec.managed_by) else None)

    def _on_train_job(self, change: Change[TrainJob]) -> None:
        if change.new is not None:
            self.queue.add(change.key)
            return
        uid = change.object.metadata.uid
        self._written.forget(change.key)
        self._runtimes.forget(uid)
        self._companions.forget(uid)
        self._rendered.pop(uid, None)
        self._owned.pop(uid, None)
        self._operator.forget(uid)

    def _on_job(self, change: Change[Job]) -> None:
        owner = change.object.metadata.controller
        assert owner is not None, "handlers get owned Jobs only"
        if change.new is None:
            self._owned[owner.uid].pop(change.key, None)
        else:
            self._owned[owner.uid][change.key] = None
        self.queue.add(Key(change.key.namespace, owner.name))

    def _on_group(self, change: Change[PodGroup]) -> None:
        owner = change.object.metadata.controller
        assert owner is not None, "handlers get owned groups only"
        self.queue.add(Key(change.key.namespace, owner.name))

    async def reconcile(self, key: Key) -> float | None:
        """Take the next step of one TrainJob; returns the seconds until one is due by time, if any."""
        job = self._written.newest(key, self._train_jobs.get(key))
        if job is None or job.metadata.deletion_timestamp is not None or not trainer.is_ours(job.spec.managed_by):
            return None
        record = await self._record(job)
        planned = plan(record)
        await self._apply(record, planned)
        return planned.again_seconds

    async def _record(self, job: TrainJob) -> TrainJobRecord:
        meta = job.metadata
        rendering, problem = None, ""
        is_over = job.status.is_finished
        if not is_over:
            try:
                rendering = await self._rendering(job)
            except BadRuntime as error:
                problem = str(error)
            except CompanionOfOthers as error:
                raise self._refuse(job, error) from None
        elif self._owned.get(meta.uid):  # the runtime says how long the Jobs are kept
            with suppress(BadRuntime, CompanionOfOthers):
                rendering = await self._rendering(job)
        group = self._groups.get(job.key)
        holder = group.metadata.controller if group is not None else None
        is_ours = holder is not None and holder.uid == meta.uid
        if group is not None and not is_ours and not is_over and rendering is not None and rendering.group is not None:
            raise self._refuse(job, GroupOfOthers(job.key))
        jobs = [found for key in self._owned.get(meta.uid, ()) if (found := self._jobs.get(key)) is not None]
        return TrainJobRecord(
            job=job,
            rendering=rendering,
            problem=problem,
            jobs={one.metadata.name: one for one in jobs},
            group=group if is_ours else None,
            restarts=_restarts(job),
            now=self.clock.now(),
        )

    async def _rendering(self, job: TrainJob) -> Rendering:
        meta = job.metadata
        known = self._rendered.get(meta.uid)
        if known is None or known[0] != meta.generation:
            runtime = await self._runtimes.of(job)
            known = self._rendered[meta.uid] = meta.generation, render(job, runtime, self._scheduler)
        return known[1]

    def _refuse(self, job: TrainJob, error: StratoError) -> StratoError:
        """Record a warning event that an object of another owner has a name that the job needs."""
        self._recorder.event(job, "Warning", "ErrResourceExists", str(error))
        return error

    async def _apply(self, record: TrainJobRecord, planned: TrainJobPlan) -> None:
        """Write the plan, in an order in which a crash between any two writes does no harm."""
        job, meta, rendering = record.job, record.job.metadata, record.rendering
        if planned.restarts is not None:
            text = f"{planned.restarts.all}/{planned.restarts.counted}"
            await self._patch(job, {"metadata": {"annotations": {_RESTARTS: text}}})
        if planned.status is not None:
            await self._write_status(job, planned.status)
        for event in planned.events:
            self._recorder.event(job, event.type, event.reason, event.message)
        if planned.delete_group and record.group is not None:
            group = record.group.metadata
            await self._delete(catalog.PODGROUP, group.name, group.uid, meta.namespace, "Background")
        for old in planned.delete:  # in the foreground: the pods of an old Job must be gone before its successor starts
            await self._delete(catalog.JOB, old.metadata.name, old.metadata.uid, meta.namespace, "Foreground")
        if rendering is None:
            return
        if planned.make_group:
            await self._create(job, catalog.PODGROUP, group_body(job, rendering, msgspec.to_builtins(rendering.group)))
        if planned.make_companions:
            try:
                await self._companions.ensure(meta, rendering.companions)
            except CompanionOfOthers as error:
                raise self._refuse(job, error) from None
        for one, is_suspended in planned.create:
            await self._create(job, catalog.JOB, _of_attempt(one, record.restarts, is_suspended=is_suspended))
        for name in planned.suspend:
            await self._change_job(name, meta.namespace, {"spec": {"suspend": True}})
        for one in planned.resume:
            await self._change_job(one.name, meta.namespace, _resumed(one))

    async def _create(self, job: TrainJob, kind: Kind, body: Json) -> None:
        """Create an object; if one of that name exists, the job has to own it.

        Raises:
            CompanionOfOthers: An object of that name has another owner.
            ApiError: The create was refused.
        """
        meta, name = job.metadata, body["metadata"]["name"]
        try:
            await self._cluster.create(kind, body, meta.namespace)
        except AlreadyExists:
            present: Json = await self._cluster.get(kind, name, meta.namespace)
            owners = present["metadata"].get("ownerReferences") or ()
            if all(owner.get("uid") != meta.uid for owner in owners):
                raise self._refuse(job, CompanionOfOthers(kind, name, catalog.TRAINJOB)) from None
        except ApiError as error:
            text = f"{kind.name} {name}: {error}"
            self._recorder.event(job, "Warning", "TrainJobResourcesCreationFailed", text)
            raise

    async def _change_job(self, name: str, namespace: str, patch: Json) -> None:
        try:
            await self._cluster.patch(catalog.JOB, name, namespace, patch)
        except NotFound:
            return  # the watch will show the object
        except Invalid:
            if patch["spec"].keys() == {"suspend"}:
                raise
            await self._change_job(name, namespace, {"spec": {"suspend": patch["spec"]["suspend"]}})

    async def _write_status(self, job: TrainJob, status: TrainJobStatus) -> None:
        body = {member: msgspec.to_builtins(value) for member, value in _members(status).items()}
        await self._patch(job, {"status": body}, subresource="status")

    async def _patch(self, job: TrainJob, body: Json, **more: Any) -> None:
        meta = job.metadata
        of_this_one = {**body, "metadata": {**body.get("metadata", {}), "uid": meta.uid}}
        written = await self._cluster.patch(TrainJob, meta.name, meta.namespace, of_this_one, **more)
        if job.key in self._train_jobs:
            self._written.note(written)

    async def _delete(self, kind: Any, name: str, uid: str, namespace: str, propagation: str) -> None:
        with suppress(NotFound):
            await self._cluster.delete(kind, name, namespace, uid=uid, propagation=propagation)


def _members(status: TrainJobStatus) -> dict[str, Any]:
    """Return the members of a status that this controller writes; the training writes its own progress there."""
    return {"conditions": status.conditions, "jobsStatus": status.jobs_status}


def _restarts(job: TrainJob) -> Restarts:
    """Return how often a TrainJob was restarted; numbers that its annotation lacks are 0."""
    numbers = job.metadata.annotation(_RESTARTS).split("/")
    if len(numbers) != 2 or not all(one.isascii() and one.isdigit() and len(one) < 10 for one in numbers):
        return Restarts()
    return Restarts(int(numbers[0]), int(numbers[1]))


def _of_attempt(one: PlannedJob, restarts: Restarts, *, is_suspended: bool) -> Json:
    """Return a Job to create, with a label of the attempt on it and on its pods."""
    label = {trainer.ATTEMPT: str(restarts.all)}
    spec, meta = one.body["spec"], one.body["metadata"]
    template = spec["template"]
    pods = {**template["metadata"], "labels": {**template["metadata"]["labels"], **label}}
    return {
        **one.body,
        "metadata": {**meta, "labels": {**meta["labels"], **label}},
        "spec": {**spec, "suspend": is_suspended, "template": {**template, "metadata": pods}},
    }


def _resumed(one: PlannedJob) -> Json:
    """Return the patch that resumes a Job, with the present scheduling members of its pod template."""
    template = one.body["spec"]["template"]
    spec = {member: template["spec"].get(member) for member in _MAY_CHANGE}
    meta = {"labels": template["metadata"]["labels"], "annotations": template["metadata"]["annotations"]}
    return {"spec": {"suspend": False, "template": {"metadata": meta, "spec": spec}}}
