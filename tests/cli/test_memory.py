"""Memory that is free goes back to the system."""

from __future__ import annotations

import subprocess
import sys

import pytest

from strato.cli import memory

BURST = """
import asyncio
from strato.cli.memory import give_back, resident_bytes
from strato.clock import SystemClock

async def main():
    work = asyncio.create_task(give_back(SystemClock(), 0.05))
    await asyncio.sleep(0)
    burst = [bytes(3000) for _ in range(40_000)]
    stays = burst[::8]  # all over the heap: its end cannot be given back by itself
    del burst
    before = resident_bytes()
    async with asyncio.timeout(120):
        while resident_bytes() > before - (50 << 20):
            await asyncio.sleep(0.01)
    work.cancel()

asyncio.run(main())
"""


@pytest.mark.skipif(memory.trimmer() is None, reason="the C library cannot")
def test_what_a_burst_took_is_given_back() -> None:
    subprocess.run([sys.executable, "-c", BURST], check=True)


LARGE_BLOCKS = """
import resource
from strato.cli.memory import keep_freed

keep_freed()
begun = 0
for _ in range(25):
    held = [b"x" * (6 << 20) for _ in range(8)]
    del held
    begun = begun or resource.getrusage(resource.RUSAGE_SELF).ru_minflt
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - begun)
"""


@pytest.mark.skipif(memory.trimmer() is None, reason="the C library has none of this")
def test_large_blocks_that_were_freed_serve_the_next_ones() -> None:
    """Without it each of the 200 blocks takes 1,536 fresh pages from the system."""
    printed = subprocess.run([sys.executable, "-c", LARGE_BLOCKS], check=True, capture_output=True, text=True).stdout
    assert int(printed) < 20 * 1536
