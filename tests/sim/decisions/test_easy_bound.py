"""EASY backfilling never delays whom room is kept for: a bound on the start of every job, from a whole run."""

from __future__ import annotations

from random import Random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from strato.node.shapes import parse_nodes
from strato.scheduler.config import parse_config
from strato.sim.decisions.run import simulate_decisions
from strato.sim.results.record import RunRecord
from strato.sim.traces import Trace, TraceJob
from tests.profiles import examples
from tests.sim.decisions.traces import POLICIES


def crowd(rng: Random, cpus: list[int]) -> Trace:
    """Return jobs that come one after the other, each of which fits alone; none runs longer than it says."""
    jobs = []
    at = 0
    for number in range(18):
        at += rng.randint(1, 12)
        cpu = rng.choice([1, 1, 2])
        most = sum(size // cpu for size in cpus)
        seconds = rng.choice([5, 20, 60, 150])
        job = TraceJob(
            name=f"job-{number:02}",
            submit_seconds=float(at),
            run_seconds=float(seconds if rng.random() < 0.6 else rng.randint(1, seconds)),
            estimate_seconds=float(seconds),
            replicas=rng.choice([1, 1, min(2, most), rng.randint(1, most), most]),
            requests={"cpu": str(cpu)},
        )
        jobs.append(job)
    return Trace(tuple(jobs))


def late(record: RunRecord) -> list[str]:
    """Return the jobs that started later than was foreseeable when they came to be the first that waits.

    Then only those that ran already, or were first before, may be in the way, and those no longer than they said.
    """
    found = []
    for row, job in enumerate(record.jobs):
        first_at = max([job.submit_seconds, *record.start_seconds[:row]])
        if record.start_seconds[row] > foreseen(record, row, first_at):
            found.append(job.name)
    return found


def foreseen(record: RunRecord, row: int, at: float) -> float:
    """Return when a job fits, if from an instant on nobody starts and all end when they said."""
    cpu, pods = int(record.jobs[row].requests["cpu"]), record.jobs[row].replicas
    free, ends = record.nodes.capacity["cpu"] // 1000, list[tuple[float, int, int]]()
    columns = (record.interval_job, record.interval_node, record.interval_begin, record.interval_end)
    for other, node, begin, end in zip(*columns, strict=True):
        runs = begin <= at < end and (begin < at or other < row)
        if runs:
            taken = int(record.jobs[other].requests["cpu"])
            free[node] -= taken
            ends.append((begin + (record.jobs[other].estimate_seconds or 0.0), node, taken))
    assert (free >= 0).all()
    for end, node, taken in [(at, 0, 0), *sorted(ends)]:
        free[node] += taken
        if (free // cpu).sum() >= pods:
            return end
    raise AssertionError("it fits alone")


def late_under(policy: str, seed: int) -> list[str]:
    rng = Random(seed)
    cpus = [rng.randint(2, 6) for _ in range(rng.randint(1, 4))]
    shapes = parse_nodes("+".join(f"1x{cpu}cpu,8Gi" for cpu in cpus))
    record = simulate_decisions(crowd(rng, cpus), shapes, parse_config(POLICIES[policy]), seed=seed)
    assert not np.isnan(record.finish_seconds).any()
    return late(record)


@settings(max_examples=examples(20), deadline=None)
@given(seed=st.integers(0, 1 << 30))
def test_nobody_starts_later_than_foreseen_when_it_was_the_first_that_waited(seed: int) -> None:
    assert late_under("easy", seed) == []


def test_without_room_kept_for_them_large_jobs_start_late() -> None:
    assert any(late_under("fifo", seed) for seed in range(5))
