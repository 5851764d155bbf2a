"""How long jobs will run: a distribution for each, from what was seen of its user, name and size. Pure.

What is known best is the same job submitted before: same user, same name but for its numbers, same size, same
estimate. Where that was seen seldom, less exact matches count too, each level the less the more was seen above it;
where nothing was seen, the user's estimate and the way in which such estimates err. Runs are never longer than what
ends them (a deadline).

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
"""Newest runs kept per match."""
_FADING: Final = 0.93
"""Weight of a run over that of the next newer one."""
_CONCENTRATION: Final = 1.0
"""So many runs' weight goes to less exact matches."""
_BYTES: Final = 64 << 20
"""Of what is kept of the past, some 100,000 matches."""
_MATCH_BYTES: Final = 900
"""About what a match takes on average."""
_PRIOR_SHARES: Final = (0.02, 0.1, 0.3, 0.6, 1.0)
"""Of their estimates that jobs run of which nothing else is known: users overestimate, some by much."""
_PRIOR_SECONDS: Final = (30.0, 300.0, 1_800.0, 7_200.0, 36_000.0)
"""How long jobs run of which nothing is known at all."""
_NUMBERS: Final = re.compile(r"[0-9]+")
_GENERATED: Final = re.compile(r"-(?=[a-z0-9]*[0-9])(?=[a-z0-9]*[a-z])[a-z0-9]{4,10}$")
"""The end of a name that was generated: letters and digits mixed."""


def name_pattern(name: str) -> str:
    """Return what the names of one job's runs have in common: numbers and generated ends do not count."""
    return _NUMBERS.sub("#", _GENERATED.sub("", name))


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """What is known of a job when it is submitted.

    Attributes:
        user: Who submitted it; its namespace where nobody says.
        name: Its name, or its template's.
        size: CPUs of all its pods, or pods where nobody says.
        estimate_seconds: How long its user says it runs.
        limit_seconds: After so long it is ended.
    """

    user: str = ""
    name: str = ""
    size: float = 1.0
    estimate_seconds: float | None = None
    limit_seconds: float | None = None


class RunTimes:
    """A distribution of run times: weighted values.

    Args:
        seconds: float64[n], n ≥ 1.
        weights: float64[n], positive.
        limit_seconds: No run is longer.
    """

    __slots__ = ("_below", "_limit", "_seconds")

    def __init__(self, seconds: NDArray[np.float64], weights: NDArray[np.float64], limit_seconds: float) -> None:
        order = np.argsort(seconds, kind="stable")
        self._seconds = seconds[order]
        self._below = np.cumsum(weights[order]) / weights.sum()
        self._limit = limit_seconds

    def at(self, share: float, elapsed_seconds: float = 0.0) -> float:
        """Return the run time that a share of runs is not above, of those that run longer than ``elapsed_seconds``.

        What has run longer than anything seen is as likely to go on for as long again as to end before that.
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
        """Return a run time of those that run longer than ``elapsed_seconds``."""
        return self.at(rng.random(), elapsed_seconds)


@dataclass(frozen=True, slots=True)
class _Seen:
    seconds: float
    estimate_seconds: float | None


@dataclass(slots=True)
class _Match:
    """The newest runs of what matches at one level."""

    runs: deque[_Seen] = field(default_factory=lambda: deque(maxlen=_KEPT))

    @property
    def weight(self) -> float:
        """Of all its runs."""
        return (1.0 - _FADING ** len(self.runs)) / (1.0 - _FADING)


class RunTimePredictor:
    """See the module. Bounded in memory: matches that were not used for long are dropped.

    Args:
        max_bytes: What all that is kept may take.
    """

    def __init__(self, max_bytes: int = _BYTES) -> None:
        self._matches: LruCache[Hashable, _Match] = LruCache(max_bytes, lambda _, match: _MATCH_BYTES)
        self.seen = 0
        """Runs taken."""

    @property
    def matches(self) -> int:
        """How many matches are kept."""
        return len(self._matches)

    def take(self, job: Submission, run_seconds: float) -> None:
        """Take a run that has ended by itself."""
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

    def predict(self, job: Submission) -> RunTimes:
        """Return how long a job runs."""
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
    """Return a run as it would be under another estimate: users who ask for twice as much run longer too."""
    if estimate_seconds is None or run.estimate_seconds is None or run.estimate_seconds <= 0:
        return run.seconds
    return run.seconds * estimate_seconds / run.estimate_seconds


def _limit(job: Submission) -> float:
    """Return how long a run is at most; an estimate alone ends nothing, but few runs exceed it by much."""
    if job.limit_seconds is not None:
        return job.limit_seconds
    return 1.1 * job.estimate_seconds if job.estimate_seconds is not None else math.inf


def _prior(estimate_seconds: float | None) -> list[float]:
    if estimate_seconds is None:
        return list(_PRIOR_SECONDS)
    return [share * estimate_seconds for share in _PRIOR_SHARES]


def _keys(job: Submission) -> Iterator[Hashable]:
    """Yield what a job matches by, the most exact first."""
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
    """Return which sizes count as equal: those within a factor of √2."""
    return round(2.0 * math.log2(max(size, 1e-3)))
