from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from strato.sim.measure import JobResult
from strato.sim.report import Report, build_report, distribution
from strato.sim.traces import TraceJob


def record(name: str, submit: float, start: float | None, finish: float | None, queue: str = "") -> JobResult:
    job = TraceJob(name=name, submit_seconds=submit, run_seconds=1, queue=queue, requests={"cpu": "2"})
    return JobResult(job, started_at=start, finished_at=finish)


def report(results: list[JobResult], use: list[tuple[float, dict[str, int]]]) -> Report:
    return build_report(
        results,
        use,
        {"cpu": 4000, "memory": 8, "pods": 10},
        trace="t",
        nodes="n",
        seed=1,
        skipped=0,
        pods=3,
        default_queue="default",
    )  # fmt: skip -- the parts matter, not the lines


def test_report_counts_waits_and_use() -> None:
    made = report(
        [record("a", 0, 0, 50), record("b", 0, 50, 100, "q"), record("c", 10, None, None)],
        [(0.0, {"cpu": 2000}), (50.0, {"cpu": 4000}), (100.0, {"cpu": 0})],
    )
    assert (made.jobs, made.finished, made.unfinished, made.makespan_seconds) == (3, 2, 1, 100.0)
    assert made.wait_seconds.mean == 25.0
    assert made.bounded_slowdown.max == 2.0
    assert made.utilisation == {"cpu": 0.75}
    assert made.series.ratio["cpu"][0] == 0.5
    assert made.series.ratio["cpu"][-1] == 1.0
    assert made.queues["q"].cpu_seconds == 100.0
    assert "2 of 3 jobs finished, 1 never started;" in made.to_table()


def test_jobs_that_never_start_stretch_nothing() -> None:
    use = [(0.0, {"cpu": 4000}), (100.0, {"cpu": 0})]
    done = report([record("a", 0, 0, 100)], use)
    stuck = report([record("a", 0, 0, 100), record("late", 5000, None, None), record("b", 10, None, None)], use)
    assert (stuck.makespan_seconds, stuck.jobs_per_hour, stuck.utilisation) == (100.0, 36.0, {"cpu": 1.0})
    assert stuck.series == done.series
    assert (stuck.never_started, stuck.unfinished) == (2, 2)
    assert [job.name for job in stuck.job_list if job.start_seconds is None] == ["late", "b"]
    assert "never started\n  late and 1 more: " in stuck.to_table()


def test_a_job_that_started_and_never_ended_is_told_apart() -> None:
    made = report([record("a", 0, 0, 100), record("b", 0, 50, None)], [(0.0, {"cpu": 4000}), (120.0, {"cpu": 0})])
    assert (made.makespan_seconds, made.unfinished, made.never_started) == (120.0, 1, 0)
    assert "1 of 2 jobs finished, 1 started and never ended;" in made.to_table()


def test_a_simulation_in_which_nothing_starts_has_no_makespan() -> None:
    made = report([record("a", 7, None, None)], [(0.0, {})])
    assert (made.makespan_seconds, made.jobs_per_hour, made.utilisation, made.never_started) == (0.0, 0.0, {}, 1)


def test_short_jobs_do_not_inflate_the_slowdown() -> None:
    made = report([record("a", 0, 9, 10)], [(0.0, {})])
    assert made.bounded_slowdown.mean == 1.0


def test_percentiles_are_by_nearest_rank() -> None:
    made = distribution([float(number) for number in range(1, 101)])
    assert (made.p50, made.p95, made.p99, made.max, made.mean) == (50.0, 95.0, 99.0, 100.0, 50.5)
    assert distribution([]).max == 0.0


@given(st.lists(st.tuples(st.floats(0.001, 50), st.integers(0, 4000)), min_size=1, max_size=20))
def test_series_keeps_the_area_under_the_use(steps: list[tuple[float, int]]) -> None:
    at, use, area = 0.0, [], 0.0
    for length, amount in steps:
        use.append((at, {"cpu": amount}))
        area += length * amount
        at += length
    made = report([record("a", 0, 0, at)], use)
    if "cpu" not in made.utilisation:
        assert area == 0
        return
    points = made.series.ratio["cpu"]
    assert math.isclose(sum(points) / len(points), area / (at * 4000), abs_tol=1e-5)
    assert math.isclose(made.utilisation["cpu"], area / (at * 4000), abs_tol=1e-5)
