"""How much of a queue one user may have.

A limit is shared evenly by the users who want something, but never below a percentage of the queue
(`minimum-user-limit-percent`), and never above a multiple of the queue's capacity (`user-limit-factor`). A queue
that is over its capacity is shared as it stands, with one more container, so that it can go on growing.
"""

from __future__ import annotations

from dataclasses import dataclass

from strato.interop.yarn.capacity.arithmetic import Arithmetic, scaled
from strato.interop.yarn.resources import Amounts, add, is_zero

UNLIMITED = -1.0
"""A user limit factor that bounds users only by the queue's maximum."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UserLimitInputs:
    """What a queue's user limit on one partition follows from."""

    partition: Amounts
    """What the partition has."""
    minimum_allocation: Amounts
    queue_capacity: Amounts
    """The queue's effective minimum there."""
    queue_maximum: Amounts
    """The queue's effective maximum there."""
    usage_ratio: float
    """Sum over the queue's users of what each uses of the partition, 0-1."""
    minimum_user_limit_percent: float
    user_limit_factor: float
    ignores_exclusivity: bool = False
    """Whether a shared partition's idle capacity is being given away: only the partition itself bounds users then."""


def user_limit(numbers: UserLimitInputs, arithmetic: Arithmetic, *, used: Amounts | None, weights: float) -> Amounts:
    """Return the limit of a user of weight 1.

    Args:
        numbers: The queue's numbers.
        arithmetic: The cluster's calculator.
        used: What the active users use, for the limit that scheduling obeys; None for the limit of all users, which
            preemption obeys.
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
    """Return the limit of a user of some weight, rounded down to whole minimum allocations."""
    return arithmetic.norm_down(limit, weight, minimum_allocation)
