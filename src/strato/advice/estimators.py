"""Amounts to request out of histograms, as the vertical pod autoscaler's recommender estimates them.

Amounts are whole millicores and bytes, truncated after every step and bounded, so that they are the original's to the
digit. Source: recommender/logic and recommender/model/types.go (spec utilisation 6.1).
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
    """Return a whole amount between 0 and the largest there is."""
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
        """Return both and a share of them more; the share is truncated by itself."""
        more = self.scaled(ratio)
        return Amounts(self.cpu_millicores + more.cpu_millicores, self.memory_bytes + more.memory_bytes)

    def at_least(self, other: Amounts) -> Amounts:
        """Return the larger of each."""
        return Amounts(max(self[0], other[0]), max(self[1], other[1]))

    def with_confidence(self, confidence: float, multiplier: float, exponent: float) -> Amounts:
        """Return both times (1 + multiplier / confidence) ^ exponent; without any confidence the utmost."""
        base = 1 + multiplier / confidence if confidence else math.inf
        return self.scaled(base**exponent)


@dataclass(frozen=True, slots=True)
class Share:
    """One estimate: a percentile, and how far it moves away while little is known."""

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
    """What is estimated; the defaults are the original's."""

    target: Share = Share(0.9)
    lower: Share = Share(0.5, 0.001, -2.0)
    upper: Share = Share(0.95, 1.0, 1.0)
    margin_ratio: float = 0.15
    pod_minimum: Amounts = _POD_MINIMUM
    """Divided by the number of the pod's containers."""
    confidence_seconds: float = DAY_SECONDS


class Estimate(NamedTuple):
    """Of one container."""

    target: Amounts
    lower: Amounts
    upper: Amounts


def container_minimum(pod_minimum: Amounts, containers: int) -> Amounts:
    """Return what each of a pod's containers gets at least."""
    return pod_minimum.scaled(1 / containers)


def estimate(use: UseHistograms, rules: Rules, minimum: Amounts, confidence: float | None = None) -> Estimate:
    """Return what a container shall request.

    Args:
        use: Of it and its equals.
        rules: Percentiles and margins.
        minimum: No estimate is below.
        confidence: Instead of that which follows from the samples' number and the days they span.
    """
    known = use.confidence(rules.confidence_seconds) if confidence is None else confidence
    shares = (rules.target, rules.lower, rules.upper)
    return Estimate(*(share.estimate(use, rules.margin_ratio, known).at_least(minimum) for share in shares))


def estimate_pod(containers: Mapping[str, UseHistograms], rules: Rules) -> dict[str, Estimate]:
    """Return what the containers of a pod shall request, in the order of their names."""
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
        amounts: Of a container.
        controlled: Which of ``cpu`` and ``memory``.
        cpu_multiple: Millicores are rounded up to a multiple of.
        memory_multiple: Bytes are rounded up to a multiple of.
        humanize: Whether memory is written with two decimals, as people read it.
    """
    cpu, memory = rounded_up(amounts.cpu_millicores, cpu_multiple), rounded_up(amounts.memory_bytes, memory_multiple)
    texts = {
        "cpu": str(Quantity(cpu * (NANO // 1000))),
        "memory": humanized(memory) if humanize else str(Quantity(memory * NANO, Format.BINARY_SI)),
    }
    return {name: texts[name] for name in RESOURCES if name in controlled}


def whole_cores(millicores: int) -> int:
    """Return the millicores of as many whole cores as are needed."""
    return rounded_up(millicores, 1000)
