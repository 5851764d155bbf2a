"""Whether so much work comes that what nobody waits for should let it pass."""

from __future__ import annotations

LULL_SECONDS = 0.25
"""How long after the last work a burst is over."""
_MUCH = 16
"""Work within a lull's time from which on it is a burst; what comes more slowly than that, however long, is none."""
_PER_SECOND = _MUCH / LULL_SECONDS


class Burst:
    """Measures work as a leaking bucket does; instants are monotonic seconds."""

    __slots__ = ("_at", "_level", "over_at")

    def __init__(self) -> None:
        self._level = 0.0
        self._at = 0.0
        self.over_at = float("-inf")
        """When it is over if nothing more comes; in the past while there is none."""

    def worked(self, amount: int, now: float) -> None:
        """Note that so much came."""
        left = max(0.0, self._level - (now - self._at) * _PER_SECOND)
        self._level, self._at = min(left + amount, 2.0 * _MUCH), now
        self.over_at = now + (self._level - _MUCH) / _PER_SECOND

    def is_on(self, now: float) -> bool:
        """Whether there is work that goes first."""
        return now < self.over_at
