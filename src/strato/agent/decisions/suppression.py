"""Choose the training containers to suppress on an overloaded host, and their limits.

Containers of the lowest priority are cut first, among these the largest user of CPU, each once, until the expected use
of the host is halfway between its two lines. The amount that could not be cut is reported; the next round measures the
effect.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from strato.agent.events import ContainerEvent, Workload

_ENOUGH_CORES = 0.001
"""A smaller need of CPU is ignored."""
_STEP_MILLI = 10
"""Limits are rounded up to a multiple of it."""
_NOISE_MILLI = 1e-3
"""Fractions of a millicore below this are errors of floating-point arithmetic and of the kernel's clock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SuppressionOptions:
    """Lines and floors of suppression."""

    overload: float = 0.90
    """Used fraction of the host's CPU at which it is overloaded. Range (warning, 1]."""
    warning: float = 0.80
    """Used fraction of the host's CPU below which CPU is given back. Range (0, overload)."""
    cut_fraction: float = 0.5
    """Largest part of its used CPU that a container loses in one cut. Range (0, 1)."""
    min_cores: float = 0.1
    """Lowest limit, in cores; the kernel's own floor is 0.01."""
    min_request_fraction: float = 0.0
    """Lowest limit as a part of the request. Range [0, 1]."""
    guaranteed_min_request_fraction: float = 0.5
    """The same for containers of Guaranteed pods."""
    sidecars: bool = False
    """Whether restartable init containers are cut too."""
    gang_aware: bool = False
    """Whether a job's containers on this node share its cut in proportion to their use."""

    @property
    def target(self) -> float:
        """Return the used fraction of the host's CPU that cuts aim at."""
        return (self.overload + self.warning) / 2


@dataclass(frozen=True, slots=True)
class Cuts:
    """The decision of one round of suppression."""

    limits_milli: Mapping[str, int] = field(default_factory=dict)
    """New limits in millicores by the container's key, in the order of the cuts."""
    unmet_cores: float = 0.0
    """Cores that could not be cut."""


def choose_cuts(
    capacity_cores: float, cpu: float, containers: Iterable[ContainerEvent], options: SuppressionOptions
) -> Cuts:
    """Return the limits that bring an overloaded host to its target.

    Args:
        capacity_cores: Logical CPUs of the host, without overcommitment.
        cpu: Fraction of them that is used.
        containers: All running containers; those that may not be cut are ignored.
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
    """Return the lowest limits of all containers that may be cut, in millicores by key, even if a cut frees no CPU.

    An overload keeps such containers from using much CPU, yet they still compete with those of higher priority.
    """
    found = {}
    for one in containers:
        if may_be_cut(one, options):
            least = _rounded_up(floor_milli(one, options))
            found[one.key] = least if one.limit_milli is None else min(least, one.limit_milli)
    return found


def may_be_cut(container: ContainerEvent, options: SuppressionOptions) -> bool:
    """Return whether a container may be cut: a training one that uses shared CPUs and is not cut already."""
    return (
        container.workload is Workload.TRAINING
        and container.used_cores > 0
        and container.suppression is None
        and not container.has_exclusive_cpus
        and (options.sidecars or not container.is_sidecar)
    )


def floor_milli(container: ContainerEvent, options: SuppressionOptions) -> float:
    """Return the lowest limit of a container, in millicores."""
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
    """Return groups of containers to be cut together: single ones, or a job's at the position of its first one."""
    groups: dict[tuple[str, int], list[ContainerEvent]] = {}
    for one in candidates:
        name = one.job if gang_aware and one.job else f"/{one.key}"
        groups.setdefault((name, one.priority), []).append(one)
    return list(groups.values())
