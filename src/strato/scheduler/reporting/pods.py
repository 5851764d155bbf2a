"""Conditions of pods: why one was not placed or not bound, or that an eviction did not come about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from strato.api import catalog
from strato.client.cluster import Cluster, Patch, PatchType
from strato.client.events import WARNING, EventRecorder
from strato.client.statusqueue import InFlight, Reporter, StatusQueue, Write
from strato.clock import Clock, format_time
from strato.scheduler.cache.world import World
from strato.scheduler.model.jobs import PodVerdict, Task
from strato.scheduler.model.tasks import BINDING, PENDING
from strato.scheduler.reporting.growth import GrowthTracker

SETTLE_SECONDS: Final = 0.2
"""How long a verdict must stand before it is written: most are gone in milliseconds."""
_REPEAT_SECONDS = 5.0
"""Shortest time between two texts of the same reason for the same pod."""
_WORKERS = 16
_REMEMBERED = 50_000
_BIND_FAILED: Final = "SchedulerError"


class PodConditions(NamedTuple):
    """Conditions to set as long as the pod is there."""

    task: Task
    conditions: Sequence[Mapping[str, Any]]


class _TemplateEntry(NamedTuple):
    """What a pod's condition says; a pod made anew under its name was given none."""

    uid: str
    reason: str
    message: str
    nominated: str


class PodReports:
    """Writes conditions of pods, the latest per pod.

    Args:
        cluster, clock, world, recorder: As for `strato.scheduler.binding.binder.Binder`.
        growth: Says which gangs are still being created.
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
        """Take why a pod was not placed; in a long queue most pods have that condition already."""
        task = verdict.task
        if self.queue.stamp(task.key) == _text(verdict) and task.key not in self.queue:
            return
        at = now + SETTLE_SECONDS
        if task.job is not None:
            at = max(at, self._growth.stalled_at(task.job))
        self.queue.put(task.key, verdict, at)

    def bind_failed(self, task: Task, message: str) -> None:
        """Report why a pod could not be bound."""
        self.queue.put(task.key, PodVerdict(task, _BIND_FAILED, message))

    def stays(self, task: Task, conditions: Sequence[Mapping[str, Any]]) -> None:
        """Set the conditions of a pod whose eviction did not come about."""
        self.queue.put(_stays_key(task), PodConditions(task, conditions))

    def leaves(self, task: Task) -> None:
        """Discard conditions that wait from an earlier eviction: the pod is evicted again."""
        self.queue.drop(_stays_key(task))

    def _build(self, key: str, desired: PodVerdict | PodConditions) -> Write[Patch] | float | None:
        """Return the patch; None when the pod was placed meanwhile or has the condition already."""
        task = desired.task
        current = self._world.tasks.get(task.key)
        if current is None or current.uid != task.uid:
            return None
        if isinstance(desired, PodConditions):
            return Write(_patch(task, {"conditions": desired.conditions}))
        if current is not task:
            return None
        if task.status != PENDING and not (task.status == BINDING and desired.reason == _BIND_FAILED):
            return None
        now = self._clock.monotonic()
        if task.job is not None and desired.reason != _BIND_FAILED:
            stalled_at = self._growth.stalled_at(task.job)
            if now < stalled_at:
                return stalled_at
        have = task.pod.status.condition("PodScheduled")
        nominated = not desired.nominated or desired.nominated == task.pod.status.nominated_node_name
        wanted = "False", desired.reason, desired.message
        if have is not None and nominated and (have.status, have.reason, have.message) == wanted:
            return None
        text, last = _text(desired), self.queue.stamp(key)
        if isinstance(last, _TemplateEntry) and last != text and last._replace(message="") == text._replace(message=""):
            again_at = self.queue.confirmed_at(key) + _REPEAT_SECONDS
            if now < again_at:
                return again_at
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
        return Write(_patch(task, status), text)

    def _on_confirmed(self, _: str, desired: PodVerdict | PodConditions, __: Patch) -> None:
        if isinstance(desired, PodVerdict) and desired.reason != _BIND_FAILED:
            self._recorder.event(desired.task.pod, WARNING, "FailedScheduling", desired.message)


def _stays_key(task: Task) -> str:
    return f"{task.key} stays"


def _patch(task: Task, status: Mapping[str, Any]) -> Patch:
    return Patch(task.namespace, task.name, {"metadata": {"uid": task.uid}, "status": status})


def _text(verdict: PodVerdict) -> _TemplateEntry:
    return _TemplateEntry(verdict.task.uid, verdict.reason, verdict.message, verdict.nominated)
