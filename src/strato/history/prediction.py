"""`RunTimePredictor`: predicts a distribution of a job's run time from earlier runs of its user, name and size. Pure.

The best predictor is the same job submitted before: same user, same name except for numbers, same size, same estimate.
If few runs match so exactly, runs that match in fewer of these count too; the more runs a level has, the less weight
the levels below it get. Without any match the user's estimate is used, with the usual errors of such estimates. No
run is predicted to be longer than the job's deadline.

Source: the weights are those of the Pitman-Yor process's back-off, with recency (Teh, "A hierarchical Bayesian language
model", 2006; discount 0). That user, name and size predict run times: Smith, Foster and Taylor, "Predicting application
run times using historical information" (1998); that the newest runs do best: Tsafrir, Etsion and Feitelson,
"Backfilling using system-generated predictions" (2007).
"""

from __future__ import annotations

import math
import re
from collections import deque
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Final

import numpy as np
from numpy.typing import NDArray

from strato.lru import LruCache

_KEPT: Final = 48
"""Number of the newest runs that are kept for each match."""
_FADING: Final = 0.93
"""Ratio of a run's weight to that of the next newer run."""
_CONCENTRATION: Final = 1.0
"""Weight, in runs, that a level leaves to less exact matches."""
_BYTES: Final = 64 << 20
"""Memory for matches: some 100,000 of them."""
_MATCH_BYTES: Final = 900
"""About the mean memory of a match."""
_PRIOR_SHARES: Final = (0.02, 0.1, 0.3, 0.6, 1.0)
"""Run times as shares of the user's estimate, for jobs without any match: users overestimate, some of them by much."""
_PRIOR_SECONDS: Final = (30.0, 300.0, 1_800.0, 7_200.0, 36_000.0)
"""Run times for jobs without any match and without an estimate."""
_NUMBERS: Final = re.compile(r"[0-9]+")
_GENERATED: Final = re.compile(r"-(?=[a-z0-9]*[0-9])(?=[a-z0-9]*[a-z])[a-z0-9]{4,10}$")
"""The generated end of a name: letters and digits mixed."""


def name_pattern(name: str) -> str:
    """Return a name without its generated end and with ``#`` for numbers, so that runs of one job have the same."""
    return _NUMBERS.sub("#", _GENERATED.sub("", name))


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmittedJob:
    """What is known of a job when it is submitted.

    Attributes:
        user: Its user; its namespace if the user is not known.
        name: The name of the job or its template.
        size: CPUs that all its pods request, or the number of pods if requests are not known.
        estimate_seconds: The user's estimate of the run time.
        limit_seconds: Deadline, counted from the start, at which the job is killed.
    """

    user: str = ""
    name: str = ""
    size: float = 1.0
    estimate_seconds: float | None = None
    limit_seconds: float | None = None


class RunTimes:
    """A distribution of run times, as weighted values.

    Args:
        seconds: float64[n], the values, n ≥ 1.
        weights: float64[n], their weights, positive.
        limit_seconds: Upper bound of run times.
    """

    __slots__ = ("_below", "_limit", "_seconds")

    def __init__(self, seconds: NDArray[np.float64], weights: NDArray[np.float64], limit_seconds: float) -> None:
        order = np.argsort(seconds, kind="stable")
        self._seconds = seconds[order]
        self._below = np.cumsum(weights[order]) / weights.sum()
        self._limit = limit_seconds

    def at(self, share: float, elapsed_seconds: float = 0.0) -> float:
        """Return the quantile ``share`` of the run times that are longer than ``elapsed_seconds``.

        A job that has run longer than all values is assumed to run as long again with a probability of one half.
        """
        first = int(np.searchsorted(self._seconds, elapsed_seconds, side="right"))
        gone = float(self._below[first - 1]) if first else 0.0
        if gone >= 1.0 - 1e-9:
            return self._beyond(share, elapsed_seconds)
        found = int(np.searchsorted(self._below, gone + share * (1.0 - gone), side="left"))
        seconds = float(self._seconds[min(found, len(self._seconds) - 1)])
        return max(min(seconds, self._limit), elapsed_seconds)

    def _beyond(self, share: float, elapsed_seconds: float) -> float:
        longest = max(self._limit, elapsed_seconds)
        return min(elapsed_seconds / max(1.0 - share, 0.02), longest)

    def draw(self, rng: Random, elapsed_seconds: float = 0.0) -> float:
        """Draw one of the run times that are longer than ``elapsed_seconds``."""
        return self.at(rng.random(), elapsed_seconds)


@dataclass(frozen=True, slots=True)
class _Seen:
    seconds: float
    estimate_seconds: float | None


@dataclass(slots=True)
class _Match:
    """The newest runs with an equal key at one level (`_keys`)."""

    runs: deque[_Seen] = field(default_factory=lambda: deque(maxlen=_KEPT))

    @property
    def weight(self) -> float:
        """Sum of the weights of its runs."""
        return (1.0 - _FADING ** len(self.runs)) / (1.0 - _FADING)


class RunTimePredictor:
    """Predicts run times, as the module says, in bounded memory: it drops the matches that were used least recently.

    Args:
        max_bytes: Memory for matches.
    """

    def __init__(self, max_bytes: int = _BYTES) -> None:
        self._matches: LruCache[Hashable, _Match] = LruCache(max_bytes, lambda _, match: _MATCH_BYTES)
        self.seen = 0
        """Number of runs taken."""

    @property
    def matches(self) -> int:
        """Number of matches kept."""
        return len(self._matches)

    def take(self, job: SubmittedJob, run_seconds: float) -> None:
        """Learn the run time of a job that has ended by itself."""
        if not 0.0 <= run_seconds < math.inf:
            return
        self.seen += 1
        seen = _Seen(run_seconds, job.estimate_seconds)
        for key in _keys(job):
            match = self._matches.get(key)
            if match is None:
                match = _Match()
                self._matches.put(key, match)
            match.runs.append(seen)

    def predict(self, job: SubmittedJob) -> RunTimes:
        """Return the distribution of a job's run time."""
        seconds: list[float] = []
        weights: list[float] = []
        left = 1.0
        for key in _keys(job):
            match = self._matches.get(key)
            if match is None:
                continue
            share = left * match.weight / (match.weight + _CONCENTRATION)
            left -= share
            fading = share / match.weight
            for run in reversed(match.runs):
                seconds.append(_scaled(run, job.estimate_seconds))
                weights.append(fading)
                fading *= _FADING
        prior = _prior(job.estimate_seconds)
        seconds += prior
        weights += [left / len(prior)] * len(prior)
        return RunTimes(np.array(seconds), np.array(weights), _limit(job))


def _scaled(run: _Seen, estimate_seconds: float | None) -> float:
    """Return the run time scaled to another estimate, as jobs with a longer estimate run longer too."""
    if estimate_seconds is None or run.estimate_seconds is None or run.estimate_seconds <= 0:
        return run.seconds
    return run.seconds * estimate_seconds / run.estimate_seconds


def _limit(job: SubmittedJob) -> float:
    """Return the upper bound of a job's run time. An estimate kills no job, but few runs exceed it by much."""
    if job.limit_seconds is not None:
        return job.limit_seconds
    return 1.1 * job.estimate_seconds if job.estimate_seconds is not None else math.inf


def _prior(estimate_seconds: float | None) -> list[float]:
    if estimate_seconds is None:
        return list(_PRIOR_SECONDS)
    return [share * estimate_seconds for share in _PRIOR_SHARES]


def _keys(job: SubmittedJob) -> Iterator[Hashable]:
    """Yield the keys by which a job matches earlier ones, the most exact first."""
    name, size = name_pattern(job.name), _size_class(job.size)
    estimate = _size_class(job.estimate_seconds) if job.estimate_seconds is not None else None
    yield 0, job.user, name, size, estimate
    yield 1, job.user, name, size
    yield 2, job.user, name, estimate
    yield 3, job.user, estimate
    yield 4, job.user
    yield 5, size, estimate
    yield 6


def _size_class(size: float) -> int:
    """Return the class of a size; sizes within about a factor of √2 are in the same class."""
    return round(2.0 * math.log2(max(size, 1e-3)))
