"""Many timers in one heap: ten thousand sleeping pods cost ten thousand entries, not ten thousand tasks."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable
from itertools import count
from typing import Any

from strato.clock import Clock

_EARLY = 5e-7
"""Timers may fire this many seconds too early, because sums of floats are rounded."""


class Timers:
    """Calls functions at instants of the clock's monotonic time; those of one instant in the order of insertion.

    A timer cannot be cancelled: the function checks whether it still applies (an epoch number is cheapest).
    Functions are called on the loop thread and must not block.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._heap: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._numbers = count()
        self._earlier = asyncio.Event()
        self._armed = float("-inf")

    def __len__(self) -> int:
        return len(self._heap)

    def after(self, seconds: float, function: Callable[..., None], *args: Any) -> None:
        """Call ``function(*args)`` in that many seconds."""
        self.at(self._clock.monotonic() + max(0.0, seconds), function, *args)

    def at(self, instant: float, function: Callable[..., None], *args: Any) -> None:
        """Call ``function(*args)`` at an instant of `Clock.monotonic`."""
        heapq.heappush(self._heap, (instant, next(self._numbers), function, args))
        if instant < self._armed:
            self._earlier.set()

    async def run(self) -> None:
        """Serve the timers until cancelled."""
        while True:
            self._fire()
            self._earlier.clear()
            self._armed = self._heap[0][0] if self._heap else float("inf")
            if not self._heap:
                await self._earlier.wait()
            else:
                await self._wait(self._armed - self._clock.monotonic())
            self._armed = float("-inf")

    def _fire(self) -> None:
        now = self._clock.monotonic() + _EARLY
        while self._heap and self._heap[0][0] <= now:
            _, _, function, args = heapq.heappop(self._heap)
            function(*args)

    async def _wait(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(max(0.0, seconds)):
                await self._earlier.wait()
        except TimeoutError:
            pass
