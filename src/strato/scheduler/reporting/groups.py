"""PodGroup statuses on their way to the API: when each is written, in what company, and as which patch."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from strato.api import catalog
from strato.api.volcano.scheduling import PodGroup
from strato.client.cluster import Cluster, Patch
from strato.client.events import NORMAL, WARNING, EventRecorder
from strato.client.retry import delay_seconds, in_time, may_succeed_later
from strato.clock import Clock, format_time
from strato.errors import ApiError, Unavailable
from strato.scheduler.binder import Binder
from strato.scheduler.cache.jobs import PHASE_COMPLETED, PHASE_INQUEUE, PHASE_RUNNING, Job
from strato.scheduler.cache.world import ALLOCATED_HYPERNODE
from strato.scheduler.plan import Condition, GroupStatus, Plan
from strato.scheduler.reporting.arrivals import Arrivals
from strato.scheduler.reporting.deadlines import Deadlines
from strato.scheduler.reporting.patience import Patience
from strato.scheduler.reporting.status import group_status, status_differs

_log = logging.getLogger(__name__)

SETTLE_SECONDS = 0.2
"""How long a verdict must stand before it is written, and how long a group's pods may take from bound to running
before the group is called Running without their counters."""
_COUNT_SECONDS = 3.0
"""Shortest time between two writes of a group's mere counters: a gang's pods start one by one."""
_FIRST_RETRY_SECONDS = 0.25


class GroupReports:
    """Writes PodGroup statuses through the binder's workers, many with one call where that is cheaper.

    Args:
        cluster, clock, recorder, binder: As for `Reports`.
        arrivals: Says which gangs are still coming.
        period: Seconds between writes of mere counters.
        later: Called when a status that could not be written becomes due again.
    """

    def __init__(
        self,
        cluster: Cluster,
        clock: Clock,
        recorder: EventRecorder,
        binder: Binder,
        arrivals: Arrivals,
        period: float,
        later: Callable[[], None],
    ) -> None:
        self._cluster = cluster
        self._clock = clock
        self._recorder = recorder
        self._binder = binder
        self._arrivals = arrivals
        self._period = period
        self._later = later
        self._failures: dict[str, int] = {}
        """By job, how often in a row its status could not be written."""
        self._due: Deadlines[GroupStatus] = Deadlines()
        self._patient: Patience[GroupStatus] = Patience()
        self._counted: dict[str, float] = {}
        self._sent: dict[str, tuple[str, str, tuple[Any, ...]]] = {}
        """By job, what its group was when a status was sent for it, and which."""

    def take(self, plan: Plan, now: float) -> None:
        """Take the statuses that a cycle decided; writes follow when they are due."""
        admitted = sum(_admits(status) for status in plan.groups)
        self._patient.worked(len(plan.binds) + len(plan.evictions) + admitted, now)
        asked = self._patient.is_asked(now)
        for status in plan.groups:
            self._take(status, now, asked=asked)

    def _take(self, status: GroupStatus, now: float, *, asked: bool) -> None:
        job = status.job
        group = job.group
        if group is None:
            return
        key = job.key
        if group.status.phase != status.phase:
            if _only_reports(status) and (asked or key in self._patient):
                self._due.drop(key)
                self._patient.put(key, now, status)
                return
            at = now + SETTLE_SECONDS if _is_starting(status) else now
        else:
            unschedulable = status.condition is not None and status.condition.type == "Unschedulable"
            at = now + SETTLE_SECONDS
            if not unschedulable:
                at = max(now + self._period, self._counted.get(key, now - _COUNT_SECONDS) + _COUNT_SECONDS)
            elif _only_says_why(status):
                at = max(at, self._arrivals.settled_at(job))
        self._patient.drop(key)
        due = self._due.get(key)
        self._due.put(key, at if due is None else min(at, due.at), status)

    @property
    def next_at(self) -> float | None:
        """The monotonic instant of the next write, None when there is none."""
        due, patient = self._due.next_at, self._patient.next_at
        return due if patient is None else patient if due is None else min(due, patient)

    def flush(self, now: float, known: dict[str, Job]) -> None:
        """Hand everything that is due to the workers; forget what is not among the known jobs, once there is much."""
        ready: list[GroupStatus] = []
        for status in self._due.take_due(now):
            later = self._arrivals.settled_at(status.job)
            if now < later and _only_says_why(status):
                self._due.put(status.job.key, later, status)
            elif _only_reports(status):
                self._patient.put(status.job.key, now, status)
            else:
                ready.append(status)
        ready += self._patient.take_due(now)
        ready = [status for status in ready if known.get(status.job.key) is status.job]
        if self._failures:  # what is tried again says what the job is by now
            failed = self._failures
            ready = [group_status(s.job, s.condition) if s.job.key in failed else s for s in ready]
        for status in ready:
            self._counted[status.job.key] = now
        most = self._cluster.at_once
        for at in range(0, len(ready), most):
            self._write_later(ready[at : at + most])
        if len(self._counted) > 2 * len(known) + 1000:
            self._counted = {key: at for key, at in self._counted.items() if key in known}
            self._sent = {key: sent for key, sent in self._sent.items() if key in known}
            self._failures = {key: count for key, count in self._failures.items() if key in known}

    def _write_later(self, statuses: list[GroupStatus]) -> None:
        self._binder.write(lambda: self._write(statuses))

    async def _write(self, statuses: Sequence[GroupStatus]) -> None:
        """Write statuses with one call; those to try again become due again."""
        wanted = [(status, patch) for status in statuses if (patch := self._patch(status)) is not None]
        if not wanted:
            return
        answers: Sequence[ApiError | None]
        try:
            answers = await in_time(self._cluster.patch_all(catalog.PODGROUP, [patch for _, (patch, _) in wanted]))
        except Unavailable as silence:
            answers = [silence] * len(wanted)
        for (status, (_, group)), error in zip(wanted, answers, strict=True):
            if error is None:
                if self._failures:
                    self._failures.pop(status.job.key, None)
                self._tell(group, status.condition)
            else:
                self._not_written(status, error)

    def _not_written(self, status: GroupStatus, error: ApiError) -> None:
        """Have a status written later, unless a newer one waits or the group will never take it."""
        key = status.job.key
        self._sent.pop(key, None)
        _log.debug("status not written: podgroup=%s: %s", key, error)
        if not may_succeed_later(error):
            self._failures.pop(key, None)
            return
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        if self._due.get(key) is None and key not in self._patient:
            wait = delay_seconds(error, failures, first=_FIRST_RETRY_SECONDS)
            self._due.put(key, self._clock.monotonic() + wait, status)
            self._later()

    def _patch(self, status: GroupStatus) -> tuple[Patch, PodGroup | None] | None:
        """Return what to send, and the group where its condition is news; None when there is nothing to send."""
        job, group = status.job, status.job.group
        if group is None or not status_differs(job, status):
            return None
        sent = group.metadata.uid, group.metadata.resource_version, status[1:]
        if self._sent.get(job.key) == sent:
            return None  # it is under way, or written and not seen yet
        self._sent[job.key] = sent
        wanted: dict[str, Any] = {
            "phase": status.phase,
            "running": status.running,
            "succeeded": status.succeeded,
            "failed": status.failed,
        }
        condition = status.condition
        is_news = condition is not None and job.conditions.get(condition.type) != condition.words
        if condition is not None and is_news:
            wanted["conditions"] = _conditions(group, condition, format_time(self._clock.now()))
        body: dict[str, Any] = {"status": wanted}
        if status.hyper_node is not None:
            body["metadata"] = {"annotations": {ALLOCATED_HYPERNODE: status.hyper_node}}
        return Patch(job.namespace, job.name, body), group if is_news else None

    def _tell(self, group: PodGroup | None, condition: Condition | None) -> None:
        if group is None or condition is None:
            return
        if condition.type == "Unschedulable":
            self._recorder.event(group, WARNING, "Unschedulable", condition.message)
        elif condition.type == "Scheduled":
            self._recorder.event(group, NORMAL, "Scheduled", "pod group is ready")


def _conditions(group: PodGroup, new: Condition, now: str) -> Sequence[Mapping[str, Any]]:
    """Return a group's conditions with a new one in the place of the one of its type."""
    mine: dict[str, Any] = {
        "type": new.type,
        "status": new.status,
        "transitionID": group.metadata.uid,
        "lastTransitionTime": now,
        "reason": new.reason,
        "message": new.message,
    }
    others = [
        {
            "type": c.type,
            "status": c.status,
            "transitionID": c.transition_id,
            "lastTransitionTime": c.last_transition_time,
            "reason": c.reason,
            "message": c.message,
        }
        for c in group.status.conditions
        if c.type != new.type
    ]
    return [*others, mine]


def _admits(status: GroupStatus) -> bool:
    """Whether a status lets the group's pods be made."""
    group = status.job.group
    return status.phase == PHASE_INQUEUE and group is not None and group.status.phase != PHASE_INQUEUE


def _only_reports(status: GroupStatus) -> bool:
    """Whether a status says what happened, and nobody waits for it: no pods to make, no place to keep.

    Where a group's place in the network is written beside it, another scheduler may need to know.
    """
    return status.phase in (PHASE_RUNNING, PHASE_COMPLETED) and status.hyper_node is None and not _has_trouble(status)


def _has_trouble(status: GroupStatus) -> bool:
    return status.condition is not None and status.condition.type == "Unschedulable"


def _only_says_why(status: GroupStatus) -> bool:
    """Whether a group's phase and counters are written, and what is left is why it waits."""
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
