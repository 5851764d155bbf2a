"""Remove the tracking finalizer from pods that no Job will count any more: else they could not be deleted.

Source: batch/v1 Job, orphan pods.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import ClassVar

from strato.api import catalog
from strato.api.batch import Job
from strato.api.core import Pod
from strato.api.meta import Key
from strato.client.informer import Change
from strato.controllers.context import ControllerContext
from strato.controllers.kube.adoption import selector_of, strip
from strato.controllers.kube.jobtracking import FINALIZER, is_tracked
from strato.controllers.reconcile import KeyedController
from strato.errors import NotFound

_JOB_NAME = "batch.kubernetes.io/job-name"


class JobOrphans(KeyedController):
    """See the module. Its queue holds keys of pods; the job controller adds those of a job that is gone."""

    name: ClassVar[str] = "kube-job-orphans"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._jobs = context.informers.informer(Job)
        self._pods = context.informers.informer(Pod)
        self._pods.add_handler(lambda change: self.queue.add(change.key), among=self._orphaned)

    def _orphaned(self, changes: Sequence[Change[Pod]]) -> Sequence[Change[Pod]]:
        return [
            change
            for change in changes
            if (pod := change.new) is not None and pod.metadata.finalizers and self._is_orphan(pod)
        ]

    def _is_orphan(self, pod: Pod) -> bool:
        """Return whether a pod has the tracking finalizer, and its job is gone or does not own it any more."""
        if not is_tracked(pod):
            return False
        meta, holder = pod.metadata, pod.metadata.controller
        if holder is None:
            job = self._jobs.get((meta.namespace, meta.label(_JOB_NAME)))
            return job is None or not selector_of(job).matches(meta.labels)  # a pod that matches is adopted again
        if (holder.api_version, holder.kind) != (catalog.JOB.api_version, catalog.JOB.name):
            return False  # another kind of owner, which may use the finalizer for its own purpose
        job = self._jobs.get((meta.namespace, holder.name))
        return job is None or job.metadata.uid != holder.uid

    async def reconcile(self, key: Key) -> None:
        """Remove the finalizer from a pod, if a read from the API confirms that its job is gone."""
        pod = self._pods.get(key)
        if pod is None or not self._is_orphan(pod):
            return
        holder = pod.metadata.controller
        if holder is not None:
            with suppress(NotFound):  # the cache of jobs may be older than that of pods
                if (await self._cluster.get(Job, holder.name, key.namespace)).metadata.uid == holder.uid:
                    return
        await strip(self._cluster, pod, (FINALIZER,))
