"""Whether and when a container runs again, by the kubelet's rules. Pure."""

from __future__ import annotations

from dataclasses import dataclass

ALWAYS, ON_FAILURE, NEVER = "Always", "OnFailure", "Never"

BASE_SECONDS = 10.0
"""First wait before a container runs again."""
CAP_SECONDS = 300.0
"""Longest wait."""
RESET_SECONDS = 600.0
"""After a run of at least this length the next wait is `BASE_SECONDS` again."""


def should_restart(policy: str, exit_code: int) -> bool:
    """Return whether a container that ended with ``exit_code`` runs again under the pod's restart policy."""
    if policy == NEVER:
        return False
    return policy != ON_FAILURE or exit_code != 0


@dataclass(frozen=True, slots=True)
class Backoff:
    """Waits between two runs: doubling from ``base_seconds`` up to ``cap_seconds``."""

    base_seconds: float = BASE_SECONDS
    cap_seconds: float = CAP_SECONDS
    reset_seconds: float = RESET_SECONDS

    def next_wait(self, last_wait: float, ran_seconds: float) -> float:
        """Return the seconds to wait now.

        Args:
            last_wait: What this function returned last time for the container, 0 at its first end.
            ran_seconds: How long the run that just ended took.
        """
        if last_wait <= 0 or ran_seconds >= self.reset_seconds:
            return self.base_seconds
        return min(self.cap_seconds, last_wait * 2)
