"""Delete finished Volcano Jobs when their ``ttlSecondsAfterFinished`` has passed.

Source: volcano-controllers Part E.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from strato.api.meta import Key
from strato.api.volcano.batch import Job
from strato.client.informer import Change
from strato.clock import parse_time
from strato.controllers.context import ControllerContext
from strato.controllers.job.terms import FINISHED_PHASES
from strato.controllers.reconcile import KeyedController
from strato.errors import NotFound, StratoError


class MissingTransitionTime(StratoError):
    """A finished job does not say when it finished."""

    def __init__(self, key: Key) -> None:
        self.key = key
        super().__init__(f"job {key} is finished but status.state.lastTransitionTime is empty")


def expires_at(job: Job) -> float | None:
    """Return when a job is to be deleted, in seconds since the epoch; None when it has no TTL or is not finished.

    Raises:
        MissingTransitionTime: The job has finished, but its status does not say when.
    """
    ttl = job.spec.ttl_seconds_after_finished
    if ttl is None or job.status.state.phase not in FINISHED_PHASES or job.metadata.deletion_timestamp is not None:
        return None
    finished = job.status.state.last_transition_time
    if not finished:
        raise MissingTransitionTime(job.key)
    return parse_time(finished) + ttl


class JobGarbageCollector(KeyedController):
    """See the module."""

    name: ClassVar[str] = "gc-controller"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._jobs = context.informers.informer(Job)
        self._jobs.add_handler(self._on_job, among=_ended)

    def _on_job(self, change: Change[Job]) -> None:
        self.queue.add(change.key)

    async def reconcile(self, key: Key) -> float | None:
        """Delete the job if a fresh read of it shows that it has expired."""
        cached = self._jobs.get(key)
        expiry = expires_at(cached) if cached is not None else None
        if expiry is None:
            return None
        if expiry > self.clock.now():
            return expiry - self.clock.now()
        try:
            fresh = await self._cluster.get(Job, key.name, key.namespace)
            expiry = expires_at(fresh)
            if expiry is None:
                return None
            if expiry > self.clock.now():
                return expiry - self.clock.now()
            await self._cluster.delete(Job, key.name, key.namespace, uid=fresh.metadata.uid, propagation="Foreground")
        except NotFound:
            return None
        return None


def _ended(changes: Sequence[Change[Job]]) -> Sequence[Change[Job]]:
    """Return the changes of jobs that have finished and have a TTL."""
    return [
        change
        for change in changes
        if (job := change.new) is not None
        and job.spec.ttl_seconds_after_finished is not None
        and job.status.state.phase in FINISHED_PHASES
    ]
