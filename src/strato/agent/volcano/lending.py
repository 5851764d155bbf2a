"""Compute the CPU and memory lent to offline pods, from recently unused resources of the node. Pure."""

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
"""Rounds after which an offer is published even if it has hardly changed."""
_CHANGE_RATIO: Final = 0.1


def sample(total: float, used: float, ratio_percent: int) -> int:
    """Return the amount that could be lent now: a percentage of the unused amount.

    Args:
        total: Allocatable amount without exclusively assigned resources.
        used: Used part of it.
        ratio_percent: The percentage; above 0.
    """
    return int(max(0.0, total - used) * ratio_percent / 100)


def weighted_mean(samples: Sequence[int]) -> int:
    """Return the weighted mean of samples, oldest first; each has twice the weight of the one before."""
    weights = [1 << index for index in range(len(samples))]
    return sum(one * weight for one, weight in zip(samples, weights, strict=True)) // sum(weights) if samples else 0


@dataclass(slots=True)
class Lending:
    """Recent samples of one node's unused resources."""

    samples: dict[str, deque[int]] = field(default_factory=lambda: {name: deque(maxlen=_SAMPLES) for name in RESOURCES})
    rounds: int = 0
    """Rounds since the last published offer."""

    def note(self, resource: str, amount: int) -> None:
        """Add a sample."""
        self.samples[resource].append(amount)

    def offer(self, types: Collection[str]) -> dict[str, int]:
        """Return the millicores and bytes to lend; 0 for resources not among the types."""
        return {name: weighted_mean(found) if name in types else 0 for name, found in self.samples.items()}

    def is_due(self, offer: dict[str, int], current: dict[str, int]) -> bool:
        """Return whether an offer is to be published; call it once a round."""
        self.rounds += 1
        if self.rounds < _REPORT_EVERY and not any(has_changed(offer[name], current.get(name, 0)) for name in offer):
            return False
        self.rounds = 0
        return True


def has_changed(new: int, current: int) -> bool:
    """Return whether an amount has changed by more than a tenth."""
    return abs(new - current) > _CHANGE_RATIO * current if current else new > 0
