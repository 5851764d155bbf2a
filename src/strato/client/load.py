"""Whether there is work that low-priority statuses give way to."""

from __future__ import annotations

from typing import Final

LOAD_WINDOW_SECONDS: Final = 0.25
"""How long after the last work a burst is over."""
_BURST: Final = 16
"""Work within a lull's time from which on it is a burst; work that comes more slowly, however long, is none."""
_PER_SECOND: Final = _BURST / LOAD_WINDOW_SECONDS
_NEVER: Final = float("-inf")


class Load:
    """Measures work that goes before low-priority statuses, as a leaky bucket. Instants are monotonic seconds."""

    __slots__ = ("_at", "_level", "over_at")

    def __init__(self) -> None:
        self._level = 0.0
        self._at = 0.0
        self.over_at = _NEVER
        """When the load is over if nothing more comes; in the past while there is none."""

    def add(self, amount: int, now: float) -> None:
        """Count work."""
        if amount:
            left = max(0.0, self._level - (now - self._at) * _PER_SECOND)
            self._level, self._at = min(left + amount, 2.0 * _BURST), now
            self.over_at = now + (self._level - _BURST) / _PER_SECOND

    def is_high(self, now: float) -> bool:
        """Whether low-priority statuses have to give way."""
        return now < self.over_at
