"""Write queues: order, delays, batches, and fewer workers while the server is overloaded."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence

from strato.client.writequeue import WriteQueue
from strato.clock import VirtualClock, run_virtual
from strato.sim.rest import RestingClock, RestingLoop


def play(story: Callable[[VirtualClock], Coroutine[None, None, None]]) -> None:
    clock = VirtualClock()
    run_virtual(clock, story(clock))


def test_items_come_in_order_and_delayed_ones_when_they_are_due() -> None:
    async def story(clock: VirtualClock) -> None:
        seen: list[tuple[float, int]] = []

        async def work(items: Sequence[int]) -> None:
            seen.extend((clock.monotonic(), item) for item in items)

        queue = WriteQueue(clock, work, 2)
        running = asyncio.create_task(queue.run())
        queue.extend([1, 2, 3])
        queue.add_after(4, 10.0)
        await clock.sleep(1.0)
        queue.add_after(5, 2.0)  # earlier than what waits already
        await clock.sleep(20.0)
        assert seen == [(0.0, 1), (0.0, 2), (0.0, 3), (3.0, 5), (10.0, 4)]
        running.cancel()

    play(story)


def test_sums_of_floats_put_nothing_off() -> None:
    """810.1 + 0.2 is more than 810.3, to which the clock moves in whole microseconds."""
    clock, seen = RestingClock(0.0), []

    async def story() -> None:
        async def work(_: Sequence[int]) -> None:
            seen.append(clock.monotonic())

        queue = WriteQueue(clock, work, 1)
        running = asyncio.create_task(queue.run())
        await clock.sleep(810.1)
        queue.add_after(1, 0.2)
        await clock.sleep(1.0)
        running.cancel()

    run_virtual(clock, story(), loop=RestingLoop)
    assert seen == [810.3]


def test_items_are_taken_in_batches() -> None:
    async def story(clock: VirtualClock) -> None:
        batches: list[int] = []

        async def work(items: Sequence[int]) -> None:
            batches.append(len(items))
            await clock.sleep(1.0)

        queue = WriteQueue(clock, work, 3, batch=4)
        running = asyncio.create_task(queue.run())
        queue.extend(range(10))
        await clock.sleep(0.5)
        assert batches == [4, 4, 2]
        running.cancel()

    play(story)


def test_overloaded_server_is_asked_by_fewer_workers_until_it_accepts() -> None:
    async def story(clock: VirtualClock) -> None:
        busy = most = 0

        async def work(_: Sequence[int]) -> None:
            nonlocal busy, most
            busy += 1
            most = max(most, busy)
            await clock.sleep(1.0)
            busy -= 1

        queue = WriteQueue(clock, work, 8)
        running = asyncio.create_task(queue.run())
        for _ in range(5):
            queue.slow_down()
        queue.extend(range(4))
        await clock.sleep(4.5)
        assert most == 1
        for _ in range(20):
            queue.speed_up()
        queue.extend(range(30))
        await clock.sleep(4.5)
        assert most == 8
        running.cancel()

    play(story)
