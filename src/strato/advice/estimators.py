"""Estimate requests from histograms, as the vertical pod autoscaler's recommender does.

Amounts are whole millicores and bytes, truncated after every step and bounded, so that results equal the original's
exactly. Source: recommender/logic and recommender/model/types.go (spec utilisation 6.1).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from strato.advice.use import DAY_SECONDS, UseHistograms
from strato.api.quantity import NANO, Format, Quantity

_LARGEST: Final = 100_000_000_000_000
RESOURCES: Final = ("cpu", "memory")
_UNITS: Final = (("Ti", 1 << 40), ("Gi", 1 << 30), ("Mi", 1 << 20), ("Ki", 1 << 10))


def truncated(amount: float) -> int:
    """Return an amount truncated to an integer, and clamped between 0 and the largest amount."""
    return 0 if not amount > 0 else _LARGEST if amount > _LARGEST else int(amount)


class Amounts(NamedTuple):
    """Of one container."""

    cpu_millicores: int
    memory_bytes: int

    @classmethod
    def of(cls, cores: float, memory_bytes: float) -> Amounts:
        """Return measured amounts, truncated."""
        return cls(truncated(cores * 1000), truncated(memory_bytes))

    def scaled(self, factor: float) -> Amounts:
        """Return both times a factor, truncated."""
        return Amounts(truncated(self.cpu_millicores * factor), truncated(self.memory_bytes * factor))

    def with_margin(self, ratio: float) -> Amounts:
        """Return both amounts increased by a ratio; the increase is truncated separately."""
        more = self.scaled(ratio)
        return Amounts(self.cpu_millicores + more.cpu_millicores, self.memory_bytes + more.memory_bytes)

    def at_least(self, other: Amounts) -> Amounts:
        """Return the larger of each."""
        return Amounts(max(self[0], other[0]), max(self[1], other[1]))

    def with_confidence(self, confidence: float, multiplier: float, exponent: float) -> Amounts:
        """Return both times (1 + multiplier / confidence) ^ exponent; the largest amount if the confidence is 0."""
        base = 1 + multiplier / confidence if confidence else math.inf
        return self.scaled(base**exponent)


@dataclass(frozen=True, slots=True)
class Share:
    """One estimate: a percentile, and the factors that widen it while confidence is low."""

    percentile: float
    multiplier: float = 0.0
    exponent: float = 1.0

    def estimate(self, use: UseHistograms, margin_ratio: float, confidence: float) -> Amounts:
        """Return the amounts."""
        base = Amounts.of(use.cpu.percentile(self.percentile), use.memory.percentile(self.percentile))
        base = base.with_margin(margin_ratio)
        return base.with_confidence(confidence, self.multiplier, self.exponent) if self.multiplier else base


_POD_MINIMUM: Final = Amounts(25, 250 << 20)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """Percentiles and margins of the estimates, with the original's defaults."""

    target: Share = Share(0.9)
    lower: Share = Share(0.5, 0.001, -2.0)
    upper: Share = Share(0.95, 1.0, 1.0)
    margin_ratio: float = 0.15
    pod_minimum: Amounts = _POD_MINIMUM
    """Minimum of a pod, which is divided by the number of its containers."""
    confidence_seconds: float = DAY_SECONDS


class Estimate(NamedTuple):
    """Of one container."""

    target: Amounts
    lower: Amounts
    upper: Amounts


def container_minimum(pod_minimum: Amounts, containers: int) -> Amounts:
    """Return the minimum of each of a pod's containers."""
    return pod_minimum.scaled(1 / containers)


def estimate(use: UseHistograms, rules: Rules, minimum: Amounts, confidence: float | None = None) -> Estimate:
    """Return the recommended requests of a container.

    Args:
        use: Use of the container and its equals.
        rules: Percentiles and margins.
        minimum: Lower bound of all estimates.
        confidence: Overrides the confidence computed from the samples' number and time span.
    """
    known = use.confidence(rules.confidence_seconds) if confidence is None else confidence
    shares = (rules.target, rules.lower, rules.upper)
    return Estimate(*(share.estimate(use, rules.margin_ratio, known).at_least(minimum) for share in shares))


def estimate_pod(containers: Mapping[str, UseHistograms], rules: Rules) -> dict[str, Estimate]:
    """Return the recommended requests of a pod's containers, in the order of their names."""
    if not containers:
        return {}
    minimum = container_minimum(rules.pod_minimum, len(containers))
    return {name: estimate(containers[name], rules, minimum) for name in sorted(containers)}


def rounded_up(amount: int, multiple: int) -> int:
    """Return the next multiple."""
    return -(-amount // multiple) * multiple


def humanized(memory_bytes: int) -> str:
    """Return bytes with two decimals of the largest binary unit."""
    for unit, size in _UNITS:
        if memory_bytes >= size:
            return f"{memory_bytes / size:.2f}{unit}"
    return str(memory_bytes)


def to_resources(
    amounts: Amounts,
    controlled: Collection[str] = RESOURCES,
    *,
    cpu_multiple: int = 1,
    memory_multiple: int = 1,
    humanize: bool = False,
) -> dict[str, str]:
    """Return a resource list in Kubernetes' text, of the controlled resources only.

    Args:
        amounts: Amounts of a container.
        controlled: Which of ``cpu`` and ``memory``.
        cpu_multiple: Millicores are rounded up to a multiple of this.
        memory_multiple: Bytes are rounded up to a multiple of this.
        humanize: Whether memory is written with two decimals, as people read it.
    """
    cpu, memory = rounded_up(amounts.cpu_millicores, cpu_multiple), rounded_up(amounts.memory_bytes, memory_multiple)
    texts = {
        "cpu": str(Quantity(cpu * (NANO // 1000))),
        "memory": humanized(memory) if humanize else str(Quantity(memory * NANO, Format.BINARY_SI)),
    }
    return {name: texts[name] for name in RESOURCES if name in controlled}


def whole_cores(millicores: int) -> int:
    """Return millicores rounded up to whole cores."""
    return rounded_up(millicores, 1000)
