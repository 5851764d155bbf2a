"""Amounts of resources as YARN's schedulers count them: whole numbers, one per resource type, in the types' order.

An amount is a plain tuple, so it is immutable, hashable and cheap; `ResourceTypes` names the types of its numbers.
Memory is in MB and comes first, vcores are second, others follow in the order they were declared. Numbers are those of
a signed 64-bit integer and saturate where YARN's do.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

MEMORY = "memory-mb"
VCORES = "vcores"
MOST = 2**63 - 1
"""The largest amount there is; stands for "no limit"."""
MOST_INT = 2**31 - 1
"""The largest count there is (of applications); stands for "no limit"."""
MOST_TYPES = 64
"""Most resource types, more than any cluster has; a file that declares more is refused."""

Amounts = tuple[int, ...]
"""One whole number per resource type."""
LEAST: Amounts = (1024, 1)
"""MB and vcores of YARN's default smallest container, which is also the default increment of requests."""


@dataclass(frozen=True, slots=True)
class ResourceTypes:
    """The types of resources of a cluster, in the order of every amount's numbers."""

    names: tuple[str, ...] = (MEMORY, VCORES)
    index: Mapping[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "index", {name: at for at, name in enumerate(self.names)})

    @classmethod
    def with_others(cls, others: Iterable[str]) -> ResourceTypes:
        """Return the types memory, vcores and the named others, in this order; blanks around names are stripped."""
        named = dict.fromkeys((MEMORY, VCORES, *(other.strip() for other in others if other.strip())))
        return cls(tuple(named))

    def __len__(self) -> int:
        return len(self.names)

    def filled(self, value: int) -> Amounts:
        """Return the amount with the same number for every type."""
        return (value,) * len(self.names)

    def of(self, memory_mb: int = 0, vcores: int = 0, **others: int) -> Amounts:
        """Return an amount; types that are not named are 0."""
        return self.from_mapping({MEMORY: memory_mb, VCORES: vcores, **others})

    def from_mapping(self, amounts: Mapping[str, int], missing: int = 0) -> Amounts:
        """Return the amount of a mapping from type names to numbers; unknown names are ignored."""
        return tuple(amounts.get(name, missing) for name in self.names)

    def padded(self, numbers: Iterable[int]) -> Amounts:
        """Return an amount of the first types' numbers, padded with 0."""
        given = tuple(numbers)[: len(self.names)]
        return given + (0,) * (len(self.names) - len(given))

    def text(self, amounts: Amounts) -> str:
        """Return an amount in words: ``<5120 MB, 2 vcores, 1 gpu>``; an unlimited number is ``unlimited``."""
        units = {MEMORY: "MB"}
        return ", ".join(
            f"{'unlimited' if number >= MOST else number} {units.get(name, name)}"
            for name, number in zip(self.names, amounts, strict=True)
        )


def saturated(number: int) -> int:
    """Return a number clamped to the range of a signed 64-bit integer."""
    return max(-MOST - 1, min(MOST, number))


def add(left: Amounts, right: Amounts) -> Amounts:
    """Return the sum, per type, saturating."""
    return tuple(saturated(a + b) for a, b in zip(left, right, strict=True))


def subtract(left: Amounts, right: Amounts) -> Amounts:
    """Return the difference, per type; it may be negative."""
    return tuple(a - b for a, b in zip(left, right, strict=True))


def sub0(left: Amounts, right: Amounts) -> Amounts:
    """Return the difference, per type, no less than 0."""
    return tuple(max(0, a - b) for a, b in zip(left, right, strict=True))


def smallest(left: Amounts, right: Amounts) -> Amounts:
    """Return the smaller number, per type."""
    return tuple(map(min, left, right))


def largest(left: Amounts, right: Amounts) -> Amounts:
    """Return the larger number, per type."""
    return tuple(map(max, left, right))


def fits(inner: Amounts, outer: Amounts) -> bool:
    """Return whether every number is at most the other's."""
    return all(a <= b for a, b in zip(inner, outer, strict=True))


def total(amounts: Iterable[Amounts], zero: Amounts) -> Amounts:
    """Return the sum of many amounts, saturating."""
    result = zero
    for one in amounts:
        result = add(result, one)
    return result


def times(amounts: Amounts, factor: float) -> Amounts:
    """Return the product, per type, truncated to a whole number."""
    return tuple(truncated(number * factor) for number in amounts)


def truncated(number: float) -> int:
    """Return a float as a signed 64-bit integer: truncated towards 0 and clamped to the range; NaN becomes 0."""
    if math.isnan(number):
        return 0
    if math.isinf(number):
        return MOST if number > 0 else -MOST - 1
    return saturated(int(number))


def float32(number: float) -> float:
    """Return a number rounded to a 32-bit float, as which YARN stores configured weights and shares."""
    try:
        return float(struct.unpack("f", struct.pack("f", number))[0])
    except OverflowError:
        return math.copysign(math.inf, number)


def raised(amounts: Amounts, step: Amounts) -> Amounts:
    """Return each number raised to a multiple of its step; a step of 0 leaves it."""
    return tuple(-(-number // by) * by if by > 0 else number for number, by in zip(amounts, step, strict=True))


def is_zero(amounts: Amounts) -> bool:
    """Return whether every number is 0."""
    return not any(amounts)


class MemoryCalculator:
    """Compares amounts by memory alone (YARN's DefaultResourceCalculator)."""

    dominant = False

    def compare(self, cluster: Amounts, left: Amounts, right: Amounts, *, largest_only: bool = False) -> int:
        """Return -1, 0 or 1 as the left amount is less, equal or more."""
        return (left[0] > right[0]) - (left[0] < right[0])

    def over(self, usage: Amounts, share: Amounts) -> bool:
        """Return whether a usage exceeds a share."""
        return usage[0] > share[0]


class DominantCalculator:
    """Compares amounts by their largest share of the cluster, then by the next largest."""

    dominant = True

    def compare(self, cluster: Amounts, left: Amounts, right: Amounts, *, largest_only: bool = False) -> int:
        """Return -1, 0 or 1 as the left amount is less, equal or more.

        Args:
            cluster: Total of each type; types with a total of 0 are ignored.
            left: The one amount.
            right: The other amount.
            largest_only: Whether amounts with equal largest shares are equal, regardless of their other shares.
        """
        if left == right:
            return 0
        if not any(cluster):
            return self._without_cluster(left, right)
        if largest_only:
            mine, theirs = max(self._shares(cluster, left)), max(self._shares(cluster, right))
            return (mine > theirs) - (mine < theirs)
        mine_all = sorted(self._shares(cluster, left), reverse=True)
        theirs_all = sorted(self._shares(cluster, right), reverse=True)
        return (mine_all > theirs_all) - (mine_all < theirs_all)

    def over(self, usage: Amounts, share: Amounts) -> bool:
        """Return whether a usage exceeds a share in any type."""
        return not fits(usage, share)

    @staticmethod
    def _shares(cluster: Amounts, amounts: Amounts) -> list[float]:
        return [number / of if of else 0.0 for number, of in zip(amounts, cluster, strict=True)]

    @staticmethod
    def _without_cluster(left: Amounts, right: Amounts) -> int:
        """Compare amounts of an empty cluster, by all types; return 0 if the types disagree."""
        signs = {(a > b) - (a < b) for a, b in zip(left, right, strict=True)} - {0}
        return signs.pop() if len(signs) == 1 else 0


Calculator = MemoryCalculator | DominantCalculator
MEMORY_ONLY = MemoryCalculator()
DOMINANT = DominantCalculator()
