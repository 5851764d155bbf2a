"""How long jobs will run: what counts, how much, and where nothing is known."""

from __future__ import annotations

import math
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strato.history.prediction import RunTimePredictor, SubmittedJob, name_pattern

ANNA = SubmittedJob(user="anna", name="train-1", size=8, estimate_seconds=3_600)


def test_nothing_known_takes_shares_of_the_estimate() -> None:
    found = RunTimePredictor().predict(ANNA)
    assert 0 < found.at(0.1) < found.at(0.5) < found.at(0.95) <= 3_600


def test_the_same_job_counts_most() -> None:
    predictor = RunTimePredictor()
    for number in range(10):
        predictor.take(SubmittedJob(user="anna", name=f"train-{number}", size=8, estimate_seconds=3_600), 600.0)
        predictor.take(SubmittedJob(user="anna", name="other", size=1, estimate_seconds=7_200), 5_000.0)
        predictor.take(SubmittedJob(user="ben", name="train-3", size=8, estimate_seconds=3_600), 3_000.0)
    assert predictor.predict(ANNA).at(0.5) == 600.0


def test_newer_runs_count_more() -> None:
    predictor = RunTimePredictor()
    for seconds in [100.0] * 20 + [900.0] * 20:
        predictor.take(ANNA, seconds)
    found = predictor.predict(ANNA)
    assert found.at(0.5) == 900.0
    assert found.at(0.05) == 100.0


def test_a_user_without_history_gets_what_such_sizes_take() -> None:
    predictor = RunTimePredictor()
    for number in range(30):
        predictor.take(SubmittedJob(user=f"user-{number}", size=8, estimate_seconds=3_600), 1_800.0)
    assert predictor.predict(SubmittedJob(user="new", size=8, estimate_seconds=3_600)).at(0.5) == 1_800.0


def test_another_estimate_scales_what_was_seen() -> None:
    predictor = RunTimePredictor()
    for _ in range(20):
        predictor.take(ANNA, 900.0)
    longer = SubmittedJob(user="anna", name="another", size=64, estimate_seconds=36_000)
    assert predictor.predict(longer).at(0.5) == pytest.approx(9_000.0)


def test_what_has_run_for_long_runs_on() -> None:
    predictor = RunTimePredictor()
    for seconds in (100.0, 200.0, 3_000.0) * 10:
        predictor.take(SubmittedJob(user="anna"), seconds)
    found = predictor.predict(SubmittedJob(user="anna"))
    assert found.at(0.5) < 3_000.0
    assert found.at(0.5, elapsed_seconds=250.0) == 3_000.0
    assert found.at(0.5, elapsed_seconds=1e6) == pytest.approx(2e6)  # as long again


def test_deadlines_end_runs() -> None:
    predictor = RunTimePredictor()
    for _ in range(30):
        predictor.take(SubmittedJob(user="anna", name="x"), 5_000.0)
    found = predictor.predict(SubmittedJob(user="anna", name="x", limit_seconds=1_000.0))
    assert found.at(0.9) == 1_000.0


NAMES = [
    ("train-17", "train-#"),
    ("sweep-lr-0.01-seed-3", "sweep-lr-#.#-seed-#"),
    ("nightly-28391240", "nightly-#"),
    ("etl-x7k2p", "etl"),
    ("resnet50-large", "resnet#-large"),
    ("", ""),
]


@pytest.mark.parametrize(("name", "pattern"), NAMES)
def test_name_pattern(name: str, pattern: str) -> None:
    assert name_pattern(name) == pattern


jobs = st.builds(
    SubmittedJob,
    user=st.sampled_from(["a", "b", ""]),
    name=st.sampled_from(["x-1", "x-2", "y", ""]),
    size=st.floats(0, 1e6),
    estimate_seconds=st.none() | st.floats(0, 1e7),
    limit_seconds=st.none() | st.floats(0, 1e7),
)


@given(runs=st.lists(st.tuples(jobs, st.floats(allow_nan=True)), max_size=40), job=jobs, elapsed=st.floats(0, 1e8))
def test_distribution_is_one(runs: list[tuple[SubmittedJob, float]], job: SubmittedJob, elapsed: float) -> None:
    """Whatever was seen: shares are monotone, nothing is negative, and nothing ends before now."""
    predictor = RunTimePredictor()
    for seen, seconds in runs:
        predictor.take(seen, seconds)
    found = predictor.predict(job)
    values = [found.at(share, elapsed) for share in (0.0, 0.1, 0.5, 0.9, 1.0)]
    assert values == sorted(values)
    assert all(value >= elapsed and not math.isnan(value) for value in values)
    drawn = found.draw(Random(0))
    assert drawn >= 0
    if job.limit_seconds is not None:
        assert drawn <= job.limit_seconds


def test_memory_is_bounded() -> None:
    predictor = RunTimePredictor(max_bytes=100_000)
    for number in range(5_000):
        predictor.take(SubmittedJob(user=f"user-{number}", name=f"{'abc'[number % 3]}", size=number), 60.0)
    assert predictor.matches < 200
    assert predictor.predict(SubmittedJob(user="someone")).at(0.5) == 60.0
