"""The CPU quota of all best-effort pods together, from what the others leave of the node. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from strato.kernelstats import CFS_PERIOD_MICROSECONDS, LEAST_QUOTA_MICROSECONDS

_LEAST_MILLI: Final = LEAST_QUOTA_MICROSECONDS * 1000 // CFS_PERIOD_MICROSECONDS


@dataclass(frozen=True, slots=True, kw_only=True)
class Throttle:
    """Lines of ``cpuThrottlingConfig``; percent."""

    threshold: int = 80
    """Of the allocatable CPU: pods together are to use no more."""
    jitter: int = 1
    """Of the last quota: smaller changes are not written."""
    recover: int = 10
    """Of the last quota: it grows by no more at once."""


def next_available(allocatable_milli: int, used_milli: float, last_milli: int, lines: Throttle) -> int | None:
    """Return the millicores for best-effort pods; None: what they have is near enough.

    Args:
        allocatable_milli: Of the node.
        used_milli: By all pods but those of best effort.
        last_milli: What was written last; negative: nothing was.
        lines: How much, and in which steps.
    """
    available = int(max(0.0, allocatable_milli * lines.threshold / 100 - used_milli))
    if 0 < last_milli < available:
        available = min(available, last_milli + max(1, last_milli * lines.recover // 100))
    if last_milli < 0:
        return available
    if last_milli == 0:
        return available or None
    return available if abs(available - last_milli) >= last_milli * lines.jitter / 100 else None


def quota_milli(available_milli: int) -> int:
    """Return what is written for an amount: the kernel takes no less than 1,000 µs in a period."""
    return max(available_milli, _LEAST_MILLI)
