from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from strato.clock import VirtualClock
from strato.testing.chaos.processes import Process, ProcessLoop, answer_as, current_process


def play(story: Callable[[ProcessLoop], Awaitable[None]]) -> None:
    loop = ProcessLoop(VirtualClock())

    async def main() -> None:
        try:
            await story(loop)
        finally:
            await loop.end()

    loop.run_until_complete(main())
    loop.close()


def ticking(log: list[str], *, seconds: float = 1.0) -> Callable[[Process], Awaitable[None]]:
    async def main(process: Process) -> None:
        try:
            while True:
                await asyncio.sleep(seconds)
                log.append(f"{process} {asyncio.get_running_loop().time():g}")
        finally:
            log.append("its last words")

    return main  # type: ignore[return-value]  # a double


def test_a_killed_process_gets_no_turn_and_no_last_words() -> None:
    log: list[str] = []

    async def story(loop: ProcessLoop) -> None:
        process = loop.start_process("p", ticking(log))  # type: ignore[arg-type]  # values of a table
        await asyncio.sleep(2.5)
        loop.kill(process)
        await asyncio.sleep(5)
        assert log == ["p#1 1", "p#1 2"]
        assert str(loop.start_process("p", ticking(log))) == "p#2"  # type: ignore[arg-type]  # values of a table
        await asyncio.sleep(1.5)
        assert log[2:] == ["p#2 8.5"]

    play(story)
    assert log[3:] == ["its last words"] * 2


def test_a_paused_process_catches_up_late_and_its_time_outs_are_over() -> None:
    log: list[str] = []

    async def waiting(process: Process) -> None:
        try:
            async with asyncio.timeout(3):
                await asyncio.Event().wait()
        except TimeoutError:
            log.append(f"timed out at {asyncio.get_running_loop().time():g}")

    async def story(loop: ProcessLoop) -> None:
        ticks = loop.start_process("ticks", ticking(log))  # type: ignore[arg-type]  # values of a table
        waits = loop.start_process("waits", waiting)
        await asyncio.sleep(1.5)
        loop.pause(ticks)
        loop.pause(waits)
        await asyncio.sleep(10)
        assert log == ["ticks#1 1"]
        loop.resume(ticks)
        loop.resume(waits)
        await asyncio.sleep(1.2)
        assert log[1:] == ["ticks#1 11.5", "timed out at 11.5", "ticks#1 12.5"]

    play(story)


@pytest.mark.parametrize("turns", range(6))
def test_a_process_is_killed_at_any_await(turns: int) -> None:
    reached: list[int] = []

    async def steps(process: Process) -> None:
        for number in range(6):
            reached.append(number)
            await asyncio.sleep(0)

    async def story(loop: ProcessLoop) -> None:
        process = loop.start_process("p", steps)
        process.turns_left = turns
        died = asyncio.Event()
        process.on_death.append(died.set)
        await asyncio.sleep(1)
        assert died.is_set()
        assert reached == list(range(turns))

    play(story)


def test_what_was_begun_as_another_process_goes_on_without_who_asked() -> None:
    done: list[str] = []

    async def serve(process: Process) -> None:
        await asyncio.Event().wait()

    async def work() -> str:
        await asyncio.sleep(2)
        done.append(str(current_process()))
        return "answer"

    async def story(loop: ProcessLoop) -> None:
        server = loop.start_process("server", serve)

        async def ask(process: Process) -> None:
            answer: asyncio.Future[str] = loop.create_future()
            answer_as(loop, server, work, answer)
            done.append(await answer)

        loop.start_process("client", ask)
        killed = loop.start_process("client", ask)
        await asyncio.sleep(1)
        loop.kill(killed)
        await asyncio.sleep(5)
        assert done == ["server#1", "server#1", "answer"]

    play(story)
