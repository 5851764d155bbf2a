"""When a job is synced next, and why.

There are three reasons: the job's spec or group changed or it got a command (``dirty``); its pods changed
(``pods_dirty``); or a status write of counters has been held back until it is due (``counters_due``). A dirty job is
synced at once. Pods of a gang change together, so a job whose pods are dirty is synced at most once per
`COALESCING_SECONDS`, and not at all if another sync has counted the pods meanwhile.
"""

from __future__ import annotations

from typing import Final

COALESCING_SECONDS: Final = 0.02
"""Shortest time between two syncs that changes of pods cause; pods of a gang change together."""

COUNTERS_SECONDS: Final = 0.05
"""How long a status write that changes counters only is held back."""

LONG_COUNTERS_SECONDS: Final = 1.0
"""The same while pods wait for their nodes: most such writes are superseded within that time."""

BUSY_COUNTERS_SECONDS: Final = 5.0
"""The longest that such a write is held back while other jobs are in the work queue."""

_BUSY_CHECK_SECONDS: Final = 0.25
"""Time between two checks whether other jobs are still in the work queue."""

_EARLY: Final = 1e-6
"""Timers may fire this much too early, because sums of floats are rounded."""


class SyncSchedule:
    """See the module. Instants are monotonic seconds.

    Args:
        coalescing_seconds: How often a job that keeps changing is synced.
    """

    __slots__ = ("_coalescing", "counters_due", "counters_since", "dirty", "in_progress", "next_sync", "pods_dirty")

    def __init__(self, coalescing_seconds: float = COALESCING_SECONDS) -> None:
        self._coalescing = coalescing_seconds
        self.in_progress = False
        """Whether a worker handles the job. It reads the schedule once more at its end, so no timer is needed then."""
        self.clear()

    def clear(self) -> None:
        """Reset for another incarnation of the job."""
        self.dirty = False
        self.pods_dirty = False
        self.next_sync = 0.0
        self.counters_since = 0.0
        self.counters_due: float | None = None

    def is_due(self, now: float) -> bool:
        """Return whether there is a reason for a sync now."""
        return self.dirty or self.pods_dirty or (self.counters_due is not None and now >= self.counters_due - _EARLY)

    def begin(self, now: float) -> None:
        """Note that a sync begins; it clears all reasons."""
        self.dirty = self.pods_dirty = False
        self.next_sync = now + self._coalescing

    def end(self, now: float) -> None:
        """Note that a sync ended: changes of pods are coalesced from now on."""
        self.next_sync = now + self._coalescing

    def next_in(self, now: float) -> float | None:
        """Return the seconds until the next sync, None when there is no reason for one."""
        if self.dirty:
            return 0.0  # the sync has changed the job's phase, which requires another sync
        if self.pods_dirty:
            return max(0.0, self.next_sync - now)
        return None if self.counters_due is None else max(0.0, self.counters_due - now)

    def mark_pods_dirty(self, now: float) -> float | None:
        """Note that pods changed; returns the seconds until a sync, None when one is running or scheduled."""
        if self.dirty or self.pods_dirty:
            return None
        self.pods_dirty = True
        return None if self.in_progress else max(0.0, self.next_sync - now)

    def may_hold_counters(self, now: float, *, is_pending: bool, is_busy: bool) -> bool:
        """Return whether to hold back a write of counters only: a change of phase often supersedes it.

        Args:
            now: This instant.
            is_pending: The job waits for its pods to start.
            is_busy: Other jobs are in the work queue.
        """
        if self.counters_due is None:
            self.counters_since = now
            self.counters_due = now + (LONG_COUNTERS_SECONDS if is_pending else COUNTERS_SECONDS)
        elif now >= self.counters_due - _EARLY and now - self.counters_since < BUSY_COUNTERS_SECONDS and is_busy:
            self.counters_due = now + _BUSY_CHECK_SECONDS
        return now < self.counters_due - _EARLY
