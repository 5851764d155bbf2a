"""How long to gather changes before a cycle.

A cycle has a fixed cost whatever it decides, so the pause before the next one grows with the time the last one took: a
burst is served in few cycles, and cycles never take more than a share of the scheduler's time. Time that cycles have
not used is credited (up to `_SPARE_SECONDS`), so the few cycles that one job on an idle cluster needs follow each other
closely. While small jobs arrive by the hundred, cycles are short and half of each is fixed cost: `_BURST_SECONDS` keeps
those further apart. Changes that can only alter statuses are gathered for longer, because no pod waits for them.
"""

from __future__ import annotations

_LEAST_SECONDS = 0.002
_BUSY_FACTOR = 5.0
"""Pause after a cycle, as a multiple of what it took; at most `_BUSY_SECONDS`, or as long as the cycle itself."""
_BUSY_SECONDS = 0.05
_BURST_SECONDS = 0.025
"""Shortest pause while each cycle places `_MANY_PODS` or more."""
_MANY_PODS = 8
_SPARE_SECONDS = 0.01
"""Most unused time that is credited to later cycles; while any is left, the pause is `_LEAST_SECONDS`."""
_STATUS_SECONDS = 0.1
"""Shortest gathering when the changes can only alter statuses; longer where cycles are long (`_STATUS_FACTOR`)."""
_STREAM_SECONDS = 0.4
"""Longest gathering while such changes keep coming, as when pods of gangs are made; it doubles each time up to this."""
_STREAM_END_SECONDS = 1.0
"""After this long without a cycle that could only alter statuses, the gathering starts from `_STATUS_SECONDS` again."""
_BURST_END_SECONDS = 0.25
"""After this long without a cycle that placed many pods, the burst is over."""
_STATUS_FACTOR = 50.0
_STATUS_LONGEST_SECONDS = 1.0


class Throttle:
    """Remembers when the last cycle ended and how long it took; all in seconds of a monotonic clock."""

    def __init__(self) -> None:
        self._took = 0.0
        self._ended = 0.0
        self._busy_until = 0.0
        self._spare = _SPARE_SECONDS
        self._gather = _STATUS_SECONDS
        self._reported = float("-inf")
        self._burst = float("-inf")

    def ran(self, started: float, ended: float, *, status_only: bool = False, placed: int = 0) -> None:
        """Record a cycle: its times, whether it could only alter statuses, and how many pods it placed."""
        if status_only:
            self._gather = min(_STREAM_SECONDS, 2 * self._gather) if self._streams(started) else _STATUS_SECONDS
            self._reported = ended
        took = self._took = ended - started
        self._spare = min(_SPARE_SECONDS, self._spare + (started - self._ended) / _BUSY_FACTOR)
        self._spare -= max(_LEAST_SECONDS, took)
        self._ended = ended
        gather = max(took, min(_BUSY_SECONDS, _BUSY_FACTOR * took)) if self._spare < 0.0 else 0.0
        if placed >= _MANY_PODS:
            if started < self._burst + _BURST_END_SECONDS:
                gather = max(gather, _BURST_SECONDS)
            self._burst = ended
        self._busy_until = ended + max(_LEAST_SECONDS, gather)

    def busy_seconds(self, now: float) -> float:
        """Return how much of the pause after the last cycle is left; 0 when it is over."""
        return max(0.0, self._busy_until - now)

    def status_seconds(self, now: float) -> float:
        """Return how long to gather changes that can only alter statuses."""
        least = self._gather if self._streams(now) else _STATUS_SECONDS
        return min(_STATUS_LONGEST_SECONDS, max(least, _STATUS_FACTOR * self._took))

    def _streams(self, now: float) -> bool:
        return now < self._reported + _STREAM_END_SECONDS
