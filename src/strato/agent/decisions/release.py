"""Choose how much CPU a host that has cooled down gives back to suppressed containers, and in which order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from strato.agent.events import ContainerEvent, Suppression

_ENOUGH_CORES = 0.0005


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseOptions:
    """When, and in which steps, CPU is given back."""

    warning: float = 0.80
    """Used fraction of the host's CPU below which it counts as cool."""
    cool_rounds: int = 12
    """Consecutive cool rounds before CPU is given back; at least 1."""
    step: float = 0.10
    """The most that is given back in one round, as a fraction of the host. Range (0, 1]."""
    wait_rounds: int = 3
    """Rounds between two steps, in which the effect of the first is measured."""


def choose_releases(
    capacity_cores: float,
    cpu: float,
    cool_rounds: int,
    suppressed: Iterable[tuple[ContainerEvent, Suppression]],
    options: ReleaseOptions,
) -> Mapping[str, int | None]:
    """Return the new limits by key, in millicores; None removes the limit.

    Args:
        capacity_cores: Logical CPUs of the host.
        cpu: Fraction of them that is used.
        cool_rounds: Consecutive rounds in which the host has been cool, including this one.
        suppressed: Suppressed containers with their record.
        options: Steps and lines.

    A container is restored when its limit reaches the original one. The order is the reverse of suppression's.
    """
    if cpu >= options.warning or cool_rounds < options.cool_rounds:
        return {}
    budget = min((options.warning - cpu) * capacity_cores, options.step * capacity_cores)
    limits: dict[str, int | None] = {}
    for container, record in sorted(suppressed, key=_release_order):
        if budget <= _ENOUGH_CORES:
            break
        now = record.to_milli / 1000
        if record.from_milli is None:
            used = (record.used_milli or record.to_milli) / 1000
            free = 2 * used <= now + budget
            give = max(0.0, 2 * used - now) if free else budget
            limits[container.key] = None if free else round((now + give) * 1000)
        else:
            give = max(0.0, min(budget, record.from_milli / 1000 - now))
            limits[container.key] = max(record.to_milli, min(record.from_milli, round((now + give) * 1000)))
        budget -= give
    return limits


def _release_order(pair: tuple[ContainerEvent, Suppression]) -> tuple[int, float, str, str, str]:
    container, record = pair
    return -container.priority, record.at, container.namespace, container.pod, container.container
