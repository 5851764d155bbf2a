"""Fair shares: divide a total among queues or applications by weight, within minima and maxima.

One resource type at a time, a ratio r is sought at which the shares ``max(weight x r, minimum)``, cut to the maximum,
use up the total: r is doubled until they do, then found by bisection in 25 steps. The answer is the upper bound cut to
whole numbers, so the sum may exceed the total by a few units, and precision ends at about r / 2**25 (spec yarn A4).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from strato.interop.yarn.resources import MOST, float32, saturated, truncated

STEPS = 25
_MOST_DOUBLINGS = 1100
"""Doublings after which a 64-bit float is infinite; a total not used up by then cannot be used up."""


@dataclass(frozen=True, slots=True)
class Claim:
    """Weight, minimum and maximum of one sharer, for one resource type."""

    weight: float = 1.0
    least: int = 0
    most: int = MOST
    active: bool = True
    """Whether the sharer gets a share; a queue without runnable applications does not."""

    @property
    def fixed(self) -> int | None:
        """The share if it does not depend on the total and the other sharers; None if it does."""
        if self.most <= 0 or not self.active:
            return 0
        return max(0, self.least) if self.weight <= 0 else None

    def at(self, ratio: float) -> int:
        """Return the share at a weight-to-resource ratio."""
        return truncated(min(max(float32(self.weight) * ratio, float(self.least)), float(self.most)))


def fair_shares(total: int, claims: Sequence[Claim]) -> list[int]:
    """Return each sharer's share of a total of one resource type.

    Complexity O(n x (25 + log2 of the ratio)). Exact but for the 25 steps; sums saturate at 64 bits.
    """
    shares: list[int] = []
    open_claims: list[Claim] = []
    taken = 0
    for claim in claims:
        fixed = claim.fixed
        shares.append(fixed or 0)
        if fixed is None:
            open_claims.append(claim)
        else:
            taken = saturated(taken + fixed)
    if not open_claims:
        return shares
    bound = 0
    for claim in open_claims:
        bound = saturated(bound + claim.most)
    ratio = _ratio(min(bound, max(total - taken, 0)), open_claims)
    return [claim.at(ratio) if claim.fixed is None else share for claim, share in zip(claims, shares, strict=True)]


def _ratio(total: int, claims: Sequence[Claim]) -> float:
    right = 1.0
    for _ in range(_MOST_DOUBLINGS):
        if _used(right, claims) >= total:
            break
        right *= 2.0
    left = 0.0
    for _ in range(STEPS):
        middle = (left + right) / 2.0
        used = _used(middle, claims)
        if used == total:
            return middle
        if used < total:
            left = middle
        else:
            right = middle
    return right


def _used(ratio: float, claims: Sequence[Claim]) -> int:
    used = 0
    for claim in claims:
        used = saturated(used + claim.at(ratio))
    return used
