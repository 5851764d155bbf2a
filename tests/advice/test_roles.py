"""Advice for roles of training jobs: the worked example of the specification, and what holds for any use."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strato.advice import autopilot, roles
from strato.advice.estimators import Amounts
from strato.advice.histogram import CPU
from strato.advice.roles import ReplicaUse, RoleKey, advise, template_of

NOW = 1.7e9
DAY = 86_400.0
KEY = RoleKey("rec", "default", "ctr-day", "worker", "tf")


def replica(run: int, index: int, cores: float = 6.0, memory: float = 3.1e9, ooms: int = 0) -> ReplicaUse:
    return ReplicaUse(
        run=f"run-{run}",
        index=str(index),
        requests=Amounts(16_000, 32 << 30),
        ended=NOW - run * DAY,
        seconds=4500.0,
        cpu_samples={CPU.find(cores): 74},
        cpu_core_seconds=cores * 4500,
        memory_peak_bytes=memory,
        ooms=ooms,
    )


def test_the_worked_example() -> None:
    found = advise(KEY, [replica(run, index) for run in range(31) for index in range(20)], "vpa", 1, NOW)
    assert found.advice.target == Amounts(7200, 3520 << 20)
    assert round(found.saved_core_hours) == 220
    assert (found.replicas, found.runs, found.confidence, found.notes) == (20, 31, 1.0, ())


def test_a_container_killed_for_lack_of_memory_gets_more_than_its_request() -> None:
    found = advise(KEY, [replica(run, 0, ooms=1) for run in range(2)], "vpa", 1, NOW)
    assert found.advice.target.memory_bytes > (32 << 30) * 1.2
    assert found.notes == ("OOM x2",)
    assert found.is_uncertain


def test_a_throttled_role_gets_a_tenth_more() -> None:
    plain = [replica(run, 0) for run in range(8)]
    throttled = [dataclasses.replace(one, throttled_samples=10) for one in plain]
    least, most = (advise(KEY, members, "vpa", 1, NOW) for members in (plain, throttled))
    assert most.advice.target.cpu_millicores > least.advice.target.cpu_millicores
    assert most.notes == ("throttled",)


@pytest.mark.parametrize("policy", ["vpa", "autopilot"])
def test_a_role_without_cpu_samples_keeps_its_cpus(policy: str) -> None:
    """Its container was suppressed all the time, or runs for less than a minute."""
    members = [dataclasses.replace(replica(run, 0), cpu_samples={}) for run in range(8)]
    members = [dataclasses.replace(one, requests=Amounts(1250, 32 << 30)) for one in members]
    found = advise(KEY, members, policy, 1, NOW)
    assert {one.cpu_millicores for one in (found.advice.target, found.advice.lower, found.advice.upper)} == {1250}
    assert found.advice.target.memory_bytes < 32 << 30
    assert (found.saved_core_hours, found.notes) == (0.0, ("cpu unknown",))


def test_a_replica_far_below_the_median_is_named() -> None:
    members = [replica(0, index, cores=1.0 if index == 3 else 6.0) for index in range(5)]
    assert advise(KEY, members, "vpa", 1, NOW).notes == ("straggler 3",)


def test_what_newer_runs_used_counts_more() -> None:
    rising = [replica(run, 0, cores=2.0 if run > 6 else 8.0) for run in range(100)]
    falling = [replica(run, 0, cores=8.0 if run > 30 else 2.0) for run in range(100)]
    assert advise(KEY, rising, "vpa", 1, NOW).cpu_p90_cores > 8.0
    assert advise(KEY, falling, "vpa", 1, NOW).cpu_p50_cores < 2.2


def test_autopilot_gives_batch_jobs_their_mean() -> None:
    members = [replica(0, index, cores=cores) for index, cores in enumerate((2.0, 6.0))]
    found = advise(KEY, members, "autopilot", 1, NOW)
    assert found.advice.target.cpu_millicores == pytest.approx(4_000 * 1.15, rel=0.06)


@given(st.lists(st.tuples(st.integers(0, 175), st.integers(1, 9)), min_size=1, max_size=20))
def test_load_adjusted_percentiles_are_not_below_plain_ones(weights: list[tuple[int, int]]) -> None:
    histogram = roles.UseHistograms(roles.Aggregation(half_life_seconds=float("inf"))).cpu
    for bucket, weight in dict(weights).items():
        histogram.add_to_bucket(bucket, weight)
    assert autopilot.load_adjusted(CPU, dict(weights), 0.9) >= histogram.percentile(0.9) * (1 - 1e-9)


@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3), st.floats(0, 900), st.floats(0, 1e12)), min_size=1),
    st.sampled_from(["vpa", "autopilot"]),
)
def test_advice_is_whole_and_within_its_bounds(used: list[tuple[int, int, float, float]], policy: str) -> None:
    members = [replica(run, index, cores, memory) for run, index, cores, memory in used]
    found = advise(KEY, members, policy, 1, NOW)
    for cpu, memory in found.advice:
        assert cpu % 100 == 0
        assert memory % (64 << 20) == 0
    lower, upper = found.advice.lower, found.advice.upper
    if policy == "vpa":
        target = found.advice.target
        assert all(low <= aim <= high for low, aim, high in zip(lower, target, upper, strict=True))


@pytest.mark.parametrize(
    ("name", "template"),
    [
        ("ctr-day-20260801", "ctr-day"),
        ("ctr-day-2026-08-01", "ctr-day"),
        ("ctr-day-17", "ctr-day"),
        ("ctr-day-x7k2p", "ctr-day"),
        ("ctr-day-6f9b8c7d", "ctr-day"),
        ("ctr-day-28573920-x7k2p", "ctr-day"),
        ("ctr-day", "ctr-day"),
        ("mnist", "mnist"),
        ("resnet-train", "resnet-train"),
        ("42", "42"),
    ],
)
def test_names_of_runs_have_one_template(name: str, template: str) -> None:
    assert template_of(name) == template


def test_autopilot_forgets_by_half_lives() -> None:
    """What was used a week ago weighs nothing beside what was used today."""
    members = [replica(0, 0, cores=2.0), replica(7, 0, cores=8.0)]
    found = autopilot.limits(members, NOW)
    assert found.cpu_millicores == pytest.approx(2_000 * 1.15, rel=0.06)
