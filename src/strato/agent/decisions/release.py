"""How much a host that has cooled down gives back to the containers it has cut, and to whom first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from strato.agent.events import ContainerEvent, Suppression

_ENOUGH_CORES = 0.0005


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseOptions:
    """When and in which steps CPU is given back."""

    warning: float = 0.80
    """Fraction of the host's CPU below which it is cool."""
    cool_rounds: int = 12
    """For so many rounds running it must be; at least 1."""
    step: float = 0.10
    """The most that is given back in one round, as a fraction of the host. Range (0, 1]."""
    wait_rounds: int = 3
    """Rounds after a step before the next one, which measure what it has done."""


def choose_releases(
    capacity_cores: float,
    cpu: float,
    cool_rounds: int,
    suppressed: Iterable[tuple[ContainerEvent, Suppression]],
    options: ReleaseOptions,
) -> Mapping[str, int | None]:
    """Return the new limits by key, in millicores; None takes the limit away.

    Args:
        capacity_cores: Logical CPUs of the host.
        cpu: Fraction of them that is used.
        cool_rounds: For how many rounds running it has been cool, this one included.
        suppressed: Containers that are cut, with the record of it.
        options: Steps and lines.

    A container whose limit reaches what it was before is restored. The order is the reverse of suppression's.
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
