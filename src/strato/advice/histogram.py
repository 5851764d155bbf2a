"""Histograms of weighted samples, optionally with weights that decay with age.

The buckets of a `BucketLayout` are fixed; bucket b holds values from ``start(b)`` up to ``start(b + 1)``, the first
also all lower ones, and the last all higher ones. Weights below the layout's epsilon count as 0. A percentile is the
*end* of the bucket that reaches it, so that it is never below the values of that bucket; the last bucket has no end.

Source: vertical pod autoscaler, recommender/util (spec utilisation 6.1).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from strato.errors import UsageError

_LARGEST_SAVED: Final = 10_000
"""Weight of the heaviest bucket of a checkpoint; the others are in proportion."""
_EQUAL: Final = 1e-15
_MOST_HALF_LIVES: Final = 100
"""A sample newer than the reference instant by so many half-lives moves it, so that weights stay finite."""
_ZERO_TIME: Final = -62_135_596_800.0
"""Go's zero time, from which half-lives are counted, so that reference instants are the same as the original's."""


class InvalidCheckpoint(UsageError):
    """A checkpoint that no histogram has written."""


@dataclass(frozen=True, slots=True)
class BucketLayout:
    """Buckets that grow by ``ratio`` from the first, which is ``first`` wide; all are equal where the ratio is 1."""

    first: float
    count: int
    ratio: float = 1.0
    epsilon: float = 0.0001

    @classmethod
    def linear(cls, most: float, width: float, epsilon: float) -> BucketLayout:
        """Return equal buckets up to a value."""
        return cls(width, math.ceil(most / width) + 1, 1.0, epsilon)

    @classmethod
    def exponential(cls, most: float, first: float, ratio: float, epsilon: float) -> BucketLayout:
        """Return growing buckets up to a value."""
        return cls(first, math.ceil(math.log(most * (ratio - 1) / first + 1) / math.log(ratio)) + 1, ratio, epsilon)

    def start(self, bucket: int) -> float:
        """Return the least value of a bucket."""
        if self.ratio == 1:
            return self.first * bucket
        return self.first * (self.ratio**bucket - 1) / (self.ratio - 1)

    def end(self, bucket: int) -> float:
        """Return the upper bound of a bucket's values; for the last bucket, which has none, its start."""
        return self.start(min(bucket + 1, self.count - 1))

    def find(self, value: float) -> int:
        """Return the bucket of a value."""
        if value < self.first:
            return 0
        if self.ratio == 1:
            return min(int(value / self.first), self.count - 1)
        bucket = int(math.log(value * (self.ratio - 1) / self.first + 1) / math.log(self.ratio))
        return min(bucket, self.count - 1)


CPU: Final = BucketLayout.exponential(1000.0, 0.01, 1.05, 0.0001)
"""Cores."""
MEMORY: Final = BucketLayout.exponential(1e12, 1e7, 1.05, 0.0001)
"""Bytes."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The saved form of a histogram: scaled weights, their sum, and the reference instant."""

    total_weight: float
    bucket_weights: Mapping[int, int] = field(default_factory=dict)
    reference: float = _ZERO_TIME


class Histogram:
    """Weights of values by bucket. With a half-life, a sample has half the weight of one that is a half-life newer.

    Args:
        layout: The buckets.
        half_life_seconds: Infinite for weights independent of age; instants are then ignored.
    """

    __slots__ = ("_first", "_last", "_total", "_weights", "half_life_seconds", "layout", "reference")

    def __init__(self, layout: BucketLayout, half_life_seconds: float = math.inf) -> None:
        self.layout, self.half_life_seconds = layout, half_life_seconds
        self.reference = _ZERO_TIME
        """The reference instant, of which samples have their weight unscaled."""
        self._weights = [0.0] * layout.count
        self._total = 0.0
        self._first, self._last = layout.count - 1, 0
        """Lowest and highest bucket above epsilon; first > last while there is none."""

    def add(self, value: float, weight: float, at: float = 0.0) -> None:
        """Add a sample of that instant."""
        self.add_to_bucket(self.layout.find(value), weight, at)

    def add_to_bucket(self, bucket: int, weight: float, at: float = 0.0) -> None:
        """Add weight of that instant to a bucket."""
        weight *= self._factor(at)
        self._weights[bucket] += weight
        self._total += weight
        if self._weights[bucket] >= self.layout.epsilon:
            self._first, self._last = min(self._first, bucket), max(self._last, bucket)

    def subtract(self, value: float, weight: float, at: float = 0.0) -> None:
        """Remove a sample; a remainder below epsilon, from rounding, counts as 0."""
        bucket, weight = self.layout.find(value), weight * self._factor(at)
        for_nothing = self.layout.epsilon
        self._total = left if (left := self._total - weight) >= for_nothing else 0.0
        self._weights[bucket] = left if (left := self._weights[bucket] - weight) >= for_nothing else 0.0
        self._narrow()

    def merge(self, other: Histogram) -> None:
        """Add all samples of another histogram, of the same layout and half-life; that one is not changed."""
        factor = 1.0
        if self.half_life_seconds < math.inf:
            if self.reference < other.reference:
                self._refer_to(other.reference)
            factor = self._power(other.reference, self.reference)
        for bucket in range(other._first, other._last + 1):
            self._weights[bucket] += other._weights[bucket] * factor
        self._total += other._total * factor
        self._first, self._last = min(self._first, other._first), max(self._last, other._last)
        self._narrow()

    @property
    def is_empty(self) -> bool:
        """Whether no bucket has a weight above epsilon."""
        return self._weights[self._first] < self.layout.epsilon

    def percentile(self, share: float) -> float:
        """Return the value below which a share of the total weight lies; 0 for an empty histogram."""
        if self.is_empty:
            return 0.0
        wanted, sum_ = share * self._total, 0.0
        for bucket in range(self._first, self._last):
            sum_ += self._weights[bucket]
            if sum_ >= wanted:
                return self.layout.end(bucket)
        return self.layout.end(self._last)

    def buckets(self) -> dict[int, float]:
        """Return the non-zero weights by bucket, relative to the reference instant."""
        return {bucket: weight for bucket, weight in enumerate(self._weights) if weight}

    def is_equal(self, other: Histogram) -> bool:
        """Return whether both have equal weights, up to rounding."""
        here = (self.layout, self.half_life_seconds, self.reference, self._first, self._last)
        if here != (other.layout, other.half_life_seconds, other.reference, other._first, other._last):
            return False
        return all(abs(one - two) <= _EQUAL for one, two in zip(self._weights, other._weights, strict=True))

    def save(self) -> Checkpoint:
        """Return the checkpoint; buckets whose scaled weight rounds to 0 are left out."""
        largest = max(self._weights[self._first : self._last + 1], default=0.0)
        ratio = _LARGEST_SAVED / largest if largest else 0.0
        saved = {bucket: math.floor(weight * ratio + 0.5) for bucket, weight in self.buckets().items()}
        return Checkpoint(self._total, {bucket: weight for bucket, weight in saved.items() if weight}, self.reference)

    def load(self, saved: Checkpoint) -> None:
        """Load a checkpoint into an empty histogram.

        Raises:
            InvalidCheckpoint: A weight is negative, or there is no such bucket; nothing was added.
        """
        if not 0 <= saved.total_weight < math.inf:
            raise InvalidCheckpoint(f"totalWeight {saved.total_weight}: a weight is a number from 0 on")
        for bucket, weight in saved.bucket_weights.items():
            if not 0 <= bucket < self.layout.count:
                raise InvalidCheckpoint(f"bucketWeights[{bucket}]: buckets are 0 to {self.layout.count - 1}")
            if weight < 0:
                raise InvalidCheckpoint(f"bucketWeights[{bucket}] {weight}: a weight is a number from 0 on")
        self.reference = saved.reference
        total = sum(saved.bucket_weights.values())
        if not total:
            return
        for bucket, weight in saved.bucket_weights.items():
            self._weights[bucket] += weight * saved.total_weight / total
            self._first, self._last = min(self._first, bucket), max(self._last, bucket)
        self._total += saved.total_weight
        self._narrow()

    def _factor(self, at: float) -> float:
        if self.half_life_seconds == math.inf:
            return 1.0
        if at > self.reference + _MOST_HALF_LIVES * self.half_life_seconds:
            self._refer_to(at)
        return math.exp2((at - self.reference) / self.half_life_seconds)

    def _refer_to(self, at: float) -> None:
        """Move the reference instant to the whole half-life nearest to an instant, and all weights with it."""
        lives = math.floor((at - _ZERO_TIME) / self.half_life_seconds + 0.5)
        reference = _ZERO_TIME + lives * self.half_life_seconds
        factor = self._power(self.reference, reference)
        self.reference = reference
        self._weights = [weight * factor for weight in self._weights]
        self._total *= factor
        self._narrow()

    def _power(self, before: float, after: float) -> float:
        return math.ldexp(1.0, math.floor((before - after) / self.half_life_seconds + 0.5))

    def _narrow(self) -> None:
        """Exclude buckets at both ends whose weight is below epsilon."""
        last, epsilon = self.layout.count - 1, self.layout.epsilon
        while self._weights[self._first] < epsilon and self._first < last:
            self._first += 1
        while self._weights[self._last] < epsilon and self._last > 0:
            self._last -= 1
