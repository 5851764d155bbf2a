"""`Timeline`: virtual time without an event loop, and the functions to call at later instants."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import count
from typing import Any

from strato.clock import format_time
from strato.sim.rest import instant


class Timeline:
    """Calls functions at instants; those of one instant in the order in which they were added.

    Args:
        start: The instant at which the timeline begins, seconds since the epoch.

    Attributes:
        now: The present instant, seconds after the beginning, in whole microseconds. The engine advances it.
    """

    def __init__(self, start: float) -> None:
        self._start = start
        self._events: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._numbers = count()
        self.now = 0.0

    def __len__(self) -> int:
        return len(self._events)

    @property
    def next_at(self) -> float | None:
        """The instant of the next call; None when there is none."""
        return self._events[0][0] if self._events else None

    @property
    def epoch(self) -> float:
        """The present instant, seconds since the epoch."""
        return self._start + self.now

    @property
    def text(self) -> str:
        """The present instant as a timestamp of API objects, in whole seconds."""
        return format_time(self._start + self.now)

    def after(self, seconds: float, function: Callable[..., None], *args: Any) -> None:
        """Have a function called in so many seconds."""
        heapq.heappush(self._events, (instant(self.now + seconds), next(self._numbers), function, args))

    def fire(self) -> None:
        """Call the functions that are due now, also those that these calls add for now."""
        while self._events and self._events[0][0] <= self.now:
            _, _, function, args = heapq.heappop(self._events)
            function(*args)
