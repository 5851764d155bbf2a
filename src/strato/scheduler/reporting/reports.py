"""What users and other components read of the scheduler: PodGroup, pod and queue statuses and their events.

All of them go through status queues (`strato.client.statusqueue`): the latest wins, and it is retried until the API has
confirmed it. A phase that changes is written at once, or, where the pods that make a group Running are only bound, when
they run, so that one write says all; counters at most once per period, and why a pod does not fit only after that has
stood for a moment. While the pods of a gang are still being created, it is not reported that some are missing
(`strato.scheduler.reporting.growth`). While a burst of jobs is placed, what nobody acts upon gives way.

A scheduler that takes over compares with what the API holds, not with what another has sent.
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
    """Writes statuses.

    Args:
        cluster, clock, world, recorder: As for `strato.scheduler.binding.binder.Binder`.
        period: Seconds between writes of mere counters.
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
        """Write nothing until `resume`: a cycle that waits for an answer holds the world half-way."""
        for queue in self._all:
            queue.pause()

    def resume(self) -> None:
        """Go on after `pause`."""
        for queue in self._all:
            queue.resume()

    def take(self, plan: Plan) -> None:
        """Take what a cycle decided; writes follow when they are due."""
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
        """Whether a queue's status is not what the API holds, or what was sent since it was read."""
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
        """Whether a queue's annotations are not what the API holds, or what was sent since it was read."""
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
    """Return what was sent of an object since it was read, None where nothing was: the API holds that, or will."""
    stamp: Any = queue.stamp(name)
    return stamp[1] if stamp is not None and stamp[0] == view.metadata.resource_version else None


def _positive(amounts: Mapping[str, str | int | float]) -> dict[str, str | int | float]:
    return {resource: amount for resource, amount in amounts.items() if amount != "0"}
