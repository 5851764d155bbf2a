"""Ring buffers of the samples of the last 15 minutes, for one container or the host, in a few bytes per sample."""

from __future__ import annotations

from array import array
from collections.abc import Iterator

LENGTH = 900
"""Number of samples: 15 minutes at one per second."""


class Ring:
    """Ring buffer of values with their instants; a new one replaces the oldest when it is full.

    Args:
        length: Its capacity; memory is allocated only for samples that exist.
    """

    __slots__ = ("_length", "_next", "_times", "_values")

    def __init__(self, length: int = LENGTH) -> None:
        self._length = length
        self._times = array("d")
        self._values = array("d")
        self._next = 0

    def add(self, at: float, value: float) -> None:
        """Add a sample; instants must not decrease."""
        if len(self._values) < self._length:
            self._times.append(at)
            self._values.append(value)
        else:
            self._times[self._next] = at
            self._values[self._next] = value
        self._next = (self._next + 1) % self._length

    def __len__(self) -> int:
        return len(self._values)

    def newest(self) -> Iterator[tuple[float, float]]:
        """Return the samples with their instants, the newest first."""
        for back in range(1, len(self._values) + 1):
            place = (self._next - back) % self._length if len(self._values) == self._length else -back
            yield self._times[place], self._values[place]

    def mean_since(self, since: float) -> float | None:
        """Return the mean of the samples after an instant; None without any."""
        total, count = 0.0, 0
        for at, value in self.newest():
            if at <= since:
                break
            total, count = total + value, count + 1
        return total / count if count else None
