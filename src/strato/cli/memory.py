"""Return free memory to the system after a burst."""

from __future__ import annotations

import asyncio
import ctypes
import os
from collections.abc import Callable
from pathlib import Path

from strato.clock import Clock

_SHARE_OF_TIME = 0.0005
"""What this may cost: where there is much to go through it is done more rarely, as nothing else runs meanwhile."""
_MIN_RATIO, _MIN_BYTES = 1.03, 8 << 20
"""How much more memory must be in use than after the last time."""


def resident_bytes() -> int:
    """Return the resident memory of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def available_bytes() -> int:
    """Return the machine's memory that is free or can be had at once."""
    with open("/proc/meminfo") as file:
        (line,) = (line for line in file if line.startswith("MemAvailable:"))
    return int(line.split()[1]) << 10


def trimmer() -> Callable[[], None] | None:
    """Return what gives back the pages that are free inside the heap; None where the C library cannot.

    By itself it gives back only the end of the heap, which objects that stay hold up.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    return None if trim is None else lambda: trim(0)


async def give_back(clock: Clock, every_seconds: float = 60.0) -> None:
    """Look again and again whether more memory is in use than there was, and give back what is free of it."""
    trim = trimmer()
    if trim is None:
        return
    pause, least = every_seconds, resident_bytes()
    while True:
        await clock.sleep(pause)
        least = min(least, resident_bytes())
        if resident_bytes() < max(_MIN_RATIO * least, least + _MIN_BYTES):
            continue
        begun = clock.monotonic()
        await asyncio.to_thread(trim)
        pause = max(every_seconds, (clock.monotonic() - begun) / _SHARE_OF_TIME)
        least = resident_bytes()
