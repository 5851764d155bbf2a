"""`Budget`: a share of the CPU that something may take beside what matters more; pure."""

from __future__ import annotations

from typing import Final

_LEAST_SAVED_SECONDS: Final = 0.05
"""So much CPU may be saved up at least, so that the first turns need not wait."""


class Budget:
    """A bucket that CPU seconds of the main work fill with a share of them, and turns of the side work empty.

    It holds one turn, so that in any stretch of time turns take the share and one turn at most.

    Args:
        share: CPU of the side work over CPU of the main work, at most. In (0, 1].
    """

    def __init__(self, share: float) -> None:
        self.share = share
        self._saved_seconds = 0.0
        self._main_seconds = 0.0
        self._expected_seconds = 0.0

    def worked(self, main_seconds: float) -> None:
        """Note how much CPU the main work has taken since it began; it never goes back."""
        gained = max(0.0, main_seconds - self._main_seconds)
        self._main_seconds = main_seconds
        limit = max(_LEAST_SAVED_SECONDS, self._expected_seconds)
        self._saved_seconds = min(limit, self._saved_seconds + self.share * gained)

    def start_over(self, main_seconds: float) -> None:
        """Forget what was saved up and what turns took: from now on they are other turns."""
        self._saved_seconds = self._expected_seconds = 0.0
        self._main_seconds = main_seconds

    @property
    def allows(self) -> bool:
        """Whether a turn as costly as the last one is within the share."""
        return self._saved_seconds >= max(self._expected_seconds, 1e-9)

    def spend(self, seconds: float) -> None:
        """Note what a turn took."""
        self._saved_seconds -= seconds
        self._expected_seconds = seconds
