"""Means with confidence intervals over seeds, and paired differences of jobs that ran under two policies.

Over seeds: Student's t, because a mean over a run's many jobs is close to normal and seeds are few. Over jobs of one
seed: the percentile bootstrap of the mean difference, because differences of waits are far from normal. Both are at
95 %. The bootstrap draws from a generator with a fixed seed, so that equal runs give equal reports.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import msgspec
import numpy as np

from strato.sim.results.columns import Floats

LEVEL: Final = 0.95
_RESAMPLES: Final = 1000
_BLOCK: Final = 4_000_000
"""Draws of the bootstrap that are in memory together."""
_MOST_PAIRS: Final = 20_000
"""With more pairs the mean's distribution is close to normal: its interval is computed from the standard error."""
_T: Final = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
    2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
    2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip
"""97.5 % quantiles of Student's t for 1, 2, … degrees of freedom."""
_NORMAL: Final = 1.959964


class Estimate(msgspec.Struct, frozen=True):
    """A mean and the interval that holds the true one in 95 % of such experiments; no interval for one value."""

    mean: float
    low: float | None
    high: float | None
    count: int

    def __str__(self) -> str:
        return f"{self.mean:g}" if self.low is None else f"{self.mean:g} [{self.low:g}, {self.high:g}]"


class PairedDifference(msgspec.Struct, frozen=True):
    """Compares the waits of the same jobs under two policies; differences are the second's minus the first's."""

    first: str
    second: str
    jobs: int
    """Number of jobs that started under both."""
    mean_wait_difference: Estimate
    shorter: int
    """Number of jobs that waited at least a second less under the second."""
    longer: int
    median_wait_difference_seconds: float


def t_quantile(degrees: int) -> float:
    """Return the 97.5 % quantile of Student's t; beyond 30 degrees by Cornish and Fisher's expansion, to 0.001."""
    if degrees <= len(_T):
        return _T[degrees - 1]
    z = _NORMAL
    return z + (z**3 + z) / (4 * degrees) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * degrees**2)


def over_seeds(values: Sequence[float]) -> Estimate:
    """Return the mean of one value per seed with Student's interval. At least one value."""
    mean = math.fsum(values) / len(values)
    if len(values) == 1:
        return Estimate(_rounded(mean), None, None, 1)
    deviation = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1))
    margin = t_quantile(len(values) - 1) * deviation / math.sqrt(len(values))
    return Estimate(_rounded(mean), _rounded(mean - margin), _rounded(mean + margin), len(values))


def bootstrapped(values: Floats) -> Estimate:
    """Return the mean of many values with the bootstrap's interval. At least one value."""
    count, mean = len(values), float(values.mean())
    if count == 1:
        return Estimate(_rounded(mean), None, None, 1)
    if count > _MOST_PAIRS:
        margin = _NORMAL * float(values.std(ddof=1)) / math.sqrt(count)
        return Estimate(_rounded(mean), _rounded(mean - margin), _rounded(mean + margin), count)
    draws = np.random.Generator(np.random.PCG64(count))
    step = max(1, _BLOCK // count)
    means = [
        values[draws.integers(0, count, (min(step, _RESAMPLES - done), count))].mean(axis=1)
        for done in range(0, _RESAMPLES, step)
    ]
    low, high = np.quantile(np.concatenate(means), [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Estimate(_rounded(mean), _rounded(float(low)), _rounded(float(high)), count)


def paired(first: str, first_waits: Floats, second: str, second_waits: Floats) -> PairedDifference | None:
    """Compare the waits of the same jobs under two policies; None if no job started under both."""
    difference = second_waits - first_waits
    difference = difference[~np.isnan(difference)]
    if not len(difference):
        return None
    return PairedDifference(
        first,
        second,
        len(difference),
        bootstrapped(difference),
        int((difference <= -1).sum()),
        int((difference >= 1).sum()),
        _rounded(float(np.median(difference))),
    )


def _rounded(value: float) -> float:
    return round(value, 6)
