"""Which training containers are cut on an overloaded host, and to what.

The lowest priority goes first and within it the largest user, each container once, until the host is expected halfway
between its two lines. What is left over is reported; the next round sees what the cuts have brought.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from strato.agent.events import ContainerEvent, Workload

_ENOUGH_CORES = 0.001
"""Less than that is no need."""
_STEP_MILLI = 10
"""Limits are rounded up to it."""
_NOISE_MILLI = 1e-3
"""Below this, a fraction of a millicore comes from floating point arithmetic and from the kernel's clock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SuppressionOptions:
    """Lines and floors of suppression."""

    overload: float = 0.90
    """Fraction of the host's CPU from which on it is overloaded. Range (warning, 1]."""
    warning: float = 0.80
    """Fraction below which it is given back. Range (0, overload)."""
    cut_fraction: float = 0.5
    """The most a container loses of what it uses. Range (0, 1)."""
    min_cores: float = 0.1
    """No limit is set below it, in cores; the kernel's own floor is 0.01."""
    min_request_fraction: float = 0.0
    """No limit is set below this part of the request. Range [0, 1]."""
    guaranteed_min_request_fraction: float = 0.5
    """The same for containers of Guaranteed pods."""
    sidecars: bool = False
    """Whether restartable init containers are cut too."""
    gang_aware: bool = False
    """Whether the local containers of one job share its cut in proportion to their use."""

    @property
    def target(self) -> float:
        """Return the fraction of the host's CPU that cuts aim at."""
        return (self.overload + self.warning) / 2


@dataclass(frozen=True, slots=True)
class Cuts:
    """What a round of suppression decided."""

    limits_milli: Mapping[str, int] = field(default_factory=dict)
    """Millicores by the container's key, in the order of the cuts."""
    unmet_cores: float = 0.0
    """What could not be cut."""


def choose_cuts(
    capacity_cores: float, cpu: float, containers: Iterable[ContainerEvent], options: SuppressionOptions
) -> Cuts:
    """Return the limits that bring an overloaded host to its target.

    Args:
        capacity_cores: Logical CPUs of the host, without overcommitment.
        cpu: Fraction of them that is used.
        containers: All that run; those that may not be cut are left out here.
        options: Lines and floors.

    Source: Vipshop, GOTC 2021; order of equal priorities, floors and rounding are our own.
    """
    need = (cpu - options.target) * capacity_cores
    if cpu < options.overload or need <= _ENOUGH_CORES:
        return Cuts()
    limits: dict[str, int] = {}
    candidates = sorted((one for one in containers if may_be_cut(one, options)), key=_cut_order)
    for group in _groups(candidates, gang_aware=options.gang_aware):
        if need <= _ENOUGH_CORES:
            break
        used = sum(one.used_cores for one in group)
        wanted = min(need, options.cut_fraction * used)
        for one in group:
            limit = _limit_milli(one, wanted * one.used_cores / used, options)
            if limit / 1000 >= one.used_cores or (one.limit_milli is not None and one.limit_milli <= limit):
                continue
            limits[one.key] = limit
            need -= one.used_cores - limit / 1000
    return Cuts(limits, need if need > _ENOUGH_CORES else 0.0)


def floors(containers: Iterable[ContainerEvent], options: SuppressionOptions) -> Mapping[str, int]:
    """Return the least limits of those that may be cut, in millicores by key, though cutting them frees nothing.

    Who is kept from the CPU by an overload uses little of it, and still competes with those of higher priority.
    """
    found = {}
    for one in containers:
        if may_be_cut(one, options):
            least = _rounded_up(floor_milli(one, options))
            found[one.key] = least if one.limit_milli is None else min(least, one.limit_milli)
    return found


def may_be_cut(container: ContainerEvent, options: SuppressionOptions) -> bool:
    """Tell whether a container is a candidate: training, in use, not cut already, on shared CPUs."""
    return (
        container.workload is Workload.TRAINING
        and container.used_cores > 0
        and container.suppression is None
        and not container.has_exclusive_cpus
        and (options.sidecars or not container.is_sidecar)
    )


def floor_milli(container: ContainerEvent, options: SuppressionOptions) -> float:
    """Return the millicores under which a container's limit is never set."""
    fraction = options.guaranteed_min_request_fraction if container.is_guaranteed else options.min_request_fraction
    return max(options.min_cores * 1000, fraction * container.request_milli)


def _limit_milli(container: ContainerEvent, cut_cores: float, options: SuppressionOptions) -> int:
    limit = max((container.used_cores - cut_cores) * 1000, floor_milli(container, options))
    return _rounded_up(limit)


def _rounded_up(milli: float) -> int:
    return math.ceil((milli - _NOISE_MILLI) / _STEP_MILLI) * _STEP_MILLI


def _cut_order(one: ContainerEvent) -> tuple[int, bool, float, float, str, str, str]:
    return one.priority, one.is_guaranteed, -one.used_cores, -one.start_time, one.namespace, one.pod, one.container


def _groups(candidates: Sequence[ContainerEvent], *, gang_aware: bool) -> list[list[ContainerEvent]]:
    """Return who is cut together: one by one, or a job's at the place of its first."""
    groups: dict[tuple[str, int], list[ContainerEvent]] = {}
    for one in candidates:
        name = one.job if gang_aware and one.job else f"/{one.key}"
        groups.setdefault((name, one.priority), []).append(one)
    return list(groups.values())
