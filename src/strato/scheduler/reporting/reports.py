"""What users and other components read of the scheduler: PodGroup, pod and queue statuses and their events.

Reports are coalesced: a phase that changes is written at once, or, where the pods that make a group Running are only
bound, when they run, so that one write says all; counters at most once per period, and words about a pod that does not
fit only after they have stood for a moment, because most such states are gone in milliseconds. While the pods of a gang
are still coming, neither it nor they are told that some are missing (see `strato.scheduler.reporting.arrivals`). While
a burst of jobs is placed, what merely reports waits (see `strato.scheduler.reporting.patience`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from strato.api import catalog
from strato.client.cluster import Cluster
from strato.client.events import WARNING, EventRecorder
from strato.clock import Clock, format_time
from strato.errors import NotFound
from strato.scheduler.binder import Binder
from strato.scheduler.cache.tasks import PENDING
from strato.scheduler.cache.world import World
from strato.scheduler.plan import Plan, PodVerdict, QueueStatus
from strato.scheduler.reporting.arrivals import Arrivals
from strato.scheduler.reporting.deadlines import Deadlines
from strato.scheduler.reporting.groups import SETTLE_SECONDS, GroupReports
from strato.scheduler.shards import ShardStatus

_REPEAT_SECONDS = 5.0
"""Shortest time between two texts for the same pod or group and reason."""


class _Told(NamedTuple):
    """What a pod was told last, and when; a pod made anew under its name was told nothing."""

    at: float
    uid: str
    reason: str
    message: str


class Reports:
    """Writes statuses through the binder's workers.

    Args:
        cluster, clock, world, recorder: As for `Binder`.
        binder: Whose workers write.
        period: Seconds between writes of mere counters.
    """

    def __init__(
        self,
        cluster: Cluster,
        clock: Clock,
        world: World,
        recorder: EventRecorder,
        binder: Binder,
        period: float,
    ) -> None:
        self._cluster = cluster
        self._clock = clock
        self._world = world
        self._recorder = recorder
        self._binder = binder
        self._period = period
        self._pods: Deadlines[PodVerdict] = Deadlines()
        self._arrivals = Arrivals()
        self._groups = GroupReports(cluster, clock, recorder, binder, self._arrivals, period)
        self._queues: dict[str, QueueStatus] = {}
        self._queues_due = 0.0
        self._told: dict[str, _Told] = {}
        self._queue_written: dict[str, dict[str, str]] = {}
        self._shard: ShardStatus | None = None

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
        if shard is not None and shard != self._shard:
            self._write(lambda shard: self._shard_status(shard), shard)
        self._shard = shard
        for queue in plan.queues:
            if self._queue_differs(queue):
                if not self._queues:
                    self._queues_due = now + self._period
                self._queues[queue.name] = queue
            else:
                self._queues.pop(queue.name, None)
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
        return told is not None and not verdict.nominated and told[1:] == _words(verdict)

    def next_due(self) -> float | None:
        """Return the monotonic instant of the next write, None when there is none."""
        times = [self._groups.next_at, self._pods.next_at, self._queues_due if self._queues else None]
        return min((at for at in times if at is not None), default=None)

    def flush(self) -> None:
        """Hand everything that is due to the workers."""
        now = self._clock.monotonic()
        self._groups.flush(now, self._world.jobs)
        for verdict in self._pods.take_due(now):
            self._tell_pod(verdict, now)
        if self._queues and self._queues_due <= now:
            for queue in self._queues.values():
                self._write(lambda queue: self._queue(queue), queue)
            self._queues = {}
        if len(self._told) > 50_000:
            self._told = {key: told for key, told in self._told.items() if key in self._world.tasks}

    def _write(self, job: Callable[[Any], Any], item: Any) -> None:
        self._binder.write(lambda: job(item))

    # -- pods ----------------------------------------------------------------------------------------------------------

    def _tell_pod(self, verdict: PodVerdict, now: float) -> None:
        """Write a verdict unless the pod was placed meanwhile, knows it, or was told something alike just now."""
        task = verdict.task
        if self._world.tasks.get(task.key) is not task or task.status != PENDING:
            return
        later = self._arrivals.settled_at(task.job) if task.job is not None else now
        if now < later:
            self._pods.put(task.key, later, verdict)
            return
        have = task.pod.status.condition("PodScheduled")
        same = have is not None and have.status == "False" and have.reason == verdict.reason
        if same and have is not None and have.message == verdict.message and not verdict.nominated:
            return
        told = self._told.get(task.key)
        if told is not None and (told.uid, told.reason) == (task.uid, verdict.reason):
            if told.message == verdict.message:
                return
            if now < told.at + _REPEAT_SECONDS:
                self._pods.put(task.key, told.at + _REPEAT_SECONDS, verdict)
                return
        self._told[task.key] = _Told(now, *_words(verdict))
        self._write(self._pod, verdict)

    async def _pod(self, verdict: PodVerdict) -> None:
        await self._binder.pod_condition(verdict.task, verdict.reason, verdict.message, verdict.nominated)
        self._recorder.event(verdict.task.pod, WARNING, "FailedScheduling", verdict.message)

    # -- the own node shard --------------------------------------------------------------------------------------------

    async def _shard_status(self, shard: ShardStatus) -> None:
        body = {
            "nodesInUse": list(shard.in_use),
            "nodesToAdd": list(shard.to_add),
            "nodesToRemove": list(shard.to_remove),
            "lastUpdateTime": format_time(self._clock.now()),
        }
        name = self._world.shards.name
        try:
            await self._cluster.patch(catalog.NODESHARD, name, "", {"status": body}, subresource="status")
        except NotFound:
            self._shard = None

    # -- queues --------------------------------------------------------------------------------------------------------

    def _queue_differs(self, status: QueueStatus) -> bool:
        queue = self._world.queues.get(status.name)
        if queue is None or queue.view is None:
            return False
        written = self._queue_written.get(status.name)
        have = written if written is not None else dict(queue.view.status.allocated)
        return {k: v for k, v in have.items() if v != "0"} != {k: v for k, v in status.allocated.items() if v != "0"}

    async def _queue(self, status: QueueStatus) -> None:
        queue = self._world.queues.get(status.name)
        if queue is None or queue.view is None:
            return
        gone = {name: None for name in queue.view.status.allocated if name not in status.allocated}
        body = {"status": {"allocated": {**gone, **status.allocated}}}
        self._queue_written[status.name] = dict(status.allocated)
        try:
            subresource = "status" if catalog.QUEUE.has_status else ""
            await self._cluster.patch(catalog.QUEUE, status.name, "", body, subresource=subresource)
        except NotFound:
            self._queue_written.pop(status.name, None)


def _words(verdict: PodVerdict) -> tuple[str, str, str]:
    return verdict.task.uid, verdict.reason, verdict.message
