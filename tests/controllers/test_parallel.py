"""Many things at once, and long computations aside."""

from __future__ import annotations

import threading

from strato.clock import SystemClock, VirtualClock, run_virtual
from strato.controllers.parallel import for_each, off_loop
from strato.errors import StratoError


async def test_failures_stop_nothing_and_the_bound_holds() -> None:
    running, most, done = 0, 0, []

    async def work(item: int) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await SystemClock().sleep(0)
        running -= 1
        if item % 3 == 0:
            raise StratoError(f"no {item}")
        done.append(item)

    failures = await for_each(range(10), work, 4)
    assert sorted(str(f) for f in failures) == ["no 0", "no 3", "no 6", "no 9"]
    assert sorted(done) == [1, 2, 4, 5, 7, 8]
    assert most == 4


async def test_long_work_leaves_the_loop_on_the_machines_clock() -> None:
    assert await off_loop(SystemClock(), threading.get_ident) != threading.get_ident()


def test_long_work_stays_on_the_loop_in_virtual_time() -> None:
    clock = VirtualClock()
    assert run_virtual(clock, off_loop(clock, threading.get_ident)) == threading.get_ident()
