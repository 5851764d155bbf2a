"""Koordinator's CPU suppression: best-effort pods share the CPU that others leave, up to a threshold of the node's.

Source: koordinator ``a7a1b76``, koordlet's ``cpusuppress``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from strato.kernelstats import CFS_PERIOD_MICROSECONDS

_LEAST_QUOTA_MICROSECONDS = 2_000
_IGNORED_CHANGE = 0.01
"""Changes smaller than this fraction of the node's CPU are not written."""
_GROWTH = 0.10
"""Largest growth of the quota in one step, as a fraction of the node's CPU."""
BEST_EFFORT = "BE"


@dataclass(frozen=True, slots=True, kw_only=True)
class Consumer:
    """A pod, or an application outside of pods."""

    used_cores: float
    qos: str = ""
    """``LSE``, ``LSR``, ``LS``, ``BE``, or empty."""
    is_best_effort: bool = False
    """Whether it is limited with the best-effort pods."""


@dataclass(frozen=True, slots=True)
class NonBestEffort:
    """CPU used other than by best-effort pods, in cores."""

    pods: float
    applications: float
    system: float


def split_usage(
    node_used: float, node_reserved: float, pods: Iterable[Consumer], applications: Iterable[Consumer]
) -> NonBestEffort:
    """Return the use other than of best-effort pods, in cores; unattributed and reserved CPU counts as the system's."""
    pods, applications = list(pods), list(applications)
    rest = node_used - sum(one.used_cores for one in pods) - sum(one.used_cores for one in applications)
    return NonBestEffort(
        sum(one.used_cores for one in pods if not one.is_best_effort),
        sum(one.used_cores for one in applications if not one.is_best_effort),
        max(rest, node_reserved, 0.0),
    )


def budget_milli(
    capacity_milli: int, usage: NonBestEffort, threshold_percent: int, min_percent: int | None = None
) -> int:
    """Return the millicores that all best-effort pods may use together; it may be negative without a floor."""
    others = sum(round(cores * 1000) for cores in (usage.pods, usage.applications, usage.system))
    budget = capacity_milli * threshold_percent // 100 - others
    return budget if min_percent is None else max(budget, capacity_milli * min_percent // 100)


def next_quota_microseconds(capacity_cores: float, budget: int, current: int) -> int:
    """Return the best-effort group's quota in µs per 100 ms, which shrinks at once and grows in steps.

    Args:
        capacity_cores: Logical CPUs of the node.
        budget: Millicores as returned by `budget_milli`.
        current: The quota that is in force, -1 for none.
    """
    node = capacity_cores * CFS_PERIOD_MICROSECONDS
    quota = max(budget * CFS_PERIOD_MICROSECONDS // 1000, _LEAST_QUOTA_MICROSECONDS)
    if abs(quota - current) < node * _IGNORED_CHANGE and quota != _LEAST_QUOTA_MICROSECONDS:
        return current
    if current >= 0 and quota - current > node * _GROWTH:
        return current + int(node * _GROWTH)
    return quota
