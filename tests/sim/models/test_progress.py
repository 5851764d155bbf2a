"""`WorkClock`, and runs of the engine under a model."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strato.node.shapes import parse_nodes
from strato.scheduler.config import parse_config
from strato.scheduler.plugins.throughputs import parse_throughputs
from strato.sim.decisions.run import simulate_decisions
from strato.sim.models import Combined, PerformanceModel
from strato.sim.models.elastic import Checkpoints, Elastic
from strato.sim.models.gpus import CoLocation
from strato.sim.models.progress import WorkClock
from strato.sim.models.startcost import StartCost
from strato.sim.results.record import Ending, RunRecord
from strato.sim.traces import Trace, TraceJob


def job(name: str, run: float = 100.0, **fields: Any) -> TraceJob:
    fields.setdefault("requests", {"cpu": "1"})
    return TraceJob(name=name, submit_seconds=fields.pop("submit", 0.0), run_seconds=run, **fields)


TABLE = parse_throughputs({"v100": {"('a', 1)": {"null": 10, "('a', 1)": [5, 5]}}}, "t")


def test_work_goes_on_at_the_rate_of_the_moment() -> None:
    clock = WorkClock(Elastic(), [job("a", replicas=4, min_replicas=1)], {})
    assert clock.begin(0, [(0, 0), (1, 0)], 0.0) == {0}
    assert clock.remaining_seconds(0) == 200
    clock.begin(0, [(2, 0), (3, 1)], 100.0)
    assert clock.remaining_seconds(0) == 50


def test_a_gang_with_a_hole_stands_still_and_goes_back() -> None:
    clock = WorkClock(Combined([Elastic(), Checkpoints(interval_seconds=30)]), [job("a", replicas=2)], {})
    clock.begin(0, [(0, 0)], 0.0)
    assert clock.remaining_seconds(0) == math.inf
    clock.begin(0, [(1, 1)], 10.0)
    assert clock.remaining_seconds(0) == 100
    clock.leave(0, 1, 55.0)
    assert clock.remaining_seconds(0) == math.inf
    clock.begin(0, [(1, 1)], 60.0)
    assert clock.remaining_seconds(0) == 70, "45 were done, 30 saved"


def test_neighbours_end_later_and_sooner_again() -> None:
    jobs = [job("a", application="a"), job("b", application="a")]
    clock = WorkClock(CoLocation(throughputs=TABLE, model="v100"), jobs, {})
    clock.begin(0, [(0, 7)], 0.0)
    assert clock.begin(1, [(0, 7)], 50.0) == {0, 1}
    assert [clock.remaining_seconds(row) for row in (0, 1)] == [100, 200]
    assert clock.end(0, 150.0) == {1}
    assert clock.remaining_seconds(1) == 50


@given(st.lists(st.tuples(st.floats(0.1, 50), st.integers(1, 4)), min_size=1, max_size=8))
def test_work_is_the_sum_of_time_times_members(steps: list[tuple[float, int]]) -> None:
    clock = WorkClock(Elastic(), [job("a", run=1e6, replicas=4, min_replicas=1)], {})
    now, done, there = 0.0, 0.0, 0
    for seconds, members in steps:
        for pod in range(there, members):
            clock.begin(0, [(pod, pod)], now)
        for pod in range(members, there):
            clock.leave(0, pod, now)
        there = members
        now += seconds
        done += seconds * members / 4
    clock.begin(0, [(9, 9)], now)
    rate = min(1.0, (there + 1) / 4)
    assert clock.remaining_seconds(0) == pytest.approx((1e6 - done) / rate)


# -- the engine --------------------------------------------------------------------------------------------------------


def run(jobs: list[TraceJob], nodes: str, model: PerformanceModel | None, policy: str | None = None) -> RunRecord:
    config = parse_config(policy) if policy else None
    return simulate_decisions(Trace(tuple(jobs)), parse_nodes(nodes), config, model=model)


def test_starts_cost_what_the_model_says() -> None:
    record = run([job("a"), job("b", submit=200)], "1x4cpu", StartCost(pull_seconds=30, median_seconds=5))
    assert record.finish_seconds - record.start_seconds == pytest.approx([100, 100], abs=0.01)
    plain = run([job("a"), job("b", submit=200)], "1x4cpu", None)
    assert record.start_seconds - plain.start_seconds == pytest.approx([35, 35], abs=0.01), "each has an image"


def test_an_elastic_job_is_slower_with_fewer_members() -> None:
    record = run([job("a", replicas=4, min_replicas=1)], "1x2cpu", Elastic())
    assert record.finish_seconds[0] - record.start_seconds[0] == pytest.approx(200, abs=3)


def test_jobs_end_as_recorded_under_a_model_that_changes_nothing() -> None:
    jobs = [job(f"j{i}", run=20.0 + 7 * i, submit=3.0 * i, replicas=1 + i % 3) for i in range(12)]
    plain, paced = run(jobs, "2x4cpu", None), run(jobs, "2x4cpu", Combined([]))
    for name in ("start_seconds", "finish_seconds", "interval_node", "interval_begin"):
        np.testing.assert_allclose(getattr(plain, name), getattr(paced, name), err_msg=name)


PREEMPT = """
actions: "enqueue, allocate, preempt"
tiers:
- plugins: [{name: priority}, {name: conformance}, {name: predicates}, {name: nodeorder}]
"""


def test_an_evicted_job_goes_back_to_its_checkpoint() -> None:
    jobs = [job("low", run=1000, priority=1), job("high", run=100, submit=500, priority=9)]
    ends = {}
    for name, interval in (("none", 0.0), ("often", 50.0)):
        record = run(jobs, "1x1cpu", Checkpoints(interval_seconds=interval), PREEMPT)
        assert Ending.EVICTED in record.interval_ending.tolist()
        ends[name] = float(record.finish_seconds[0])
    assert 420 < ends["none"] - ends["often"] < 510, "without checkpoints some 500 seconds are done again"
