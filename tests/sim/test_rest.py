from __future__ import annotations

import asyncio

from strato.clock import run_virtual
from strato.sim.rest import CycleLimit, RestingClock, RestingLoop, instant


def test_rest_comes_after_all_else_at_an_instant_and_before_time_moves() -> None:
    clock = RestingClock(0.0)
    seen: list[tuple[str, float]] = []

    async def chain() -> None:
        for step in range(5):
            await asyncio.sleep(0)
            seen.append((f"step {step}", clock.monotonic()))
        await clock.sleep(1.0)
        seen.append(("later", clock.monotonic()))

    async def main() -> None:
        task = asyncio.create_task(chain())
        await clock.rest()
        seen.append(("rest", clock.monotonic()))
        await task

    run_virtual(clock, main(), loop=RestingLoop)
    assert seen == [*((f"step {step}", 0.0) for step in range(5)), ("rest", 0.0), ("later", 1.0)]


def test_instants_are_whole_microseconds_however_they_were_reached() -> None:
    clock = RestingClock(0.0)

    async def main() -> float:
        for _ in range(10):
            await clock.sleep(0.1)
        return clock.monotonic()

    assert run_virtual(clock, main(), loop=RestingLoop) == instant(1.0) == 1.0


def test_a_wait_of_next_to_nothing_lets_time_pass_all_the_same() -> None:
    clock = RestingClock(0.0)

    async def main() -> float:
        await clock.sleep(1e-9)
        return clock.monotonic()

    assert run_virtual(clock, main(), loop=RestingLoop) == 1e-6


def test_too_many_cycles_at_one_instant_let_time_pass() -> None:
    limit = CycleLimit()
    waits = [limit.wait_seconds(5.0) for _ in range(102)]
    assert waits == [0.0] * 100 + [1.0] * 2
    assert limit.wait_seconds(6.0) == 0.0
