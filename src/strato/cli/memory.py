"""Keep freed memory for the next request, and return it to the system after a burst."""

from __future__ import annotations

import asyncio
import ctypes
import os
from collections.abc import Callable
from pathlib import Path

from strato.clock import Clock

_SHARE_OF_TIME = 0.0005
"""Largest share of time for trimming, during which malloc is blocked; large heaps are trimmed more rarely."""
_MIN_RATIO, _MIN_BYTES = 1.03, 8 << 20
"""Growth of resident memory since the last trim, as a ratio and in bytes, below which nothing is trimmed."""


_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
"""Parameters of mallopt(3)."""
_TRIM_BYTES, _MMAP_BYTES = 256 << 20, 32 << 20
"""The second is the largest that glibc takes."""


def resident_bytes() -> int:
    """Return the resident memory of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def available_bytes() -> int:
    """Return the machine's memory that is free or can be reclaimed at once (``MemAvailable``)."""
    with open("/proc/meminfo") as file:
        (line,) = (line for line in file if line.startswith("MemAvailable:"))
    return int(line.split()[1]) << 10


def trimmer() -> Callable[[], None] | None:
    """Return glibc's ``malloc_trim``, which releases free pages inside the heap; None where the C library lacks it.

    ``free`` alone releases only the top of the heap, and one long-lived object there holds back all pages below it.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    return None if trim is None else lambda: trim(0)


def keep_freed() -> None:
    """Let ``free`` keep up to 256 MiB at the top of the heap, until `give_back`, and large blocks in the heap.

    Parts of lists and the journal's commits have megabytes. Each of them took fresh pages from the system, at 4 µs for
    4 KiB, which was a seventh of a large start's CPU time.
    """
    set_option = getattr(ctypes.CDLL(None), "mallopt", None)
    if set_option is not None:  # glibc, or another library that may ignore it
        set_option(_M_MMAP_THRESHOLD, _MMAP_BYTES)
        set_option(_M_TRIM_THRESHOLD, _TRIM_BYTES)


async def give_back(clock: Clock, every_seconds: float = 60.0) -> None:
    """Release free pages of the heap whenever resident memory has grown since the last time; runs until cancelled."""
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
