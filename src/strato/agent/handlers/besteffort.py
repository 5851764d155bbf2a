"""``bestEffort``: best-effort pods share the CPU that all others leave, and are evicted when that is too little.

It implements Koordinator's rules, as an alternative to the handler `suppress`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import ClassVar, Final

from strato.agent.events import NO_BEST_EFFORT_GROUP, Action, ActionKind, ContainerEvent, HostEvent
from strato.agent.handlers.handler import Handler
from strato.agent.koordinator.besteffort import (
    BEST_EFFORT,
    Consumer,
    budget_milli,
    next_quota_microseconds,
    split_usage,
)
from strato.agent.koordinator.evictions import (
    BestEffortUse,
    Candidate,
    ReleaseTask,
    Satisfaction,
    amount_over_threshold,
    best_effort_victims,
    carry_out,
    milli_to_satisfy,
)
from strato.agent.options import between
from strato.kernelstats import CFS_PERIOD_MICROSECONDS

_CPU: Final = "cpu"
_USED, _REQUEST = "used", "request"


@dataclass(frozen=True, slots=True, kw_only=True)
class BestEffortOptions:
    """Options of ``bestEffort``; percentages relate to the host's CPU unless stated otherwise."""

    threshold_percent: int = 65
    """The most that all pods together may use. Range [1, 100]."""
    min_percent: int = 0
    """The least that best-effort pods together may use. Range [0, thresholdPercent]."""
    evict_lower_percent: int = 0
    """Pods are evicted when their usable CPU falls to this percentage of their requests. Range [0, 60]; 0: never."""
    evict_upper_percent: int = 0
    """Pods are evicted until the others may use this percentage of their requests. Range [evictLowerPercent, 99]."""
    evict_used_percent: int = 90
    """Pods are evicted only if they use this percentage of the CPU that they may use. Range [0, 100]."""
    evict_threshold_percent: int = 0
    """Pods are evicted at this use of the host. Range [0, 100]; 0: never."""
    window_seconds: int = 60
    """Evictions are decided by the mean over so many seconds. Range [1, 3600]."""
    cool_down_seconds: int = 20
    """Time between two evictions. Range [0, 3600]."""

    def problems(self) -> list[tuple[str, str]]:
        """Return contradictions between options, as pairs of field and sentence."""
        found = list(between(self, {"threshold_percent": (1, 100), "min_percent": (0, self.threshold_percent)}))
        found += between(self, {"evict_used_percent": (0, 100), "evict_threshold_percent": (0, 100)})
        found += between(self, {"window_seconds": (1, 3600), "cool_down_seconds": (0, 3600)})
        lines = self.satisfaction()
        if (lines.lower_percent or lines.upper_percent) and (text := lines.problem()):
            found.append(("evict_lower_percent", text))
        return found

    def satisfaction(self) -> Satisfaction:
        """Return the thresholds of evictions by satisfied requests."""
        return Satisfaction(
            lower_percent=self.evict_lower_percent,
            upper_percent=self.evict_upper_percent,
            used_percent=self.evict_used_percent,
        )


class BestEffort(Handler):
    """See the module."""

    name: ClassVar[str] = "bestEffort"
    defaults: ClassVar[BestEffortOptions] = BestEffortOptions()
    is_usual: ClassVar[bool] = False
    options: BestEffortOptions

    def __init__(self, options: BestEffortOptions, random: Random) -> None:
        super().__init__(options, random)
        self._uses: deque[tuple[float, BestEffortUse]] = deque()
        """Measurements of the window, with their instants."""
        self._evicted_at: float | None = None
        self._is_reported = False

    def on_host(self, event: HostEvent) -> Sequence[Action]:
        """Return the quota of best-effort pods, and evictions."""
        actions: list[Action] = []
        if event.has_best_effort_group:
            actions.append(self._quota(event))
        elif not self._is_reported:
            self._is_reported = True
            text = "the node has no control group of all best-effort pods: they can be evicted, not slowed down"
            actions.append(Action(kind=ActionKind.EVENT, reason=NO_BEST_EFFORT_GROUP, message=text))
        return actions + self._evictions(event)

    def _quota(self, event: HostEvent) -> Action:
        consumers = [Consumer(used_cores=one.used_cores, is_best_effort=one.is_best_effort) for one in event.containers]
        usage = split_usage(event.cpu * event.capacity_cores, 0.0, consumers, ())
        options = self.options
        budget = budget_milli(
            int(event.capacity_cores * 1000), usage, options.threshold_percent, options.min_percent or None
        )
        milli = event.best_effort_milli
        current = -1 if milli is None else milli * CFS_PERIOD_MICROSECONDS // 1000
        quota = next_quota_microseconds(event.capacity_cores, budget, current)
        return Action(kind=ActionKind.SET_CLASS_QUOTA, value=quota * 1000 // CFS_PERIOD_MICROSECONDS)

    def _evictions(self, event: HostEvent) -> list[Action]:
        """Return the evictions that release the excess; none during the cool-down after the last eviction."""
        options = self.options
        pods = _candidates(event.containers)
        current = self._remember(event, pods)
        if self._evicted_at is not None and event.at - self._evicted_at < options.cool_down_seconds:
            return []
        tasks = []
        mean = _mean([use for _, use in self._uses])
        if options.evict_lower_percent and mean is not None:
            need = milli_to_satisfy(
                options.satisfaction(),
                mean,
                current,
                window_seconds=options.window_seconds,
                interval_seconds=self._interval_seconds(),
            )
            order = best_effort_victims(pods.values(), _CPU)
            tasks.append(ReleaseTask(target=_REQUEST, need={_CPU: need}, order=[one.name for one in order]))
        if options.evict_threshold_percent:
            capacity = int(event.capacity_cores * 1000)
            need = amount_over_threshold(capacity, event.cpu * capacity, options.evict_threshold_percent)
            order = best_effort_victims(pods.values())
            tasks.append(ReleaseTask(target=_USED, need={_CPU: need}, order=[one.name for one in order]))
        releases = {uid: {_USED: {_CPU: one.used}, _REQUEST: one.request} for uid, one in pods.items()}
        evicted, _ = carry_out([task for task in tasks if task.need[_CPU] > 0], releases)
        if evicted:
            self._evicted_at = event.at
        text = f"best-effort pods have too little CPU: the host is at {event.cpu:.0%}"
        return [Action(kind=ActionKind.EVICT, target=uid, reason="Evicted", message=text) for uid in evicted]

    def _remember(self, event: HostEvent, pods: dict[str, Candidate]) -> BestEffortUse | None:
        """Record and return the present use of best-effort pods; None if the CPU that they may use is unknown."""
        while self._uses and self._uses[0][0] <= event.at - self.options.window_seconds:
            self._uses.popleft()
        if event.best_effort_milli is None:
            return None
        use = BestEffortUse(
            count=1,
            limit_milli=event.best_effort_milli,
            used_milli=sum(one.used for one in pods.values()),
            request_milli=sum(one.request[_CPU] for one in pods.values()),
        )
        self._uses.append((event.at, use))
        return use

    def _interval_seconds(self) -> int:
        if len(self._uses) < 2:
            return 1
        return max(1, round((self._uses[-1][0] - self._uses[0][0]) / (len(self._uses) - 1)))


def _candidates(containers: Sequence[ContainerEvent]) -> dict[str, Candidate]:
    """Return the best-effort pods by uid."""
    by_pod: dict[str, list[ContainerEvent]] = {}
    for one in containers:
        if one.is_best_effort:
            by_pod.setdefault(one.pod_uid, []).append(one)
    return {
        uid: Candidate(
            name=uid,
            qos=BEST_EFFORT,
            priority=found[0].priority,
            used=round(sum(one.used_cores for one in found) * 1000),
            request={_CPU: sum(one.request_milli for one in found)},
        )
        for uid, found in by_pod.items()
    }


def _mean(uses: Sequence[BestEffortUse]) -> BestEffortUse | None:
    count = len(uses)
    if not count:
        return None
    return BestEffortUse(
        count=count,
        limit_milli=sum(one.limit_milli for one in uses) / count,
        used_milli=sum(one.used_milli for one in uses) / count,
        request_milli=sum(one.request_milli for one in uses) / count,
    )
