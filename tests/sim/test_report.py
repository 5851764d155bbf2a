from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strato.sim.report import SimulationReport, distribution, report_of
from strato.sim.results.record import Ending, RunRecord
from tests.sim.results.build import Ran, job, record


def report(made: RunRecord) -> SimulationReport:
    return report_of(made, trace="t", nodes="n", seed=1)


def test_report_counts_waits_and_use() -> None:
    jobs = [job("a", cpu="2"), job("b", cpu="4", queue="q"), job("c", 10)]
    made = report(record(jobs, [Ran(0, 0, 50), Ran(1, 50, 100)]))
    assert (made.jobs, made.finished, made.unfinished, made.makespan_seconds) == (3, 2, 1, 100.0)
    assert made.wait_seconds.mean == 25.0
    assert made.bounded_slowdown.max == 2.0
    assert made.utilisation["cpu"] == 0.75
    assert made.series.ratio["cpu"][0] == 0.5
    assert made.series.ratio["cpu"][-1] == 1.0
    assert made.queues["q"].cpu_seconds == 200.0
    assert "2 of 3 jobs finished, 1 never started;" in made.to_table()


def test_jobs_that_never_start_stretch_nothing() -> None:
    done = report(record([job("a", cpu="4")], [Ran(0, 0, 100)]))
    more = [job("a", cpu="4"), job("late", 5000), job("b", 10)]
    stuck = report(record(more, [Ran(0, 0, 100)], end=9000, reasons={1: "too wide", 2: "too wide"}))
    assert (stuck.makespan_seconds, stuck.jobs_per_hour, stuck.utilisation["cpu"]) == (100.0, 36.0, 1.0)
    assert stuck.series.ratio == done.series.ratio
    assert (stuck.never_started, stuck.unfinished) == (2, 2)
    assert [job.name for job in stuck.job_list if job.start_seconds is None] == ["late", "b"]
    assert "never started\n  late and 1 more: too wide" in stuck.to_table()


def test_a_job_that_started_and_never_ended_is_counted_by_itself() -> None:
    made = report(record([job("a"), job("b")], [Ran(0, 0, 100), Ran(1, 50, None)], end=120))
    assert (made.makespan_seconds, made.unfinished, made.never_started) == (100.0, 1, 0)
    assert "1 of 2 jobs finished, 1 started and never ended;" in made.to_table()


def test_a_simulation_in_which_nothing_starts_has_no_makespan() -> None:
    made = report(record([job("a", 7)], [], end=900))
    assert (made.makespan_seconds, made.jobs_per_hour, made.utilisation, made.never_started) == (0.0, 0.0, {}, 1)


def test_a_trace_without_jobs_has_a_report() -> None:
    made = report(record([], []))
    assert (made.jobs, made.drf_fairness, made.slowdown_fairness, made.queues) == (0, 1.0, 1.0, {})
    assert made.to_table()


def test_short_jobs_do_not_inflate_the_slowdown() -> None:
    assert report(record([job("a")], [Ran(0, 9, 10)])).bounded_slowdown.mean == 1.0


def test_percentiles_are_by_nearest_rank() -> None:
    made = distribution([float(number) for number in range(1, 101)])
    assert (made.p50, made.p95, made.p99, made.max, made.mean) == (50.0, 95.0, 99.0, 100.0, 50.5)
    assert distribution([]).max == 0.0


def test_evictions_are_in_the_table() -> None:
    jobs = [job("victim", cpu="4"), job("gainer", 50, cpu="4", queue="high")]
    made = report(record(jobs, [Ran(0, 0, 60, ending=Ending.EVICTED, gainer=1), Ran(1, 61, 100), Ran(0, 100, 200)]))
    assert "evictions    1 pods of 1 jobs, for 1 jobs of which 1 started; 4m0s of a cpu's work lost" in made.to_table()


def test_the_same_record_gives_the_same_bytes() -> None:
    jobs = [job("a", cpu="2"), job("b", cpu="4", queue="q")]
    made = [report(record(jobs, [Ran(0, 0, 50), Ran(1, 50, 100)])).to_json() for _ in range(2)]
    assert made[0] == made[1]


@given(st.lists(st.tuples(st.floats(0.001, 50), st.integers(0, 4000)), min_size=1, max_size=20))
def test_series_keeps_the_area_under_the_use(steps: list[tuple[float, int]]) -> None:
    at, jobs, ran, area = 0.0, [], [], 0.0
    for length, amount in steps:
        jobs.append(job(f"j{len(jobs)}", cpu=f"{amount}m"))
        ran.append(Ran(len(ran), at, at + length))
        at += length
        area += amount * length
    made = report(record(jobs, ran))
    points = made.series.ratio.get("cpu", [0.0])
    assert math.isclose(sum(points) / len(points), area / (at * 4000), abs_tol=1e-5)
    assert made.utilisation.get("cpu", 0.0) == pytest.approx(area / (at * 4000), abs=1e-5)
