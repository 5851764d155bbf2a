"""The drawn workloads have the distributions of the published model; seeds are fixed."""

from __future__ import annotations

import math

import numpy as np
import pytest

from strato.sim.workloads import lublin
from strato.sim.workloads.lublin import ALL, BATCH, INTERACTIVE, LublinOptions

COUNT = 40_000


@pytest.mark.parametrize("kind", [BATCH, INTERACTIVE, ALL], ids=lambda kind: kind.name)
def test_sizes_are_serial_and_powers_of_two_as_often_as_published(kind: lublin.JobClass) -> None:
    nodes = lublin.sizes(kind, COUNT, np.random.default_rng(1))
    powers = np.log2(nodes) % 1 == 0
    assert np.mean(nodes == 1) == pytest.approx(kind.serial, abs=0.03)  # rounding down adds a few of low stages
    assert np.mean(powers) >= kind.serial + kind.pow2 - 0.01
    assert nodes.min() == 1
    assert nodes.max() == math.floor(2**kind.high + 0.5)
    is_low = nodes <= 2**kind.medium
    assert np.mean(is_low[nodes > 1]) == pytest.approx(kind.prob, abs=0.06)


@pytest.mark.parametrize("kind", [BATCH, INTERACTIVE, ALL], ids=lambda kind: kind.name)
def test_run_times_are_hyper_gamma(kind: lublin.JobClass) -> None:
    for width in (1, 64):
        runs = lublin.run_times(kind, np.full(COUNT, width), np.random.default_rng(2))
        share = min(1.0, max(0.0, kind.pa * width + kind.pb))
        mean = share * kind.a1 * kind.b1 + (1 - share) * kind.a2 * kind.b2
        assert np.log(runs).mean() == pytest.approx(mean, abs=0.25)  # cut above e^12 and to whole seconds
        assert runs.max() <= math.exp(12)
        assert runs.min() >= 1


def test_wider_jobs_run_longer() -> None:
    rng = np.random.default_rng(3)
    narrow, wide = (lublin.run_times(BATCH, np.full(COUNT, width), rng) for width in (1, 128))
    assert np.log(wide).mean() > np.log(narrow).mean() + 0.5


@pytest.mark.parametrize(
    ("x", "shape", "wanted"), [(1.0, 1.0, 1 - math.exp(-1)), (2.0, 3.0, 0.323324), (9.0, 6.1271, 0.877)]
)
def test_gamma_distribution_agrees_with_tables(x: float, shape: float, wanted: float) -> None:
    assert lublin.gamma_cdf(x, shape) == pytest.approx(wanted, abs=0.003)
    drawn = np.random.default_rng(4).gamma(shape, 1.0, 200_000)
    assert lublin.gamma_cdf(x, shape) == pytest.approx(np.mean(drawn <= x), abs=0.005)


def test_most_jobs_come_by_day() -> None:
    costs = lublin.weights(BATCH)
    assert costs.mean() == pytest.approx(1.0)
    hours = costs.reshape(24, 2).sum(axis=1)
    assert int(hours.argmax()) in range(12, 17)
    assert int(hours.argmin()) in range(3, 7)
    rng = np.random.default_rng(5)
    comes = lublin.instants_of(BATCH, lublin.gaps(BATCH, COUNT, rng), 0)
    drawn = np.bincount(((comes % 86400) // 3600).astype(int), minlength=24) / COUNT * 24
    assert np.abs(drawn - hours / 2).max() < 0.25


@pytest.mark.parametrize("load", [0.3, 0.7, 1.2])
def test_load_is_reached_and_days_stay_days(load: float) -> None:
    trace = lublin.make(LublinOptions(jobs=4000, nodes=128, load=load, seed=1))
    span = trace.jobs[-1].submit_seconds - trace.jobs[0].submit_seconds
    work = sum(job.replicas * job.run_seconds for job in trace.jobs)
    assert work / (128 * span) == pytest.approx(load, rel=0.03)
    hours = np.bincount([int(job.submit_seconds % 86400 // 3600) for job in trace.jobs], minlength=24)
    assert hours[10:18].sum() > 2 * hours[0:8].sum()


def test_workload_depends_on_its_seed_only() -> None:
    options = LublinOptions(jobs=300, nodes=64, users=5)
    assert lublin.make(options) == lublin.make(options)
    other = LublinOptions(jobs=300, nodes=64, users=5, seed=1)
    assert lublin.make(options).jobs != lublin.make(other).jobs


def test_machine_bounds_jobs_and_users_are_ranked() -> None:
    trace = lublin.make(LublinOptions(jobs=2000, nodes=6, users=4, kind="all", cpus=8))
    assert max(job.replicas for job in trace.jobs) <= 6
    counts = [sum(job.user == f"user-{number}" for job in trace.jobs) for number in range(1, 5)]
    assert counts == sorted(counts, reverse=True)
    assert trace.nodes[0].count == 6
    assert trace.jobs[0].requests == {"cpu": "8"}
