"""`GroupReports`: decides when each PodGroup status is written to the API, and as which patch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from strato.api import catalog
from strato.api.volcano.scheduling import PodGroup, PodGroupCondition
from strato.client.cluster import Cluster, Patch
from strato.client.events import NORMAL, WARNING, EventRecorder
from strato.client.load import LoadMeter
from strato.client.statusqueue import InFlight, Reporter, StatusQueue, Write
from strato.clock import Clock, format_time, is_due
from strato.errors import ApiError
from strato.scheduler.cache.jobobjects import ALLOCATED_HYPERNODE
from strato.scheduler.cache.world import World
from strato.scheduler.model.jobs import PHASE_COMPLETED, PHASE_PENDING, PHASE_RUNNING
from strato.scheduler.model.plan import GroupCondition, GroupStatus, Plan
from strato.scheduler.reporting.growth import GrowthTracker
from strato.scheduler.reporting.podverdicts import SETTLE_SECONDS
from strato.scheduler.reporting.status import group_status

_COUNT_SECONDS: Final = 3.0
"""Shortest time between two writes that only change a group's counters, because a gang's pods start one by one."""
_WITHOUT_PODS: Final = ("", PHASE_PENDING)
"""Phases of a group whose pods the controllers do not create yet."""
_WORKERS = 16
_LOW_WORKERS = 4
"""Workers for low-priority statuses over a network, where each call has one status; in one process a call has many."""


class _Request(NamedTuple):
    """A patch, and the group if its condition is new."""

    patch: Patch
    group: PodGroup | None
    condition: GroupCondition | None


class GroupReports:
    """Writes PodGroup statuses, many with one call where that is cheaper.

    Args:
        cluster, clock, world, recorder: As for `strato.scheduler.binding.binder.Binder`.
        growth: Tells which gangs are still being created.
        period: Seconds after which a status that only changes counters is written.
    """

    def __init__(
        self,
        cluster: Cluster,
        clock: Clock,
        world: World,
        recorder: EventRecorder,
        growth: GrowthTracker,
        period: float,
    ) -> None:
        self._cluster = cluster
        self._clock = clock
        self._world = world
        self._recorder = recorder
        self._growth = growth
        self._period = period
        self._load = LoadMeter()
        self.queue: StatusQueue[str, GroupStatus, _Request] = StatusQueue(
            clock,
            Reporter(self._build, self._send, on_confirmed=self._on_confirmed),
            InFlight(_WORKERS, cluster.at_once, low_workers=_LOW_WORKERS if cluster.remote else 1),
            load=self._load,
            name="podgroup statuses",
        )

    def take(self, plan: Plan, now: float) -> None:
        """Queue the statuses that a cycle decided, each to be written when it is due."""
        admitted = sum(_admits(status) for status in plan.groups)
        self._load.add(len(plan.binds) + len(plan.evictions) + admitted, now)
        for status in plan.groups:
            if status.job.group is not None:
                at = self._due(status, status.job.group, now)
                self.queue.put(status.job.key, status, at, low_priority=_only_reports(status))

    def _due(self, status: GroupStatus, group: PodGroup, now: float) -> float:
        if group.status.phase != status.phase:
            return now + SETTLE_SECONDS if _is_starting(status) and not _admits(status) else now
        if not _has_trouble(status):
            return max(now + self._period, self.queue.confirmed_at(status.job.key) + _COUNT_SECONDS)
        at = now + SETTLE_SECONDS
        return max(at, self._growth.stalled_at(status.job)) if _only_gives_reasons(status) else at

    def _build(self, key: str, desired: GroupStatus) -> Write[_Request] | float | None:
        """Return the patch from a group's status in the API to that of its job now; a time: not before; None: none."""
        job, condition = desired.job, desired.condition
        group = job.group
        if group is None or self._world.jobs.get(key) is not job:
            return None
        status = group_status(job, condition)
        if status.phase != job.phase or not status.is_news:
            return None  # the next cycle decides this phase; written before, its watch event would count as a change
        if _only_gives_reasons(status):
            stalled_at = self._growth.stalled_at(job)
            if not is_due(stalled_at, self._clock.monotonic()):
                return stalled_at
        wanted: dict[str, Any] = {
            "phase": status.phase,
            "running": status.running,
            "succeeded": status.succeeded,
            "failed": status.failed,
        }
        is_news = condition is not None and job.conditions.get(condition.type) != condition.content
        if condition is not None and is_news:
            news = PodGroupCondition(
                type=condition.type,
                status=condition.status,
                transition_id=group.metadata.uid,
                last_transition_time=format_time(self._clock.now()),
                reason=condition.reason,
                message=condition.message,
            )
            wanted["conditions"] = [*(c for c in group.status.conditions if c.type != news.type), news]
        body: dict[str, Any] = {"status": wanted}
        if status.hyper_node is not None:
            body["metadata"] = {"annotations": {ALLOCATED_HYPERNODE: status.hyper_node}}
        request = _Request(Patch(job.namespace, job.name, body), group if is_news else None, condition)
        return Write(request, (group.metadata.uid, group.metadata.resource_version, status[1:]))

    async def _send(self, requests: Sequence[_Request]) -> Sequence[ApiError | None]:
        return await self._cluster.patch_all(catalog.PODGROUP, [request.patch for request in requests])

    def _on_confirmed(self, _: str, __: GroupStatus, request: _Request) -> None:
        group, condition = request.group, request.condition
        if group is None or condition is None:
            return
        if condition.type == "Unschedulable":
            self._recorder.event(group, WARNING, "Unschedulable", condition.message)
        elif condition.type == "Scheduled":
            self._recorder.event(group, NORMAL, "Scheduled", "pod group is ready")


def _admits(status: GroupStatus) -> bool:
    """Whether a status has controllers create the group's pods, or create them again."""
    group = status.job.group
    return status.phase not in _WITHOUT_PODS and group is not None and group.status.phase in _WITHOUT_PODS


def _only_reports(status: GroupStatus) -> bool:
    """Whether a status only reports, so that it has low priority: no controller creates pods because of it.

    Not if the group's network domain is written with it, as another scheduler that takes over needs that.
    """
    if status.phase not in (PHASE_RUNNING, PHASE_COMPLETED) or status.hyper_node is not None:
        return False
    return not _has_trouble(status) and not _admits(status)


def _has_trouble(status: GroupStatus) -> bool:
    return status.condition is not None and status.condition.type == "Unschedulable"


def _only_gives_reasons(status: GroupStatus) -> bool:
    """Whether a status differs from the group's in the condition Unschedulable only."""
    group = status.job.group
    if not _has_trouble(status) or group is None:
        return False
    have = group.status
    counted = have.running, have.succeeded, have.failed
    return have.phase == status.phase and counted == (status.running, status.succeeded, status.failed)


def _is_starting(status: GroupStatus) -> bool:
    """Whether a group counts as Running for pods that are bound and do not run yet."""
    lives = status.running + status.succeeded + status.failed
    return status.phase == PHASE_RUNNING and lives < status.job.min_available
