"""End Volcano Jobs whose lifetime is over: the one they ask for, bounded by their queues, or their queue's default.

A lifetime begins with the job's submission, as in YARN (spec yarn B9). The controller ends a job with a Command, as a
user would, so that the job controller kills its pods and records the reason in its status.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import ClassVar, Final

from strato.api import catalog, joblifetimes
from strato.api.meta import Key
from strato.api.volcano.batch import Job
from strato.api.volcano.scheduling import Queue
from strato.client.informer import Change
from strato.clock import parse_time
from strato.controllers.context import ControllerContext
from strato.controllers.job.terms import FINISHED_PHASES, Phase
from strato.controllers.owners import controller_reference
from strato.controllers.reconcile import KeyedController
from strato.errors import AlreadyExists

_OVER: Final = FINISHED_PHASES | {Phase.TERMINATING, Phase.COMPLETING}
_AGAIN_SECONDS: Final = 10.0
"""How long after its Command a job is checked again, and gets another one if it has not ended."""
_MOST_LEVELS: Final = 64
_ROOT: Final = "root"


class JobLifetimes(KeyedController):
    """See the module."""

    name: ClassVar[str] = "lifetime-controller"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._limiting: set[str] = set()
        """Names of the queues that set a default or a maximum lifetime."""
        self._queues = context.informers.informer(Queue)
        self._jobs = context.informers.informer(Job)
        self._queues.add_handler(self._on_queue)
        self._jobs.add_handler(self._on_job, among=self._limited)

    def _on_queue(self, change: Change[Queue]) -> None:
        before, after = (_limits(queue) for queue in (change.old, change.new))
        if any(after):
            self._limiting.add(change.key.name)
        else:
            self._limiting.discard(change.key.name)
        moved = change.old is not None and change.new is not None and change.old.spec.parent != change.new.spec.parent
        if before != after or (moved and self._limiting):
            for job in self._jobs.list():  # those of the queues below it are among them
                self.queue.add(job.key)

    def _limited(self, changes: Sequence[Change[Job]]) -> Sequence[Change[Job]]:
        """Return the changes of jobs that may have a lifetime."""
        if self._limiting:
            return changes
        asked = joblifetimes.REQUESTED
        return [
            change for change in changes if change.new is not None and asked in (change.new.metadata.annotations or {})
        ]

    def _on_job(self, change: Change[Job]) -> None:
        if change.old is None or change.new is None or _facts(change.old) != _facts(change.new):
            self.queue.add(change.key)

    async def reconcile(self, key: Key) -> float | None:
        """End the job when its lifetime is over."""
        job = self._jobs.get(key)
        if job is None or job.metadata.deletion_timestamp is not None or job.status.state.phase in _OVER:
            return None
        seconds = joblifetimes.of_job(job.metadata.annotations or {}, self._above(job.spec.queue))
        if seconds == joblifetimes.NEVER:
            return None
        left = parse_time(job.metadata.creation_timestamp or "") + seconds - self.clock.now()
        if left > 0:
            return left
        with suppress(AlreadyExists):  # the job controller has not yet handled the Command of the previous attempt
            await self._cluster.create(catalog.COMMAND, _command(job, seconds), key.namespace)
            text = f"its lifetime of {seconds} s, counted from its submission, is over; it is ended"
            self._recorder.event(job, "Warning", "LifetimeExceeded", text)
        return _AGAIN_SECONDS

    def _above(self, name: str) -> Iterator[Mapping[str, str]]:
        """Yield the annotations of a queue and of its ancestors."""
        for _ in range(_MOST_LEVELS):
            queue = self._queues.get(Key("", name))
            if queue is None:
                return
            yield queue.metadata.annotations or {}
            if name == _ROOT:
                return
            name = queue.spec.parent or _ROOT


def _limits(queue: Queue | None) -> tuple[str, str]:
    annotations = (queue.metadata.annotations or {}) if queue is not None else {}
    return annotations.get(joblifetimes.DEFAULT, ""), annotations.get(joblifetimes.MAXIMUM, "")


def _facts(job: Job) -> tuple[str, str, str]:
    """Return what the end of a job's lifetime depends on, to see whether a change matters."""
    return job.metadata.annotation(joblifetimes.REQUESTED), job.spec.queue, job.status.state.phase


def _command(job: Job, seconds: int) -> dict[str, object]:
    """Return the Command that ends a job; its name follows from the job's, so that there is one at a time."""
    reference = controller_reference(catalog.VCJOB.api_version, catalog.VCJOB.name, job.metadata)
    return {
        "apiVersion": catalog.COMMAND.api_version,
        "kind": catalog.COMMAND.name,
        "metadata": {
            "name": f"{job.metadata.name}-lifetime",
            "namespace": job.metadata.namespace,
            "ownerReferences": [reference],
        },
        "action": "TerminateJob",
        "target": reference,
        "reason": "LifetimeExceeded",
        "message": f"its lifetime of {seconds} s is over",
    }
