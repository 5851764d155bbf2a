"""The comparators of the three policies, which order queues and applications for serving (spec yarn A5).

Each returns -1, 0 or 1 if the left one comes before, equals, or comes after the right one. Names break the last tie, so
that two different sharers of one parent are never equal.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cmp_to_key
from typing import Any, Protocol

from strato.interop.yarn.fair.policies import QueuePolicy
from strato.interop.yarn.resources import Amounts, float32, is_zero


class Sharer(Protocol):
    """A queue or an application, as the comparators read it."""

    @property
    def name(self) -> str: ...  # noqa: D102 - attributes of a protocol
    @property
    def usage(self) -> Amounts: ...  # noqa: D102 - as above
    @property
    def demand(self) -> Amounts: ...  # noqa: D102 - as above
    @property
    def min_share(self) -> Amounts: ...  # noqa: D102 - as above
    @property
    def weight(self) -> float: ...  # noqa: D102 - as above
    @property
    def start_time(self) -> float: ...  # noqa: D102 - as above


@dataclass(frozen=True, slots=True)
class Standing:
    """A sharer by values alone."""

    name: str
    usage: Amounts
    demand: Amounts
    min_share: Amounts
    weight: float = 1.0
    start_time: float = 0


Comparator = Callable[[Sharer, Sharer], int]


def comparator(policy: QueuePolicy, cluster: Amounts) -> Comparator:
    """Return the comparator of a policy; DRF's depends on the cluster's resources."""
    if policy is QueuePolicy.FIFO:
        return _by_time_and_name
    if policy is QueuePolicy.FAIR:
        return compare_fair
    dominant = compare_two_types if len(cluster) == 2 else compare_types
    return lambda left, right: dominant(cluster, left, right)


def sort_key(policy: QueuePolicy, cluster: Amounts) -> Callable[[Sharer], Any]:
    """Return a sort key of a policy: smaller is served first."""
    return cmp_to_key(comparator(policy, cluster))


def _sign(number: float) -> int:
    """Return the sign of a number; 0 for NaN, which differences of infinities are."""
    return (number > 0) - (number < 0)


def _over(left: float, right: float) -> float:
    """Divide as IEEE 754 does: by 0 the result is infinite or NaN."""
    if right:
        return left / right
    return math.nan if left == 0 else math.copysign(math.inf, left)


def _by_time_and_name(left: Sharer, right: Sharer) -> int:
    return _sign(left.start_time - right.start_time) or (left.name > right.name) - (left.name < right.name)


# -- by memory ---------------------------------------------------------------------------------------------------------


def compare_fair(left: Sharer, right: Sharer) -> int:
    """Compare by memory: pending demand first, then usage below the minimum, usage by weight, start time, name."""
    return (
        _by_demand(left.demand, right.demand)
        or _by_minimum(left, right)
        or _by_usage(left, right)
        or _by_time_and_name(left, right)
    )


def _by_demand(left: Amounts, right: Amounts) -> int:
    if is_zero(left) and right[0] > 0:
        return 1
    if is_zero(right) and left[0] > 0:
        return -1
    return 0


def _by_minimum(left: Sharer, right: Sharer) -> int:
    least_left, least_right = (min(one.min_share[0], one.demand[0]) for one in (left, right))
    needy_left, needy_right = left.usage[0] < least_left, right.usage[0] < least_right
    if needy_left != needy_right:
        return -1 if needy_left else 1
    if not needy_left:
        return 0
    return _sign(left.usage[0] / max(least_left, 1) - right.usage[0] / max(least_right, 1))


def _by_usage(left: Sharer, right: Sharer) -> int:
    if left.weight > 0 and right.weight > 0:
        return _sign(left.usage[0] / left.weight - right.usage[0] / right.weight)
    if left.weight == right.weight:
        return _sign(left.usage[0] - right.usage[0])
    return _sign(right.weight - left.weight)


# -- by dominant resource ----------------------------------------------------------------------------------------------


def compare_two_types(cluster: Amounts, left: Sharer, right: Sharer) -> int:
    """Compare by dominant resource, where there are memory and vcores only."""
    top_left, shares_left = _two_shares(cluster, left)
    top_right, shares_right = _two_shares(cluster, right)
    needy_left = left.usage[top_left] < left.min_share[top_left]
    needy_right = right.usage[top_right] < right.min_share[top_right]
    if needy_left != needy_right:
        return -1 if needy_left else 1
    if needy_left:
        shares_left, shares_right = (
            [_over(used, least) for used, least in zip(one.usage, one.min_share, strict=True)] for one in (left, right)
        )
    return (
        _sign(shares_left[top_left] - shares_right[top_right])
        or _sign(shares_left[1 - top_left] - shares_right[1 - top_right])
        or _by_time_and_name(left, right)
    )


def _two_shares(cluster: Amounts, one: Sharer) -> tuple[int, list[float]]:
    """Return the index of the dominant type, and the used fraction of the cluster divided by the weight."""
    shares = [_over(used, of) for used, of in zip(one.usage, cluster, strict=True)]
    return int(shares[1] > shares[0]), [_over(share, one.weight) for share in shares]


def compare_types(cluster: Amounts, left: Sharer, right: Sharer) -> int:
    """Compare by dominant resource among any number of types, in 32-bit floating point."""
    sides = [_ratios(cluster, one) for one in (left, right)]
    tops = [_first_largest([usage for usage, _, _ in side]) for side in sides]
    needy = [one.usage[top] < one.min_share[top] for one, top in zip((left, right), tops, strict=True)]
    if needy[0] != needy[1]:
        return -1 if needy[0] else 1
    column = 2 if needy[0] else 1
    descending = cmp_to_key(_largest_first)
    for a, b in zip(sorted(sides[0], key=descending), sorted(sides[1], key=descending), strict=True):
        sign = _sign(a[column] - b[column])
        if sign:
            return sign
    return _by_time_and_name(left, right)


def _largest_first(left: tuple[float, float, float], right: tuple[float, float, float]) -> int:
    return _sign(right[0] - left[0])


def _ratios(cluster: Amounts, one: Sharer) -> list[tuple[float, float, float]]:
    """Return, per type, the used fraction of the cluster, the same divided by the weight, and that of the minimum."""
    out = []
    for used, of, least in zip(one.usage, cluster, one.min_share, strict=True):
        share = float32(_over(float32(used), float32(of)))
        out.append((share, float32(_over(share, one.weight)), float32(_over(float32(used), float32(least)))))
    return out


def _first_largest(numbers: Sequence[float]) -> int:
    largest = 0
    for at, number in enumerate(numbers):
        if number > numbers[largest]:
            largest = at
    return largest
