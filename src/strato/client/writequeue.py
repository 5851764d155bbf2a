"""`WriteQueue`: writes of one kind with workers of their own, so that no kind of write can delay another.

An item that is delayed (for a retry) waits in the queue, by the clock, and occupies no worker. While an API server
answers 429, fewer workers send to it at a time.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from typing import Any, Final, Generic, TypeVar

from strato.clock import Clock, is_due

T = TypeVar("T")

Work = Callable[[Sequence[T]], Awaitable[None]]
"""Works on one or more items; handles every expected error itself."""

_SHORTEST_SLEEP_SECONDS: Final = 0.001
"""Shortest sleep of the timer. Rounding may end a sleep a moment too early, and a shorter one for the rest could end
without the clock having advanced."""


class WriteQueue(Generic[T]):
    """First in, first out, except for delayed items. Single-threaded: every method is called on the loop's thread.

    Args:
        work: Called by a worker with the items it takes.
        workers: Most concurrent workers; each is a task that ends when no items are left.
        batch: Most items that a worker takes at once.
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
        self._timer: asyncio.Task[None] | None = None
        self._timer_at = float("inf")
        self._tasks: set[asyncio.Task[None]] = set()
        self._active = 0
        self._starting = 0
        """Workers whose task has not taken its first items yet."""
        self._allowed = workers
        """How many workers may run now; fewer than ``workers`` while the server is overloaded."""
        self._failed: asyncio.Future[None] | None = None
        self._paused = False
        self._closed = False

    def add(self, item: T) -> None:
        """Have an item worked on when a worker is free."""
        self._ready.append(item)
        if self._active < self._allowed:
            self._wake()

    def extend(self, items: Iterable[T]) -> None:
        """Have several items worked on, in order."""
        self._ready.extend(items)
        self._wake()

    def add_after(self, item: T, seconds: float) -> None:
        """Have an item worked on after a delay."""
        if seconds <= 0:
            self.add(item)
            return
        at = self._clock.monotonic() + seconds
        heapq.heappush(self._later, (at, next(self._order), item))
        if at < self._timer_at and not self._closed:
            self._set_timer(at, seconds)

    @property
    def is_idle(self) -> bool:
        """Whether no item is being worked on or waits for a worker; delayed ones do not count."""
        return not (self._ready or self._active)

    def slow_down(self) -> None:
        """Halve the number of workers, because the server is overloaded."""
        self._allowed = max(1, self._allowed // 2)

    def speed_up(self) -> None:
        """Allow one worker more, after the server has accepted a write."""
        if self._allowed < self._workers:
            self._allowed += 1
            self._wake()

    def pause(self) -> None:
        """Have workers take no items until `resume`."""
        self._paused = True

    def resume(self) -> None:
        """Have workers take items again."""
        self._paused = False
        self._wake()

    async def run(self) -> None:
        """Wait until cancelled, then stop all work. While this does not run, work goes on as long as the loop does.

        Raises:
            Exception: What ``work`` raised.
        """
        self._closed = False
        self._failed = asyncio.get_running_loop().create_future()
        self._schedule_timer(self._clock.monotonic())
        try:
            await self._failed
        finally:
            self.close()

    def close(self) -> None:
        """Drop all items and cancel the workers, without waiting for them."""
        self._closed = True
        self._ready.clear()
        self._later.clear()
        for task in self._tasks:
            task.cancel()
        self._tasks.clear()
        self._active = self._starting = 0
        self._timer_at = float("inf")

    def _start(self, work: Coroutine[Any, Any, None], what: str) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work, name=f"{self._name} {what}")
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if self._failed is not None and not self._failed.done() and not task.cancelled():
            error = task.exception()
            if error is not None:
                self._failed.set_exception(error)

    def _wake(self) -> None:
        """Start as many workers as the items need and the limit allows."""
        if self._paused or self._closed:
            return
        while self._active < self._allowed and len(self._ready) > self._starting * self._batch:
            self._active += 1
            self._starting += 1
            self._start(self._work_off(), "worker")

    async def _work_off(self) -> None:
        self._starting -= 1
        ready = self._ready
        while ready and not self._paused and self._active <= self._allowed:
            await self._work([ready.popleft() for _ in range(min(self._batch, len(ready)))])
        self._active -= 1
        self._wake()

    def _set_timer(self, at: float, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = at
        self._timer = self._start(self._ring(max(seconds, _SHORTEST_SLEEP_SECONDS)), "timer")

    async def _ring(self, seconds: float) -> None:
        await self._clock.sleep(seconds)
        self._timer, self._timer_at = None, float("inf")
        self._schedule_timer(self._clock.monotonic())

    def _schedule_timer(self, now: float) -> None:
        while self._later and is_due(self._later[0][0], now):
            self._ready.append(heapq.heappop(self._later)[2])
        if self._later:
            at = self._later[0][0]
            self._set_timer(at, at - now)
        self._wake()
