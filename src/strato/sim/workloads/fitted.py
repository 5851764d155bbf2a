"""`fit`: generates a workload like a trace: with its daily or weekly cycle, bursts, users, sizes and run times.

Arrivals: the trace's submissions per hour of the week (of the day, in traces of less than two weeks) give a rate. Time
is transformed so that this rate becomes constant; in the transformed time the gaps between submissions are drawn from
those of the trace, with replacement. So cycle and burstiness are the trace's, but the order of gaps is not. Jobs: a
user is drawn in proportion to the number of their jobs, then one of their jobs, which gives everything but the run
time. Run times: drawn from the quantiles of the user's jobs in that size class (pods by powers of two), or of all jobs
in the class if the user has fewer than 20 there. Logarithms are interpolated between quantiles, so there are run times
that the trace does not have.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from strato.errors import UsageError
from strato.sim.workloads.jobs import Trace, TraceJob, from_zero

_HOUR: Final = 3600.0
_DAY_HOURS, _WEEK_HOURS = 24, 168
_FEWEST: Final = 20
"""Fewest jobs of a user in a size class from which quantiles are taken."""
_QUANTILES: Final = np.linspace(0.0, 1.0, 101)
_LEAST_RATE: Final = 0.02
"""Least rate of an hour, as a share of the mean: with a rate of 0 the transformed time would not pass."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FitOptions:
    """The workload to draw."""

    jobs: int = 0
    """Number of jobs; 0 is as many as the trace has."""
    users: int = 0
    """Number of users; 0 is as many as the trace has. Fewer are the most active ones, further ones are copies."""
    rate: float = 1.0
    """Factor by which arrivals are faster than in the trace."""
    seed: int = 0


def fit(trace: Trace, options: FitOptions) -> Trace:
    """Draw a workload like a trace.

    Raises:
        UsageError: The trace has fewer than two jobs.
    """
    if len(trace.jobs) < 2:
        raise UsageError("a workload cannot be fitted to a trace of one job; name a trace with more")
    rng = np.random.default_rng(options.seed)
    count = options.jobs or len(trace.jobs)
    comes = arrivals(np.array([job.submit_seconds for job in trace.jobs]), count, rng) / options.rate
    models = _Users(trace.jobs, options.users, rng)
    runs = _RunTimes(trace.jobs)
    jobs = []
    for number, at in enumerate(comes, start=1):
        user, model = models.draw()
        run = runs.draw(model, rng)
        jobs.append(_like(model, f"job-{number}", user, float(at), run))
    return replace(trace, jobs=from_zero(jobs), skipped=0, format=f"fit of {trace.format}", reasons={}, problems=())


def cycle_of(submit: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the rate of each hour of the week or the day, as a multiple of the mean; a single 1 for short traces."""
    span_hours = (submit.max() - submit.min()) / _HOUR
    hours = _WEEK_HOURS if span_hours >= 2 * _WEEK_HOURS else _DAY_HOURS if span_hours >= 2 * _DAY_HOURS else 1
    if hours == 1:
        return np.ones(1)
    bins = (submit // _HOUR).astype(np.int64)
    counts = np.bincount(bins % hours, minlength=hours).astype(float)
    seen = np.bincount(np.arange(int(bins.max()) + 1) % hours, minlength=hours)
    rates = counts / np.maximum(seen, 1)
    mean: float = rates.mean()
    return np.maximum(rates / mean, _LEAST_RATE)


def arrivals(submit: NDArray[np.float64], count: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Draw instants with the cycle and the gaps of given ones."""
    cycle = cycle_of(submit)
    cumulated = np.concatenate([[0.0], np.cumsum(cycle)])
    gaps = np.diff(_to_uniform(np.sort(submit) / _HOUR, cumulated))
    drawn = np.concatenate([[0.0], np.cumsum(rng.choice(gaps, count - 1))]) if count > 1 else np.zeros(1)
    return _from_uniform(drawn, cumulated) * _HOUR


def _to_uniform(hours: NDArray[np.float64], cumulated: NDArray[np.float64]) -> NDArray[np.float64]:
    length = len(cumulated) - 1
    rounds, rest = np.divmod(hours, length)
    points: NDArray[np.float64] = rounds * cumulated[-1] + np.interp(rest, np.arange(length + 1), cumulated)
    return points


def _from_uniform(points: NDArray[np.float64], cumulated: NDArray[np.float64]) -> NDArray[np.float64]:
    length = len(cumulated) - 1
    rounds, rest = np.divmod(points, cumulated[-1])
    hours: NDArray[np.float64] = rounds * length + np.interp(rest, cumulated, np.arange(length + 1))
    return hours


class _Users:
    """Draws the user of a job, and the job of the trace after which it is modelled."""

    def __init__(self, jobs: Sequence[TraceJob], wanted: int, rng: np.random.Generator) -> None:
        by_user: dict[str, list[TraceJob]] = defaultdict(list)
        for job in jobs:
            by_user[job.user].append(job)
        ranked = sorted(by_user.items(), key=lambda entry: (-len(entry[1]), entry[0]))
        chosen = ranked[:wanted] if wanted else ranked
        for number in range(max(0, wanted - len(ranked))):
            name, some = ranked[int(rng.integers(len(ranked)))]
            chosen.append((f"{name or 'user'}-{number + 1}", some))
        self._names = [name for name, _ in chosen]
        self._jobs = [some for _, some in chosen]
        shares = np.array([len(some) for some in self._jobs], float)
        self._edges = np.cumsum(shares / shares.sum())
        self._rng = rng

    def draw(self) -> tuple[str, TraceJob]:
        """Return a user and the model of their next job."""
        at = min(int(np.searchsorted(self._edges, self._rng.random(), side="right")), len(self._jobs) - 1)
        some = self._jobs[at]
        return self._names[at], some[int(self._rng.integers(len(some)))]


class _RunTimes:
    """Quantiles of run times by user and size class."""

    def __init__(self, jobs: Sequence[TraceJob]) -> None:
        found: dict[tuple[str, int], list[float]] = defaultdict(list)
        for job in jobs:
            found[job.user, size_class(job)].append(job.run_seconds)
            found["", size_class(job)].append(job.run_seconds)
        self._logs: Mapping[tuple[str, int], NDArray[np.float64]] = {
            key: np.quantile(np.log(np.maximum(times, 1e-3)), _QUANTILES)
            for key, times in found.items()
            if len(times) >= _FEWEST or not key[0]
        }

    def draw(self, job: TraceJob, rng: np.random.Generator) -> float:
        """Return a run time of a job like this one."""
        logs = self._logs.get((job.user, size_class(job)))
        if logs is None:
            logs = self._logs["", size_class(job)]
        return float(math.exp(np.interp(rng.random(), _QUANTILES, logs)))


def size_class(job: TraceJob) -> int:
    """Return the size class of a job: the whole part of the logarithm of its pods, base 2."""
    return job.replicas.bit_length() - 1


def _like(model: TraceJob, name: str, user: str, submit: float, run: float) -> TraceJob:
    """Return a job like its model with another run time: with equal slack before its deadline, and an equal estimate.

    An estimate shorter than the run time is raised to it.
    """
    slack = None
    if model.deadline_seconds is not None:
        slack = max(0.0, model.deadline_seconds - model.submit_seconds - model.run_seconds)
    return replace(
        model,
        name=name,
        user=user,
        submit_seconds=submit,
        run_seconds=run,
        estimate_seconds=None if model.estimate_seconds is None else max(model.estimate_seconds, run),
        deadline_seconds=None if slack is None else submit + run + slack,
        after=(),
        waited_seconds=None,
    )
