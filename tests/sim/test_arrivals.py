from __future__ import annotations

from strato.sim.arrivals import Arrivals
from strato.sim.traces import TraceJob


def job(name: str, submit: float, *after: str) -> TraceJob:
    return TraceJob(name=name, submit_seconds=submit, run_seconds=1.0, after=after)


def test_jobs_come_at_their_time_in_the_trace_s_order() -> None:
    arrivals = Arrivals([job("a", 0), job("b", 0), job("c", 5)])
    assert arrivals.next_at == 0
    assert arrivals.take(0) == [0, 1]
    assert arrivals.next_at == 5
    assert arrivals.take(4.999) == []
    assert arrivals.take(5) == [2]
    assert arrivals.next_at is None


def test_a_job_comes_once_all_it_waits_for_have_ended_well() -> None:
    arrivals = Arrivals([job("a", 0), job("b", 0), job("c", 1, "a", "b"), job("d", 100, "a")])
    arrivals.take(0)
    arrivals.ended("a", 10.0, failed=False)
    assert arrivals.next_at == 100, "d has its own time, c still waits for b"
    arrivals.ended("b", 20.0, failed=False)
    assert arrivals.take(20.0) == [2]
    assert arrivals.take(100.0) == [3]
    assert not arrivals.reasons()


def test_a_job_after_one_that_failed_or_is_not_there_never_comes_and_is_named() -> None:
    arrivals = Arrivals([job("a", 0), job("b", 0, "a"), job("c", 0, "nobody")])
    arrivals.take(0)
    arrivals.ended("a", 10.0, failed=True)
    assert arrivals.next_at is None
    assert arrivals.reasons() == {
        1: "it comes after a, which did not end well",
        2: "it comes after nobody, which the trace does not have",
    }
