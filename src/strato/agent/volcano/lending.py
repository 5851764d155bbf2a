"""How much of a node's CPU and memory is lent to offline pods: what is left of it, of late. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Final

CPU: Final = "cpu"
MEMORY: Final = "memory"
RESOURCES: Final = (CPU, MEMORY)
_SAMPLES: Final = 10
_REPORT_EVERY: Final = 6
"""Rounds: what has hardly changed is reported so often all the same."""
_CHANGE_RATIO: Final = 0.1


def sample(total: float, used: float, ratio_percent: int) -> int:
    """Return what could be lent now: a part of what is left.

    Args:
        total: Allocatable, without what is given to somebody alone.
        used: Of that.
        ratio_percent: Above 0.
    """
    return int(max(0.0, total - used) * ratio_percent / 100)


def weighted_mean(samples: Sequence[int]) -> int:
    """Return the mean of samples, the oldest first; each counts for twice as much as the one before it."""
    weights = [1 << index for index in range(len(samples))]
    return sum(one * weight for one, weight in zip(samples, weights, strict=True)) // sum(weights) if samples else 0


@dataclass(slots=True)
class Lending:
    """What one node has lent of late."""

    samples: dict[str, deque[int]] = field(default_factory=lambda: {name: deque(maxlen=_SAMPLES) for name in RESOURCES})
    rounds: int = 0
    """Since the last report."""

    def note(self, resource: str, amount: int) -> None:
        """Take a sample."""
        self.samples[resource].append(amount)

    def offer(self, types: Collection[str]) -> dict[str, int]:
        """Return millicores and bytes to lend; of what is not among the types, nothing."""
        return {name: weighted_mean(found) if name in types else 0 for name, found in self.samples.items()}

    def is_due(self, offer: dict[str, int], current: dict[str, int]) -> bool:
        """Tell, once a round, whether an offer is to be published."""
        self.rounds += 1
        if self.rounds < _REPORT_EVERY and not any(has_changed(offer[name], current.get(name, 0)) for name in offer):
            return False
        self.rounds = 0
        return True


def has_changed(new: int, current: int) -> bool:
    """Tell whether an amount differs by more than a tenth."""
    return abs(new - current) > _CHANGE_RATIO * current if current else new > 0
