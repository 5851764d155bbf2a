"""One run of a container on a hollow node: what it wants, gets, and what was counted; and the pods it belongs to."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from strato.api.core import Pod
from strato.api.cpudemand import Demand

HOT_RATIO: Final = 0.9
"""From this use of a node on, its containers count as on an overloaded node."""
NEXT_TO_NOTHING: Final = 1e-6
"""Seconds and cores below it come from floating point arithmetic."""
_IDLE_WEIGHT: Final = 3.0
"""Of a container that gives way to all others: the kernel's, of groups with ``cpu.idle``."""


@dataclass(slots=True)
class CpuAccount:
    """What was counted of one run of a container, or of a node."""

    used_core_seconds: float = 0.0
    unserved_core_seconds: float = 0.0
    """What it wanted and did not get."""
    seconds: float = 0.0
    short_seconds: float = 0.0
    """In which it did not get all that it wanted."""
    limited_seconds: float = 0.0
    """In which its quota was less than what it wanted."""
    overloaded_seconds: float = 0.0
    """In which its node's use was at least `HOT_RATIO`."""
    waiting_seconds: float = 0.0
    """In which it waited for other pods of its owner."""


@dataclass(slots=True)
class CpuRun:
    """One run of a container."""

    pod: Pod
    container: str
    node: str
    demand: Demand
    request_weight: float
    """By what it requests, in millicores."""
    quota: float
    """Cores; infinite: none."""
    left_seconds: float
    """Of its work, at full CPU; infinite: it ends with its pod only."""
    group: CpuGroup | None = None
    sets_pace: bool = False
    gives_way: bool = False
    """Whether it only gets what all others leave, or next to nothing."""
    account: CpuAccount = field(default_factory=CpuAccount)
    given: float = 0.0
    """Cores that it gets now."""
    own_seconds: float = 0.0
    """Of its work that are done."""
    _on_end: Callable[[], None] = lambda: None
    _cores: float = 0.0
    _change_at: float = -math.inf
    _wanted: float = 0.0
    _rate: float = 0.0
    _is_waiting: bool = False
    is_limited: bool = False
    """Whether its quota is less than what it wants."""

    @property
    def key(self) -> str:
        """Name it as the agent does."""
        return f"{self.pod.metadata.uid}/{self.container}"

    @property
    def weight(self) -> float:
        """Return its weight beside the others of its node."""
        return _IDLE_WEIGHT if self.gives_way else self.request_weight

    @property
    def quota_milli(self) -> int | None:
        """Its quota in millicores; None: it has none."""
        return None if math.isinf(self.quota) else round(self.quota * 1000)

    def end(self) -> None:
        """Notify whoever started it that its work is done."""
        self._on_end()

    def settle(self, seconds: float, *, is_overloaded: bool) -> None:
        """Count a time in which all rates were what they are."""
        account, missing = self.account, self._wanted - self.given
        account.seconds += seconds
        account.used_core_seconds += self.given * seconds
        self.own_seconds += self._rate * seconds
        self.left_seconds -= self._rate * seconds
        if missing > NEXT_TO_NOTHING:
            account.unserved_core_seconds += missing * seconds
            account.short_seconds += seconds
            if self.is_limited:
                account.limited_seconds += seconds
        if is_overloaded:
            account.overloaded_seconds += seconds
        if self._is_waiting:
            account.waiting_seconds += seconds

    def want(self, wall: float) -> float:
        """Return the cores that it wants from now on; `pace_ratio` is current after it."""
        at = wall if self.demand.follows_clock else self.own_seconds
        if at >= self._change_at - NEXT_TO_NOTHING:
            at = max(at, self._change_at)
            self._cores, self._change_at = self.demand.cores_at(at), self.demand.next_change(at)
        self._wanted = self._cores * self._pace
        return self._wanted

    @property
    def usable(self) -> float:
        """Return the cores that it could use now."""
        return min(self._wanted, self.quota)

    @property
    def pace_ratio(self) -> float:
        """Return the part of its demand that its quota leaves."""
        return 1.0 if self._cores <= self.quota else self.quota / self._cores

    @property
    def _pace(self) -> float:
        group = self.group
        if group is None:
            return 1.0
        if not group.is_complete:
            return 0.0
        return 1.0 if self.sets_pace else group.pace

    def give(self, cores: float, wall: float) -> float:
        """Take the cores that it gets; return in how many seconds its rates change by themselves."""
        self.given = cores
        self.is_limited = self.quota < self._wanted - NEXT_TO_NOTHING
        self._is_waiting = self.group is not None and not self.group.is_complete
        self._rate = rate = self._pace * (cores / self._wanted if self._wanted > NEXT_TO_NOTHING else 1.0)
        soonest = self._change_at - wall if self.demand.follows_clock else math.inf
        if rate > 0:
            soonest = min(soonest, self.left_seconds / rate)
            if not self.demand.follows_clock:
                soonest = min(soonest, (self._change_at - self.own_seconds) / rate)
        return max(soonest, 0.0)


class CpuGroup:
    """The pods of one owner that are one training.

    Args:
        needed: Pods that must run or have ended.
    """

    __slots__ = ("finished", "is_complete", "needed", "pace", "runs")

    def __init__(self, needed: int) -> None:
        self.needed = needed
        self.runs: dict[str, CpuRun] = {}
        """By key."""
        self.finished: set[str] = set()
        """Uids of pods."""
        self.pace = 1.0
        """The part of their demands that the others want while those that set the pace are limited."""
        self.is_complete = not needed
        """Whether all are there."""

    def slowest(self) -> float:
        """Return the pace that its runs set now."""
        return min((run.pace_ratio for run in self.runs.values() if run.sets_pace), default=1.0)

    def refresh(self) -> None:
        """Bring pace and completeness up to date."""
        self.pace = self.slowest()
        self.is_complete = len({run.pod.metadata.uid for run in self.runs.values()} | self.finished) >= self.needed
