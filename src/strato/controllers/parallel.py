"""Run one function over many objects, with bounded concurrency and no task per object; computations in slices."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from strato.clock import Clock, VirtualClock
from strato.errors import StratoError

T = TypeVar("T")


async def for_each(items: Sequence[T], work: Callable[[T], Awaitable[None]], limit: int) -> list[StratoError]:
    """Await ``work`` for every item, begun in order, at most ``limit`` at a time; return the failures."""
    failures: list[StratoError] = []
    rest = iter(items)

    async def worker() -> None:
        for item in rest:
            try:
                await work(item)
            except StratoError as error:
                failures.append(error)

    if len(items) <= 1 or limit <= 1:
        await worker()
        return failures
    async with asyncio.TaskGroup() as group:
        for _ in range(min(limit, len(items))):
            group.create_task(worker())
    return failures


async def off_loop(clock: Clock, work: Callable[[], T]) -> T:
    """Run a computation of tens of milliseconds without blocking the event loop.

    With the system clock it runs in a thread. A virtual clock allows no threads, so there it runs in the loop.
    """
    if isinstance(clock, VirtualClock):
        return work()
    return await asyncio.to_thread(work)
