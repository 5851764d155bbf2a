"""Limits by Autopilot's rules for batch jobs, to compare with: CPU on average, memory nearly at its peak.

Samples lose half of their weight in 12 hours (CPU) or 48 hours (memory). The CPU's limit is the weighted mean, as batch
jobs bear throttling; that of memory is a percentile weighted by load (a value counts as much as it is large), as few
jobs bear being killed. A margin is added, and the largest limit computed within the last hour applies.

Source: K. Rzadca et al., "Autopilot: workload autoscaling at Google", EuroSys 2020 (spec utilisation 6.2); the margins
are between the 10 and 15 % given there. The policies that choose among many models are not built.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Protocol

from strato.advice.estimators import Amounts
from strato.advice.histogram import CPU, MEMORY, BucketLayout, Histogram

CPU_HALF_LIFE_SECONDS: Final = 12 * 3600.0
MEMORY_HALF_LIFE_SECONDS: Final = 48 * 3600.0
_MEMORY_SHARE: Final = 0.98
_SMALL: Final = Amounts(4_000, 8 << 30)
"""Amounts up to which the larger margin applies."""
_SMALL_MARGIN, _LARGE_MARGIN = 0.15, 0.10
_HOUR_SECONDS: Final = 3600.0


class Use(Protocol):
    """Use of a container until an instant."""

    @property
    def ended(self) -> float:
        """The instant of the newest sample."""

    @property
    def cpu_samples(self) -> Mapping[int, int]:
        """CPU samples by bucket of `histogram.CPU`."""

    @property
    def needed_bytes(self) -> float:
        """Peak of memory use in bytes."""


def load_adjusted(layout: BucketLayout, weights: Mapping[int, float], share: float) -> float:
    """Return a percentile of a histogram whose buckets' weights are multiplied by their values."""
    adjusted = Histogram(layout)
    largest = max((layout.end(bucket) for bucket in weights), default=1.0)
    for bucket, weight in weights.items():
        adjusted.add_to_bucket(bucket, weight * layout.end(bucket) / largest)
    return adjusted.percentile(share)


def weighted_mean(layout: BucketLayout, weights: Mapping[int, float]) -> float:
    """Return the mean of a histogram's values, each counted as the end of its bucket."""
    total = sum(weights.values())
    return sum(weight * layout.end(bucket) for bucket, weight in weights.items()) / total if total else 0.0


def with_margin(amounts: Amounts) -> Amounts:
    """Return amounts with the margin of their size."""
    ratios = [_SMALL_MARGIN if one <= small else _LARGE_MARGIN for one, small in zip(amounts, _SMALL, strict=True)]
    return Amounts(*(one + int(one * ratio) for one, ratio in zip(amounts, ratios, strict=True)))


def limits(uses: Sequence[Use], now: float) -> Amounts:
    """Return the limits of a batch job: the largest of those computed for the last hour."""
    instants = {now, *(use.ended for use in uses if now - _HOUR_SECONDS <= use.ended <= now)}
    return max_of(_limits_at([use for use in uses if use.ended <= instant], instant) for instant in instants)


def max_of(amounts: Iterable[Amounts]) -> Amounts:
    """Return the largest of each."""
    largest = Amounts(0, 0)
    for one in amounts:
        largest = largest.at_least(one)
    return largest


def _limits_at(uses: Sequence[Use], now: float) -> Amounts:
    cpu: dict[int, float] = {}
    memory: dict[int, float] = {}
    for use in uses:
        age = now - use.ended
        for bucket, samples in use.cpu_samples.items():
            cpu[bucket] = cpu.get(bucket, 0.0) + samples * 2 ** (-age / CPU_HALF_LIFE_SECONDS)
        bucket = MEMORY.find(use.needed_bytes)
        memory[bucket] = memory.get(bucket, 0.0) + 2 ** (-age / MEMORY_HALF_LIFE_SECONDS)
    cores, peak = weighted_mean(CPU, cpu), load_adjusted(MEMORY, memory, _MEMORY_SHARE)
    return with_margin(Amounts.of(cores, peak))
