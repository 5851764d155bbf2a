"""Latencies count from when a pod was due; stages that a watcher did not see are reached with the next."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strato.sim.load.latencies import ACKNOWLEDGED, BOUND, ENDED, RUNNING, LatencyTracker, rate_of
from strato.sim.load.result import result_of


def _two_jobs() -> LatencyTracker:
    tracker = LatencyTracker()
    tracker.begin("a", 2, 0.0, 0.01)
    tracker.begin("b", 1, 1.0, 1.2)
    tracker.acknowledge("a", 0.1)
    tracker.acknowledge("b", 1.3)
    tracker.see("a", "a-0", "", "Pending", 0.2)
    tracker.see("a", "a-0", "n1", "Pending", 0.5)
    tracker.see("a", "a-0", "n1", "Running", 0.7)
    tracker.see("a", "a-0", "n1", "Running", 0.9)
    tracker.see("a", "a-1", "n1", "Succeeded", 3.0)
    tracker.see("b", "b-0", "n2", "Failed", 4.0)
    tracker.see("stranger", "x", "n2", "Running", 4.0)
    return tracker


def test_latencies_count_from_when_a_pod_was_due() -> None:
    tracker = _two_jobs()
    assert list(tracker.after(BOUND)) == [0.5, 3.0, 3.0]
    assert list(tracker.after(RUNNING)) == [0.7, 3.0, 3.0]
    assert list(tracker.after(ACKNOWLEDGED)) == pytest.approx([0.1, 0.3])
    assert [tracker.reached(stage) for stage in range(4)] == [3, 3, 3, 2]
    assert (tracker.late, tracker.latest_seconds, tracker.failed_pods, tracker.outstanding) == (
        1,
        pytest.approx(0.2),
        1,
        1,
    )


def test_refused_jobs_have_no_pods_to_wait_for() -> None:
    tracker = LatencyTracker()
    tracker.begin("a", 5, 0.0, 0.0)
    tracker.fail("a", "Forbidden")
    assert (tracker.due_pods, tracker.outstanding, dict(tracker.errors)) == (0, 0, {"Forbidden": 1})


def test_result_has_table_json_and_measures() -> None:
    result = result_of(_two_jobs(), 2, 4.0, 0)
    measures = result.measures()
    assert (measures["boundP50Seconds"], measures["endedPods"], measures["latePercent"]) == (3.0, 2.0, 50.0)
    assert measures["endedPercent"] == pytest.approx(66.67, abs=0.01)
    document = json.loads(result.to_json())
    assert document["latencySeconds"]["running"]["max"] == 3.0
    assert "2 submissions of 3 pods" in result.to_table()


def test_nothing_is_a_result_too() -> None:
    result = result_of(LatencyTracker(), 0, 0.0, 0, interrupted=True)
    assert "interrupted" in result.to_table()
    assert json.loads(result.to_json())["latencySeconds"] == {}


@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.sampled_from(["Pending", "Running", "Succeeded", "Failed"]), st.booleans())
    )
)
def test_stages_are_reached_in_order(events: list[tuple[int, str, bool]]) -> None:
    tracker = LatencyTracker()
    tracker.begin("j", 4, 0.0, 0.0)
    for now, (pod, phase, bound) in enumerate(events, start=1):
        tracker.see("j", f"j-{pod}", "n" if bound else "", phase, float(now))
    counts = [tracker.reached(stage) for stage in (BOUND, RUNNING, ENDED)]
    assert counts == sorted(counts, reverse=True)
    assert [len(tracker.after(stage)) for stage in (BOUND, RUNNING, ENDED)] == counts


def test_rate_is_between_first_and_last() -> None:
    assert rate_of([0.0, 1.0, 2.0]) == 1.0
    assert rate_of([1.0]) == 0.0
    assert rate_of([1.0, 1.0]) == 0.0
