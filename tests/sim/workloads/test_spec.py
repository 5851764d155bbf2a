"""Models as written on a command line, and scaling."""

from __future__ import annotations

from pathlib import Path

import pytest

from strato.errors import InvalidInput, UsageError
from strato.sim.traces import read_trace
from strato.sim.workloads.jobs import Trace, TraceJob, in_cycles
from strato.sim.workloads.scale import ScaleOptions, scale, to_load

JOBS = (
    TraceJob(name="a", submit_seconds=0, run_seconds=10, requests={"cpu": "2"}, user="u", deadline_seconds=30),
    TraceJob(name="b", submit_seconds=100, run_seconds=20, requests={"cpu": "1"}, replicas=3, after=("a",)),
)


def test_model_stands_where_a_file_does(tmp_path: Path) -> None:
    assert len(read_trace("lublin:jobs=50,nodes=16,load=0.5,start-hour=9").jobs) == 50
    assert len(read_trace(Path("lublin:jobs=50"), limit=7).jobs) == 7
    path = tmp_path / "a,b.csv"
    path.write_text("submit,run_time\n" + "".join(f"{at * 60},{at}\n" for at in range(1, 40)))
    assert len(read_trace(f"fit:{path},jobs=100").jobs) == 100
    assert len(read_trace(f"scale:{path},copies=3").jobs) == 117
    assert read_trace("scale:lublin:jobs=10,rate=1").format == "lublin"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("lublin:job=3", "did you mean 'jobs'"),
        ("lublin:jobs=ten,nodes=1", "jobs 'ten' is no whole number"),
        ("lublin:kind=web", "kind 'web' is not known"),
        ("lublin:load=11", "is no number from 0 to 10"),
        ("lublin:load=nan", "is no number from 0 to 10"),
        ("fit:", "names no file"),
        ("scale:x.csv,copies=0", "copies '0' is no whole number"),
    ],
)
def test_parameters_are_checked(text: str, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        read_trace(text)


def test_missing_file_of_a_model_is_named() -> None:
    with pytest.raises(UsageError, match=r"nowhere\.csv cannot be read"):
        read_trace("fit:nowhere.csv,jobs=5")


def test_scaling_keeps_order_slack_and_dependencies() -> None:
    first, second = scale(Trace(JOBS), ScaleOptions(rate=2, run=3)).jobs
    assert (first.run_seconds, second.submit_seconds, second.run_seconds) == (30.0, 50.0, 60.0)
    assert first.deadline_seconds == 90.0
    copies = scale(Trace(JOBS), ScaleOptions(copies=2)).jobs
    by_name = {job.name: job for job in copies}
    assert by_name["b-c1"].after == ("a-c1",)
    assert by_name["a-c1"].user == "u-c1"
    (only,) = scale(Trace((JOBS[1], JOBS[0])), ScaleOptions(jobs=1)).jobs
    assert only.name == "a"


def test_load_is_work_over_capacity_and_time() -> None:
    trace = to_load(Trace(JOBS), 0.5, "cpu", 4)
    assert trace.jobs[-1].submit_seconds == pytest.approx((2 * 10 + 3 * 20) / (4 * 0.5))
    with pytest.raises(UsageError, match="no gpu"):
        to_load(Trace(JOBS), 0.5, "gpu", 4)


def test_circles_are_found() -> None:
    def job(name: str, *after: str) -> TraceJob:
        return TraceJob(name=name, submit_seconds=0, run_seconds=1, after=after)

    assert in_cycles([job("a"), job("b", "a"), job("c", "b", "d"), job("d", "c"), job("e", "d")]) == {"c", "d", "e"}
    assert in_cycles([job("a"), job("b", "a")]) == set()


def test_a_text_without_end_is_refused_once() -> None:
    with pytest.raises(InvalidInput, match="has more than 8192 characters") as refused:
        read_trace("lublin:" + "jobs=x," * 20_000)
    assert len(refused.value.problems) == 1
