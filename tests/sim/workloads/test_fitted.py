"""A fitted workload is like its trace: cycle, burstiness, users, run times by size class; seeds are fixed."""

from __future__ import annotations

import numpy as np
import pytest

from strato.errors import UsageError
from strato.sim.workloads import lublin
from strato.sim.workloads.fitted import FitOptions, cycle_of, fit, size_class
from strato.sim.workloads.jobs import Trace, TraceJob
from strato.sim.workloads.lublin import LublinOptions


@pytest.fixture(scope="module")
def given_trace() -> Trace:
    """Return a month of jobs with a daily cycle and users."""
    return lublin.make(LublinOptions(jobs=8000, nodes=128, load=0.7, users=8, seed=3))


def _hours(trace: Trace) -> np.ndarray:
    hours = np.bincount([int(job.submit_seconds % 86400 // 3600) for job in trace.jobs], minlength=24)
    return hours / len(trace.jobs)


def test_cycle_and_burstiness_are_those_of_the_trace(given_trace: Trace) -> None:
    made = fit(given_trace, FitOptions(seed=1))
    assert np.corrcoef(_hours(given_trace), _hours(made))[0, 1] > 0.9
    variation = []
    for trace in (given_trace, made):
        gaps = np.diff([job.submit_seconds for job in trace.jobs])
        variation.append(gaps.std() / gaps.mean())
    assert variation[1] == pytest.approx(variation[0], rel=0.3)


def test_run_times_by_size_class_are_those_of_the_trace(given_trace: Trace) -> None:
    made = fit(given_trace, FitOptions(seed=1))
    for wanted in range(4):
        before, after = (
            np.array([job.run_seconds for job in trace.jobs if size_class(job) == wanted])
            for trace in (given_trace, made)
        )
        for share in (0.25, 0.5, 0.75):
            assert np.log(np.quantile(after, share)) == pytest.approx(np.log(np.quantile(before, share)), abs=0.35)


def test_users_are_more_fewer_or_the_same(given_trace: Trace) -> None:
    assert len({job.user for job in fit(given_trace, FitOptions(users=3)).jobs}) == 3
    assert len({job.user for job in fit(given_trace, FitOptions(users=50)).jobs}) > 40
    same = fit(given_trace, FitOptions(seed=1))
    shares = [np.mean([job.user == "user-1" for job in trace.jobs]) for trace in (given_trace, same)]
    assert shares[1] == pytest.approx(shares[0], abs=0.03)


def test_rate_and_number_of_jobs(given_trace: Trace) -> None:
    slow, fast = (fit(given_trace, FitOptions(jobs=4000, rate=rate, seed=2)) for rate in (1.0, 2.0))
    assert len(fast.jobs) == 4000
    assert fast.jobs[-1].submit_seconds == pytest.approx(slow.jobs[-1].submit_seconds / 2)
    assert fit(given_trace, FitOptions(seed=2)) == fit(given_trace, FitOptions(seed=2))


def test_week_is_seen_in_long_traces_only() -> None:
    hours = np.arange(0, 4 * 168) * 3600.0
    workdays = hours[(hours // 86400 % 7) < 5]
    cycle = cycle_of(workdays)
    assert len(cycle) == 168
    assert cycle[:120].min() > 10 * cycle[120:].max()
    assert len(cycle_of(np.array([0.0, 3 * 86400.0]))) == 24
    assert list(cycle_of(np.array([0.0, 60.0]))) == [1.0]


def test_estimates_are_never_below_run_times_and_slack_stays() -> None:
    jobs = tuple(
        TraceJob(
            name=f"j{at}",
            submit_seconds=at * 10.0,
            run_seconds=5.0 + at,
            estimate_seconds=60.0,
            deadline_seconds=at * 10 + 100,
        )
        for at in range(60)
    )
    for job in fit(Trace(jobs), FitOptions(jobs=200)).jobs:
        assert job.estimate_seconds is not None
        assert job.estimate_seconds >= job.run_seconds
        assert job.deadline_seconds is not None
        assert job.deadline_seconds > job.submit_seconds + job.run_seconds


def test_one_job_is_no_trace_to_fit() -> None:
    with pytest.raises(UsageError, match="one job"):
        fit(Trace((TraceJob(name="a", submit_seconds=0, run_seconds=1),)), FitOptions())
