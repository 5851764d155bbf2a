"""When a host's resource is a hot spot: over its line for long enough, until under another one for longer."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from strato.agent.events import Level


@dataclass(frozen=True, slots=True, kw_only=True)
class HotspotOptions:
    """Lines of one resource."""

    enter: float
    """Fraction of the resource from which on it may be hot. Range (leave, 1]."""
    enter_seconds: float
    """For so long."""
    leave: float
    """Fraction under which it may cool down. Range (0, enter)."""
    leave_seconds: float
    """For so long."""


CPU: Final = HotspotOptions(enter=0.90, enter_seconds=15, leave=0.80, leave_seconds=60)
NETWORK: Final = HotspotOptions(enter=0.80, enter_seconds=15, leave=0.60, leave_seconds=60)
MEMORY: Final = HotspotOptions(enter=0.90, enter_seconds=10, leave=0.80, leave_seconds=300)


@dataclass(frozen=True, slots=True, kw_only=True)
class HotspotState:
    """Where a resource is between its lines."""

    level: Level = Level.OK
    since: float = 0.0
    """When it came to this level, in seconds since the epoch."""
    crossed_at: float | None = None
    """When it crossed the line that would change it; None: it has not."""


def next_state(state: HotspotState, value: float, at: float, options: HotspotOptions) -> HotspotState:
    """Return the state after a reading.

    Args:
        state: Before it.
        value: Fraction of the resource that is used.
        at: Of the reading, in seconds since the epoch.
        options: Lines of the resource.
    """
    is_hot = state.level is Level.HOT
    is_beyond = value < options.leave if is_hot else value >= options.enter
    crossed = (at if state.crossed_at is None else state.crossed_at) if is_beyond else None
    hold_seconds = options.leave_seconds if is_hot else options.enter_seconds
    if crossed is not None and at - crossed >= hold_seconds:
        level, crossed = (_below_hot(value, options) if is_hot else Level.HOT), None
    else:
        level = Level.HOT if is_hot else _below_hot(value, options)
    return HotspotState(level=level, since=state.since if level is state.level else at, crossed_at=crossed)


def after_cut(state: HotspotState, at: float) -> HotspotState:
    """Return the state of a resource whose use was just cut: it is hot only if that does not help."""
    if state.crossed_at is None or state.level is Level.HOT:
        return state
    return replace(state, crossed_at=max(state.crossed_at, at))


def _below_hot(value: float, options: HotspotOptions) -> Level:
    return Level.WARN if value >= options.leave else Level.OK
