"""The runtimes of TrainJobs: each job keeps a copy of the runtime that it began with, in a ConfigMap of its own."""

from __future__ import annotations

from typing import Final

import msgspec

from strato.api import catalog, trainer
from strato.api.meta import Json
from strato.api.trainer import TrainingRuntime, TrainingRuntimeSpec, TrainJob
from strato.client.cluster import Cluster
from strato.controllers.training.companions import CompanionOfOthers
from strato.controllers.training.trainer.rendering import owned_by
from strato.controllers.training.trainer.steps import BadRuntime
from strato.errors import AlreadyExists, NotFound

_SUFFIX: Final = "-runtime-snapshot"
_KEY: Final = "runtime"


class Runtimes:
    """See the module."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._known: dict[str, TrainingRuntimeSpec] = {}
        """Uid of the job → its runtime."""

    def forget(self, owner: str) -> None:
        """Forget the runtime of a deleted job."""
        self._known.pop(owner, None)

    async def of(self, job: TrainJob) -> TrainingRuntimeSpec:
        """Return the runtime of a job, as it was when the controller first saw the job.

        Raises:
            BadRuntime: There is no such runtime, or it cannot be decoded.
            CompanionOfOthers: The ConfigMap has another owner, such as a deleted job of the same name.
            ApiError: The API server did not answer.
        """
        uid = job.metadata.uid
        if uid not in self._known:
            text = await self._kept(job) or await self._keep(job)
            try:
                self._known[uid] = msgspec.json.decode(text, type=TrainingRuntime).spec
            except msgspec.MsgspecError as error:
                raise BadRuntime(f"the runtime {job.spec.runtime_ref.name} cannot be read: {error}") from error
        return self._known[uid]

    async def _kept(self, job: TrainJob) -> bytes:
        """Return the kept runtime as JSON; empty when there is none."""
        meta, name = job.metadata, job.metadata.name + _SUFFIX
        try:
            found: Json = await self._cluster.get(catalog.CONFIGMAP, name, meta.namespace)
        except NotFound:
            return b""
        if all(one.get("uid") != meta.uid for one in found["metadata"].get("ownerReferences") or ()):
            raise CompanionOfOthers(catalog.CONFIGMAP, name, catalog.TRAINJOB)
        return str((found.get("data") or {}).get(_KEY, "")).encode()

    async def _keep(self, job: TrainJob) -> bytes:
        reference, meta = job.spec.runtime_ref, job.metadata
        if problem := trainer.runtime_problem(reference.api_group, reference.kind):
            raise BadRuntime(problem)
        kind = trainer.RUNTIMES[reference.kind]
        try:
            found: Json = await self._cluster.get(kind, reference.name, meta.namespace if kind.namespaced else "")
        except NotFound:
            raise BadRuntime(f"there is no {kind.name} {reference.name}") from None
        text = msgspec.json.encode({member: found.get(member) for member in ("apiVersion", "kind", "spec")})
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": meta.name + _SUFFIX,
                "namespace": meta.namespace,
                "ownerReferences": owned_by(meta),
            },
            "data": {_KEY: text.decode()},
            "immutable": True,
        }
        try:
            await self._cluster.create(catalog.CONFIGMAP, body, meta.namespace)
        except AlreadyExists:
            return await self._kept(job)
        return text
