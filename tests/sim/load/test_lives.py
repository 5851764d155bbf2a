"""Latencies count from when a pod was due; stages that a watcher did not see are reached with the next."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strato.sim.load.lives import ACKNOWLEDGED, BOUND, ENDED, RUNNING, Lives, rate_of
from strato.sim.load.result import result_of


def _two_jobs() -> Lives:
    lives = Lives()
    lives.begin("a", 2, 0.0, 0.01)
    lives.begin("b", 1, 1.0, 1.2)
    lives.acknowledge("a", 0.1)
    lives.acknowledge("b", 1.3)
    lives.see("a", "a-0", "", "Pending", 0.2)
    lives.see("a", "a-0", "n1", "Pending", 0.5)
    lives.see("a", "a-0", "n1", "Running", 0.7)
    lives.see("a", "a-0", "n1", "Running", 0.9)
    lives.see("a", "a-1", "n1", "Succeeded", 3.0)
    lives.see("b", "b-0", "n2", "Failed", 4.0)
    lives.see("stranger", "x", "n2", "Running", 4.0)
    return lives


def test_latencies_count_from_when_a_pod_was_due() -> None:
    lives = _two_jobs()
    assert list(lives.after(BOUND)) == [0.5, 3.0, 3.0]
    assert list(lives.after(RUNNING)) == [0.7, 3.0, 3.0]
    assert list(lives.after(ACKNOWLEDGED)) == pytest.approx([0.1, 0.3])
    assert [lives.reached(stage) for stage in range(4)] == [3, 3, 3, 2]
    assert (lives.late, lives.latest_seconds, lives.failed_pods, lives.outstanding) == (1, pytest.approx(0.2), 1, 1)


def test_refused_jobs_have_no_pods_to_wait_for() -> None:
    lives = Lives()
    lives.begin("a", 5, 0.0, 0.0)
    lives.fail("a", "Forbidden")
    assert (lives.due_pods, lives.outstanding, dict(lives.errors)) == (0, 0, {"Forbidden": 1})


def test_result_has_table_json_and_measures() -> None:
    result = result_of(_two_jobs(), 2, 4.0, 0)
    measures = result.measures()
    assert (measures["boundP50Seconds"], measures["endedPods"], measures["latePercent"]) == (3.0, 2.0, 50.0)
    assert measures["endedPercent"] == pytest.approx(66.67, abs=0.01)
    document = json.loads(result.to_json())
    assert document["latencySeconds"]["running"]["max"] == 3.0
    assert "2 submissions of 3 pods" in result.to_table()


def test_nothing_is_a_result_too() -> None:
    result = result_of(Lives(), 0, 0.0, 0, interrupted=True)
    assert "interrupted" in result.to_table()
    assert json.loads(result.to_json())["latencySeconds"] == {}


@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.sampled_from(["Pending", "Running", "Succeeded", "Failed"]), st.booleans())
    )
)
def test_stages_are_reached_in_order(events: list[tuple[int, str, bool]]) -> None:
    lives = Lives()
    lives.begin("j", 4, 0.0, 0.0)
    for now, (pod, phase, bound) in enumerate(events, start=1):
        lives.see("j", f"j-{pod}", "n" if bound else "", phase, float(now))
    counts = [lives.reached(stage) for stage in (BOUND, RUNNING, ENDED)]
    assert counts == sorted(counts, reverse=True)
    assert [len(lives.after(stage)) for stage in (BOUND, RUNNING, ENDED)] == counts


def test_rate_is_between_first_and_last() -> None:
    assert rate_of([0.0, 1.0, 2.0]) == 1.0
    assert rate_of([1.0]) == 0.0
    assert rate_of([1.0, 1.0]) == 0.0
