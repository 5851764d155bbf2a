"""Whether there is a burst of work, during which low-priority statuses wait."""

from __future__ import annotations

from typing import Final

LOAD_WINDOW_SECONDS: Final = 0.25
"""The time in which the bucket loses `_BURST` units; at most this long after the last work a burst is over."""
_BURST: Final = 16
"""More units of work than this within the window are a burst; slower work never is, however long it lasts."""
_PER_SECOND: Final = _BURST / LOAD_WINDOW_SECONDS
_NEVER: Final = float("-inf")


class LoadMeter:
    """A leaky bucket of the work that low-priority statuses give way to. Instants are monotonic seconds."""

    __slots__ = ("_at", "_level", "over_at")

    def __init__(self) -> None:
        self._level = 0.0
        self._at = 0.0
        self.over_at = _NEVER
        """When the load ends unless more work is added; in the past if there is no load."""

    def add(self, amount: int, now: float) -> None:
        """Count units of work."""
        if amount:
            left = max(0.0, self._level - (now - self._at) * _PER_SECOND)
            self._level, self._at = min(left + amount, 2.0 * _BURST), now
            self.over_at = now + (self._level - _BURST) / _PER_SECOND

    def is_high(self, now: float) -> bool:
        """Whether low-priority statuses have to wait."""
        return now < self.over_at
