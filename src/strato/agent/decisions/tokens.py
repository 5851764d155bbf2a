"""How long a container may use more than its limit: a bucket that fills while it uses less.

Source: koordinator ``a7a1b76``, koordlet's limiter of quota bursts.
"""

from __future__ import annotations

from random import Random

_CONSUMING_PERCENT = 100
_SAVING_PERCENT = 60
_MOST_INITIAL = 0.5


def capacity_of(period_seconds: int, max_percent: int) -> int:
    """Return how much a bucket holds, in percent of the limit times seconds."""
    return period_seconds * (max_percent - 100)


class TokenBucket:
    """A container's.

    Args:
        capacity: As `capacity_of` says.
        at: Now, in monotonic seconds.
        initial: How full it is, in [0, 1].
    """

    __slots__ = ("_at", "capacity", "tokens")

    def __init__(self, capacity: int, at: float, initial: float) -> None:
        self.capacity = capacity
        self.tokens = int(capacity * initial)
        self._at = at

    @classmethod
    def new(cls, capacity: int, at: float, random: Random) -> TokenBucket:
        """Return one that is up to half full, so that containers do not end their bursts together."""
        return cls(capacity, at, random.random() * _MOST_INITIAL)

    def allows(self, at: float, used_percent: int) -> bool:
        """Count what was used of the limit since the last call, in percent; return whether more than it is allowed."""
        seconds = int(at - self._at)
        if used_percent >= _CONSUMING_PERCENT:
            self.tokens -= (used_percent - 100) * seconds
        elif used_percent < _SAVING_PERCENT:
            self.tokens += (100 - used_percent) * seconds
        self.tokens = max(-self.capacity, min(self.capacity, self.tokens))
        self._at += seconds
        return self.tokens > 0
