"""The writes of the job controller: pods, plugin objects, claims. Each notes in the record what it did.

Everything here may be repeated: what exists already is taken over, what is gone already is fine.

Source: volcano-controllers A6.3, A6.4, A7.7, A7.8, A9, Part B.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from random import Random
from typing import Any

from strato.api import catalog
from strato.api.core import PersistentVolumeClaim, Pod
from strato.api.meta import Object
from strato.api.volcano.batch import Job
from strato.client.cluster import Cluster, PatchType
from strato.client.codec import codec_of
from strato.client.informer import Informer
from strato.controllers.job import terms
from strato.controllers.job.blueprint import (
    Blueprint,
    finished_template,
    random_suffix,
    templates_in,
    templates_of,
)
from strato.controllers.job.form import KEPT_FORMS
from strato.controllers.job.plugins.base import Wanted
from strato.controllers.job.pods import PodState
from strato.controllers.job.record import JobRecord
from strato.controllers.owners import controller_reference
from strato.controllers.parallel import for_each
from strato.errors import AlreadyExists, ApiError, Conflict, NotFound, StratoError

CONCURRENT_WRITES = 64
"""Writes in flight per job: enough to fill one group commit of the embedded server."""

_MARK = {"metadata": {"annotations": {terms.OUT_OF_SYNC: "true"}}}


class JobError(StratoError):
    """A step of a job's procedure failed; it is tried again."""


class NameTaken(JobError):
    """A pod that is not ours has the name of one of our pods."""

    def __init__(self, namespace: str, name: str) -> None:
        self.namespace, self.name = namespace, name
        super().__init__(f"pod {namespace}/{name} exists but does not belong to the job; delete it or rename the job")


class JobEffects:
    """See the module.

    Args:
        cluster: Where to write.
        random: Names claims and volumes.
        jobs: As they were read; the bytes of their specs are mostly still known.
    """

    def __init__(self, cluster: Cluster, random: Random, jobs: Informer[Job]) -> None:
        self._cluster = cluster
        self._random = random
        self._jobs = jobs
        self._codec = codec_of(Job)
        self._finished: dict[bytes, list[dict[str, Any]]] = {}

    # Pods

    async def blueprints(self, record: JobRecord, group: str, *, forwarded: bool) -> dict[str, Blueprint]:
        """Return the job's blueprints; its templates are read when the bytes they came in are forgotten.

        Raises:
            JobError: The job changed; its new state is under way.
        """
        if record.blueprints is not None:
            return record.blueprints
        job = record.job
        assert job is not None
        assert record.plugins is not None
        spec = self._written_spec(job)
        templates = templates_in(spec) if spec is not None else await self._read_templates(job)
        plugins = record.plugins.active
        record.blueprints = {
            task.name or terms.DEFAULT_TASK: Blueprint(
                job, task, template, group=group, plugins=plugins, random=self._random, forwarded=forwarded
            )
            for task, template in zip(job.spec.tasks, templates, strict=True)
        }
        return record.blueprints

    def _written_spec(self, job: Job) -> bytes | None:
        meta = job.metadata
        seen = self._jobs.get((meta.namespace, meta.name))
        if seen is None or seen.metadata.uid != meta.uid or seen.metadata.generation != meta.generation:
            return None
        return self._codec.written_spec(seen.spec)

    def finished_templates(self, job: Job) -> tuple[bytes, list[dict[str, Any]]] | None:
        """Return a spec as it was read and its templates, finished for blueprints; None when they are not known.

        It is for jobs without plugins and claims; those that came in the same bytes share them.
        """
        spec = self._written_spec(job)
        if spec is None:
            return None
        finished = self._finished.get(spec)
        if finished is None:
            templates = zip(job.spec.tasks, templates_in(spec), strict=True)
            finished = [finished_template(job, task, template) for task, template in templates]
            if len(self._finished) >= KEPT_FORMS:
                self._finished.clear()
            self._finished[spec] = finished
        return spec, finished

    async def _read_templates(self, job: Job) -> list[dict[str, Any]]:
        meta = job.metadata
        whole = await self._cluster.get(catalog.VCJOB, meta.name, meta.namespace)
        if whole["metadata"]["uid"] != meta.uid or whole["metadata"].get("generation", 0) != meta.generation:
            raise JobError(f"job {meta.key} changed while its pods were prepared")
        return templates_of(whole)

    async def create_pods(self, record: JobRecord, blueprint: Blueprint, indexes: Sequence[int]) -> list[StratoError]:
        """Create replicas of one task concurrently; returns what failed. A pod of ours that exists is taken over."""
        job = record.job
        assert job is not None
        meta, version, retry_count = job.metadata, job.status.version, job.status.retry_count
        failures: list[StratoError] = []
        taken: list[str] = []

        async def create(some: Sequence[int]) -> None:
            bodies = [blueprint.pod(index, version, retry_count) for index in some]
            answers = await self._cluster.create_all(catalog.POD, bodies, meta.namespace)
            for index, body, answer in zip(some, bodies, answers, strict=True):
                name = body["metadata"]["name"]
                if isinstance(answer, AlreadyExists):
                    taken.append(name)
                elif isinstance(answer, ApiError):
                    failures.append(answer)
                elif not record.knows_pod(blueprint.name, name, answer.uid):  # otherwise the watch was faster
                    partition = body["metadata"]["labels"].get(terms.PARTITION_ID, "")
                    record.assume_pod(
                        PodState.created(answer, name, blueprint.name, index, (meta.uid, version), partition)
                    )

        async def take_over(name: str) -> None:
            pod = await self._cluster.get(Pod, name, meta.namespace)
            state = PodState.from_view(pod)
            if state is None or pod.metadata.annotation(terms.JOB_NAME) != record.key.name:
                raise NameTaken(meta.namespace, name)
            record.put_pod(state)

        size = self._cluster.at_once
        parts = [indexes[start : start + size] for start in range(0, len(indexes), size)]
        failures += await for_each(parts, create, CONCURRENT_WRITES)
        return failures + await for_each(taken, take_over, CONCURRENT_WRITES)

    async def delete_pods(self, record: JobRecord, pods: Sequence[PodState]) -> list[StratoError]:
        """Delete pods concurrently; returns what failed."""
        namespace = record.key.namespace

        async def delete(pod: PodState) -> None:
            try:
                await self._cluster.delete(Pod, pod.name, namespace, uid=pod.uid)
            except (NotFound, Conflict) as error:
                await self._drop_if_gone(record, pod, error)
            else:
                record.mark_pod(pod, terminating=True)

        return await for_each(pods, delete, CONCURRENT_WRITES)

    async def kill_pods(self, record: JobRecord, pods: Sequence[PodState]) -> list[StratoError]:
        """Mark pods out-of-sync, so that their end triggers no policy, then delete those that could be marked."""
        namespace = record.key.namespace
        marked: list[PodState] = []

        async def mark(pod: PodState) -> None:
            if not pod.out_of_sync:
                try:
                    await self._cluster.patch(
                        catalog.POD, pod.name, namespace, {"metadata": {"uid": pod.uid, **_MARK["metadata"]}}
                    )
                except (NotFound, Conflict) as error:
                    await self._drop_if_gone(record, pod, error)
                    return
                record.mark_pod(pod, out_of_sync=True)
            marked.append(pod)

        failures = await for_each(pods, mark, CONCURRENT_WRITES)
        return failures + await self.delete_pods(record, marked)

    async def _drop_if_gone(self, record: JobRecord, pod: PodState, error: NotFound | Conflict) -> None:
        """Forget a pod that is gone. A conflict may also mean that somebody wrote it at the same time: then it failed.

        Raises:
            Conflict: The pod is still there.
        """
        if isinstance(error, Conflict):
            with suppress(NotFound):
                present = await self._cluster.get(Pod, pod.name, record.key.namespace)
                if present.metadata.uid == pod.uid:
                    raise error
        record.drop_pod(pod.task, pod.name, pod.uid)

    # Plugin objects

    async def ensure(self, wanted: Wanted, namespace: str) -> None:
        """Create an object unless it is there, and bring its data up to date if it asks for that."""
        try:
            await self._cluster.create(catalog.kind_of(wanted.view), wanted.body, namespace)
        except AlreadyExists:
            if wanted.data_member:
                await self._refresh(wanted, namespace)

    async def _refresh(self, wanted: Wanted, namespace: str) -> None:
        kind, member = catalog.kind_of(wanted.view), wanted.data_member
        present = await self._cluster.get(kind, wanted.name, namespace)
        old, new, key = present.get(member) or {}, wanted.body[member], wanted.decisive_key
        if (old.get(key) != new[key]) if key else (old != new):
            changes = {**dict.fromkeys(old), **new}
            await self._cluster.patch(kind, wanted.name, namespace, {member: changes})

    async def remove(self, view: type[Object], name: str, job: Job) -> None:
        """Delete an object that the job owns, unless it is gone; others' of that name were there first and stay."""
        namespace = job.metadata.namespace
        with suppress(NotFound):
            metadata = (await self._cluster.get(catalog.kind_of(view), name, namespace))["metadata"]
            if any(owner["uid"] == job.metadata.uid for owner in metadata.get("ownerReferences") or ()):
                await self._cluster.delete(view, name, namespace, uid=metadata["uid"])

    # Claims

    async def name_claims(self, job: Job) -> Job:
        """Give every volume without a claim name one, in one update of the spec; returns the job as it is then.

        The name is stored before the claim is made, so that a restart in between makes no second claim.
        """
        operations: list[dict[str, Any]] = [{"op": "test", "path": "/metadata/uid", "value": job.metadata.uid}]
        for position, volume in enumerate(job.spec.volumes):
            if not volume.volume_claim_name:
                name = f"{job.metadata.name}-pvc-{random_suffix(self._random)}"
                path = f"/spec/volumes/{position}/volumeClaimName"
                operations.append({"op": "add", "path": path, "value": name})
        if len(operations) == 1:
            return job
        meta = job.metadata
        return await self._cluster.patch(Job, meta.name, meta.namespace, operations, patch_type=PatchType.JSON)

    async def ensure_claims(self, job: Job) -> dict[str, str]:
        """Make the claims the job describes; returns its entries of ``controlledResources``.

        Raises:
            JobError: A claim that the job only names does not exist.
        """
        controlled = {}
        whole: dict[str, Any] | None = None
        for position, volume in enumerate(job.spec.volumes):
            name = volume.volume_claim_name
            key = f"volume-pvc-{name}"
            controlled[key] = name
            if job.status.controlled_resources.get(key) == name:
                continue
            try:
                await self._cluster.get(PersistentVolumeClaim, name, job.metadata.namespace)
            except NotFound:
                if volume.volume_claim is None:
                    raise JobError(
                        f"pvc {name} is not found, the job will be in the Pending state until the PVC is created"
                    ) from None
                if whole is None:
                    whole = await self._cluster.get(catalog.VCJOB, job.metadata.name, job.metadata.namespace)
                await self._create_claim(job, name, whole["spec"]["volumes"][position]["volumeClaim"])
        return controlled

    async def _create_claim(self, job: Job, name: str, spec: dict[str, Any]) -> None:
        body = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {
                "name": name,
                "namespace": job.metadata.namespace,
                "ownerReferences": [controller_reference(terms.JOB_API_VERSION, terms.JOB_KIND, job.metadata)],
            },
            "spec": spec,
        }
        try:
            await self._cluster.create(catalog.PERSISTENTVOLUMECLAIM, body, job.metadata.namespace)
        except AlreadyExists:
            return
