"""Virtual time without an event loop: what is to happen when."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import count
from typing import Any

from strato.clock import format_time
from strato.sim.rest import instant


class Timeline:
    """Calls functions at instants, ties by insertion.

    Args:
        start: The instant at which it begins, seconds since the epoch.

    Attributes:
        now: Seconds after its beginning, in whole microseconds.
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
        """When something happens next."""
        return self._events[0][0] if self._events else None

    @property
    def epoch(self) -> float:
        """Now, in seconds since the epoch."""
        return self._start + self.now

    @property
    def text(self) -> str:
        """Now, as objects have it: in whole seconds."""
        return format_time(self._start + self.now)

    def after(self, seconds: float, function: Callable[..., None], *args: Any) -> None:
        """Have a function called in so many seconds."""
        heapq.heappush(self._events, (instant(self.now + seconds), next(self._numbers), function, args))

    def fire(self) -> None:
        """Call what is due now, also what that makes due now."""
        while self._events and self._events[0][0] <= self.now:
            _, _, function, args = heapq.heappop(self._events)
            function(*args)
