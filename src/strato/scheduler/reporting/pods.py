"""`PodReports`: writes pods' conditions: why a pod was not placed or bound, and restored ones of refused evictions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from strato.api import catalog
from strato.client.cluster import Cluster, Patch, PatchType
from strato.client.events import WARNING, EventRecorder
from strato.client.statusqueue import InFlight, Reporter, StatusQueue, Write
from strato.clock import Clock, format_time
from strato.scheduler.cache.world import World
from strato.scheduler.model.jobs import PodVerdict, Task
from strato.scheduler.reporting.growth import GrowthTracker
from strato.scheduler.reporting.podverdicts import BIND_FAILED, VerdictContent, Written, content_of, due_at, next_step

_WORKERS = 16
_REMEMBERED = 50_000


class PodConditions(NamedTuple):
    """Conditions to set on a pod, if it still exists."""

    task: Task
    conditions: Sequence[Mapping[str, Any]]


class PodReports:
    """Writes conditions of pods, the latest per pod.

    Args:
        cluster, clock, world, recorder: As for `strato.scheduler.binding.binder.Binder`.
        growth: Tells which gangs are still being created.
    """

    def __init__(
        self, cluster: Cluster, clock: Clock, world: World, recorder: EventRecorder, growth: GrowthTracker
    ) -> None:
        self._clock = clock
        self._world = world
        self._recorder = recorder
        self._growth = growth
        send = partial(cluster.patch_all, catalog.POD, patch_type=PatchType.STRATEGIC, subresource="status")
        self.queue: StatusQueue[str, PodVerdict | PodConditions, Patch] = StatusQueue(
            clock,
            Reporter(self._build, send, on_confirmed=self._on_confirmed),
            InFlight(_WORKERS, cluster.at_once),
            remembered=_REMEMBERED,
            name="pod conditions",
        )

    def take(self, verdict: PodVerdict, now: float) -> None:
        """Queue the verdict on a pod unless it was written already, as for most pods of a long queue."""
        task = verdict.task
        if self.queue.stamp(task.key) == content_of(verdict) and task.key not in self.queue:
            return
        self.queue.put(task.key, verdict, due_at(verdict, self._growth, now))

    def bind_failed(self, task: Task, message: str) -> None:
        """Report why a pod could not be bound."""
        self.queue.put(task.key, PodVerdict(task, BIND_FAILED, message))

    def eviction_refused(self, task: Task, conditions: Sequence[Mapping[str, Any]]) -> None:
        """Set the conditions of a pod whose eviction was refused."""
        self.queue.put(_refusal_key(task), PodConditions(task, conditions))

    def eviction_begins(self, task: Task) -> None:
        """Drop queued conditions of an earlier, refused eviction, because the pod is evicted again."""
        self.queue.drop(_refusal_key(task))

    def _build(self, key: str, desired: PodVerdict | PodConditions) -> Write[Patch] | float | None:
        """Return the patch; None when the pod was placed meanwhile or has the condition already."""
        task = desired.task
        if isinstance(desired, PodConditions):
            current = self._world.tasks.get(task.key)
            is_there = current is not None and current.uid == task.uid
            return Write(_patch(task, {"conditions": desired.conditions})) if is_there else None
        have, last = task.pod.status.condition("PodScheduled"), self.queue.stamp(key)
        content = next_step(
            self._world,
            self._growth,
            desired,
            reported=(have.reason, have.message) if have is not None and have.status == "False" else None,
            written=Written(last, self.queue.confirmed_at(key)) if isinstance(last, VerdictContent) else None,
            now=self._clock.monotonic(),
        )
        if not isinstance(content, VerdictContent):
            return content
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "reason": desired.reason,
            "message": desired.message,
            "lastTransitionTime": format_time(self._clock.now()),
        }
        status: dict[str, Any] = {"conditions": [condition]}
        if desired.nominated:
            status["nominatedNodeName"] = desired.nominated
        return Write(_patch(task, status), content)

    def _on_confirmed(self, _: str, desired: PodVerdict | PodConditions, __: Patch) -> None:
        if isinstance(desired, PodVerdict) and desired.reason != BIND_FAILED:
            self._recorder.event(desired.task.pod, WARNING, "FailedScheduling", desired.message)


def _refusal_key(task: Task) -> str:
    return f"{task.key} stays"


def _patch(task: Task, status: Mapping[str, Any]) -> Patch:
    return Patch(task.namespace, task.name, {"metadata": {"uid": task.uid}, "status": status})
