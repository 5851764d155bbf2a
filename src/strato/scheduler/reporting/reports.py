"""`Reports`: writes the statuses and events of PodGroups, pods and queues that users and other components read.

All of them go through status queues (`strato.client.statusqueue`): the latest status of an object replaces an earlier
one and is retried until the API has confirmed it. A changed phase is written at once, except that Running is delayed a
moment for pods that are bound and do not run yet, so that one write also has the counters. Statuses that only change
counters are written at most once per period, and the reason why a pod does not fit only after it has lasted a moment.
Missing pods of a gang are not reported while they are still being created (`strato.scheduler.reporting.growth`). During
a burst of jobs, statuses that no component acts upon have low priority.

Statuses are compared with those that the API has, so a scheduler that takes over need not know what the last one sent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import Any

from strato.api import catalog
from strato.api.volcano.scheduling import Queue as QueueView
from strato.client.cluster import Cluster, Patch
from strato.client.events import EventRecorder
from strato.client.statusqueue import InFlight, Reporter, StatusQueue, Write
from strato.clock import Clock, format_time
from strato.scheduler.cache.shards import ShardStatus
from strato.scheduler.cache.world import World
from strato.scheduler.model.plan import Plan, QueueStatus
from strato.scheduler.reporting.groups import GroupReports
from strato.scheduler.reporting.growth import GrowthTracker
from strato.scheduler.reporting.pods import PodReports

_QUEUE_WORKERS = 4


class Reports:
    """Writes the statuses that cycles decide.

    Args:
        cluster, clock, world, recorder: As for `strato.scheduler.binding.binder.Binder`.
        period: Seconds after which a status that only changes counters is written.
    """

    def __init__(self, cluster: Cluster, clock: Clock, world: World, recorder: EventRecorder, period: float) -> None:
        self._clock = clock
        self._world = world
        self._period = period
        self._growth = GrowthTracker()
        self._groups = GroupReports(cluster, clock, world, recorder, self._growth, period)
        self.pods = PodReports(cluster, clock, world, recorder, self._growth)
        self._queues: StatusQueue[str, QueueStatus, Patch] = StatusQueue(
            clock,
            Reporter(
                self._build_queue,
                partial(cluster.patch_all, catalog.QUEUE, subresource="status" if catalog.QUEUE.has_status else ""),
            ),
            InFlight(_QUEUE_WORKERS, cluster.at_once),
            name="queue statuses",
        )
        self._annotations: StatusQueue[str, Mapping[str, str], Patch] = StatusQueue(
            clock,
            Reporter(self._build_annotations, partial(cluster.patch_all, catalog.QUEUE)),
            InFlight(1),
            name="queue annotations",
        )
        self._shards: StatusQueue[str, ShardStatus, Patch] = StatusQueue(
            clock,
            Reporter(self._build_shard, partial(cluster.patch_all, catalog.NODESHARD, subresource="status")),
            InFlight(1),
            name="shard status",
        )

    async def run(self) -> None:
        """Write until cancelled."""
        async with asyncio.TaskGroup() as group:
            for queue in self._all:
                group.create_task(queue.run())

    @property
    def _all(self) -> tuple[StatusQueue[str, Any, Any], ...]:
        return self._groups.queue, self.pods.queue, self._queues, self._annotations, self._shards

    def pause(self) -> None:
        """Write nothing until `resume`, while a cycle has changed the world and waits for an answer from outside."""
        for queue in self._all:
            queue.pause()

    def resume(self) -> None:
        """Continue to write after `pause`."""
        for queue in self._all:
            queue.resume()

    def take(self, plan: Plan) -> None:
        """Queue the statuses that a cycle decided, each to be written when it is due."""
        now = self._clock.monotonic()
        for key in plan.verdicts:
            job = self._world.jobs.get(key)
            if job is not None:
                self._growth.look(job, now)
        self._groups.take(plan, now)
        for verdict in plan.pods:
            self.pods.take(verdict, now)
        for status in plan.queues:
            if self._queue_differs(status):
                self._queues.put(status.name, status, now + self._period)
            else:
                self._queues.drop(status.name)
        for name, noted in plan.queue_annotations.items():
            if self._annotations_differ(name, noted):
                self._annotations.put(name, noted)
            else:
                self._annotations.drop(name)
        for name, shard in self._world.shards.statuses().items():
            if name in self._shards or shard != self._shards.stamp(name):
                self._shards.put(name, shard)

    def _queue_differs(self, status: QueueStatus) -> bool:
        """Whether a queue's status differs from the one sent since the queue was read, else from the API's."""
        queue = self._world.queues.get(status.name)
        if queue is None or queue.view is None:
            return False
        sent = _sent_since(self._queues, status.name, queue.view)
        held = _positive(queue.view.status.allocated) if sent is None else sent
        return bool(held != _positive(status.allocated))

    def _build_queue(self, name: str, status: QueueStatus) -> Write[Patch] | None:
        queue = self._world.queues.get(name)
        if queue is None or queue.view is None:
            return None
        gone = {resource: None for resource in queue.view.status.allocated if resource not in status.allocated}
        body = {"status": {"allocated": {**gone, **status.allocated}}}
        return Write(Patch("", name, body), (queue.view.metadata.resource_version, _positive(status.allocated)))

    def _annotations_differ(self, name: str, wanted: Mapping[str, str]) -> bool:
        """Whether a queue's annotations differ from those sent since the queue was read, else from the API's."""
        queue = self._world.queues.get(name)
        if queue is None or queue.view is None:
            return False
        sent = _sent_since(self._annotations, name, queue.view)
        if sent is not None:
            return bool(sent != wanted)
        return any(queue.view.metadata.annotation(key) != text for key, text in wanted.items())

    def _build_annotations(self, name: str, wanted: Mapping[str, str]) -> Write[Patch] | None:
        queue = self._world.queues.get(name)
        if queue is None or queue.view is None:
            return None
        body = {"metadata": {"annotations": {key: text or None for key, text in wanted.items()}}}
        return Write(Patch("", name, body), (queue.view.metadata.resource_version, wanted))

    def _build_shard(self, name: str, shard: ShardStatus) -> Write[Patch]:
        body = {
            "nodesInUse": list(shard.in_use),
            "nodesToAdd": list(shard.to_add),
            "nodesToRemove": list(shard.to_remove),
            "lastUpdateTime": format_time(self._clock.now()),
        }
        return Write(Patch("", name, {"status": body}), shard)


def _sent_since(queue: StatusQueue[str, Any, Any], name: str, view: QueueView) -> Any:
    """Return what was sent for an object since it was read, which the API has by now or will have; None for nothing."""
    stamp: Any = queue.stamp(name)
    return stamp[1] if stamp is not None and stamp[0] == view.metadata.resource_version else None


def _positive(amounts: Mapping[str, str | int | float]) -> dict[str, str | int | float]:
    return {resource: amount for resource, amount in amounts.items() if amount != "0"}
