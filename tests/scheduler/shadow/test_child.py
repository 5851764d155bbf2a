"""A function on a copy of the memory: answers, failures of every kind, and nothing that reaches this process."""

from __future__ import annotations

import asyncio
import mmap
import os
import signal
import sys
from collections.abc import Callable
from typing import NoReturn

import pytest

from strato.scheduler.shadow.child import Child, ChildAnswer, ChildFailed, CopiedPages

LONG_SECONDS = 60.0


def loops() -> bytes:
    while True:
        pass


def raises() -> bytes:
    raise ValueError("no such plugin")


def exits() -> NoReturn:
    sys.exit(3)


def crashes() -> bytes:
    os.kill(os.getpid(), signal.SIGSEGV)
    return b""


def blocking(child: Child, seconds: float) -> ChildAnswer:
    return child.answer_at_once(seconds)


def waiting(child: Child, seconds: float) -> ChildAnswer:
    return asyncio.run(child.answer(seconds))


Ask = Callable[[Child, float], ChildAnswer]


@pytest.fixture(params=[blocking, waiting], ids=["at once", "while others go on"])
def ask(request: pytest.FixtureRequest) -> Ask:
    found: Ask = request.param
    return found


@pytest.mark.parametrize("size", [0, 1, 1 << 20], ids=["nothing", "a byte", "more than a pipe holds"])
def test_child_answers(ask: Ask, size: int) -> None:
    answer = ask(Child(lambda: b"x" * size, LONG_SECONDS), LONG_SECONDS)
    assert answer.body == b"x" * size
    assert answer.cpu_seconds >= 0


@pytest.mark.parametrize(
    ("work", "kind", "text"),
    [
        (raises, "raised", "ValueError: no such plugin"),
        (exits, "died", "without an answer"),
        (crashes, "died", "SIGSEGV"),
    ],
    ids=["raises", "exits", "crashes"],
)
def test_child_failure_is_named(ask: Ask, work: Callable[[], bytes], kind: str, text: str) -> None:
    with pytest.raises(ChildFailed, match=text) as caught:
        ask(Child(work, LONG_SECONDS), LONG_SECONDS)
    assert caught.value.kind == kind


def test_child_that_loops_is_ended(ask: Ask) -> None:
    with pytest.raises(ChildFailed) as caught:
        ask(Child(loops, LONG_SECONDS), 0.05)
    assert caught.value.kind == "timeout"


def test_child_changes_nothing_here(ask: Ask) -> None:
    known = {"a": 1}

    def change() -> bytes:
        known["a"] = 2
        return str(known).encode()

    assert ask(Child(change, LONG_SECONDS), LONG_SECONDS).body == b"{'a': 2}"
    assert known == {"a": 1}


def test_child_has_no_open_files() -> None:
    """A listening socket or a locked file of the scheduler must not outlive it."""
    reading, writing = os.pipe()

    def look() -> bytes:
        return b",".join(name.encode() for name in sorted(os.listdir("/proc/self/fd"), key=int))

    found = Child(look, LONG_SECONDS).answer_at_once(LONG_SECONDS).body.split(b",")
    os.close(reading)
    os.close(writing)
    assert len(found) <= 5  # standard ones, the pipe, and the folder that is listed


def test_child_is_waited_for_when_cancelled() -> None:
    child = Child(loops, LONG_SECONDS)

    async def main() -> None:
        asking = asyncio.ensure_future(child.answer(LONG_SECONDS))
        await asyncio.sleep(0)
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)

    asyncio.run(main())
    with pytest.raises(ChildProcessError):
        os.waitpid(child.pid, os.WNOHANG)


def test_child_answers_a_process_with_a_thousand_open_files(ask: Ask) -> None:
    opened = [os.dup(0)]
    try:
        while opened[-1] < 1100:  # select() takes none above 1023
            opened.append(os.dup(0))
        assert ask(Child(lambda: b"x", LONG_SECONDS), LONG_SECONDS).body == b"x"
    finally:
        for number in opened:
            os.close(number)


def test_pages_that_a_fork_makes_this_process_copy_are_counted() -> None:
    memory = mmap.mmap(-1, 4096 * mmap.PAGESIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory.write(b"x" * len(memory))
    copied = CopiedPages()
    counts = []
    for writes in (False, False, True, False):
        child = Child(lambda: b"", LONG_SECONDS)
        assert copied.forked() > 0
        counts.append(copied.pages)
        child.answer_at_once(LONG_SECONDS)
        if writes:
            memory.seek(0)
            memory.write(b"y" * len(memory))
    assert counts[0] == 0
    assert counts[3] >= 4096 > max(counts[1:3]), "only the third fork was followed by that many copies"
    memory.close()
