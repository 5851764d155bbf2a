"""Token bucket that limits how long a container may exceed its limit; it fills while the container uses less.

Source: koordinator ``a7a1b76``, koordlet's limiter of quota bursts.
"""

from __future__ import annotations

from random import Random

_CONSUMING_PERCENT = 100
_SAVING_PERCENT = 60
_MOST_INITIAL = 0.5


def capacity_of(period_seconds: int, max_percent: int) -> int:
    """Return the capacity of a bucket, in percent of the limit times seconds."""
    return period_seconds * (max_percent - 100)


class TokenBucket:
    """The token bucket of one container.

    Args:
        capacity: Capacity as returned by `capacity_of`.
        at: Present time in monotonic seconds.
        initial: Initial filling, in [0, 1].
    """

    __slots__ = ("_at", "capacity", "tokens")

    def __init__(self, capacity: int, at: float, initial: float) -> None:
        self.capacity = capacity
        self.tokens = int(capacity * initial)
        self._at = at

    @classmethod
    def new(cls, capacity: int, at: float, random: Random) -> TokenBucket:
        """Return a bucket filled at random up to half, so that containers do not end their bursts at the same time."""
        return cls(capacity, at, random.random() * _MOST_INITIAL)

    def allows(self, at: float, used_percent: int) -> bool:
        """Account for use since the last call, in percent of the limit; return whether it may exceed the limit."""
        seconds = int(at - self._at)
        if used_percent >= _CONSUMING_PERCENT:
            self.tokens -= (used_percent - 100) * seconds
        elif used_percent < _SAVING_PERCENT:
            self.tokens += (100 - used_percent) * seconds
        self.tokens = max(-self.capacity, min(self.capacity, self.tokens))
        self._at += seconds
        return self.tokens > 0
