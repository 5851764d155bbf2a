from __future__ import annotations

import asyncio
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strato.client.workqueue import LOW_PRIORITY_SECONDS, RetryLimiter, ShutDown, WorkQueue, log_failure, run_workers
from strato.clock import VirtualClock, run_virtual
from strato.errors import Conflict, Forbidden, InvariantError, StratoError


def test_key_waits_once_however_often_it_is_added() -> None:
    async def main() -> None:
        queue: WorkQueue[str] = WorkQueue(VirtualClock())
        for key in "abab":
            queue.add(key)
        assert [await queue.get(), await queue.get()] == ["a", "b"]
        assert len(queue) == 0

    asyncio.run(main())


def test_key_added_while_worked_on_runs_again_afterwards() -> None:
    async def main() -> None:
        queue: WorkQueue[str] = WorkQueue(VirtualClock())
        queue.add("a")
        await queue.get()
        queue.add("a")
        assert len(queue) == 0, "not while it is being worked on"
        queue.done("a")
        assert await queue.get() == "a"

    asyncio.run(main())


def test_delayed_key_comes_at_the_earliest_of_its_delays() -> None:
    clock = VirtualClock()

    async def main() -> None:
        queue: WorkQueue[str] = WorkQueue(clock)
        queue.add_after("late", 50)
        queue.add_after("a", 10)
        queue.add_after("a", 3)
        queue.add_after("a", 7)
        assert await queue.get() == "a"
        assert clock.monotonic() == pytest.approx(3)
        queue.done("a")
        assert await queue.get() == "late"
        assert clock.monotonic() == pytest.approx(50), "the other delays of a are void"

    run_virtual(clock, main())


def test_patient_keys_let_others_pass_until_they_are_urgent() -> None:
    async def main() -> None:
        queue: WorkQueue[str] = WorkQueue(VirtualClock())
        for key in "abc":
            queue.add(key, low_priority=True)
        queue.add("d")
        queue.add("d", low_priority=True)  # as urgent as it was
        queue.add("b")
        assert len(queue) == 4
        assert [await queue.get() for _ in range(4)] == ["d", "b", "a", "c"]
        assert not len(queue)
        queue.add("a", low_priority=True)
        queue.add("e")
        queue.done("a")
        assert [await queue.get(), await queue.get()] == ["e", "a"]

    asyncio.run(main())


def test_patient_keys_get_turns_when_others_never_end() -> None:
    clock = VirtualClock()

    async def main() -> None:
        queue: WorkQueue[int] = WorkQueue(clock)
        for key in range(10):
            queue.add(key, low_priority=True)
        served: dict[int, float] = {}
        for key in range(10, 2000):
            queue.add(key)
            queue.add(-key)  # two come where one is served
            taken = await queue.get()
            queue.done(taken)
            served[taken] = clock.monotonic()
            await clock.sleep(0.01)
        low_priority = [served[key] for key in range(10)]
        assert low_priority == sorted(low_priority)
        assert low_priority[0] >= LOW_PRIORITY_SECONDS
        assert low_priority[-1] < LOW_PRIORITY_SECONDS + 0.5

    run_virtual(clock, main())


def test_failures_of_a_key_back_off_and_are_forgotten() -> None:
    limiter = RetryLimiter(VirtualClock(), burst=1000)
    delays = [limiter.delay("a") for _ in range(20)]
    assert delays[:4] == [0.005, 0.01, 0.02, 0.04]
    assert delays[-1] == 1000.0
    assert limiter.failures("a") == 20
    limiter.forget("a")
    assert limiter.delay("a") == 0.005


def test_bucket_slows_many_keys_that_fail_together() -> None:
    clock = VirtualClock()
    limiter = RetryLimiter(clock)
    delays = [limiter.delay(number) for number in range(120)]
    assert max(delays[:100]) == 0.005
    assert delays[-1] == pytest.approx(2.0)
    clock.advance(1000)
    assert limiter.delay("later") == 0.005


def test_workers_retry_what_fails_and_requeue_what_asks() -> None:
    clock = VirtualClock()
    calls: list[tuple[str, float]] = []

    async def reconcile(key: str) -> float | None:
        calls.append((key, round(clock.monotonic(), 3)))
        count = sum(called == key for called, _ in calls)
        if key == "fails" and count < 3:
            raise (Conflict("changed") if count == 1 else ValueError("odd"))
        return 30.0 if key == "again" and count == 1 else None

    async def main() -> None:
        queue: WorkQueue[str] = WorkQueue(clock)
        queue.add("fails")
        queue.add("again")
        workers = asyncio.create_task(run_workers(queue, reconcile, 2))
        await clock.sleep(60)
        assert queue.is_idle
        assert queue.failures("fails") == 0
        queue.shutdown()
        await workers

    run_virtual(clock, main())
    assert calls == [("fails", 0.0), ("again", 0.0), ("fails", 0.005), ("fails", 0.015), ("again", 30.0)]


def test_shut_down_queue_hands_out_what_is_ready_and_then_ends() -> None:
    async def main() -> None:
        queue: WorkQueue[str] = WorkQueue(VirtualClock())
        waiting = asyncio.create_task(queue.get())
        await asyncio.sleep(0)
        queue.add("a")
        queue.add("b")
        queue.add_after("never", 1)
        queue.shutdown()
        queue.add("too late")
        assert {await waiting, await queue.get()} == {"a", "b"}
        with pytest.raises(ShutDown):
            await queue.get()

    asyncio.run(main())


def test_cancelled_waiter_passes_its_turn_on() -> None:
    async def main() -> None:
        queue: WorkQueue[str] = WorkQueue(VirtualClock())
        first, second = asyncio.create_task(queue.get()), asyncio.create_task(queue.get())
        await asyncio.sleep(0)
        queue.add("a")
        first.cancel()
        assert await asyncio.wait_for(second, 60) == "a"

    asyncio.run(main())


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.integers(0, 4), st.sampled_from(["add", "add patiently", "after"]), st.floats(0, 3), st.floats(0, 2)
        ),
        max_size=40,
    ),
    st.integers(1, 4),
)
def test_key_is_never_worked_on_twice_at_once_and_never_lost(
    script: list[tuple[int, str, float, float]], workers: int
) -> None:
    clock = VirtualClock()
    running: Counter[int] = Counter()
    last_added: dict[int, float] = {}
    last_begun: dict[int, float] = {}
    takes: dict[int, float] = {}

    async def reconcile(key: int) -> float | None:
        running[key] += 1
        assert running[key] == 1, "worked on twice at once"
        last_begun[key] = clock.monotonic()
        await clock.sleep(takes.get(key, 0.0))
        running[key] -= 1
        return None

    async def main() -> None:
        queue: WorkQueue[int] = WorkQueue(clock)
        working = asyncio.create_task(run_workers(queue, reconcile, workers))
        for key, act, pause, duration in script:
            takes[key] = duration
            if act.startswith("add"):
                queue.add(key, low_priority=act == "add patiently")
                last_added[key] = clock.monotonic()
            else:
                queue.add_after(key, pause)
                last_added[key] = clock.monotonic()
            await clock.sleep(pause / 2)
        await clock.sleep(1000)
        assert queue.is_idle
        for key, added in last_added.items():
            assert last_begun[key] >= added, "every addition is followed by a run"
        working.cancel()
        await asyncio.wait((working,))

    run_virtual(clock, main())


async def test_keys_taken_together_come_in_order_and_are_worked_on_once() -> None:
    queue: WorkQueue[str] = WorkQueue(VirtualClock())
    for key in "abcd":
        queue.add(key)
    queue.add("p", low_priority=True)
    first = await queue.get()
    assert (first, queue.take_more(lambda key: key != "c", 9)) == ("a", ["b"])
    queue.add("b")
    assert queue.take_more(lambda _: True, 2) == ["c", "d"], "b is being worked on, c waits no more"
    assert queue.take_more(lambda _: True, 9) == ["p"]
    assert not len(queue)
    for key in "abcdp":
        queue.done(key)
    assert await queue.get() == "b"
    assert queue.take_more(lambda _: True, 9) == []


async def test_patient_keys_keep_their_share_among_keys_taken_together() -> None:
    clock = VirtualClock()
    queue: WorkQueue[int] = WorkQueue(clock)
    for key in range(100):
        queue.add(-key - 1, low_priority=True)
    clock.advance(LOW_PRIORITY_SECONDS)
    for key in range(100):
        queue.add(key)
    taken = queue.take_more(lambda _: True, 60)
    assert sum(key < 0 for key in taken) == 20
    assert [key for key in taken if key >= 0] == list(range(40))


async def test_all_workers_are_called_when_there_is_work_for_all() -> None:
    """Each waits for the others: were one left asleep, none would go on."""
    queue: WorkQueue[int] = WorkQueue(VirtualClock())
    together = asyncio.Barrier(20)

    async def reconcile(_: int) -> None:
        await together.wait()

    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        workers = group.create_task(run_workers(queue, reconcile, 20))
        await asyncio.sleep(0)
        for round_ in range(3):
            for key in range(20):
                queue.add(round_ * 20 + key)
            while not queue.is_idle:
                await asyncio.sleep(0)
        workers.cancel()


async def test_a_worker_that_is_cancelled_when_called_leaves_its_turn_to_another() -> None:
    queue: WorkQueue[str] = WorkQueue(VirtualClock())
    waiting = [asyncio.create_task(queue.get()) for _ in range(9)]
    await asyncio.sleep(0)
    queue.add("a")
    waiting[0].cancel()
    await asyncio.sleep(0)
    for _ in range(5):
        await asyncio.sleep(0)
    assert [task.result() for task in waiting[1:] if task.done()] == ["a"]
    queue.add("b")
    for _ in range(5):
        await asyncio.sleep(0)
    assert sum(task.done() for task in waiting[1:]) == 2
    for task in waiting:
        task.cancel()
    await asyncio.wait(waiting)


class _Mistake(StratoError):
    """Something that a user did."""


@pytest.mark.parametrize(
    ("error", "has_traceback"),
    [
        pytest.param(_Mistake("queue 'x' is\nnot found"), False, id="what a user did"),
        pytest.param(Forbidden("the namespace is being terminated"), False, id="what the API answered"),
        pytest.param(ConnectionRefusedError(111, "Connection refused"), False, id="what the network did"),
        pytest.param(InvariantError("this cannot be"), True, id="a broken assumption of ours"),
        pytest.param(KeyError("spec"), True, id="a fault of ours"),
    ],
)
def test_only_faults_of_ours_have_a_traceback(
    error: Exception, has_traceback: bool, caplog: pytest.LogCaptureFixture
) -> None:
    try:
        raise error
    except Exception as raised:
        log_failure("worker", "default/a", raised)
    (record,) = caplog.records
    assert (record.exc_info is not None) == has_traceback
    assert "\n" not in record.getMessage()
    assert "Errno" not in record.getMessage()
