"""Decide when offline pods are evicted in favour of online ones, and in which order. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from strato.agent.volcano.lending import CPU, MEMORY, RESOURCES
from strato.agent.volcano.levels import ResourceNames, is_critical, is_offline, requested
from strato.api.core import Pod

_ROUNDS: Final = 6
_CPU_HIGH, _MEMORY_HIGH, _LOW = 80, 60, 30
_FORMS: Final = ("volcano.sh/evicting", "volcano.sh/oversubscription-evicting")
"""Prefixes of the annotations, the newer form first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Watermarks:
    """Watermarks of one resource, in percent of the allocatable amount."""

    high: int
    """Use at which an offline pod is evicted."""
    low: int
    """Use at which offline pods may return."""


def watermarks(configured: Mapping[str, Watermarks], annotations: Mapping[str, str]) -> Mapping[str, Watermarks]:
    """Return the watermarks of ``cpu`` and ``memory`` for a node.

    Args:
        configured: Watermarks of the ConfigMap.
        annotations: Annotations of the node. If one of them sets a watermark, the others have their defaults. Invalid
            or contradictory ones are ignored.
    """
    defaults = {(CPU, "high"): _CPU_HIGH, (MEMORY, "high"): _MEMORY_HIGH, (CPU, "low"): _LOW, (MEMORY, "low"): _LOW}
    for form in _FORMS:
        keys = {place: f"{form}-{place[0]}-{place[1]}-watermark" for place in defaults}
        given = {place: annotations[key] for place, key in keys.items() if key in annotations}
        if not given:
            continue
        if not all(text.isascii() and text.isdigit() and 0 < len(text) < 10 for text in given.values()):
            return configured
        found = {**defaults, **{place: int(text) for place, text in given.items()}}
        if any(found[name, "high"] <= found[name, "low"] or not found[name, "low"] for name in RESOURCES):
            return configured
        return {name: Watermarks(high=found[name, "high"], low=found[name, "low"]) for name in RESOURCES}
    return configured


class Pressure:
    """Counts the rounds in which a resource is above its high watermark."""

    def __init__(self) -> None:
        self._rounds = dict.fromkeys(RESOURCES, 0)

    def step(self, percents: Mapping[str, float], marks: Mapping[str, Watermarks]) -> list[str]:
        """Add a round; return the resources that have been above their high watermark for six rounds in a row."""
        for name, percent in percents.items():
            self._rounds[name] = self._rounds[name] + 1 if percent >= marks[name].high else 0
        return [name for name, rounds in self._rounds.items() if rounds >= _ROUNDS]

    def reset(self) -> None:
        """Reset all counters, after the watermarks have changed."""
        self._rounds = dict.fromkeys(RESOURCES, 0)


def is_relieved(percents: Mapping[str, float], marks: Mapping[str, Watermarks]) -> bool:
    """Return whether all resources are at or below their low watermarks, so that offline pods may return."""
    return len(percents) == len(RESOURCES) and all(percents[name] <= marks[name].low for name in RESOURCES)


def victims(pods: Iterable[Pod], resource: str, names: ResourceNames) -> list[Pod]:
    """Return the offline pods in the order of eviction, the largest request first."""
    found = [one for one in pods if is_offline(one) and not is_critical(one)]
    found = [one for one in found if not one.is_finished and not one.metadata.deletion_timestamp]
    return sorted(found, key=lambda one: (-requested(one, resource, names), one.metadata.key))
