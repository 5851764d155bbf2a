"""One run of a container on a hollow node: the CPU that it wants and gets, its counters; and groups of pods."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from strato.api.core import Pod
from strato.api.cpudemand import Demand

HOT_RATIO: Final = 0.9
"""From this used share of its CPU on, a node counts as overloaded."""
NEXT_TO_NOTHING: Final = 1e-6
"""Seconds and cores below this are rounding errors."""
_IDLE_WEIGHT: Final = 3.0
"""The kernel's weight of groups with ``cpu.idle``, which give way to all others."""


@dataclass(slots=True)
class CpuAccount:
    """Counters of one run of a container, or of a node."""

    used_core_seconds: float = 0.0
    unserved_core_seconds: float = 0.0
    """CPU time that was wanted and not given."""
    seconds: float = 0.0
    short_seconds: float = 0.0
    """Time in which it got less than it wanted."""
    limited_seconds: float = 0.0
    """Time in which its quota was less than it wanted."""
    overloaded_seconds: float = 0.0
    """Time in which its node's used share was at least `HOT_RATIO`."""
    waiting_seconds: float = 0.0
    """Time in which it waited for other pods of its owner (`WAITS_FOR`)."""


@dataclass(slots=True)
class CpuRun:
    """One run of a container."""

    pod: Pod
    container: str
    node: str
    demand: Demand
    request_weight: float
    """Weight by its request, in millicores."""
    quota: float
    """Quota in cores; infinite for none."""
    left_seconds: float
    """Remaining duration of its work at full CPU; infinite if it ends only with its pod."""
    group: CpuGroup | None = None
    sets_pace: bool = False
    gives_way: bool = False
    """Whether it gets only what all others leave (``cpu.idle``)."""
    account: CpuAccount = field(default_factory=CpuAccount)
    given: float = 0.0
    """Cores that it gets now."""
    own_seconds: float = 0.0
    """Duration of its work, at full CPU, that is done."""
    _on_end: Callable[[], None] = lambda: None
    _cores: float = 0.0
    _change_at: float = -math.inf
    _wanted: float = 0.0
    _rate: float = 0.0
    _is_waiting: bool = False
    is_limited: bool = False
    """Whether its quota is less than it wants."""

    @property
    def key(self) -> str:
        """The key by which the agent names the run."""
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
        """Call the function that was given at its start: its work is done."""
        self._on_end()

    def settle(self, seconds: float, *, is_overloaded: bool) -> None:
        """Count a duration in which all rates were as they are now."""
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
        """Return the fraction of its demand that its quota allows."""
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
        """Set the cores that it gets; return the seconds until its rates change without an event from outside."""
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
    """The pods of one owner that form one training.

    Args:
        needed: Number of pods that must run or have ended before the containers do any work.
    """

    __slots__ = ("finished", "is_complete", "needed", "pace", "runs")

    def __init__(self, needed: int) -> None:
        self.needed = needed
        self.runs: dict[str, CpuRun] = {}
        """Runs of its containers, by key."""
        self.finished: set[str] = set()
        """Uids of its pods that have ended."""
        self.pace = 1.0
        """Factor on the demands of the other pods: the slowest pace of those that set it (`SETS_PACE`)."""
        self.is_complete = not needed
        """Whether all needed pods run or have ended."""

    def slowest(self) -> float:
        """Return the pace that its runs set now."""
        return min((run.pace_ratio for run in self.runs.values() if run.sets_pace), default=1.0)

    def refresh(self) -> None:
        """Bring pace and completeness up to date."""
        self.pace = self.slowest()
        self.is_complete = len({run.pod.metadata.uid for run in self.runs.values()} | self.finished) >= self.needed
