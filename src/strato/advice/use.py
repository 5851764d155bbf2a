"""What is kept of the use of containers: of each the newest CPU sample and memory peak, of equal ones histograms.

CPU is a sample a minute. Memory counts once an aggregation interval with its peak: a larger sample of the same interval
takes the place of the one before. A container killed for lack of memory used more than was measured, so it counts as
having needed a little more than its request or its peak.

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
    """Takes samples: a `Histogram`."""

    def add(self, value: float, weight: float, at: float) -> None:
        """Add a sample."""

    def subtract(self, value: float, weight: float, at: float) -> None:
        """Take one back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Aggregation:
    """How samples become histograms; the defaults are the original's."""

    half_life_seconds: float = DAY_SECONDS
    memory_interval_seconds: float = DAY_SECONDS
    memory_intervals: int = 8
    oom_min_bytes: float = 100 * _MIB
    """What a container that was killed gets more at least."""
    oom_ratio: float = 1.2

    @property
    def kept_seconds(self) -> float:
        """How long histograms without new samples are kept."""
        return self.memory_interval_seconds * self.memory_intervals


def bumped(used_bytes: float, options: Aggregation) -> int:
    """Return what a container needs that was killed at ``used_bytes``."""
    return int(max(used_bytes + options.oom_min_bytes, used_bytes * options.oom_ratio))


class UseHistograms:
    """The use of equal containers: both histograms, and how many CPU samples they are made of."""

    def __init__(self, options: Aggregation) -> None:
        self.cpu = Histogram(CPU, options.half_life_seconds)
        self.memory = Histogram(MEMORY, options.half_life_seconds)
        self.first_sample = float("inf")
        self.last_sample = _FOREVER
        self.samples = 0

    def count_sample(self, at: float) -> None:
        """Note a CPU sample, which `cpu` has got."""
        self.first_sample, self.last_sample = min(self.first_sample, at), max(self.last_sample, at)
        self.samples += 1

    def confidence(self, interval_seconds: float = DAY_SECONDS) -> float:
        """Return the days that samples span, or would take at one a minute if that is less."""
        if not self.samples:
            return 0.0
        spanned = (self.last_sample - self.first_sample) / interval_seconds
        return min(spanned, self.samples / (interval_seconds / 60))


@dataclass(slots=True, kw_only=True)
class ContainerUse:
    """Turns the samples of one container into those of histograms; late and doubled ones are refused.

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
        """Take the cores used around an instant."""
        if cores < 0 or at <= self._last_cpu:
            return False
        self.cpu.add(cores, CPU_WEIGHT, at)
        self._last_cpu = at
        return True

    def add_memory(self, at: float, used_bytes: float) -> bool:
        """Take the bytes in use at an instant."""
        if used_bytes < 0 or at < self._last_memory:
            return False
        self._take(at, used_bytes, is_oom=False)
        return True

    def add_oom(self, at: float, requested_bytes: float) -> bool:
        """Take that the container was killed for lack of memory; what was long ago says nothing any more."""
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
