"""Koordinator's CPU burst: the time that a container may save up, and the growth of its quota while it is throttled.

Source: koordinator ``a7a1b76``, koordlet's ``cpuburst``. Departure: a container's burst never exceeds its quota, if
that is known, as mainline kernels demand.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from strato.agent.koordinator.besteffort import BEST_EFFORT
from strato.kernelstats import CFS_PERIOD_MICROSECONDS

_COOLING = 0.9
"""Fraction of the threshold at which quotas stop growing."""
_GROWTH_PERCENT, _SHRINKAGE_PERCENT = 120, 80
_EXCLUSIVE = ("LSE", "LSR")


class NodeState(StrEnum):
    """Load of the CPUs that pods share."""

    UNKNOWN = "unknown"
    IDLE = "idle"
    COOLING = "cooling"
    OVERLOAD = "overload"


class BurstPolicy(StrEnum):
    """Kinds of bursts that are allowed."""

    NONE = "none"
    CPU = "cpuBurstOnly"
    """The kernel's CFS burst."""
    QUOTA = "cfsQuotaBurstOnly"
    """A raised CFS quota."""
    AUTO = "auto"
    """Both."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BurstSettings:
    """Burst settings of a pod or node; None for settings that are not given."""

    policy: BurstPolicy | None = None
    cpu_burst_percent: int | None = None
    quota_burst_percent: int | None = None
    quota_burst_period_seconds: int | None = None
    """How long a container may use its maximum; negative: without limit."""

    def over(self, node: BurstSettings | None) -> BurstSettings:
        """Return the node's settings overridden by these."""
        if node is None:
            return self
        own = {name: getattr(self, name) for name in self.__slots__ if getattr(self, name) is not None}
        return replace(node, **own)


@dataclass(frozen=True, slots=True, kw_only=True)
class SharingPod:
    """A pod's part of the CPUs that pods share."""

    qos: str = ""
    request_cores: float = 0.0
    used_cores: float = 0.0


def node_state(used_cores: float, cpus: int | None, pods: Iterable[SharingPod], threshold_percent: float) -> NodeState:
    """Return the load of the shared CPUs, without exclusive and best-effort pods."""
    if cpus is None:
        return NodeState.UNKNOWN
    total, used = float(cpus), used_cores
    for pod in pods:
        if pod.qos in _EXCLUSIVE:
            total -= pod.request_cores
        if pod.qos in (*_EXCLUSIVE, BEST_EFFORT):
            used -= pod.used_cores
    share, threshold = used / total if total > 0 else 1.0, threshold_percent / 100
    if share >= threshold:
        return NodeState.OVERLOAD
    return NodeState.COOLING if share >= threshold * _COOLING else NodeState.IDLE


def saved_microseconds(limit_milli: int, settings: BurstSettings, quota: int | None = None) -> int:
    """Return a container's CFS burst in µs per 100 ms; 0 without a limit or if bursts are off."""
    if settings.policy not in (BurstPolicy.CPU, BurstPolicy.AUTO) or limit_milli <= 0:
        return 0
    burst = limit_milli * (settings.cpu_burst_percent or 0) * CFS_PERIOD_MICROSECONDS // 100_000
    return min(burst, quota) if quota is not None and quota > 0 else burst


def next_quotas(
    state: NodeState, settings: BurstSettings, containers: Sequence[tuple[int, int, float, bool]], pod_quota: int
) -> tuple[list[int], int]:
    """Return the quotas of a pod's containers and its own, in microseconds per 100 ms.

    Args:
        state: Load of the shared CPUs.
        settings: Settings of the pod.
        containers: Each one's limit in millicores, quota, throttled fraction of the last periods, and whether its token
            bucket allows a burst.
        pod_quota: The pod's quota; not positive if it has none, which is then kept.
    """
    quotas = []
    for limit_milli, quota, throttled, is_allowed in containers:
        base = limit_milli * CFS_PERIOD_MICROSECONDS // 1000
        if base <= 0:
            quotas.append(quota)
            continue
        ceiling = base * max(100, settings.quota_burst_percent or 100) // 100
        wanted = _wanted(state, settings, base, quota, throttled, is_allowed=is_allowed)
        quotas.append(max(base, min(wanted, ceiling)))
    grown = sum(quotas) - sum(quota for _, quota, _, _ in containers)
    return quotas, pod_quota + grown if pod_quota > 0 else pod_quota


def _wanted(
    state: NodeState, settings: BurstSettings, base: int, quota: int, throttled: float, *, is_allowed: bool
) -> int:
    if settings.policy not in (BurstPolicy.QUOTA, BurstPolicy.AUTO):
        return base
    if not is_allowed or state is NodeState.OVERLOAD:
        return quota * _SHRINKAGE_PERCENT // 100
    if throttled > 0 and state is NodeState.IDLE:
        return quota * _GROWTH_PERCENT // 100
    return quota
