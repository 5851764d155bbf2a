"""Intervals that hold what they promise: widened or narrowed by how earlier ones fared. Pure.

A prediction of a wait comes with a raw interval. What came of earlier predictions says by how much too early or too
late such intervals end; so each bound is moved until the promised share of waits would have been within (conformal
prediction). Waits are compared as logarithms, so that an hour too much is worse for a wait of minutes than of days, and
predictions of like length among themselves, as far as enough is known of them.

The share that is aimed at follows what was reached, for all predictions together: after T of them the share that was
held is within 1 / (step · T) of the promised one, however waits change meanwhile. A share of its own for each class
would need that many in each. Starts that seem certain are apart: most of them are, and the others must not pay for it.

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
"""Share of waits that an interval is to hold."""
_SCALE_SECONDS: Final = 60.0
"""Differences below it count little."""
_WINDOW: Final = 200
"""Newest outcomes kept per class of predictions."""
_FEWEST: Final = 12
"""From so many outcomes on, a class of predictions stands for itself."""
_STEP: Final = 0.05
"""How fast the share that is aimed at follows what was reached: after 100 predictions it is off by a fifth at most."""
_LEAST_AIM, _MOST_AIM = 0.05, 0.99
_LARGEST: Final = 30.0
"""Logarithm of a wait without end."""
_CLASSES: Final = (1.0, 300.0, 1_800.0, 7_200.0, 21_600.0, 86_400.0)
"""Predicted waits in seconds, below which a class ends; a class before them is of starts that seem certain."""
AT_ONCE_SECONDS: Final = 1.0
"""A wait shorter than this is none."""


class Interval(NamedTuple):
    """A predicted wait in seconds: the middle, and where it lies with the promised share."""

    middle: float
    low: float
    high: float

    def holds(self, wait_seconds: float) -> bool:
        """Whether a wait lies within, to the second."""
        return self.low - AT_ONCE_SECONDS <= wait_seconds <= self.high + AT_ONCE_SECONDS


@dataclass(slots=True)
class _Outcomes:
    """How predictions of one class fared: by how much (as logarithms) waits were longer than each part of them."""

    middles: deque[float] = field(default_factory=lambda: deque(maxlen=_WINDOW))
    lows: deque[float] = field(default_factory=lambda: deque(maxlen=_WINDOW))
    highs: deque[float] = field(default_factory=lambda: deque(maxlen=_WINDOW))
    aim: float = COVERAGE
    """Share that is aimed at, of starts that seem certain and of all others; not used of a class."""


class Calibration:
    """See the module.

    Args:
        coverage: Share of waits that an interval is to hold. In (0, 1).
    """

    def __init__(self, coverage: float = COVERAGE) -> None:
        self._coverage = coverage
        self._classes = [_Outcomes(aim=coverage) for _ in range(len(_CLASSES) + 2)]
        self._uncertain = _Outcomes(aim=coverage)
        """All classes but the first: what is certain says nothing about what is not."""

    def calibrated(self, raw: Interval) -> Interval:
        """Return an interval that would have held the promised share of the waits of predictions like this one."""
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
        """Take what came of a prediction, given with its raw interval."""
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
        """Return what is known, as text that `from_json` reads."""
        rows = [
            [round(one.aim, 4), *([round(v, 3) for v in part] for part in (one.middles, one.lows, one.highs))]
            for one in (*self._classes, self._uncertain)
        ]
        return msgspec.json.encode(rows).decode()

    @classmethod
    def from_json(cls, text: str) -> Calibration:
        """Return what a text of `to_json` says; of any other text nothing."""
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
        """Return where the share stands that is aimed at for predictions like this one."""
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
    """Return the value that a share of all is not above, one value more taken to be still to come."""
    ordered = sorted(values)
    if share > 0.5:
        rank = math.ceil(share * (len(ordered) + 1)) - 1
    else:
        rank = math.floor(share * (len(ordered) + 1)) - 1 if share < 0.5 else (len(ordered) - 1) // 2
    return ordered[min(max(rank, 0), len(ordered) - 1)]


@dataclass(slots=True)
class Accuracy:
    """How predictions fared, against the mean of the waits so far.

    Attributes:
        predictions: Whose outcome is known.
        held: How many were within their interval.
        error_seconds: Sum of the absolute errors of their middles.
        naive_error_seconds: Sum of the absolute errors of the mean of all earlier waits.
        errors, naive_errors: The newest absolute errors, of which medians are taken.
    """

    predictions: int = 0
    held: int = 0
    error_seconds: float = 0.0
    naive_error_seconds: float = 0.0
    errors: deque[float] = field(default_factory=lambda: deque(maxlen=20_000))
    naive_errors: deque[float] = field(default_factory=lambda: deque(maxlen=20_000))

    def take(self, predicted: Interval, naive_seconds: float, wait_seconds: float) -> None:
        """Take an outcome."""
        self.predictions += 1
        self.held += predicted.holds(wait_seconds)
        error, naive = abs(predicted.middle - wait_seconds), abs(naive_seconds - wait_seconds)
        self.error_seconds += error
        self.naive_error_seconds += naive
        self.errors.append(error)
        self.naive_errors.append(naive)

    @property
    def coverage(self) -> float:
        """Share of the outcomes that were within their interval."""
        return self.held / self.predictions if self.predictions else 0.0

    @property
    def mean_error_seconds(self) -> float:
        """Mean absolute error."""
        return self.error_seconds / self.predictions if self.predictions else 0.0

    @property
    def naive_mean_error_seconds(self) -> float:
        """That of the mean wait so far."""
        return self.naive_error_seconds / self.predictions if self.predictions else 0.0

    @property
    def median_error_seconds(self) -> float:
        """Median absolute error."""
        return _median(self.errors)

    @property
    def naive_median_error_seconds(self) -> float:
        """That of the mean wait so far."""
        return _median(self.naive_errors)


def _median(values: deque[float]) -> float:
    ordered = sorted(values)
    return ordered[len(ordered) // 2] if ordered else 0.0
