"""When a job must be looked at next, and why.

Three reasons: something was asked for or decided (``dirty``), its pods moved (``stirred``), or counters that were held
back have waited long enough. The first is served at once; pods of a gang move together, so that the second is served
at most once per `COALESCING_SECONDS`, and a sync that has just counted the pods has served it too.
"""

from __future__ import annotations

from typing import Final

COALESCING_SECONDS: Final = 0.02
"""A job that keeps changing is synced this often; pods of a gang change together."""

COUNTERS_SECONDS: Final = 0.05
"""How long a status write may wait that would only change counters."""

LONG_COUNTERS_SECONDS: Final = 1.0
"""The same while pods wait for their nodes: most such writes are void before that."""

BUSY_COUNTERS_SECONDS: Final = 5.0
"""The same at most while other jobs wait for their turn."""

_BUSY_LOOK_SECONDS: Final = 0.25
"""How often we look whether they still do."""

_EARLY: Final = 1e-6
"""Timers may ring this much too soon, by the rounding of sums of floats."""


class Agenda:
    """See the module. Instants are monotonic seconds."""

    __slots__ = ("at_work", "counters_due", "counters_since", "dirty", "next_sync", "stirred")

    def __init__(self) -> None:
        self.at_work = False
        """Whether a worker is at the job; it looks here again before it lets go."""
        self.clear()

    def clear(self) -> None:
        """Forget everything; another life of the job begins."""
        self.dirty = False
        self.stirred = False
        self.next_sync = 0.0
        self.counters_since = 0.0
        self.counters_due: float | None = None

    def is_due(self, now: float) -> bool:
        """Return whether a sync is wanted by now."""
        return self.dirty or self.stirred or (self.counters_due is not None and now >= self.counters_due - _EARLY)

    def begin(self, now: float) -> None:
        """Note that a sync begins: it serves all reasons there are."""
        self.dirty = self.stirred = False
        self.next_sync = now + COALESCING_SECONDS

    def end(self, now: float) -> None:
        """Note that a sync ended: pods that move from now on wait for each other."""
        self.next_sync = now + COALESCING_SECONDS

    def next_in(self, now: float) -> float | None:
        """Return the seconds until the next sync, None when there is no reason for one."""
        if self.dirty:
            return 0.0  # the sync itself moved the job on
        if self.stirred:
            return max(0.0, self.next_sync - now)
        return None if self.counters_due is None else max(0.0, self.counters_due - now)

    def stir(self, now: float) -> float | None:
        """Note that pods moved; returns the seconds until the sync for it, None when one is under way or waited for."""
        if self.dirty or self.stirred:
            return None
        self.stirred = True
        return None if self.at_work else max(0.0, self.next_sync - now)

    def may_hold_counters(self, now: float, *, is_pending: bool, is_busy: bool) -> bool:
        """Return whether a write of mere counters may wait: a change of phase soon makes it void.

        Args:
            now: This instant.
            is_pending: The job waits for its pods to start.
            is_busy: Other jobs wait for their turn.
        """
        if self.counters_due is None:
            self.counters_since = now
            self.counters_due = now + (LONG_COUNTERS_SECONDS if is_pending else COUNTERS_SECONDS)
        elif now >= self.counters_due - _EARLY and now - self.counters_since < BUSY_COUNTERS_SECONDS and is_busy:
            self.counters_due = now + _BUSY_LOOK_SECONDS
        return now < self.counters_due - _EARLY
