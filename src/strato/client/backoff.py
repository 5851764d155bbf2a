"""Waiting times between attempts: exponential with jitter, from an injected generator."""

from __future__ import annotations

from random import Random

_RESET_SECONDS = 120.0
"""After this long without a failure the delay starts over."""


class Backoff:
    """A growing, jittered delay that starts over after a quiet time.

    Args:
        initial_seconds: First delay before jitter.
        max_seconds: The delay stops growing here.

    Defaults are client-go's reflector's: 0.8 s doubling to 30 s with up to 100 % jitter, reset after 2 min.
    """

    def __init__(self, random: Random, *, initial_seconds: float = 0.8, max_seconds: float = 30.0) -> None:
        self._random = random
        self._initial = initial_seconds
        self._max = max_seconds
        self._next = initial_seconds
        self._last: float | None = None

    def next_delay(self, now_seconds: float) -> float:
        """Return how many seconds to wait after a failure at ``now_seconds`` (monotonic)."""
        if self._last is not None and now_seconds - self._last >= _RESET_SECONDS:
            self._next = self._initial
        self._last = now_seconds
        delay = self._next
        self._next = min(2.0 * self._next, self._max)
        return delay * (1.0 + self._random.random())  # so that many clients do not come back at once
