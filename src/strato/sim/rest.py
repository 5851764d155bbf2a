"""Virtual time in which decisions take no time: a cycle runs at the instant of a change, once everything else is done.

A real cluster takes milliseconds to observe a change, to batch it with others and to carry out decisions; which of two
changes the scheduler observes first is chance. A simulation must not depend on that. So the scheduler waits (`rest`)
until all other tasks have handled the changes of this instant; its writes are handled before its next cycle; and only
when no task is left at this instant does time advance. Instants are rounded to whole microseconds, so that rounding
errors do not part simultaneous events.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import Context
from typing import Final, TypeVarTuple

from strato.clock import VirtualClock, VirtualTimeLoop
from strato.errors import InvariantError

Ts = TypeVarTuple("Ts")

START: Final = 1_700_000_000.0
"""The virtual instant at which traces begin, seconds since the epoch."""
STALL_SECONDS: Final = 900.0
"""When no pod runs and nothing is left to submit, this long without a start means that no job will ever start."""
_MOST_CYCLES: Final = 100
"""Cycles at one instant, before time passes. Without this limit a policy whose jobs evict each other would never let
time advance."""
_PAUSE_SECONDS: Final = 1.0
"""Time that passes before the next cycle then, as between two cycles of Volcano."""
_STEP: Final = 1e-6


def instant(seconds: float) -> float:
    """Return an instant in whole microseconds, in seconds."""
    return round(seconds, 6)


class CycleLimit:
    """Delays a cycle when too many have run at one instant."""

    def __init__(self) -> None:
        self._at = -1.0
        self._count = 0

    def wait_seconds(self, now: float) -> float:
        """Count a cycle that is due now, and return how long it must wait."""
        if now != self._at:
            self._at, self._count = now, 0
        self._count += 1
        return _PAUSE_SECONDS if self._count > _MOST_CYCLES else 0.0


class RestingClock(VirtualClock):
    """A virtual clock in whole microseconds; tasks can wait until no other task has anything to do at an instant.

    Args:
        start: The instant at which virtual time begins, seconds since the epoch.
    """

    def __init__(self, start: float) -> None:
        super().__init__(start)
        self._waiting: list[asyncio.Future[None]] = []
        self._limit = CycleLimit()

    async def rest(self) -> None:
        """Wait until no other task has anything to do at this instant; longer if called too often at one instant."""
        await self._at_rest()
        wait = self._limit.wait_seconds(self.monotonic())
        if wait:
            await self.sleep(wait)
            await self._at_rest()

    async def _at_rest(self) -> None:
        future = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        await future

    def settle(self) -> bool:
        """Resume the tasks that wait in `rest`; return whether there were any. The event loop calls it when idle."""
        waiting, self._waiting = self._waiting, []
        released = [future for future in waiting if not future.done()]
        for future in released:
            future.set_result(None)
        return bool(released)

    def advance(self, seconds: float) -> None:
        """Move time forward by whole microseconds, at least one."""
        if seconds < 0:
            raise InvariantError(f"virtual time cannot go back by {-seconds} s")
        self._elapsed = instant(max(self._elapsed + seconds, self._elapsed + _STEP))


class RestingLoop(VirtualTimeLoop):
    """The event loop of a `RestingClock`: timers are due at whole microseconds."""

    def call_at(
        self, when: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Call a function at ``when`` rounded to microseconds, but never now if ``when`` is later than now."""
        now = self.time()
        due = instant(when)
        if when > now >= due:
            due = instant(now + _STEP)
        return super().call_at(due, callback, *args, context=context)
