from __future__ import annotations

import numpy as np

from strato.sim.results.record import Ending, NodeColumns, RunRecorder
from strato.sim.traces import TraceJob

NODES = NodeColumns(names=("node-0", "node-1"), capacity={"cpu": np.array([4000, 4000], np.int64)})


def job(name: str, replicas: int, least: int | None = None) -> TraceJob:
    return TraceJob(name=name, submit_seconds=0.0, run_seconds=10.0, replicas=replicas, min_replicas=least)


def test_a_job_starts_with_as_many_pods_as_it_needs_and_ends_with_the_last() -> None:
    recorder = RunRecorder([job("gang", 2), job("elastic", 3, 1)], NODES)
    recorder.begin(0, 0, 0, 1.0)
    recorder.begin(1, 0, 1, 1.0)
    recorder.begin(0, 1, 1, 2.0)
    assert recorder.running_pods == 3
    assert not recorder.end(0, 0, 11.0, Ending.SUCCEEDED)
    assert recorder.end(0, 1, 12.0, Ending.FAILED)
    record = recorder.record(20.0)
    assert record.start_seconds.tolist() == [2.0, 1.0]
    assert record.finish_seconds[0] == 12.0
    assert np.isnan(record.finish_seconds[1])
    assert record.failed.tolist() == [True, False]


def test_an_evicted_pod_has_an_interval_for_each_time_that_it_ran() -> None:
    recorder = RunRecorder([job("victim", 1), job("other", 1)], NODES)
    recorder.begin(0, 0, 0, 0.0)
    recorder.end(0, 0, 5.0, Ending.EVICTED, 1)
    recorder.begin(1, 0, 0, 5.0)
    recorder.begin(0, 0, 1, 7.0)
    recorder.begin(0, 0, 1, 8.0)  # it runs already
    record = recorder.record(9.0)
    assert record.interval_begin.tolist() == [0.0, 5.0, 7.0]
    assert record.interval_end.tolist() == [5.0, 9.0, 9.0]
    assert record.interval_node.tolist() == [0, 0, 1]
    assert record.interval_for.tolist() == [1, -1, -1]
    assert [Ending(code) for code in record.interval_ending] == [Ending.EVICTED, Ending.RUNS, Ending.RUNS]


def test_the_end_of_a_pod_that_does_not_run_says_nothing() -> None:
    recorder = RunRecorder([job("a", 1)], NODES)
    assert not recorder.end(0, 0, 3.0, Ending.SUCCEEDED)
    assert recorder.finished == 0
    assert len(recorder.record(3.0).interval_job) == 0
