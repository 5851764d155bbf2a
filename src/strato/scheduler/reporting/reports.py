"""What users and other components read of the scheduler: PodGroup, pod and queue statuses and their events.

Reports are coalesced: a phase that changes is written at once, or, where the pods that make a group Running are only
bound, when they run, so that one write says all; counters at most once per period, and words about a pod that does not
fit only after they have stood for a moment, because most such states are gone in milliseconds. While the pods of a gang
are still coming, neither it nor they are told that some are missing (see `strato.scheduler.reporting.arrivals`). While
a burst of jobs is placed, what merely reports waits (see `strato.scheduler.reporting.patience`).

What the API did not confirm becomes due again, unless something newer has taken its place: nothing counts as written
before. A scheduler that takes over compares with what the API holds, not with what another has sent.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple

from strato.api import catalog
from strato.api.meta import Condition
from strato.client.cluster import Cluster
from strato.client.events import WARNING, EventRecorder
from strato.client.retry import delay_seconds, in_time, may_succeed_later
from strato.clock import Clock, format_time
from strato.errors import ApiError
from strato.scheduler.binder import Binder
from strato.scheduler.cache.tasks import PENDING
from strato.scheduler.cache.world import World
from strato.scheduler.plan import Plan, PodVerdict, QueueStatus
from strato.scheduler.reporting.arrivals import Arrivals
from strato.scheduler.reporting.deadlines import Deadlines
from strato.scheduler.reporting.groups import SETTLE_SECONDS, GroupReports
from strato.scheduler.shards import ShardStatus

_log = logging.getLogger(__name__)

_FIRST_RETRY_SECONDS = 0.25
_REPEAT_SECONDS = 5.0
"""Shortest time between two texts for the same pod or group and reason."""


class _Told(NamedTuple):
    """What a pod was told last, and when; a pod made anew under its name was told nothing."""

    at: float
    uid: str
    reason: str
    message: str
    nominated: str


class Reports:
    """Writes statuses through the binder's workers.

    Args:
        cluster, clock, world, recorder: As for `Binder`.
        binder: Whose workers write.
        period: Seconds between writes of mere counters.
        due: Called when something became due outside of `take` and `flush`; look at `next_due` again.
    """

    def __init__(
        self,
        cluster: Cluster,
        clock: Clock,
        world: World,
        recorder: EventRecorder,
        binder: Binder,
        period: float,
        due: Callable[[], None],
    ) -> None:
        self._cluster = cluster
        self._clock = clock
        self._world = world
        self._recorder = recorder
        self._binder = binder
        self._period = period
        self._due = due
        self._pods: Deadlines[PodVerdict] = Deadlines()
        self._arrivals = Arrivals()
        self._groups = GroupReports(cluster, clock, recorder, binder, self._arrivals, period, due)
        self._queues: Deadlines[QueueStatus] = Deadlines()
        self._told: dict[str, _Told] = {}
        """By pod, what is under way to it or was confirmed."""
        self._queue_sent: dict[str, tuple[str, dict[str, str]]] = {}
        """By queue, which version of it was known when a status was sent, and what was sent."""
        self._shards: Deadlines[None] = Deadlines()
        self._shard: ShardStatus | None = None
        self._failures: dict[tuple[str, str], int] = {}
        """By kind and key, how often in a row a status could not be written."""

    def take(self, plan: Plan) -> None:
        """Take what a cycle decided; writes follow when they are due."""
        now = self._clock.monotonic()
        for key in plan.verdicts:
            job = self._world.jobs.get(key)
            if job is not None:
                self._arrivals.look(job, now)
        self._arrivals.forget(self._world.jobs)
        self._groups.take(plan, now)
        for verdict in plan.pods:
            self._take_pod(verdict, now)
        shard = self._world.shards.status()
        if shard != self._shard:
            self._shard = shard
            if shard is not None:
                self._shards.put("", now, None)
        for queue in plan.queues:
            if self._queue_differs(queue):
                due = self._queues.get(queue.name)
                self._queues.put(queue.name, now + self._period if due is None else due.at, queue)
            else:
                self._queues.drop(queue.name)
        self.flush()

    def _take_pod(self, verdict: PodVerdict, now: float) -> None:
        task = verdict.task
        due = self._pods.get(task.key)
        if due is not None:
            if due.item is not verdict:
                self._pods.put(task.key, due.at, verdict)
            return
        if self._knows(verdict):
            return
        settled = self._arrivals.settled_at(task.job) if task.job is not None else now
        self._pods.put(task.key, max(now + SETTLE_SECONDS, settled), verdict)

    def _knows(self, verdict: PodVerdict) -> bool:
        """Whether a pod was told just this and nothing else since: in a long backlog, most pods at most looks."""
        told = self._told.get(verdict.task.key)
        return told is not None and told[1:] == _words(verdict)

    def next_due(self) -> float | None:
        """Return the monotonic instant of the next write, None when there is none."""
        times = [self._groups.next_at, self._pods.next_at, self._queues.next_at, self._shards.next_at]
        return min((at for at in times if at is not None), default=None)

    def flush(self) -> None:
        """Hand everything that is due to the workers."""
        now = self._clock.monotonic()
        self._groups.flush(now, self._world.jobs)
        for verdict in self._pods.take_due(now):
            self._tell_pod(verdict, now)
        for queue in self._queues.take_due(now):
            self._write(self._queue, queue)
        for _ in self._shards.take_due(now):
            if self._shard is not None:
                self._write(self._shard_status, self._shard)
        if len(self._told) > 50_000:
            self._told = {key: told for key, told in self._told.items() if key in self._world.tasks}

    def _write(self, job: Callable[[Any], Any], item: Any) -> None:
        self._binder.write(lambda: job(item))

    async def _confirmed(self, kind: str, key: str, write: Awaitable[Any], again: Callable[[float], None]) -> bool:
        """Wait for a write; when it failed and may succeed later, ``again`` is called with the instant of that.

        Returns:
            Whether it was confirmed.
        """
        try:
            await in_time(write)
        except ApiError as error:
            _log.debug("status not written: %s=%s: %s", kind, key, error)
            if may_succeed_later(error):
                failures = self._failures[kind, key] = self._failures.get((kind, key), 0) + 1
                again(self._clock.monotonic() + delay_seconds(error, failures, first=_FIRST_RETRY_SECONDS))
                self._due()
            else:
                self._failures.pop((kind, key), None)
            return False
        if self._failures:
            self._failures.pop((kind, key), None)
        return True

    # -- pods ----------------------------------------------------------------------------------------------------------

    def _tell_pod(self, verdict: PodVerdict, now: float) -> None:
        """Write a verdict unless the pod was placed meanwhile, has it, or was told another of its reason just now."""
        task = verdict.task
        if self._world.tasks.get(task.key) is not task or task.status != PENDING:
            return
        later = self._arrivals.settled_at(task.job) if task.job is not None else now
        if now < later:
            self._pods.put(task.key, later, verdict)
            return
        have = task.pod.status.condition("PodScheduled")
        nominated = not verdict.nominated or verdict.nominated == task.pod.status.nominated_node_name
        if have is not None and nominated and _says(have) == ("False", verdict.reason, verdict.message):
            return
        told = self._told.get(task.key)
        if told is not None and (told.uid, told.reason) == (task.uid, verdict.reason):
            if told[1:] == _words(verdict):
                return
            if now < told.at + _REPEAT_SECONDS and told.nominated == verdict.nominated:
                self._pods.put(task.key, told.at + _REPEAT_SECONDS, verdict)
                return
        self._told[task.key] = _Told(now, *_words(verdict))
        self._write(self._pod, verdict)

    async def _pod(self, verdict: PodVerdict) -> None:
        task = verdict.task
        told = self._told.get(task.key)

        def again(at: float) -> None:
            if self._told.get(task.key) is told:
                self._told.pop(task.key, None)
            if self._pods.get(task.key) is None:
                self._pods.put(task.key, at, verdict)

        write = self._binder.pod_condition(task, verdict.reason, verdict.message, verdict.nominated)
        if await self._confirmed("pod", task.key, write, again):
            self._recorder.event(task.pod, WARNING, "FailedScheduling", verdict.message)

    # -- the own node shard --------------------------------------------------------------------------------------------

    async def _shard_status(self, shard: ShardStatus) -> None:
        body = {
            "nodesInUse": list(shard.in_use),
            "nodesToAdd": list(shard.to_add),
            "nodesToRemove": list(shard.to_remove),
            "lastUpdateTime": format_time(self._clock.now()),
        }
        write = self._cluster.patch(
            catalog.NODESHARD, self._world.shards.name, "", {"status": body}, subresource="status"
        )

        def again(at: float) -> None:
            if self._shards.get("") is None:
                self._shards.put("", at, None)

        if not await self._confirmed("nodeshard", self._world.shards.name, write, again):
            self._shard = None if self._shards.get("") is None else self._shard

    # -- queues --------------------------------------------------------------------------------------------------------

    def _queue_differs(self, status: QueueStatus) -> bool:
        """Whether a queue's status is not what the API holds, or what was sent since it was read."""
        queue = self._world.queues.get(status.name)
        if queue is None or queue.view is None:
            return False
        version, sent = self._queue_sent.get(status.name, ("", {}))
        have = sent if version == queue.view.metadata.resource_version else queue.view.status.allocated
        return _some(have) != _some(status.allocated)

    async def _queue(self, status: QueueStatus) -> None:
        name = status.name
        queue = self._world.queues.get(name)
        if queue is None or queue.view is None:
            return
        gone = {resource: None for resource in queue.view.status.allocated if resource not in status.allocated}
        body = {"status": {"allocated": {**gone, **status.allocated}}}
        sent = self._queue_sent[name] = queue.view.metadata.resource_version, dict(status.allocated)

        def again(at: float) -> None:
            if self._queues.get(name) is None:
                self._queues.put(name, at, status)

        subresource = "status" if catalog.QUEUE.has_status else ""
        write = self._cluster.patch(catalog.QUEUE, name, "", body, subresource=subresource)
        if not await self._confirmed("queue", name, write, again) and self._queue_sent.get(name) is sent:
            del self._queue_sent[name]


def _some(amounts: Mapping[str, str | int | float]) -> dict[str, str | int | float]:
    return {resource: amount for resource, amount in amounts.items() if amount != "0"}


def _says(condition: Condition) -> tuple[str, str, str]:
    return condition.status, condition.reason, condition.message


def _words(verdict: PodVerdict) -> tuple[str, str, str, str]:
    return verdict.task.uid, verdict.reason, verdict.message, verdict.nominated
