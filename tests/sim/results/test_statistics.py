from __future__ import annotations

import numpy as np
import pytest

from strato.sim.results.statistics import bootstrapped, over_seeds, paired, t_quantile


@pytest.mark.parametrize(("degrees", "expected"), [(1, 12.706), (9, 2.262), (30, 2.042), (31, 2.0395), (120, 1.9799)])
def test_quantiles_are_those_of_the_tables(degrees: int, expected: float) -> None:
    assert t_quantile(degrees) == pytest.approx(expected, abs=1e-3)


def test_the_interval_over_seeds_is_students() -> None:
    found = over_seeds([1.0, 2.0, 3.0])
    assert (found.mean, found.count) == (2.0, 3)
    assert found.low == pytest.approx(2 - 4.303 / 3**0.5)
    assert found.high == pytest.approx(2 + 4.303 / 3**0.5)
    assert over_seeds([5.0]).low is None


@pytest.mark.parametrize("count", [200, 30_000])
def test_the_bootstrap_covers_the_mean_and_repeats_itself(count: int) -> None:
    values = np.random.Generator(np.random.PCG64(4)).exponential(10, count)
    found = bootstrapped(values)
    assert found == bootstrapped(values)
    margin = 1.96 * float(values.std()) / count**0.5
    assert found.low == pytest.approx(found.mean - margin, rel=0.05)
    assert found.high == pytest.approx(found.mean + margin, rel=0.05)


def test_jobs_are_compared_pair_by_pair() -> None:
    nan = float("nan")
    found = paired("a", np.array([10.0, 5.0, nan, 7.0]), "b", np.array([4.0, 5.5, 1.0, 9.0]))
    assert found is not None
    assert (found.jobs, found.shorter, found.longer, found.median_wait_difference_seconds) == (3, 1, 1, 0.5)
    assert found.mean_wait_difference.mean == pytest.approx((-6 + 0.5 + 2) / 3)
    assert paired("a", np.array([nan]), "b", np.array([1.0])) is None
