"""Time, in one place: the real clock, and a virtual one that runs async code as fast as the CPU allows.

All code that waits or reads the time takes a `Clock`. Only `SystemClock` reads the system's time. `VirtualClock` has
its own event loop (`run_virtual`): when no callback is ready, the loop moves the clock to the next timer at once.
Unmodified asyncio code (timeouts, queues, locks) therefore runs under it. Timers of the same instant fire in the order
in which they were set, so that a run is reproducible.
"""

from __future__ import annotations

import asyncio
import selectors
import time
from collections.abc import Coroutine
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final, Protocol, TypeVar

from strato.errors import InvariantError

T = TypeVar("T")

work_timer = time.perf_counter
"""Returns seconds for measuring how long work takes, where no component waits for them; the real clock always."""

cpu_timer = time.process_time
"""Returns the CPU seconds that this process has taken, without its children."""


_ONE_INSTANT_SECONDS: Final = 1e-6
"""Instants closer to each other than this count as equal, because sums of floats have errors of that size."""


def is_due(at: float, now: float) -> bool:
    """Return whether an instant has come; both arguments are readings of the same clock."""
    return at - now < _ONE_INSTANT_SECONDS


class Clock(Protocol):
    """The interface through which components read the time and wait."""

    def now(self) -> float:
        """Return seconds since the epoch, for times that are written into objects."""

    def monotonic(self) -> float:
        """Return seconds that never go back, for measuring intervals."""

    async def sleep(self, seconds: float) -> None:
        """Wait at least that many seconds; 0 lets other tasks run."""


class SystemClock:
    """The machine's clock."""

    def now(self) -> float:
        """Return the machine's time."""
        return time.time()

    def monotonic(self) -> float:
        """Return the machine's monotonic time."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Wait on the running event loop."""
        await asyncio.sleep(seconds)


class VirtualClock:
    """A clock that moves only when its event loop has nothing else to do, or by `advance`.

    Args:
        start: The instant at which virtual time begins, seconds since the epoch.
    """

    def __init__(self, start: float = 1_700_000_000.0) -> None:
        self._start = start
        self._elapsed = 0.0

    def now(self) -> float:
        """Return the virtual instant."""
        return self._start + self._elapsed

    def monotonic(self) -> float:
        """Return virtual seconds since the start."""
        return self._elapsed

    async def sleep(self, seconds: float) -> None:
        """Wait in virtual time; under `run_virtual` this takes no real time."""
        await asyncio.sleep(seconds)

    def settle(self) -> bool:
        """Resume tasks that wait until nothing else is left to do at this instant; return whether there were any.

        This clock has no such tasks; the simulator's has (`strato.sim.rest`).
        """
        return False

    def advance(self, seconds: float) -> None:
        """Move time forward. The event loop calls it; tests of code that does not await may call it directly."""
        if seconds < 0:
            raise InvariantError(f"virtual time cannot go back by {-seconds} s")
        self._elapsed += seconds


class _JumpingSelector(selectors.DefaultSelector):
    """Polls for I/O without waiting, and moves the virtual clock instead."""

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__()
        self._clock = clock

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is not None and timeout <= 0:
            return []  # run the ready callbacks first: polling for I/O before each takes longer than most of them
        events: list[tuple[selectors.SelectorKey, int]] = super().select(0)
        if events:
            return events
        if self._clock.settle():
            return events
        if timeout is None:
            raise InvariantError("virtual time stands still: every task waits and no timer is set")
        self._clock.advance(timeout)
        return events


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """An event loop on virtual time. Use with code that does no blocking I/O and starts no threads."""

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__(_JumpingSelector(clock))
        self._virtual_clock = clock
        self._clock_resolution = 1e-9

    def time(self) -> float:
        """Return the loop's time: the virtual one."""
        return self._virtual_clock.monotonic()


def run_virtual(
    clock: VirtualClock, main: Coroutine[Any, Any, T], *, loop: type[VirtualTimeLoop] = VirtualTimeLoop
) -> T:
    """Run a coroutine to its end in virtual time, then cancel the tasks that it left behind."""
    with asyncio.Runner(loop_factory=lambda: loop(clock)) as runner:
        return runner.run(main)


def format_time(instant: float) -> str:
    """Write an instant as Kubernetes' ``metav1.Time``: whole seconds, UTC (``2026-08-01T12:00:00Z``)."""
    return _format_second(int(instant // 1))


@lru_cache(maxsize=64)  # thousands of objects written in a second have the same few times
def _format_second(second: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(second))


def format_micro_time(instant: float) -> str:
    """Write an instant as ``metav1.MicroTime`` (leases): six decimals, UTC."""
    return datetime.fromtimestamp(instant, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def parse_time(text: str) -> float:
    """Read an RFC 3339 instant as seconds since the epoch.

    Raises:
        ValueError: The text is no RFC 3339 time.
    """
    return datetime.fromisoformat(text).timestamp()
