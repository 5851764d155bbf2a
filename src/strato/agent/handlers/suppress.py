"""``suppress``: lower quotas of training containers while the host is overloaded; restore them once it is cool."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import ClassVar

from strato.agent.decisions.release import ReleaseOptions, choose_releases
from strato.agent.decisions.suppression import SuppressionOptions, choose_cuts, floors
from strato.agent.events import (
    OVERLOADED,
    RESTORED,
    STILL_OVERLOADED,
    SUPPRESSED,
    Action,
    ActionKind,
    HostEvent,
    Workload,
)
from strato.agent.handlers.handler import Handler
from strato.agent.options import between


@dataclass(frozen=True, slots=True, kw_only=True)
class SuppressOptions(SuppressionOptions):
    """Options of ``suppress``."""

    rounds: int = 3
    """Consecutive overloaded rounds before containers are cut. At least 1."""
    cool_rounds: int = 12
    """Consecutive rounds below the warning line before CPU is given back. At least 1."""
    release_step: float = 0.10
    """The most that is given back in a round, as a fraction of the host. Range (0, 1]."""
    wait_rounds: int = 3
    """Rounds between two steps. At least 0."""
    give_way_below: int = 1000
    """Containers of a lower priority are also made idle (``cpu.idle``; before Linux 5.15 the least weight) from the cut
    until their CPU is given back, except those of Guaranteed pods.
    """
    evict: bool = True
    """Whether containers of `evict_below` are evicted when the host stays overloaded with nothing left to cut."""
    evict_after_seconds: float = 60.0
    """How long the host must be overloaded before an eviction."""
    evict_below: int = 100
    """Only pods of a lower priority are evicted."""

    def problems(self) -> list[tuple[str, str]]:
        """Return contradictions between options, as pairs of field and sentence."""
        found = list(between(self, {"rounds": (1, 1e6), "cool_rounds": (1, 1e6), "wait_rounds": (0, 1e6)}))
        found += between(self, {"min_cores": (0.01, 1e6), "min_request_fraction": (0, 1)})
        found += between(self, {"guaranteed_min_request_fraction": (0, 1), "evict_after_seconds": (0, 1e9)})
        if not 0 < self.overload <= 1:
            found.append(("overload", f"{self.overload:g} must be above 0 and at most 1"))
        if not 0 < self.warning < self.overload:
            text = f"{self.warning:g} must be above 0 and below the overload line, {self.overload:g}"
            found.append(("warning", text))
        found += [
            (field, f"{value:g} must be above 0 and {text} 1")
            for field, value, is_good, text in (
                ("cut_fraction", self.cut_fraction, 0 < self.cut_fraction < 1, "below"),
                ("release_step", self.release_step, 0 < self.release_step <= 1, "at most"),
            )
            if not is_good
        ]
        return found


class Suppress(Handler):
    """See the module."""

    name: ClassVar[str] = "suppress"
    defaults: ClassVar[SuppressOptions] = SuppressOptions()
    options: SuppressOptions

    def __init__(self, options: SuppressOptions, random: Random) -> None:
        super().__init__(options, random)
        self._hot_rounds = 0
        self._cool_rounds = 0
        self._rounds_to_wait = 0
        self._has_cuts = False
        self._exhausted_at: float | None = None
        """Since when the host is overloaded with nothing left to cut."""

    def on_host(self, event: HostEvent) -> Sequence[Action]:
        """Return cuts while the host is overloaded, releases after it has cooled down."""
        options = self.options
        self._hot_rounds = self._hot_rounds + 1 if event.cpu >= options.overload else 0
        self._cool_rounds = self._cool_rounds + 1 if event.cpu < options.warning else 0
        self._has_cuts = any(one.suppression is not None for one in event.containers)
        if self._hot_rounds >= options.rounds:
            self._rounds_to_wait = 0
            return self._cut(event)
        self._exhausted_at = None
        if self._rounds_to_wait > 0:
            self._rounds_to_wait -= 1
            return ()
        return self._release(event)

    def may_skip(self) -> bool:
        """Return whether the host is not overloaded and no container is cut; the first cut resets all counters."""
        return self._hot_rounds == 0 and not self._has_cuts

    def _cut(self, event: HostEvent) -> list[Action]:
        cuts = choose_cuts(event.capacity_cores, event.cpu, event.containers, self.options)
        below = self.options.give_way_below
        yielding = {one.key for one in event.containers if one.priority < below and not one.is_guaranteed}
        limits = dict(cuts.limits_milli)
        if cuts.unmet_cores:  # containers that cannot be cut further are at least made idle
            least = floors(event.containers, self.options)
            limits |= {key: limit for key, limit in least.items() if key in yielding and key not in limits}
        actions = [
            Action(
                kind=ActionKind.SET_QUOTA,
                target=key,
                value=limit,
                gives_way=key in yielding,
                reason=SUPPRESSED,
                message=f"CPU limit lowered to {limit}m: the host is at {event.cpu:.0%}",
            )
            for key, limit in limits.items()
        ]
        text = f"CPU at {event.cpu:.0%} of {event.capacity_cores:g} cores"
        actions.append(Action(kind=ActionKind.EVENT, reason=OVERLOADED, message=text))
        if not cuts.unmet_cores:
            self._exhausted_at = None
            return actions
        more = f"{text}; {cuts.unmet_cores:.2f} cores more should be freed than may be cut"
        value = cuts.unmet_cores
        actions.append(Action(kind=ActionKind.EVENT, reason=STILL_OVERLOADED, message=more, value=value))
        if cuts.limits_milli or self._exhausted_at is None:
            self._exhausted_at = event.at
        elif self.options.evict and event.at - self._exhausted_at >= self.options.evict_after_seconds:
            actions += self._evict(event)
            self._exhausted_at = event.at
        return actions

    def _evict(self, event: HostEvent) -> list[Action]:
        """Return the eviction of the largest user among the pods of the lowest priority, if any may be evicted."""
        candidates = [
            one
            for one in event.containers
            if one.workload is Workload.TRAINING and one.priority < self.options.evict_below and one.used_cores > 0
        ]
        first = min(candidates, key=lambda one: (one.priority, -one.used_cores, one.key), default=None)
        if first is None:
            return []
        text = f"the host stays overloaded at {event.cpu:.0%} with nothing left to cut"
        return [Action(kind=ActionKind.EVICT, target=first.pod_uid, reason="Evicted", message=text)]

    def _release(self, event: HostEvent) -> list[Action]:
        options = self.options
        release = ReleaseOptions(warning=options.warning, cool_rounds=options.cool_rounds, step=options.release_step)
        pairs = [(one, one.suppression) for one in event.containers if one.suppression is not None]
        limits = choose_releases(event.capacity_cores, event.cpu, self._cool_rounds, pairs, release)
        if limits:
            self._rounds_to_wait = options.wait_rounds
        origins = {one.key: record.from_milli for one, record in pairs}
        return [
            Action(
                kind=ActionKind.CLEAR if limit == origins[key] else ActionKind.SET_QUOTA,
                target=key,
                value=limit,
                reason=RESTORED,
                message=f"CPU limit raised to {'none' if limit is None else f'{limit}m'}",
            )
            for key, limit in limits.items()
        ]
