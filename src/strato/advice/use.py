"""Aggregated use of containers: the newest CPU sample and memory peak of each, and histograms of equal containers.

CPU has a sample per minute. Memory counts once per aggregation interval with its peak: a larger sample of the same
interval replaces the one before. A container killed for lack of memory needed more than was measured, so its need is
estimated a little above its request or peak.

Source: vertical pod autoscaler, recommender/model (spec utilisation 6.1).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Protocol

from strato.advice.histogram import CPU, MEMORY, Histogram

DAY_SECONDS: Final = 86_400.0
CPU_WEIGHT: Final = 0.1
_MIB: Final = 1 << 20
_FOREVER: Final = float("-inf")


class Samples(Protocol):
    """The part of `Histogram` that adds and removes samples."""

    def add(self, value: float, weight: float, at: float) -> None:
        """Add a sample."""

    def subtract(self, value: float, weight: float, at: float) -> None:
        """Remove a sample."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Aggregation:
    """How samples become histograms; the defaults are the original's."""

    half_life_seconds: float = DAY_SECONDS
    memory_interval_seconds: float = DAY_SECONDS
    memory_intervals: int = 8
    oom_min_bytes: float = 100 * _MIB
    """Least increase of the estimated need of a container that was killed for lack of memory."""
    oom_ratio: float = 1.2

    @property
    def kept_seconds(self) -> float:
        """How long histograms without new samples are kept."""
        return self.memory_interval_seconds * self.memory_intervals


def bumped(used_bytes: float, options: Aggregation) -> int:
    """Return the estimated need of a container that was killed at ``used_bytes``."""
    return int(max(used_bytes + options.oom_min_bytes, used_bytes * options.oom_ratio))


class UseHistograms:
    """The use of equal containers: both histograms, and the number of CPU samples in them."""

    def __init__(self, options: Aggregation) -> None:
        self.cpu = Histogram(CPU, options.half_life_seconds)
        self.memory = Histogram(MEMORY, options.half_life_seconds)
        self.first_sample = float("inf")
        self.last_sample = _FOREVER
        self.samples = 0

    def count_sample(self, at: float) -> None:
        """Count a CPU sample, which the caller has added to `cpu`."""
        self.first_sample, self.last_sample = min(self.first_sample, at), max(self.last_sample, at)
        self.samples += 1

    def confidence(self, interval_seconds: float = DAY_SECONDS) -> float:
        """Return the days that the samples span, or the days of their number at one per minute if that is less."""
        if not self.samples:
            return 0.0
        spanned = (self.last_sample - self.first_sample) / interval_seconds
        return min(spanned, self.samples / (interval_seconds / 60))


@dataclass(slots=True, kw_only=True)
class ContainerUse:
    """Adds the samples of one container to histograms; late and repeated ones are refused.

    All methods return whether the sample was taken.
    """

    cpu: Samples
    memory: Samples
    options: Aggregation = field(default_factory=Aggregation)
    _last_cpu: float = _FOREVER
    _last_memory: float = _FOREVER
    _interval_end: float | None = None
    _peak: float = 0.0
    _oom_peak: float = 0.0

    def add_cpu(self, at: float, cores: float) -> bool:
        """Add a sample of the cores used around an instant."""
        if cores < 0 or at <= self._last_cpu:
            return False
        self.cpu.add(cores, CPU_WEIGHT, at)
        self._last_cpu = at
        return True

    def add_memory(self, at: float, used_bytes: float) -> bool:
        """Add a sample of the bytes in use at an instant."""
        if used_bytes < 0 or at < self._last_memory:
            return False
        self._take(at, used_bytes, is_oom=False)
        return True

    def add_oom(self, at: float, requested_bytes: float) -> bool:
        """Add a kill for lack of memory; one that is too long ago is refused."""
        if self._interval_end is not None and at < self._interval_end - self.options.memory_interval_seconds:
            return False
        self._take(at, bumped(max(requested_bytes, self._peak), self.options), is_oom=True)
        return True

    def _take(self, at: float, used_bytes: float, *, is_oom: bool) -> None:
        self._last_memory = at
        end = self._interval_end if self._interval_end is not None else at
        if at < end:
            before = max(self._peak, self._oom_peak)
            if not before or used_bytes <= before:
                return
            self.memory.subtract(before, 1.0, end)
        else:
            interval = self.options.memory_interval_seconds
            end += ((at - end) // interval + 1) * interval
            self._peak = self._oom_peak = 0.0
        self._interval_end = end
        self.memory.add(used_bytes, 1.0, end)
        if is_oom:
            self._oom_peak = used_bytes
        else:
            self._peak = used_bytes
