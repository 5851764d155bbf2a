"""The status queue: what is coalesced, when it is written, and that only what was confirmed counts as written."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strato.client.load import LOAD_WINDOW_SECONDS, LoadMeter
from strato.client.statusqueue import InFlight, Reporter, Retries, StatusQueue, Write
from strato.client.workqueue import LOW_PRIORITY_SECONDS
from strato.clock import VirtualClock, run_virtual
from strato.errors import ApiError, Conflict, NotFound, TooManyRequests, Unavailable

Request = tuple[str, int]


class Api:
    """Objects by key, and faults on order."""

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self.objects: dict[str, int] = {}
        self.sent: list[tuple[float, str, int]] = []
        self.batches: list[int] = []
        self.faults: dict[str, list[ApiError]] = {}
        """By key, how its next writes end."""
        self.away = False
        self.seconds = 0.0
        """How long a call takes."""
        self.in_flight: Counter[str] = Counter()

    async def send(self, requests: Sequence[Request]) -> Sequence[ApiError | None]:
        self.batches.append(len(requests))
        for key, number in requests:
            self.sent.append((round(self.clock.monotonic(), 6), key, number))
            self.in_flight[key] += 1
            assert self.in_flight[key] == 1, "two writes of one key at once"
        await self.clock.sleep(self.seconds)
        return [self._answer(key, number) for key, number in requests]

    def _answer(self, key: str, number: int) -> ApiError | None:
        self.in_flight[key] -= 1
        if self.away:
            return Unavailable("away")
        if self.faults.get(key):
            return self.faults[key].pop(0)
        self.objects[key] = number
        return None


class World:
    """A queue in front of an API; what is put is written as it is."""

    def __init__(
        self,
        clock: VirtualClock,
        *,
        batch: int = 1,
        retries: Retries | None = None,
        low_workers: int = 1,
        low_workers_in_load: int = 0,
        **options: int,
    ) -> None:
        self.clock = clock
        self.api = Api(clock)
        self.load = LoadMeter()
        self.confirmed: list[Request] = []
        self.refused: list[tuple[str, int, str]] = []
        self.build: Callable[[str, int], Write[Request] | float | None] = lambda key, number: Write((key, number))
        self.queue: StatusQueue[str, int, Request] = StatusQueue(
            clock,
            Reporter(
                lambda key, number: self.build(key, number),
                self.api.send,
                on_confirmed=lambda key, number, _: self.confirmed.append((key, number)),
                on_refused=lambda key, number, error: self.refused.append((key, number, type(error).__name__)),
            ),
            InFlight(max(2, low_workers), batch, low_workers, low_workers_in_load),
            retries=retries,
            load=self.load,
            **options,
        )


def play(story: Callable[[World], Coroutine[None, None, None]], **options: Any) -> None:
    clock = VirtualClock()

    async def main() -> None:
        await story(World(clock, **options))

    run_virtual(clock, main())


def test_latest_of_what_waits_is_written_once_at_the_earliest_instant() -> None:
    async def story(w: World) -> None:
        w.queue.put("a", 1, 2.0)
        w.queue.put("a", 2, 5.0)
        w.queue.put("b", 3, 4.0)
        w.queue.put("b", 4, 1.0)
        w.queue.put("c", 5)
        w.queue.put("d", 6, 1.0)
        w.queue.drop("d")
        await w.clock.sleep(10.0)
        assert w.api.sent == [(0.0, "c", 5), (1.0, "b", 4), (2.0, "a", 2)]
        assert w.confirmed == [("c", 5), ("b", 4), ("a", 2)]
        assert len(w.queue) == 0

    play(story)


def test_what_is_put_while_a_write_is_in_flight_is_written_afterwards() -> None:
    async def story(w: World) -> None:
        w.api.seconds = 1.0
        w.queue.put("a", 1)
        await w.clock.sleep(0.5)
        w.queue.put("a", 2)
        w.queue.put("a", 3)
        w.queue.put("other", 4)
        await w.clock.sleep(10.0)
        assert w.api.sent == [(0.0, "a", 1), (0.5, "other", 4), (1.0, "a", 3)]
        assert ("a", 1) in w.confirmed, "who is told of a write is told what was written"

    play(story)


def test_writes_are_built_late_and_may_be_put_off_or_found_needless() -> None:
    async def story(w: World) -> None:
        facts = {"a": 1, "b": 1, "c": 1}
        w.build = lambda key, _: (
            5.0 if key == "b" and w.clock.monotonic() < 5.0 else Write((key, facts[key])) if facts[key] else None
        )
        for key in facts:
            w.queue.put(key, 0, 1.0)
        facts.update(a=7, c=0)
        await w.clock.sleep(10.0)
        assert w.api.sent == [(1.0, "a", 7), (5.0, "b", 1)]
        assert len(w.queue) == 0

    play(story)


def test_failed_write_is_retried_with_backoff_until_it_is_superseded() -> None:
    async def story(w: World) -> None:
        w.api.faults["a"] = [Unavailable("away"), Conflict("busy"), TooManyRequests("later", retry_after_seconds=3)]
        w.queue.put("a", 1)
        await w.clock.sleep(1.0)
        assert w.api.sent == [(0.0, "a", 1), (0.25, "a", 1), (0.75, "a", 1)]
        w.queue.put("a", 2)
        await w.clock.sleep(10.0)
        assert w.api.sent[3:] == [(3.75, "a", 2)], "the newer one, no sooner than the server allows"
        assert w.confirmed == [("a", 2)]

    play(story)


def test_failure_of_what_was_superseded_in_flight_is_not_repeated() -> None:
    async def story(w: World) -> None:
        w.api.seconds = 1.0
        w.api.faults["a"] = [Unavailable("away")]
        w.queue.put("a", 1)
        await w.clock.sleep(0.5)
        w.queue.put("a", 2)
        await w.clock.sleep(10.0)
        assert w.api.sent == [(0.0, "a", 1), (1.25, "a", 2)]

    play(story)


def test_failure_of_what_was_dropped_in_flight_is_not_repeated() -> None:
    async def story(w: World) -> None:
        w.api.seconds = 1.0
        w.api.faults["a"] = [Unavailable("away")]
        w.queue.put("a", 1)
        await w.clock.sleep(0.5)
        w.queue.drop("a")
        await w.clock.sleep(60.0)
        assert w.api.sent == [(0.0, "a", 1)]
        assert len(w.queue) == 0

    play(story)


def test_status_of_an_object_that_is_gone_is_dropped() -> None:
    async def story(w: World) -> None:
        w.api.faults["a"] = [NotFound("gone")]
        w.queue.put("a", 1)
        await w.clock.sleep(60.0)
        assert w.api.sent == [(0.0, "a", 1)]
        assert w.refused == [("a", 1, "NotFound")]
        assert len(w.queue) == 0
        w.queue.put("a", 2)
        await w.clock.sleep(1.0)
        assert w.api.objects == {"a": 2}, "one made anew under its name is written"

    play(story)


@pytest.mark.parametrize("minutes", [1, 30])
def test_outage_of_minutes_loses_nothing(minutes: int) -> None:
    async def story(w: World) -> None:
        w.api.away = True
        for number in range(200):
            w.queue.put(f"k{number}", number, low_priority=number % 2 == 0)
        await w.clock.sleep(60.0 * minutes)
        assert len(w.api.sent) <= 200 * (9 + 2 * minutes), "it backs off"
        w.api.away = False
        await w.clock.sleep(31.0)
        assert w.api.objects == {f"k{number}": number for number in range(200)}

    play(story, batch=16)


def test_status_is_given_up_after_its_time() -> None:
    async def story(w: World) -> None:
        w.api.away = True
        w.queue.put("a", 1)
        await w.clock.sleep(200.0)
        assert w.refused == [("a", 1, "Unavailable")]
        assert 60.0 <= w.api.sent[-1][0] < 91.0

    play(story, retries=Retries(give_up_seconds=60.0))


def test_write_without_an_answer_is_sent_again() -> None:
    async def story(w: World) -> None:
        w.api.seconds = 1000.0
        w.queue.put("a", 1)
        await w.clock.sleep(29.0)
        w.api.seconds = 0.0
        w.api.in_flight.clear()
        await w.clock.sleep(5.0)
        assert w.api.objects == {"a": 1}

    play(story)


def test_write_that_says_what_was_confirmed_last_is_not_sent_again() -> None:
    async def story(w: World) -> None:
        w.build = lambda key, number: Write((key, number), stamp=("v1", number))
        for number in (1, 1, 2, 2, 1):
            w.queue.put("a", number)
            await w.clock.sleep(1.0)
            assert w.queue.stamp("a") == ("v1", number)
        assert [number for _, _, number in w.api.sent] == [1, 2, 1]
        assert w.queue.confirmed_at("a") == 4.0
        w.api.faults["a"] = [Unavailable("away")]
        w.queue.put("a", 3)
        await w.clock.sleep(0.1)
        assert w.queue.stamp("a") == ("v1", 1), "what failed counts as nothing"
        await w.clock.sleep(1.0)
        assert w.queue.stamp("a") == ("v1", 3)

    play(story)


def test_stamps_of_old_are_forgotten() -> None:
    async def story(w: World) -> None:
        w.build = lambda key, number: Write((key, number), stamp=number)
        for number in range(30):
            w.queue.put(f"k{number}", number)
        await w.clock.sleep(1.0)
        assert [w.queue.stamp(f"k{number}") for number in (19, 20, 29)] == [None, 20, 29]

    play(story, remembered=10)


def test_batches_are_filled_and_workers_bounded() -> None:
    async def story(w: World) -> None:
        w.api.seconds = 1.0
        for number in range(40):
            w.queue.put(f"k{number}", number)
        await w.clock.sleep(0.5)
        assert w.api.batches == [16, 16]
        await w.clock.sleep(1.0)
        assert w.api.batches == [16, 16, 8]

    play(story, batch=16)


def test_more_keys_than_the_capacity_are_refused() -> None:
    async def story(w: World) -> None:
        taken = [w.queue.put(f"k{number}", number) for number in range(5)]
        assert taken == [True, True, True, False, False]
        assert w.queue.put("k0", 9), "what is known already takes no more room"
        await w.clock.sleep(1.0)
        assert w.api.objects == {"k0": 9, "k1": 1, "k2": 2}

    play(story, capacity=3)


def test_paused_queue_builds_nothing() -> None:
    async def story(w: World) -> None:
        w.queue.pause()
        w.queue.put("a", 1)
        w.queue.put("b", 2, 1.0)
        w.queue.put("c", 3, low_priority=True)
        await w.clock.sleep(5.0)
        assert w.api.sent == []
        w.queue.resume()
        await w.clock.sleep(0.1)
        assert w.api.objects == {"a": 1, "b": 2, "c": 3}

    play(story)


@pytest.mark.parametrize("needless", [False, True])
def test_status_that_was_due_twice_while_nothing_was_taken_is_written_once(needless: bool) -> None:
    async def story(w: World) -> None:
        w.build = lambda key, number: None if needless else Write((key, number))
        running = asyncio.ensure_future(w.queue.run())
        await w.clock.sleep(0.0)
        w.queue.pause()
        w.queue.put("a", 1, 1.0)
        w.queue.put("a", 2, 0.5)
        await w.clock.sleep(2.0)
        w.queue.resume()
        await w.clock.sleep(1.0)
        assert w.api.sent == ([] if needless else [(2.0, "a", 2)])
        assert len(w.queue) == 0
        assert not running.done(), "the queue goes on"
        running.cancel()

    play(story, batch=4)


def test_fault_in_one_status_stops_no_other(caplog: pytest.LogCaptureFixture) -> None:
    async def story(w: World) -> None:
        def build(key: str, number: int) -> Write[Request]:
            if key == "bad":
                raise ValueError("a fault of ours")
            return Write((key, number))

        w.build = build
        w.queue.put("bad", 1)
        w.queue.put("good", 2)
        await w.clock.sleep(1.0)
        assert w.api.objects == {"good": 2}
        assert len(w.queue) == 0

    play(story)
    assert "status cannot be built and is dropped" in caplog.text


def test_drain_writes_at_once_all_that_waits() -> None:
    async def story(w: World) -> None:
        w.api.seconds = 0.5
        w.api.faults["b"] = [Unavailable("away")]
        w.load.add(1000, 0.0)
        w.queue.put("a", 1, 100.0)
        w.queue.put("b", 2)
        w.queue.put("c", 3, 50.0, low_priority=True)
        await w.clock.sleep(0.1)
        w.queue.put("b", 4, 70.0)
        await w.queue.drain()
        assert w.api.objects == {"a": 1, "b": 4, "c": 3}
        assert w.clock.monotonic() < 2.0
        await w.queue.drain()

    play(story)


def test_run_stops_the_writes_when_it_is_cancelled() -> None:
    async def story(w: World) -> None:
        running = asyncio.create_task(w.queue.run())
        w.queue.put("a", 1)
        w.queue.put("b", 2, 5.0)
        await w.clock.sleep(1.0)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        w.queue.put("c", 3)
        w.queue.put("d", 4, w.clock.monotonic() + 2.0)
        await w.clock.sleep(10.0)
        assert w.api.objects == {"a": 1}
        running = asyncio.create_task(w.queue.run())
        await w.clock.sleep(1.0)
        assert w.api.objects == {"a": 1, "c": 3, "d": 4}, "whoever runs it again begins anew"
        running.cancel()

    play(story)


# -- low priority ------------------------------------------------------------------------------------------------------


def test_low_priority_statuses_wait_for_the_end_of_a_burst() -> None:
    async def story(w: World) -> None:
        w.load.add(1000, 0.0)
        w.queue.put("low", 1, low_priority=True)
        w.queue.put("high", 2)
        await w.clock.sleep(10.0)
        assert w.api.sent == [(0.0, "high", 2), (LOAD_WINDOW_SECONDS, "low", 1)]

    play(story)


def test_low_priority_statuses_wait_no_longer_than_their_time_however_long_the_burst() -> None:
    async def story(w: World) -> None:
        w.queue.put("low", 1, 1.0, low_priority=True)
        w.queue.put("low", 2, 1.0, low_priority=True)
        for _ in range(80):
            w.load.add(20, w.clock.monotonic())
            await w.clock.sleep(0.125)
        ((at, *sent),) = w.api.sent
        assert sent == ["low", 2]
        assert LOW_PRIORITY_SECONDS <= at <= LOW_PRIORITY_SECONDS + 0.05, (
            "what becomes due at about one time goes together"
        )

    play(story)


def test_status_that_becomes_urgent_waits_no_longer() -> None:
    async def story(w: World) -> None:
        w.load.add(1000, 0.0)
        w.queue.put("a", 1, low_priority=True)
        await w.clock.sleep(0.125)
        w.queue.put("a", 2)
        await w.clock.sleep(10.0)
        assert w.api.sent == [(0.125, "a", 2)]

    play(story)


def test_without_a_burst_low_priority_is_written_at_once_a_batch_at_a_time() -> None:
    async def story(w: World) -> None:
        w.api.seconds = 0.01
        for number in range(100):
            w.queue.put(f"k{number}", number, low_priority=True)
        await w.clock.sleep(0.005)
        assert w.api.batches == [16]
        await w.clock.sleep(0.05)
        w.load.add(1000, w.clock.monotonic())  # work comes: the rest gives way to it
        await w.clock.sleep(0.1)
        assert sum(w.api.batches) < 100
        await w.clock.sleep(1.0)
        assert [number for _, _, number in w.api.sent] == list(range(100))

    play(story, batch=16)


@pytest.mark.parametrize(("in_load", "expected"), [(1, 1), (2, 2), (0, 4)])
def test_low_priority_statuses_that_waited_long_enough_are_few_at_a_time_in_load(in_load: int, expected: int) -> None:
    async def story(w: World) -> None:
        w.api.seconds = 0.25
        for number in range(120):
            w.queue.put(f"k{number}", number, low_priority=True)
            if not number:
                w.load.add(1000, w.clock.monotonic())
        at_once: list[int] = []
        for _ in range(32):
            w.load.add(20, w.clock.monotonic())
            await w.clock.sleep(0.125)
            at_once.append(sum(w.api.in_flight.values()))
        assert max(at_once) == expected
        await w.clock.sleep(LOAD_WINDOW_SECONDS + 0.3)
        assert sum(w.api.in_flight.values()) == 4, "the load is over"
        await w.clock.sleep(30.0)
        assert sorted(number for _, _, number in w.api.sent) == list(range(120))
        assert len(w.queue) == 0

    play(story, low_workers=4, low_workers_in_load=in_load)


def test_work_that_comes_steadily_and_slowly_is_no_load_however_long() -> None:
    load = LoadMeter()
    for number in range(400):
        load.add(2, 0.04 * number)
        assert not load.is_high(0.04 * number)


# -- properties --------------------------------------------------------------------------------------------------------

PUTS = st.tuples(st.just("put"), st.sampled_from("abc"), st.sampled_from([0.0, 0.0, 0.3, 2.0]), st.booleans())
DROPS = st.tuples(st.just("drop"), st.sampled_from("abc"))
FAULTS = st.tuples(
    st.just("fault"), st.sampled_from("abc"), st.sampled_from([Unavailable, Conflict, NotFound, TooManyRequests])
)
WORK = st.tuples(st.just("work"), st.integers(0, 40))
PAUSES = st.tuples(st.sampled_from(["pause", "resume"]))
WAITS = st.tuples(st.just("wait"), st.sampled_from([0.0, 0.1, 0.25, 1.0, 5.0]))


@given(st.lists(st.one_of(PUTS, DROPS, FAULTS, WORK, PAUSES, WAITS), max_size=40), st.sampled_from([0.0, 0.2]))
def test_in_the_end_the_api_has_the_latest_of_everything(steps: list[tuple[object, ...]], seconds: float) -> None:
    """Whatever fails meanwhile: confirmed is what was put last, refused only where the API said so for good."""

    async def story(w: World) -> None:
        w.api.seconds = seconds
        latest: dict[str, int] = {}
        for number, step in enumerate(steps):
            match step:
                case ("put", str(key), float(after), bool(low)):
                    w.queue.put(key, number, w.clock.monotonic() + after, low_priority=low)
                    latest[key] = number
                case ("drop", str(key)):
                    w.queue.drop(key)
                    latest.pop(key, None)
                case ("fault", str(key), type() as error):
                    w.api.faults.setdefault(key, []).append(error("scripted"))
                case ("work", int(amount)):
                    w.load.add(amount, w.clock.monotonic())
                case ("pause",):
                    w.queue.pause()
                case ("resume",):
                    w.queue.resume()
                case ("wait", float(wait)):
                    await w.clock.sleep(wait)
        w.queue.resume()
        await w.clock.sleep(120.0)
        assert len(w.queue) == 0
        gone = {(key, number) for key, number, _ in w.refused}
        for key, number in latest.items():
            assert w.api.objects.get(key) == number or (key, number) in gone
        assert len(set(w.confirmed)) == len(w.confirmed), "what was confirmed is not written again"

    play(story, batch=2)
