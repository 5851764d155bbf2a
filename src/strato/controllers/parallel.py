"""Run one function over many objects, with bounded concurrency and no task per object; computations in slices."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from strato.clock import Clock, VirtualClock
from strato.errors import StratoError

T = TypeVar("T")


async def for_each(items: Sequence[T], work: Callable[[T], Awaitable[None]], limit: int) -> list[StratoError]:
    """Await ``work`` for every item, begun in order, at most ``limit`` at a time; return what failed."""
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
    """Compute something that takes tens of milliseconds without holding up the loop.

    It runs in a thread on the machine's clock. Virtual time knows no threads: there it runs at once.
    """
    if isinstance(clock, VirtualClock):
        return work()
    return await asyncio.to_thread(work)
