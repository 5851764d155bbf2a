"""How long cycles wait for company, by what the last one took."""

from __future__ import annotations

import pytest

from strato.scheduler.pace import Pace


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
    pace = Pace()
    pace.ran(10.0, 10.0 + took)
    assert pace.busy_seconds(10.0 + took) == pytest.approx(busy)
    assert pace.status_seconds == pytest.approx(status)


def test_idle_scheduler_does_not_wait() -> None:
    pace = Pace()
    assert pace.busy_seconds(0.0) == 0.0
    pace.ran(1.0, 1.01)
    assert pace.busy_seconds(2.0) == 0.0
