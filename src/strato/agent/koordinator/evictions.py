"""Koordinator's eviction: compute the CPU or memory to release, order the pods, and evict until enough is released.

Source: koordinator ``a7a1b76``, koordlet's ``cpuevict`` and ``memoryevict``. Departure: a task that earlier tasks have
fulfilled evicts no pod.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from strato.agent.koordinator.besteffort import BEST_EFFORT

_USED_PERCENT = 90
_LESS_THAN_A_CORE = 1000.0
_MOST_LOWER_PERCENT = 60
_BELOW_UPPER_PERCENT = 100
_BUFFER_PERCENT = 2
REAL_LIMIT, ALLOCATABLE = "realLimit", "allocatable"


@dataclass(frozen=True, slots=True, kw_only=True)
class Satisfaction:
    """Thresholds, in percent, on how far the requests of best-effort pods are satisfied; None if not set."""

    lower_percent: int | None = None
    upper_percent: int | None = None
    used_percent: int | None = None
    """Percentage of their limit that they must use before any is evicted."""

    def problem(self) -> str:
        """Return the problem of the thresholds; empty if there is none."""
        if self.lower_percent is None or self.upper_percent is None:
            return "lower and upper percent must both be set"
        if not 0 < self.lower_percent <= _MOST_LOWER_PERCENT:
            return f"lower percent {self.lower_percent} must be in (0, {_MOST_LOWER_PERCENT}]"
        if not self.lower_percent <= self.upper_percent < _BELOW_UPPER_PERCENT:
            return f"upper percent {self.upper_percent} must be in [{self.lower_percent}, {_BELOW_UPPER_PERCENT})"
        return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BestEffortUse:
    """Use, limit and requests of best-effort pods, in millicores."""

    count: int
    """Number of samples."""
    limit_milli: float
    used_milli: float
    request_milli: float


def milli_to_satisfy(
    lines: Satisfaction,
    mean: BestEffortUse,
    current: BestEffortUse | None,
    *,
    window_seconds: int,
    interval_seconds: int,
    allocatable_milli: float | None = None,
) -> int:
    """Return the millicores of requests to release so that the remaining ones are satisfied; 0 for none.

    Args:
        lines: Valid thresholds.
        mean: Mean over the window.
        current: Present measurement; None uses the mean.
        window_seconds: Length of the window in seconds.
        interval_seconds: Interval of samples.
        allocatable_milli: Used in place of the limit unless None.
    """
    if mean.count * interval_seconds < window_seconds // 3:
        return 0
    released = _to_satisfy(lines, mean, allocatable_milli)
    if released <= 0 or current is None:
        return max(0, released)
    return max(0, min(released, _to_satisfy(lines, current, allocatable_milli)))


def _to_satisfy(lines: Satisfaction, use: BestEffortUse, allocatable_milli: float | None) -> int:
    limit = use.limit_milli if allocatable_milli is None else allocatable_milli
    if limit <= 0 or use.request_milli <= 0 or lines.lower_percent is None or lines.upper_percent is None:
        return 0
    used_percent = _USED_PERCENT if lines.used_percent is None else lines.used_percent
    if limit >= _LESS_THAN_A_CORE and use.used_milli / limit < used_percent / 100:
        return 0
    rate = limit / use.request_milli
    if rate > lines.lower_percent / 100:
        return 0
    return int(use.request_milli * (lines.upper_percent / 100 - rate))


def amount_over_threshold(capacity: int, used: float, threshold_percent: int, lower_percent: int | None = None) -> int:
    """Return the amount of CPU (millicores) or memory (bytes) to release, computed in whole percents.

    Args:
        capacity: Capacity of the node.
        used: Used amount.
        threshold_percent: Use at which pods are evicted.
        lower_percent: Use to be reached; None: two less than the threshold.
    """
    percent = int(used) * 100 // capacity if capacity > 0 else 0
    lower = threshold_percent - _BUFFER_PERCENT if lower_percent is None else lower_percent
    return capacity * (percent - lower) // 100 if percent >= threshold_percent else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A pod that may be evicted."""

    name: str
    qos: str = ""
    priority: int = 0
    label_priority: int | None = None
    """Value of the label ``koordinator.sh/priority``; None uses the pod's priority."""
    eviction_priority: str = ""
    """Text of its annotation; a text that is no number counts as 0."""
    used: int = 0
    """Used millicores or bytes."""
    request: Mapping[str, int] = field(default_factory=dict)
    """Requests by resource name."""


def amounts_over_allocatable(
    allocatable: Mapping[str, int],
    pods: Iterable[Candidate],
    *,
    threshold_percent: int,
    lower_percent: int,
    priority_threshold: int,
) -> dict[str, int]:
    """Return the requests to release, for each resource of which low-priority pods request too much."""
    requested: dict[str, int] = {}
    for pod in pods:
        if pod.priority <= priority_threshold:
            for resource, amount in pod.request.items():
                requested[resource] = requested.get(resource, 0) + amount
    if threshold_percent < 0:
        return {}
    found = {}
    for resource, amount in requested.items():
        total = allocatable.get(resource, 0)
        if not total:
            found[resource] = amount
        elif amount / total > threshold_percent / 100:
            found[resource] = int(amount - lower_percent / 100 * total)
    return found


def best_effort_victims(pods: Iterable[Candidate], resource: str = "") -> list[Candidate]:
    """Return best-effort pods in the order of eviction: priority ascending, then use, or use by request, descending.

    Args:
        pods: All pods of the node.
        resource: Name of the resource whose request divides the use; empty for plain use.
    """

    def weight(pod: Candidate) -> float:
        request = pod.request.get(resource, 0)
        return float(pod.used) if not resource else pod.used / request if request > 0 else 0.0

    return sorted((pod for pod in pods if pod.qos == BEST_EFFORT), key=lambda pod: (pod.priority, -weight(pod)))


def victims_by_priority(pods: Iterable[Candidate], priority_threshold: int) -> list[Candidate]:
    """Return pods up to a priority in the order of eviction: by users' annotation, priority, its label, then use."""

    def order(pod: Candidate) -> tuple[int, int, int, int]:
        label = pod.priority if pod.label_priority is None else pod.label_priority
        return _number(pod.eviction_priority), pod.priority, label, -pod.used

    return sorted((pod for pod in pods if pod.priority <= priority_threshold), key=order)


def _number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        return 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseTask:
    """Amounts to release by evicting pods in an order."""

    target: str
    """``used`` or ``request``: which amount of an evicted pod counts as released."""
    need: Mapping[str, int]
    """Amounts to release by resource."""
    order: Sequence[str]
    """Names of pods."""


def carry_out(
    tasks: Sequence[ReleaseTask], releases: Mapping[str, Mapping[str, Mapping[str, int]]]
) -> tuple[list[str], dict[str, dict[str, int]]]:
    """Return the pods to evict, and the amounts that this releases, by target and resource.

    Args:
        tasks: Tasks in order; amounts released by earlier ones count for later ones.
        releases: Amounts that a pod's eviction releases, by pod name, target and resource.
    """
    wanted = {(task.target, resource) for task in tasks for resource, need in task.need.items() if need > 0}
    evicted: list[str] = []
    released: dict[str, dict[str, int]] = {target: {} for target, _ in sorted(wanted)}
    for task in tasks:
        for name in task.order:
            so_far = released.get(task.target, {})
            if all(so_far.get(resource, 0) >= need for resource, need in task.need.items()):
                break
            if name in evicted:
                continue
            evicted.append(name)
            for target, amounts in releases.get(name, {}).items():
                for resource, amount in amounts.items():
                    if (target, resource) in wanted:
                        released[target][resource] = released[target].get(resource, 0) + amount
    return evicted, released
