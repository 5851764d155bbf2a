"""Decide when a host's resource becomes a hot spot (above a line for long enough) and when it has cooled down."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from strato.agent.events import Level


@dataclass(frozen=True, slots=True, kw_only=True)
class HotspotOptions:
    """Thresholds of one resource."""

    enter: float
    """Used fraction of the resource at which it may become hot. Range (leave, 1]."""
    enter_seconds: float
    """How long use must stay at or above ``enter``."""
    leave: float
    """Used fraction of the resource below which it may cool down. Range (0, enter)."""
    leave_seconds: float
    """How long use must stay below ``leave``."""


CPU: Final = HotspotOptions(enter=0.90, enter_seconds=15, leave=0.80, leave_seconds=60)
NETWORK: Final = HotspotOptions(enter=0.80, enter_seconds=15, leave=0.60, leave_seconds=60)
MEMORY: Final = HotspotOptions(enter=0.90, enter_seconds=10, leave=0.80, leave_seconds=300)


@dataclass(frozen=True, slots=True, kw_only=True)
class HotspotState:
    """Level of a resource, and its way to the next one."""

    level: Level = Level.OK
    since: float = 0.0
    """When it reached this level, in seconds since the epoch."""
    crossed_at: float | None = None
    """When use crossed the threshold to the next level; None if it has not."""


def next_state(state: HotspotState, value: float, at: float, options: HotspotOptions) -> HotspotState:
    """Return the state after a measurement.

    Args:
        state: The state before.
        value: Used fraction of the resource.
        at: Time of the measurement, in seconds since the epoch.
        options: Thresholds of the resource.
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
    """Return the state of a resource whose use was just cut: the time until it counts as hot starts again."""
    if state.crossed_at is None or state.level is Level.HOT:
        return state
    return replace(state, crossed_at=max(state.crossed_at, at))


def _below_hot(value: float, options: HotspotOptions) -> Level:
    return Level.WARN if value >= options.leave else Level.OK
