"""`WriteQueue`: writes of one kind with workers of their own, so that no kind of write can hold up another.

What has to wait (a retry, a back-off) waits in the queue, by the clock, and holds no worker. An API server that answers
429 is asked by fewer workers at a time, until it accepts again.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import itertools
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Generic, TypeVar

from strato.clock import Clock

T = TypeVar("T")

Work = Callable[[Sequence[T]], Awaitable[None]]
"""Works on items, at least one; it raises nothing that is to be expected."""


class WriteQueue(Generic[T]):
    """First in, first out, but for what is delayed. Single-threaded: every method is called on the loop's thread.

    Args:
        clock: Times delays.
        work: What a worker does with the items it takes.
        workers: How many work at once.
        batch: Most items that a worker takes at once.
        name: Names the tasks.
    """

    def __init__(self, clock: Clock, work: Work[T], workers: int, *, batch: int = 1, name: str = "") -> None:
        self._clock = clock
        self._work = work
        self._workers = workers
        self._batch = batch
        self._name = name
        self._ready: deque[T] = deque()
        self._later: list[tuple[float, int, T]] = []
        self._order = itertools.count()
        self._rescheduled = asyncio.Event()
        """Set when the earliest delay may have changed."""
        self._idle: deque[asyncio.Future[None]] = deque()
        self._busy = 0
        self._allowed = workers
        """How many may work at once; fewer than there are while the server is overloaded."""

    @property
    def is_idle(self) -> bool:
        """Whether nothing is waiting, delayed or under way."""
        return not (self._ready or self._later or self._busy)

    def add(self, item: T) -> None:
        """Have something worked on when a worker is free."""
        self._ready.append(item)
        self._wake(1)

    def extend(self, items: Iterable[T]) -> None:
        """Have many worked on, in order."""
        before = len(self._ready)
        self._ready.extend(items)
        self._wake(-(-(len(self._ready) - before) // self._batch))

    def add_after(self, item: T, seconds: float) -> None:
        """Have something worked on after a delay."""
        if seconds <= 0:
            self.add(item)
            return
        heapq.heappush(self._later, (self._clock.monotonic() + seconds, next(self._order), item))
        self._rescheduled.set()

    def slow_down(self) -> None:
        """Halve the number of workers: the server is overloaded."""
        self._allowed = max(1, self._allowed // 2)

    def speed_up(self) -> None:
        """Allow one worker more, after a write that was accepted."""
        if self._allowed < self._workers:
            self._allowed += 1
            self._wake(min(1, len(self._ready)))

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            for number in range(self._workers):
                group.create_task(self._run_worker(), name=f"{self._name} {number}")
            group.create_task(self._run_delays(), name=f"{self._name} delays")

    def _wake(self, count: int) -> None:
        while count > 0 and self._idle:
            waiting = self._idle.popleft()
            if not waiting.done():
                waiting.set_result(None)
                count -= 1

    async def _run_worker(self) -> None:
        loop = asyncio.get_running_loop()
        ready = self._ready
        while True:
            if not ready or self._busy >= self._allowed:
                waiting: asyncio.Future[None] = loop.create_future()
                self._idle.append(waiting)
                await waiting
                continue
            if self._batch == 1:
                items = [ready.popleft()]
            else:
                items = [ready.popleft() for _ in range(min(self._batch, len(ready)))]
            self._busy += 1
            try:
                await self._work(items)
            finally:
                self._busy -= 1

    async def _run_delays(self) -> None:
        while True:
            self._rescheduled.clear()
            now = self._clock.monotonic()
            while self._later and self._later[0][0] <= now:
                self.add(heapq.heappop(self._later)[2])
            if not self._later:
                await self._rescheduled.wait()
                continue
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._later[0][0] - now):
                    await self._rescheduled.wait()
