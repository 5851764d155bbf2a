"""Statistics of runs and hosts: the worked example of the specification, and days that are not of 24 hours."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strato.history.rows import COMPLETED, FAILED, Host, JobRun, PodContainer
from strato.history.statistics import Period, allocated, nearest_rank, of_hosts, of_role, of_runs

DAY = Period(0.0, 86_400.0)


def run(number: int = 0, **fields: Any) -> JobRun:
    values = {"submitted": 0.0, "phase": COMPLETED, "queue": "rec", "kind": "batch.volcano.sh/v1alpha1/Job"}
    names = {"run_id": f"{number}/0", "job_uid": f"{number}", "namespace": "n", "job": "j", "template": "j"}
    return JobRun(**{**names, **values, **fields})


def host(node: str, at: float, cores: float, share: float) -> Host:
    return Host(ts=at, node=node, cpu_capacity=cores, cpu_used=cores * share)


HOSTS = [
    *(host("a", 300.0 * number, 48, share) for number, share in enumerate((0.4, 0.5, 0.9))),
    *(host("b", 300.0 * number, 24, share) for number, share in enumerate((0.8, 0.2, 0.6))),
]


def test_the_worked_example_of_runs() -> None:
    found = of_runs(
        [
            run(1, submitted=0.0, ready=30.0, started=50.0, ended=4550.0),
            run(2, submitted=100.0, ready=150.0, started=160.0, ended=4660.0),
        ],
        DAY,
    )
    assert (found.runs, found.mean_wait, found.mean_run, found.mean_startup) == (2, 40.0, 4500.0, 15.0)


def test_the_worked_example_of_hosts() -> None:
    found = of_hosts(HOSTS, DAY, fewest_samples=0)
    assert found.mean == pytest.approx(124.8 / 216)
    assert (found.p90, found.coverage) == (pytest.approx(0.9), 1.0)
    assert found.p90_hosts == pytest.approx(0.6)
    assert of_hosts(HOSTS, DAY).p90 is None, "six samples have no percentile that says anything"


def test_missing_samples_count_in_the_coverage_alone() -> None:
    found = of_hosts(HOSTS[:-1], DAY, fewest_samples=0)
    assert found.mean == pytest.approx((48 * 1.8 + 24 * 1.0) / (3 * 48 + 2 * 24))
    assert found.coverage == pytest.approx(5 / 6)


def test_runs_that_failed_or_never_were_ready_are_in_no_mean() -> None:
    found = of_runs(
        [
            run(1, ready=10.0, started=10.0, ended=100.0, phase=FAILED),
            run(2, submitted=86_000.0, phase="Pending"),
            run(3, ready=20.0, started=30.0, phase="Running"),
        ],
        DAY,
    )
    assert (found.runs, found.failed, found.waiting, found.oldest_wait) == (2, 1, 1, 400.0)
    assert (found.mean_run, found.mean_failed_run, found.mean_wait) == (None, 90.0, 15.0)


def test_attempts_of_a_job_are_one_job() -> None:
    first = run(1, started=1.0, ended=2.0, phase=FAILED)
    found = of_runs([first, run(2, job_uid=first.job_uid, started=3.0, ended=4.0)], DAY)
    assert (found.runs, found.jobs) == (2, 1)


def test_roles_use_what_they_requested_in_part() -> None:
    replica = PodContainer(
        run_id="1/0",
        role="worker",
        index="0",
        pod="p",
        container="c",
        bound=0.0,
        started=100.0,
        ended=1100.0,
        cpu_req=2000,
        cpu_core_s=500.0,
    )
    found = of_role([replica], DAY)
    assert (found.replicas, found.mean_run, found.efficiency) == (1, 1000.0, 0.25)
    assert allocated([replica], [host("a", 0.0, 8, 0.5)], Period(0.0, 300.0)) == pytest.approx(2 * 300 / (8 * 300))
    amplified = msgspec.structs.replace(host("a", 0.0, 8, 0.5), cpu_allocatable=16.0)
    assert allocated([replica], [amplified], Period(0.0, 300.0)) == pytest.approx(2 / 16)


@given(st.lists(st.floats(0, 1), min_size=1), st.floats(0.01, 1))
def test_a_nearest_rank_is_a_value_that_the_share_is_not_above(values: list[float], share: float) -> None:
    found = nearest_rank(values, share)
    assert found in values
    assert sum(value <= found for value in values) >= share * len(values) - 1e-6


def test_requests_count_from_when_hosts_were_measured_first() -> None:
    replica = PodContainer(run_id="1/0", role="w", index="0", pod="p", container="c", bound=0.0, cpu_req=2000)
    hosts = [host("a", 300.0 * number, 8, 0.5) for number in (1, 2)]
    assert allocated([replica], hosts, DAY) == pytest.approx(2 * 600 / (8 * 600))


def test_a_host_without_capacity_counts_nowhere() -> None:
    found = of_hosts([*HOSTS, host("broken", 0.0, 0, 0.0)], DAY, fewest_samples=0)
    assert (found.samples, found.coverage) == (6, 1.0)
