"""How long a cycle waits for more changes: a pod that can be placed now does not wait, all else is gathered.

A cycle has a price whatever it decides, so cycles that follow each other are spaced by what the last one took: a burst
is served in few cycles, and the scheduler never spends more than a share of its time on deciding. What it has not spent
for a while it may spend at once: the few cycles that one job on an idle cluster needs follow each other closely. While
small jobs come by the hundred, cycles are short, and half of each is its price: then they are further apart.
"""

from __future__ import annotations

_LEAST_SECONDS = 0.002
_BUSY_FACTOR = 5.0
"""Between cycles that follow each other, times what the last took; long ones may take half of the time."""
_BUSY_SECONDS = 0.05
_BURST_SECONDS = 0.025
"""Least between cycles while each one places many pods."""
_MANY_PODS = 8
_SPARE_SECONDS = 0.01
"""What may be spent after a rest with the least spacing."""
_STATUS_SECONDS = 0.1
"""Gathering when the changes can only alter statuses: as short when cycles are, so that a reader does not wait."""
_STREAM_SECONDS = 0.4
"""Gathering when such changes keep coming, as while pods of gangs are made: twice as long each time, up to this."""
_STREAM_END_SECONDS = 1.0
"""Without such a cycle for so long, the stream has ended."""
_BURST_END_SECONDS = 0.25
"""Without a cycle that places many pods for so long, the burst is over."""
_STATUS_FACTOR = 50.0
_STATUS_LONGEST_SECONDS = 1.0


class Throttle:
    """Remembers when the last cycle ended and what it took; all in seconds of a monotonic clock."""

    def __init__(self) -> None:
        self._took = 0.0
        self._ended = 0.0
        self._busy_until = 0.0
        self._spare = _SPARE_SECONDS
        self._gather = _STATUS_SECONDS
        self._reported = float("-inf")
        self._burst = float("-inf")

    def ran(self, started: float, ended: float, *, status_only: bool = False, placed: int = 0) -> None:
        """Note a cycle, whether it could only alter statuses, and how many pods it placed."""
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
        """Return how long to gather because the last cycle is only just over; 0 when it is not."""
        return max(0.0, self._busy_until - now)

    def status_seconds(self, now: float) -> float:
        """Return how long to gather when nothing new can be placed."""
        least = self._gather if self._streams(now) else _STATUS_SECONDS
        return min(_STATUS_LONGEST_SECONDS, max(least, _STATUS_FACTOR * self._took))

    def _streams(self, now: float) -> bool:
        return now < self._reported + _STREAM_END_SECONDS
