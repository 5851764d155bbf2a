"""Intervals that hold what they promise."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strato.history.predictionintervals import Accuracy, Calibration, Interval


@pytest.mark.parametrize("spread", [0.05, 1.0, 20.0], ids=["much too narrow", "as it should be", "much too wide"])
@pytest.mark.parametrize("bias", [0.2, 1.0, 5.0], ids=["too late", "right", "too early"])
def test_coverage_is_reached_whatever_the_raw_interval(spread: float, bias: float) -> None:
    rng, calibration, accuracy = Random(4), Calibration(), Accuracy()
    for number in range(2_000):
        middle = rng.lognormvariate(8.0, 1.0)
        wait = bias * middle * rng.lognormvariate(0.0, 0.8)
        raw = Interval(middle, middle / (1 + spread), middle * (1 + spread))
        if number >= 200:
            accuracy.take(calibration.calibrated(raw), 3_000.0, wait)
        calibration.take(raw, wait)
    assert 0.76 <= accuracy.coverage <= 0.84
    assert accuracy.median_error_seconds < accuracy.naive_median_error_seconds


def test_coverage_follows_a_change() -> None:
    """When waits become ten times as long all of a sudden, the window forgets how it was."""
    rng, calibration, held = Random(5), Calibration(), 0
    for number in range(1_200):
        raw = Interval(3_000.0, 2_000.0, 4_000.0)
        wait = 3_000.0 * rng.lognormvariate(0.0, 0.5) * (10.0 if number >= 600 else 1.0)
        if number >= 900:
            held += calibration.calibrated(raw).holds(wait)
        calibration.take(raw, wait)
    assert 0.7 <= held / 300 <= 0.9


def test_without_outcomes_the_raw_interval_stands() -> None:
    raw = Interval(100.0, 50.0, 200.0)
    assert Calibration().calibrated(raw) == raw


@pytest.mark.parametrize(
    ("outcomes", "middle"),
    [
        pytest.param([200.0], 200.0, id="the only one"),
        pytest.param([200.0, 400.0], 200.0, id="the lower of two"),
        pytest.param([200.0, 400.0, 800.0], 400.0, id="the second of three"),
        pytest.param([200.0, 400.0, 800.0, 1_600.0], 400.0, id="the second of four"),
    ],
)
def test_the_median_is_one_of_the_outcomes(outcomes: list[float], middle: float) -> None:
    calibration, raw = Calibration(), Interval(100.0, 50.0, 200.0)
    for wait in reversed(outcomes):
        calibration.take(raw, wait)
    assert calibration.calibrated(raw).middle == pytest.approx(middle)


waits = st.floats(0, 1e8)


@given(past=st.lists(st.tuples(waits, waits, waits, waits), max_size=60), low=waits, more=waits, yet_more=waits)
def test_interval_is_one(
    past: list[tuple[float, float, float, float]], low: float, more: float, yet_more: float
) -> None:
    calibration = Calibration()
    for first, second, third, wait in past:
        bounds = sorted((first, second, third))
        calibration.take(Interval(bounds[1], bounds[0], bounds[2]), wait)
    found = calibration.calibrated(Interval(low + more, low, low + more + yet_more))
    assert 0.0 <= found.low <= found.middle <= found.high


def test_infinite_predictions_are_taken() -> None:
    """A job that no draw saw starting may start all the same."""
    calibration = Calibration()
    never = Interval(float("inf"), float("inf"), float("inf"))
    for _ in range(30):
        calibration.take(never, 1_000.0)
    found = calibration.calibrated(never)
    assert found.low <= found.middle <= found.high


def test_accuracy_is_against_the_mean_wait() -> None:
    accuracy = Accuracy()
    assert (accuracy.coverage, accuracy.mean_error_seconds, accuracy.median_error_seconds) == (0.0, 0.0, 0.0)
    accuracy.take(Interval(100.0, 50.0, 200.0), 1_000.0, 120.0)
    accuracy.take(Interval(100.0, 50.0, 200.0), 1_000.0, 700.0)
    assert accuracy.coverage == 0.5
    assert accuracy.mean_error_seconds == 310.0
    assert accuracy.naive_mean_error_seconds == 590.0


def test_calibration_is_written_and_read_again() -> None:
    rng, calibration = Random(6), Calibration()
    for _ in range(50):
        raw = Interval(3_000.0, 2_000.0, 4_000.0)
        calibration.take(raw, 3_000.0 * rng.lognormvariate(0.0, 1.0))
    again = Calibration.from_json(calibration.to_json())
    raw = Interval(2_500.0, 1_000.0, 5_000.0)
    assert again.calibrated(raw).high == pytest.approx(calibration.calibrated(raw).high, rel=0.01)


@pytest.mark.parametrize("text", ["", "[]", "{", "[[0.8,[1],[],[]]]", '[["x"]]'])
def test_calibration_that_cannot_be_read_is_none(text: str) -> None:
    raw = Interval(100.0, 50.0, 200.0)
    assert Calibration.from_json(text).calibrated(raw) == raw


@pytest.mark.parametrize("seed", range(3))
def test_the_share_is_held_however_waits_change(seed: int) -> None:
    """A hard week, then an easy month: what was learned in the one does not widen the other's intervals for good."""
    rng, calibration = Random(seed), Calibration()
    held = []
    for number in range(400):
        middle = 10 ** rng.uniform(2.0, 5.5)
        raw = Interval(middle, 0.5 * middle, 2.0 * middle)
        wait = middle * rng.lognormvariate(0.0, 2.0 if number < 120 else 0.05)
        held.append(calibration.calibrated(raw).holds(wait))
        calibration.take(raw, wait)
    assert 0.75 <= sum(held) / len(held) <= 0.85
    assert 0.7 <= sum(held[120:]) / len(held[120:]) <= 0.9
