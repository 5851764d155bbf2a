"""`Calibration`: widens or narrows predicted intervals so that the promised share of waits lies within them. Pure.

A prediction of a wait comes with a raw interval. The outcomes of earlier predictions show by how much the bounds of raw
intervals are too low or too high; `Calibration` moves each bound so that the promised share of these outcomes would
have been within (conformal prediction). It compares logarithms of waits, as an error of an hour is worse for a wait of
minutes than for one of days. Predictions of similar length are a class; a class with enough outcomes is calibrated by
these alone.

The share that the bounds aim at is adapted to the share reached so far, for the predictions of all classes together.
After T predictions the share reached differs from the promised one by at most 1 / (step · T), even if the behaviour of
waits changes; a share adapted for each class would need T predictions in each. Predictions of an immediate start have a
share of their own: most of them are right, so that including them would let the other intervals miss too often.

Source: Romano, Patterson and Candès, "Conformalized quantile regression" (2019), with a window of the newest outcomes
for what changes over time (Gibbs and Candès, "Adaptive conformal inference under distribution shift", 2021).
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import deque
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import msgspec

from strato.decoding import UNDECODABLE

COVERAGE: Final = 0.8
"""Share of waits that is promised to lie within the interval."""
_SCALE_SECONDS: Final = 60.0
"""Waits are compared as log(1 + wait / this): differences well below it count little."""
_WINDOW: Final = 200
"""Number of the newest outcomes that are kept per class of predictions."""
_FEWEST: Final = 12
"""Number of outcomes from which on a class of predictions is calibrated by its own."""
_STEP: Final = 0.05
"""How fast the aim is adapted: after 100 predictions the share reached is off by a fifth at most."""
_LEAST_AIM, _MOST_AIM = 0.05, 0.99
_LARGEST: Final = 30.0
"""In place of the logarithm of an infinite wait."""
_CLASSES: Final = (1.0, 300.0, 1_800.0, 7_200.0, 21_600.0, 86_400.0)
"""Upper ends of the classes, in seconds of predicted wait. Class 0 comes before them: predictions of an immediate
start, whose whole interval is below `AT_ONCE_SECONDS`."""
AT_ONCE_SECONDS: Final = 1.0
"""A shorter wait is an immediate start."""


class Interval(NamedTuple):
    """A predicted wait in seconds: its median, and the bounds between which it lies with the promised share."""

    middle: float
    low: float
    high: float

    def holds(self, wait_seconds: float) -> bool:
        """Whether a wait lies within the bounds, give or take `AT_ONCE_SECONDS`."""
        return self.low - AT_ONCE_SECONDS <= wait_seconds <= self.high + AT_ONCE_SECONDS


@dataclass(slots=True)
class _Outcomes:
    """Outcomes of a class's predictions: differences of the logarithms of wait and of each part of the interval."""

    middles: deque[float] = field(default_factory=lambda: deque(maxlen=_WINDOW))
    lows: deque[float] = field(default_factory=lambda: deque(maxlen=_WINDOW))
    highs: deque[float] = field(default_factory=lambda: deque(maxlen=_WINDOW))
    aim: float = COVERAGE
    """The share that the bounds aim at; used of class 0 and of the outcomes of all other classes together."""


class Calibration:
    """Calibrates intervals by the outcomes of earlier ones, as the module says.

    Args:
        coverage: Share of waits that is promised to lie within the interval, in (0, 1).
    """

    def __init__(self, coverage: float = COVERAGE) -> None:
        self._coverage = coverage
        self._classes = [_Outcomes(aim=coverage) for _ in range(len(_CLASSES) + 2)]
        self._uncertain = _Outcomes(aim=coverage)
        """Outcomes of all classes except class 0, whose predictions are nearly certain."""

    def calibrated(self, raw: Interval) -> Interval:
        """Return the interval, moved so that similar ones would have held the promised share of their waits."""
        outcomes = self._outcomes(raw)
        if not outcomes.middles:
            return raw
        tail = (1.0 - self._aimed(raw).aim) / 2.0
        middle = _log(raw.middle) + _quantile(outcomes.middles, 0.5)
        low = _log(raw.low) + _quantile(outcomes.lows, tail)
        high = _log(raw.high) + _quantile(outcomes.highs, 1.0 - tail)
        low, high = min(low, high), max(low, high)
        middle = min(max(middle, low), high)
        return Interval(_unlog(middle), _unlog(low), _unlog(high))

    def take(self, raw: Interval, wait_seconds: float) -> None:
        """Learn the outcome of a prediction with this raw interval."""
        held = self.calibrated(raw).holds(wait_seconds)
        wait = _log(wait_seconds)
        own = self._classes[_class_of(raw)]
        for outcomes in (own, self._uncertain) if own is not self._classes[0] else (own,):
            outcomes.middles.append(wait - _log(raw.middle))
            outcomes.lows.append(wait - _log(raw.low))
            outcomes.highs.append(wait - _log(raw.high))
        aimed = self._aimed(raw)
        aimed.aim = min(max(aimed.aim + _STEP * (self._coverage - held), _LEAST_AIM), _MOST_AIM)

    def to_json(self) -> str:
        """Return the outcomes and aims as text for `from_json`."""
        rows = [
            [round(one.aim, 4), *([round(v, 3) for v in part] for part in (one.middles, one.lows, one.highs))]
            for one in (*self._classes, self._uncertain)
        ]
        return msgspec.json.encode(rows).decode()

    @classmethod
    def from_json(cls, text: str) -> Calibration:
        """Return the calibration that `to_json` has written; a new one for any other text."""
        made = cls()
        try:
            rows = msgspec.json.decode(text, type=list[tuple[float, list[float], list[float], list[float]]])
        except UNDECODABLE:
            return made
        kept = (*made._classes, made._uncertain)
        if len(rows) != len(kept) or any(len({len(part) for part in parts}) != 1 for _, *parts in rows):
            return made
        for outcomes, (aim, middles, lows, highs) in zip(kept, rows, strict=True):
            outcomes.aim = min(max(aim, _LEAST_AIM), _MOST_AIM)
            outcomes.middles.extend(middles)
            outcomes.lows.extend(lows)
            outcomes.highs.extend(highs)
        return made

    def _aimed(self, raw: Interval) -> _Outcomes:
        """Return the outcomes whose `aim` counts for a prediction."""
        return self._classes[0] if _class_of(raw) == 0 else self._uncertain

    def _outcomes(self, raw: Interval) -> _Outcomes:
        own = self._classes[_class_of(raw)]
        return own if len(own.middles) >= _FEWEST or own is self._classes[0] else self._uncertain


def _class_of(raw: Interval) -> int:
    return 0 if raw.high < AT_ONCE_SECONDS else 1 + bisect_right(_CLASSES, raw.middle)


def _log(seconds: float) -> float:
    return min(math.log1p(max(seconds, 0.0) / _SCALE_SECONDS), _LARGEST)


def _unlog(value: float) -> float:
    return math.inf if value >= _LARGEST else max(0.0, math.expm1(value) * _SCALE_SECONDS)


def _quantile(values: deque[float], share: float) -> float:
    """Return a quantile of the values and one more that is still to come, as conformal prediction needs it."""
    ordered = sorted(values)
    if share > 0.5:
        rank = math.ceil(share * (len(ordered) + 1)) - 1
    else:
        rank = math.floor(share * (len(ordered) + 1)) - 1 if share < 0.5 else (len(ordered) - 1) // 2
    return ordered[min(max(rank, 0), len(ordered) - 1)]


@dataclass(slots=True)
class Accuracy:
    """Accuracy of predictions, compared with a naive one that predicts the mean of all earlier waits.

    Attributes:
        predictions: Number of predictions with a known outcome.
        held: Number of those whose wait was within the interval.
        error_seconds: Sum of the absolute errors of the intervals' medians.
        naive_error_seconds: Sum of the absolute errors of the naive prediction.
        errors: The newest absolute errors of medians.
        naive_errors: The newest absolute errors of the naive prediction.
    """

    predictions: int = 0
    held: int = 0
    error_seconds: float = 0.0
    naive_error_seconds: float = 0.0
    errors: deque[float] = field(default_factory=lambda: deque(maxlen=20_000))
    naive_errors: deque[float] = field(default_factory=lambda: deque(maxlen=20_000))

    def take(self, predicted: Interval, naive_seconds: float, wait_seconds: float) -> None:
        """Count an outcome."""
        self.predictions += 1
        self.held += predicted.holds(wait_seconds)
        error, naive = abs(predicted.middle - wait_seconds), abs(naive_seconds - wait_seconds)
        self.error_seconds += error
        self.naive_error_seconds += naive
        self.errors.append(error)
        self.naive_errors.append(naive)

    @property
    def coverage(self) -> float:
        """Share of the waits that were within their interval."""
        return self.held / self.predictions if self.predictions else 0.0

    @property
    def mean_error_seconds(self) -> float:
        """Mean absolute error of the intervals' medians."""
        return self.error_seconds / self.predictions if self.predictions else 0.0

    @property
    def naive_mean_error_seconds(self) -> float:
        """Mean absolute error of the naive prediction."""
        return self.naive_error_seconds / self.predictions if self.predictions else 0.0

    @property
    def median_error_seconds(self) -> float:
        """Median absolute error of the intervals' medians."""
        return _median(self.errors)

    @property
    def naive_median_error_seconds(self) -> float:
        """Median absolute error of the naive prediction."""
        return _median(self.naive_errors)


def _median(values: deque[float]) -> float:
    ordered = sorted(values)
    return ordered[len(ordered) // 2] if ordered else 0.0
