"""CPU demand of containers on hollow nodes: how many cores a container would use over time without any limit.

A demand is a step function. ``phases`` are a function of the container's own seconds, which stop while it gets no CPU;
``daily`` and ``trace`` are functions of the clock.
"""

from __future__ import annotations

import math
import zlib
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar, Final, Protocol

from strato.errors import nearest
from strato.units import duration_seconds

CPU_DEMAND: Final = "strato.dev/cpu-demand"
"""Pod annotation: cores that each of its containers wants on a hollow node (`read_demand`)."""
STEP_SECONDS: Final = 300.0
"""Length of the steps of ``daily``."""
SHORTEST_SECONDS: Final = 1.0
"""Shortest time between two changes of a demand, so that no pod can keep its node's process busy."""
MOST_CORES: Final = 1e6
_LONGEST_SECONDS: Final = 3.2e8
_MOST_CHARACTERS: Final = 4096
_DAY_SECONDS: Final = 86400.0
_MASK: Final = (1 << 64) - 1
_KINDS: Final = ("phases", "daily", "trace")


class InvalidDemand(ValueError):
    """A text is no valid demand."""


class Demand(Protocol):
    """The cores that a container wants, constant between two changes."""

    @property
    def follows_clock(self) -> bool:
        """Whether arguments are seconds since the epoch; else they are the container's own seconds."""

    def cores_at(self, at: float) -> float:
        """Return the cores at an instant, ≥ 0."""

    def next_change(self, at: float) -> float:
        """Return the first instant after ``at`` at which the cores may change; infinite if there is none."""


@dataclass(frozen=True, slots=True)
class Constant:
    """The same amount at all times."""

    cores: float
    follows_clock: ClassVar[bool] = False

    def cores_at(self, at: float) -> float:
        """Return the cores."""
        return self.cores

    def next_change(self, at: float) -> float:
        """Return infinity."""
        return math.inf


class Phases:
    """One amount after the other.

    Args:
        lengths: Length of each phase in seconds, > 0.
        cores: Cores of each phase.
        repeats: Whether the first phase follows the last one; else the last phase goes on.
    """

    __slots__ = ("_cores", "_ends", "_repeats")
    follows_clock: ClassVar[bool] = False

    def __init__(self, lengths: tuple[float, ...], cores: tuple[float, ...], *, repeats: bool) -> None:
        total = 0.0
        ends = []
        for length in lengths:
            total += length
            ends.append(total)
        self._ends, self._cores, self._repeats = ends, cores, repeats

    def cores_at(self, at: float) -> float:
        """Return the cores of the phase that holds ``at``."""
        _, within = self._cycle(at)
        return self._cores[min(bisect_right(self._ends, within), len(self._cores) - 1)]

    def next_change(self, at: float) -> float:
        """Return the end of the phase."""
        begin, within = self._cycle(at)
        number = bisect_right(self._ends, within)
        if number >= len(self._ends) - (not self._repeats):
            return math.inf
        return begin + self._ends[number]

    def _cycle(self, at: float) -> tuple[float, float]:
        """Return the beginning of the current cycle, and the seconds since then."""
        if not self._repeats:
            return 0.0, at
        length = self._ends[-1]
        begin = math.floor(at / length) * length
        return (begin, at - begin) if at - begin < length else (begin + length, 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Daily:
    """A curve over the day (UTC) between two amounts, in steps of five minutes with different noise."""

    low: float
    high: float
    peak_seconds: float
    """Time of the peak, in seconds after midnight."""
    noise_ratio: float = 0.0
    """Largest relative deviation of a step. Range [0, 1]."""
    key: int = 0
    """Seed of the noise."""
    follows_clock: ClassVar[bool] = True

    def cores_at(self, at: float) -> float:
        """Return the cores of the step that holds ``at``."""
        step = math.floor(at / STEP_SECONDS)
        angle = 2 * math.pi * ((step + 0.5) * STEP_SECONDS - self.peak_seconds) / _DAY_SECONDS
        cores = (self.high + self.low) / 2 + (self.high - self.low) / 2 * math.cos(angle)
        return max(0.0, cores * (1 + self.noise_ratio * _noise(self.key, step)))

    def next_change(self, at: float) -> float:
        """Return the end of the step."""
        return (math.floor(at / STEP_SECONDS) + 1) * STEP_SECONDS


@dataclass(frozen=True, slots=True)
class Samples:
    """A recorded series, which is repeated."""

    times: tuple[float, ...]
    """Time of each sample in seconds, the first 0, increasing."""
    cores: tuple[float, ...]
    """Cores from each time to the next."""
    length: float
    """Length of the whole series in seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Traced:
    """A recorded series as a function of the clock."""

    samples: Samples
    scale: float = 1.0
    offset_seconds: float = 0.0
    """How many seconds the series is ahead of the clock."""
    follows_clock: ClassVar[bool] = True

    def cores_at(self, at: float) -> float:
        """Return the cores of the sample that holds ``at``."""
        _, number = self._place(at)
        return self.samples.cores[number] * self.scale

    def next_change(self, at: float) -> float:
        """Return the time of the next sample."""
        begin, number = self._place(at)
        times = self.samples.times
        after = times[number + 1] if number + 1 < len(times) else self.samples.length
        following = begin + after
        return following if following > at else math.nextafter(at, math.inf)

    def _place(self, at: float) -> tuple[float, int]:
        """Return when the current repetition of the series began, and the index of the present sample."""
        length = self.samples.length
        ahead = at + self.offset_seconds
        begin = math.floor(ahead / length) * length
        return begin - self.offset_seconds, max(0, bisect_right(self.samples.times, ahead - begin) - 1)


Traces = Mapping[str, Mapping[str, Samples]]
"""Recorded series: by the trace's name, then by the series' name."""


def read_demand(text: str, name: str, traces: Traces | None = None) -> Demand:
    """Return a pod's demand.

    ``2.5``; ``phases 60s=1 10m=6 30s=0.5`` (the last phase goes on; ``phases repeat …`` starts again); ``daily low=1
    high=4 peak=20h noise=0.1`` (UTC); ``trace NAME series=ID scale=2 offset=6h`` (without ``series`` the pod's name
    selects one).

    Args:
        text: Text of the annotation `CPU_DEMAND`.
        name: Name of the pod, which selects noise and series.
        traces: Traces that the text may name.

    Raises:
        InvalidDemand: The text is invalid; the message says what to write.
    """
    if len(text) > _MOST_CHARACTERS:
        raise InvalidDemand(f"has {len(text)} characters; write at most {_MOST_CHARACTERS}")
    words = text.split()
    key = zlib.crc32(name.encode())
    if not words:
        raise InvalidDemand(f"is empty; write cores (2.5), or begin with {', '.join(_KINDS)}")
    if words[0] == "phases":
        return _phases(words[1:])
    if words[0] == "daily":
        return _daily(words[1:], key)
    if words[0] == "trace":
        return _traced(words[1:], key, traces or {})
    if len(words) > 1:
        raise InvalidDemand(f"{words[0]!r} is no kind of demand; write cores (2.5), or begin with {', '.join(_KINDS)}")
    return Constant(_cores(words[0]))


def read_quietly(annotations: Mapping[str, str] | None, name: str, traces: Traces | None = None) -> Demand | None:
    """Return a pod's demand; None if it has none, or an invalid one (which `demand_problem` reports)."""
    text = (annotations or {}).get(CPU_DEMAND)
    if text is None:
        return None
    try:
        return read_demand(text, name, traces)
    except InvalidDemand:
        return None


def demand_problem(annotations: Mapping[str, str] | None, name: str, traces: Traces | None = None) -> str:
    """Return what is wrong with a pod's annotation; empty when nothing is."""
    text = (annotations or {}).get(CPU_DEMAND)
    if text is None:
        return ""
    try:
        read_demand(text, name, traces)
    except InvalidDemand as error:
        return f"annotation {CPU_DEMAND} is ignored: {error}"
    return ""


def _phases(words: list[str]) -> Phases:
    repeats = words[:1] == ["repeat"]
    words = words[1:] if repeats else words
    lengths, cores = [], []
    for length, amount in _pairs(words, "60s=1 10m=6"):
        lengths.append(_seconds(length, least=SHORTEST_SECONDS))
        cores.append(_cores(amount))
    if not lengths:
        raise InvalidDemand("phases has none; write for example phases 60s=1 10m=6")
    return Phases(tuple(lengths), tuple(cores), repeats=repeats)


def _daily(words: list[str], key: int) -> Daily:
    found = _settings(words, ("low", "high", "peak", "noise"), "low=1 high=4 peak=20h")
    missing = [name for name in ("low", "high", "peak") if name not in found]
    if missing:
        raise InvalidDemand(f"daily needs {' and '.join(missing)}; write for example daily low=1 high=4 peak=20h")
    low, high = _cores(found["low"]), _cores(found["high"])
    if low > high:
        raise InvalidDemand(f"low={found['low']} is more than high={found['high']}")
    noise = _number(found.get("noise", "0"), "noise", 1.0)
    return Daily(low=low, high=high, peak_seconds=_seconds(found["peak"]), noise_ratio=noise, key=key)


def _traced(words: list[str], key: int, traces: Traces) -> Traced:
    if not words or "=" in words[0]:
        raise InvalidDemand("trace needs a name; write for example trace web scale=2")
    if words[0] not in traces:
        raise InvalidDemand(f"no trace is called {words[0]!r}{nearest(words[0], traces)}")
    series = traces[words[0]]
    found = _settings(words[1:], ("series", "scale", "offset"), "series=1019 scale=2 offset=6h")
    chosen = found.get("series", "") or sorted(series)[key % len(series)]
    if chosen not in series:
        raise InvalidDemand(f"trace {words[0]} has no series {chosen!r}{nearest(chosen, series)}")
    scale = _number(found.get("scale", "1"), "scale", MOST_CORES)
    offset = _seconds(found["offset"]) if "offset" in found else 0.0
    return Traced(samples=series[chosen], scale=scale, offset_seconds=offset)


def _pairs(words: list[str], example: str) -> Iterator[tuple[str, str]]:
    for word in words:
        name, equals, value = word.partition("=")
        if not equals:
            raise InvalidDemand(f"{word!r} has no '='; write for example {example}")
        yield name, value


def _settings(words: list[str], known: tuple[str, ...], example: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in _pairs(words, example):
        if name not in known:
            raise InvalidDemand(f"{name!r} is unknown{nearest(name, known)}")
        if name in found:
            raise InvalidDemand(f"{name} is given twice")
        found[name] = value
    return found


def _cores(text: str) -> float:
    return _number(text, "", MOST_CORES)


def _number(text: str, name: str, most: float) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value <= most:
        what = f"{name}={text}" if name else repr(text)
        raise InvalidDemand(f"{what} is no {'number' if name else 'number of cores'} from 0 to {most:g}")
    return value


def _seconds(text: str, *, least: float = 0.0) -> float:
    try:
        value = duration_seconds(text)
    except ValueError as error:
        raise InvalidDemand(str(error)) from error
    if not least <= value <= _LONGEST_SECONDS:
        raise InvalidDemand(f"{text!r} must be from {least:g} s to ten years")
    return value


def _noise(key: int, step: int) -> float:
    """Return a pseudo-random number in [-1, 1) that depends on key and step.

    Source: Steele, Lea, Flood, "Fast splittable pseudorandom number generators" (2014), the mixing function.
    """
    mixed = (key * 0x9E3779B97F4A7C15 + step * 0xD1342543DE82EF95 + 0x9E3779B97F4A7C15) & _MASK
    mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & _MASK
    return ((mixed ^ (mixed >> 31)) >> 11) / (1 << 52) - 1
