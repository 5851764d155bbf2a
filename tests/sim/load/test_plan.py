"""What is submitted when, and how rates and times are read."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strato.errors import UsageError
from strato.sim.load.plan import LABEL, LoadOptions, planned, read_rate, read_seconds, read_speed
from strato.sim.workloads.jobs import TraceJob

JOBS = (
    TraceJob(name="a", submit_seconds=0, run_seconds=60, replicas=4, requests={"cpu": "1"}, queue="q"),
    TraceJob(name="b", submit_seconds=100, run_seconds=30, requests={"cpu": "2"}, annotations={"x": "y"}),
)


def test_rate_counts_pods_in_the_order_of_the_trace() -> None:
    first, second = planned(JOBS, LoadOptions(pods_per_second=2.0), "ns")
    assert (first.at_seconds, first.pods, second.at_seconds) == (0.0, 4, 2.0)
    assert first.body["metadata"]["labels"] == {LABEL: "ns"}
    task = first.body["spec"]["tasks"][0]
    assert task["template"]["metadata"]["annotations"]["strato.dev/run-seconds"] == "60.000000"
    assert task["template"]["metadata"]["labels"] == {LABEL: "ns"}


def test_speed_shortens_pauses_and_run_times() -> None:
    _, second = planned(JOBS, LoadOptions(speed=10.0), "ns")
    assert second.at_seconds == 10.0
    annotations = second.body["spec"]["tasks"][0]["template"]["metadata"]["annotations"]
    assert annotations == {"x": "y", "strato.dev/run-seconds": "3.000000"}
    _, given = planned(JOBS, LoadOptions(speed=10.0, run_seconds=5), "ns")
    assert given.body["spec"]["tasks"][0]["template"]["metadata"]["annotations"]["strato.dev/run-seconds"] == "5.000000"


def test_pods_come_one_by_one() -> None:
    found = list(planned(JOBS, LoadOptions(pods_per_second=4.0, kind="pods", scheduler="mine"), "ns"))
    assert [one.at_seconds for one in found] == [0.0, 0.25, 0.5, 0.75, 1.0]
    assert [one.name for one in found] == ["a-0", "a-1", "a-2", "a-3", "b-0"]
    assert found[0].body["spec"]["schedulerName"] == "mine"
    assert found[0].body["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "1"}


@given(st.lists(st.tuples(st.integers(1, 5), st.floats(0, 1000)), max_size=20), st.sampled_from(["jobs", "pods"]))
def test_submissions_are_in_order_and_none_is_lost(jobs: list[tuple[int, float]], kind: str) -> None:
    times = sorted(at for _, at in jobs)
    trace = [
        TraceJob(name=f"j{number}", submit_seconds=at, run_seconds=1, replicas=pods)
        for number, ((pods, _), at) in enumerate(zip(jobs, times, strict=True))
    ]
    for options in (LoadOptions(pods_per_second=3.0, kind=kind), LoadOptions(speed=2.0, kind=kind)):
        found = list(planned(trace, options, "ns"))
        assert [one.at_seconds for one in found] == sorted(one.at_seconds for one in found)
        assert sum(one.pods for one in found) == sum(pods for pods, _ in jobs)
        assert len({one.name for one in found}) == len(found)


@pytest.mark.parametrize(("text", "rate"), [("200/s", 200.0), ("200", 200.0), ("30/m", 0.5), ("7200/h", 2.0)])
def test_rates(text: str, rate: float) -> None:
    assert read_rate(text) == rate


@pytest.mark.parametrize("text", ["", "0", "-1/s", "5/week", "nan", "x/s", "1e9"])
def test_bad_rates_are_refused_with_an_example(text: str) -> None:
    with pytest.raises(UsageError, match="write for example"):
        read_rate(text)


def test_speeds_and_times() -> None:
    assert (read_speed("60x"), read_speed("0.5"), read_seconds("90"), read_seconds("1m30s")) == (60.0, 0.5, 90.0, 90.0)
    for text in ("fast", "0x", "-1"):
        with pytest.raises(UsageError):
            read_speed(text)
    for text in ("soon", "-5"):
        with pytest.raises(UsageError):
            read_seconds(text)
