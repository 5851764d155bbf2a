"""Do a read-change-write again when somebody else wrote in between."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from random import Random
from typing import TypeVar

from strato.clock import Clock
from strato.errors import Conflict

T = TypeVar("T")

_FIRST_DELAY_SECONDS = 0.01


async def on_conflict(
    attempt: Callable[[], Awaitable[T]], clock: Clock, random: Random | None = None, *, attempts: int = 5
) -> T:
    """Call ``attempt`` until it does not end in a `Conflict`; it must read the object anew each time.

    Args:
        attempt: Reads, changes and writes.
        clock: Waits 10 ms, then 20, 40, … between attempts.
        random: Adds up to 10 % to the waits when given.
        attempts: How often to try in all.

    Raises:
        Conflict: The last attempt's.
    """
    delay = _FIRST_DELAY_SECONDS
    for _ in range(attempts - 1):
        try:
            return await attempt()
        except Conflict:
            await clock.sleep(delay * (1.0 + (0.1 * random.random() if random is not None else 0.0)))
            delay *= 2
    return await attempt()
