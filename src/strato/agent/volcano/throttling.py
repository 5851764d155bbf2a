"""The CPU quota of all best-effort pods together, computed from the CPU that others leave. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from strato.kernelstats import CFS_PERIOD_MICROSECONDS, LEAST_QUOTA_MICROSECONDS

_LEAST_MILLI: Final = LEAST_QUOTA_MICROSECONDS * 1000 // CFS_PERIOD_MICROSECONDS


@dataclass(frozen=True, slots=True, kw_only=True)
class Throttle:
    """Thresholds of ``cpuThrottlingConfig``, in percent."""

    threshold: int = 80
    """Percent of the allocatable CPU that all pods together may use."""
    jitter: int = 1
    """Percent of the last quota; smaller changes are not written."""
    recover: int = 10
    """Percent of the last quota by which it may grow at once."""


def next_available(allocatable_milli: int, used_milli: float, last_milli: int, lines: Throttle) -> int | None:
    """Return the millicores for best-effort pods; None if the last quota is close enough.

    Args:
        allocatable_milli: Allocatable CPU of the node.
        used_milli: CPU used by all pods except best-effort ones.
        last_milli: The quota written last; negative for none.
        lines: The thresholds.
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
    """Return the quota to write for an amount, at least the kernel's minimum of 1,000 µs per period."""
    return max(available_milli, _LEAST_MILLI)
