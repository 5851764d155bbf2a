"""How predicted starts fared, from the annotation to the report."""

from __future__ import annotations

from pathlib import Path

import pytest

from strato.history.jobs import JobFacts
from strato.history.predictionannotations import START, START_INTERVAL, prediction_of
from strato.history.rows import JobRun
from strato.history.statistics import Period, of_predictions
from strato.history.store import HistoryStore

DAY = Period(0.0, 86_400.0)


def run(number: int, submitted: float, ready: float | None, **predicted: float) -> JobRun:
    text = str(number)
    fields = {"run_id": text, "job_uid": text, "namespace": "n", "job": text, "kind": "Job", "template": "t"}
    return JobRun(**fields, queue="q", submitted=submitted, ready=ready, **predicted)


def test_errors_are_those_of_the_prediction_and_of_the_mean_wait() -> None:
    runs = [
        run(1, 0.0, 100.0),
        run(2, 0.0, 300.0),
        run(3, 1_000.0, 1_500.0, predicted=1_400.0, predicted_low=1_200.0, predicted_high=1_600.0),
        run(4, 1_000.0, 2_000.0, predicted=1_400.0, predicted_low=1_200.0, predicted_high=1_600.0),
        run(5, 1_000.0, None, predicted=1_400.0, predicted_low=1_200.0, predicted_high=-1.0),
    ]
    found = of_predictions(runs, DAY)
    assert found.predictions == 2
    assert found.prediction_error == 350.0
    assert found.mean_wait_error == 550.0  # 200 s was the mean of the waits before
    assert found.within_interval == 0.5


def test_an_open_end_holds_whatever_comes_late() -> None:
    runs = [run(1, 0.0, 9_000.0, predicted=100.0, predicted_low=50.0, predicted_high=-1.0)]
    assert of_predictions(runs, DAY).within_interval == 1.0


def test_without_predictions_there_is_nothing() -> None:
    found = of_predictions([run(1, 0.0, 100.0)], DAY)
    assert (found.predictions, found.prediction_error, found.within_interval) == (0, None, None)


NOTES = {START: "1970-01-01T00:10:00Z", START_INTERVAL: "1970-01-01T00:05:00Z/1970-01-01T00:20:00Z"}


@pytest.mark.parametrize(
    ("notes", "want"),
    [
        (NOTES, (600.0, 300.0, 1_200.0)),
        ({**NOTES, START_INTERVAL: "1970-01-01T00:05:00Z/.."}, (600.0, 300.0, -1.0)),
        ({}, None),
        ({START: "soon"}, None),
        ({**NOTES, START_INTERVAL: "x"}, None),
    ],
    ids=["both bounds", "an open end", "none", "no date", "no interval"],
)
def test_annotations_are_read(notes: dict[str, str], want: tuple[float, float, float] | None) -> None:
    assert prediction_of(notes) == want


def test_the_first_prediction_is_kept(tmp_path: Path) -> None:
    from strato.history.tracker import Tracker

    tracker = Tracker()
    facts = JobFacts("u", "n", "j", "Job", "t", "q", 0.0, attempt=0, min_available=1, phase="", ended=None)
    tracker.see_job(facts, 0.0)
    tracker.see_prediction("u", 600.0, 300.0, 900.0)
    tracker.see_prediction("u", 700.0, 300.0, 900.0)
    tracker.see_prediction("stranger", 1.0, 1.0, 1.0)
    store = HistoryStore(tmp_path / "history.db")
    store.append(tracker.take_rows())
    (kept,) = store.runs()
    assert (kept.predicted, kept.predicted_low, kept.predicted_high) == (600.0, 300.0, 900.0)
    store.close()
