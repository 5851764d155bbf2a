"""How long cycles wait for company, by what the last one took."""

from __future__ import annotations

import pytest

from strato.scheduler.throttle import Throttle


@pytest.mark.parametrize(
    ("took", "busy", "status"),
    [
        (0.0, 0.002, 0.1),
        (0.002, 0.01, 0.1),
        (0.01, 0.05, 0.5),
        (0.015, 0.05, 0.75),
        (0.3, 0.3, 1.0),
    ],
    ids=[
        "a cycle that cost nothing is followed almost at once",
        "a short cycle is followed after five times as long",
        "the next placement waits no longer than a twentieth of a second",
        "statuses wait until cycles take a fiftieth of the time",
        "a long cycle is followed after as long again",
    ],
)
def test_gathering_follows_what_the_last_cycle_took(took: float, busy: float, status: float) -> None:
    throttle = Throttle()
    throttle.ran(9.0, 10.0)  # it has just been busy
    throttle.ran(10.0, 10.0 + took)
    assert throttle.busy_seconds(10.0 + took) == pytest.approx(busy)
    assert throttle.status_seconds(10.0 + took) == pytest.approx(status)


def test_a_few_short_cycles_after_a_rest_follow_each_other_closely() -> None:
    throttle, now, waits = Throttle(), 100.0, []
    for _ in range(7):
        throttle.ran(now, now + 0.003)
        waits.append(throttle.busy_seconds(now + 0.003))
        now += 0.003 + waits[-1]
    assert waits == pytest.approx([0.002] * 3 + [0.015] * 4)
    throttle.ran(now + 1.0, now + 1.003)
    assert throttle.busy_seconds(now + 1.003) == pytest.approx(0.002)


def test_cycles_that_place_many_pods_one_after_the_other_are_further_apart() -> None:
    throttle, now, waits = Throttle(), 100.0, []
    for placed in (50, 9, 30, 0, 8):
        throttle.ran(now, now + 0.001, placed=placed)
        waits.append(throttle.busy_seconds(now + 0.001))
        now += 0.001 + waits[-1]
    assert waits == pytest.approx([0.002, 0.025, 0.025, 0.002, 0.025])
    throttle.ran(now + 1.0, now + 1.001, placed=50)
    assert throttle.busy_seconds(now + 1.001) == pytest.approx(0.002), "the first of a burst is followed as any other"


def test_idle_scheduler_does_not_wait() -> None:
    throttle = Throttle()
    assert throttle.busy_seconds(0.0) == 0.0
    throttle.ran(1.0, 1.01)
    assert throttle.busy_seconds(2.0) == 0.0


def test_statuses_that_keep_changing_are_gathered_longer_until_there_is_a_lull() -> None:
    throttle, now, waits = Throttle(), 10.0, []
    for _ in range(4):
        waits.append(throttle.status_seconds(now))
        now += waits[-1]
        throttle.ran(now, now + 0.002, status_only=True)
        throttle.ran(now + 0.003, now + 0.004)  # a placement between them is none
    assert waits == pytest.approx([0.1, 0.1, 0.2, 0.4])
    assert throttle.status_seconds(now) == pytest.approx(0.4)
    assert throttle.status_seconds(now + 2.0) == pytest.approx(0.1)
    throttle.ran(now + 2.0, now + 2.0, status_only=True)
    assert throttle.status_seconds(now + 2.0) == pytest.approx(0.1)
