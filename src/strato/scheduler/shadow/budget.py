"""`Budget`: limits the CPU of side work to a share of the main work's CPU; pure."""

from __future__ import annotations

from typing import Final

_LEAST_SAVED_SECONDS: Final = 0.05
"""Least capacity of the bucket, so that the first turns need not wait."""


class Budget:
    """A bucket: the main work's CPU seconds fill it with their share, turns of the side work empty it.

    Its capacity is one turn, so that in any period turns take at most the share and one turn.

    Args:
        share: CPU of the side work over CPU of the main work, at most. In (0, 1].
    """

    def __init__(self, share: float) -> None:
        self.share = share
        self._saved_seconds = 0.0
        self._main_seconds = 0.0
        self._expected_seconds = 0.0

    def worked(self, main_seconds: float) -> None:
        """Note the CPU that the main work has taken since it began; must not decrease."""
        gained = max(0.0, main_seconds - self._main_seconds)
        self._main_seconds = main_seconds
        limit = max(_LEAST_SAVED_SECONDS, self._expected_seconds)
        self._saved_seconds = min(limit, self._saved_seconds + self.share * gained)

    def start_over(self, main_seconds: float) -> None:
        """Empty the bucket and forget the cost of a turn, because turns will do other work from now on."""
        self._saved_seconds = self._expected_seconds = 0.0
        self._main_seconds = main_seconds

    @property
    def allows(self) -> bool:
        """Whether a turn as expensive as the last one is within the share."""
        return self._saved_seconds >= max(self._expected_seconds, 1e-9)

    def spend(self, seconds: float) -> None:
        """Note the CPU that a turn took."""
        self._saved_seconds -= seconds
        self._expected_seconds = seconds
