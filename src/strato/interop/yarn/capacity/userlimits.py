"""The user limit: how much of a queue one user may use.

The active users (those with pending requests) share a queue evenly, but never below a percentage of the queue
(`minimum-user-limit-percent`), and never above a multiple of the queue's capacity (`user-limit-factor`). For a queue
above its capacity, its usage plus one container is shared instead, so that it can go on growing.
"""

from __future__ import annotations

from dataclasses import dataclass

from strato.interop.yarn.capacity.arithmetic import Arithmetic, scaled
from strato.interop.yarn.resources import Amounts, add, is_zero

UNLIMITED = -1.0
"""User limit factor with which only the queue's maximum bounds users."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UserLimitInputs:
    """The numbers from which a queue's user limit on one partition is computed."""

    partition: Amounts
    """Resources of the partition."""
    minimum_allocation: Amounts
    queue_capacity: Amounts
    """The queue's effective minimum there."""
    queue_maximum: Amounts
    """The queue's effective maximum there."""
    usage_ratio: float
    """Sum of the fractions of the partition that the queue's users use, 0-1."""
    minimum_user_limit_percent: float
    user_limit_factor: float
    ignores_exclusivity: bool = False
    """Whether idle resources of a shared partition are being allocated: then only the partition itself bounds users."""


def user_limit(numbers: UserLimitInputs, arithmetic: Arithmetic, *, used: Amounts | None, weights: float) -> Amounts:
    """Return the limit of a user of weight 1.

    Args:
        numbers: The queue's numbers.
        arithmetic: The cluster's calculator.
        used: Usage of the active users, for the limit that allocation applies; None for the limit over all users, which
            preemption applies.
        weights: Sum of the weights of the users concerned.
    """
    least = numbers.minimum_allocation
    whole = numbers.partition
    capacity = arithmetic.larger(whole, numbers.queue_capacity, least)
    consumed = arithmetic.norm_up(whole, numbers.usage_ratio, least)
    current = capacity if arithmetic.less(whole, consumed, capacity) else add(consumed, least)
    shared = current if used is None else add(used, least)
    limit = arithmetic.larger(
        whole,
        arithmetic.divide_up(shared, weights),
        arithmetic.divide_up(scaled(current, numbers.minimum_user_limit_percent), 100),
    )
    return arithmetic.round_up(arithmetic.smaller(whole, limit, _most(numbers, capacity)), least)


def _most(numbers: UserLimitInputs, capacity: Amounts) -> Amounts:
    if numbers.ignores_exclusivity:
        return numbers.partition
    if numbers.user_limit_factor == UNLIMITED or is_zero(numbers.queue_capacity):
        return numbers.queue_maximum
    return scaled(capacity, numbers.user_limit_factor)


def limit_of_user(limit: Amounts, weight: float, minimum_allocation: Amounts, arithmetic: Arithmetic) -> Amounts:
    """Return the limit of a user with a weight, rounded down to a multiple of the minimum allocation."""
    return arithmetic.norm_down(limit, weight, minimum_allocation)
