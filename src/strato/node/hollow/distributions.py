"""Distributions of durations, as annotations write them: ``lognormal mean=60 sigma=1``. Pure.

A distribution is represented by its quantile function, and a draw for a pod depends only on the pod's uid, the
container and the run (`Draws`). So neither the order of events nor a restart of the nodes changes the result.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from statistics import NormalDist
from typing import Final, Protocol

from strato.errors import UsageError, nearest
from strato.lru import memoised

_STANDARD: Final = NormalDist()
_FIRST: Final = 2.0**-54
_LAST: Final = 1 - 2.0**-53
"""Bounds of the drawn numbers: quantiles at exactly 0 or 1 may be infinite."""
_LONGEST: Final = 4096
"""Longest text of a distribution, in characters."""


class Random(Protocol):
    """The generator that draws need."""

    def random(self) -> float:
        """Return a number in [0, 1)."""


class Draws:
    """Pseudo-random numbers in (0, 1) that depend on a text alone."""

    __slots__ = ("_count", "_of")

    def __init__(self, *of: object) -> None:
        self._of = of
        self._count = 0

    def random(self) -> float:
        """Return the next number."""
        self._count += 1
        text = "\0".join(map(str, (*self._of, self._count)))
        digest = blake2b(text.encode(errors="surrogatepass"), digest_size=8).digest()
        return ((int.from_bytes(digest) >> 11) + 0.5) * 2.0**-53


class BadDistribution(UsageError, ValueError):
    """A text is not a valid distribution."""


class Distribution:
    """A distribution of times in seconds, none below zero.

    Args:
        quantile: Number in (0, 1) → seconds, rising.
        low: Least that is drawn.
        high: Most that is drawn.
    """

    __slots__ = ("_high", "_low", "_quantile", "certain")

    def __init__(self, quantile: Callable[[float], float], low: float = 0.0, high: float = math.inf) -> None:
        self._quantile, self._low, self._high = quantile, max(0.0, low), high
        least = self.quantile(_FIRST)
        self.certain: float | None = least if least == self.quantile(_LAST) else None
        """The only value that is ever drawn; None if there are several."""

    def quantile(self, part: float) -> float:
        """Return the seconds below which the fraction ``part`` of all draws stays."""
        return min(self._high, max(self._low, self._quantile(part)))

    def draw(self, random: Random) -> float:
        """Draw seconds; uses the generator only if there are several possible values."""
        if self.certain is not None:
            return self.certain
        return self.quantile(min(max(random.random(), _FIRST), _LAST))


def _constant(given: Mapping[str, float]) -> Callable[[float], float]:
    return lambda _: given["value"]


def _uniform(given: Mapping[str, float]) -> Callable[[float], float]:
    low, high = given["low"], given["high"]
    if low > high:
        raise BadDistribution(f"low={low:g} is above high={high:g}")
    return lambda part: low + part * (high - low)


def _exponential(given: Mapping[str, float]) -> Callable[[float], float]:
    return lambda part: -given["mean"] * math.log1p(-part)


def _normal(given: Mapping[str, float]) -> Callable[[float], float]:
    return lambda part: given["mean"] + given["stddev"] * _STANDARD.inv_cdf(part)


def _lognormal(given: Mapping[str, float]) -> Callable[[float], float]:
    sigma = given["sigma"]
    middle = given["median"] if "median" in given else given["mean"] * math.exp(-sigma * sigma / 2)
    return lambda part: middle * _exp(sigma * _STANDARD.inv_cdf(part))


def _weibull(given: Mapping[str, float]) -> Callable[[float], float]:
    shape = given["shape"]
    if shape <= 0:
        raise BadDistribution("shape is not above zero")
    try:
        scale = given["scale"] if "scale" in given else given["mean"] / math.gamma(1 + 1 / shape)
    except OverflowError as error:
        raise BadDistribution(f"shape={shape:g} is too small for a mean; give a scale") from error
    return lambda part: scale * _power(-math.log1p(-part), 1 / shape)


def _exp(number: float) -> float:
    return math.exp(number) if number < 700 else math.inf


def _power(base: float, exponent: float) -> float:
    try:
        return float(base**exponent)
    except OverflowError:
        return math.inf


_Quantile = Callable[[float], float]
_KINDS: Final[Mapping[str, tuple[Callable[[Mapping[str, float]], _Quantile], Sequence[frozenset[str]]]]] = {
    "constant": (_constant, [frozenset({"value"})]),
    "uniform": (_uniform, [frozenset({"low", "high"})]),
    "exponential": (_exponential, [frozenset({"mean"})]),
    "normal": (_normal, [frozenset({"mean", "stddev"})]),
    "lognormal": (_lognormal, [frozenset({"mean", "sigma"}), frozenset({"median", "sigma"})]),
    "weibull": (_weibull, [frozenset({"shape", "scale"}), frozenset({"shape", "mean"})]),
}
"""Name → maker of its quantile function, and the accepted sets of parameters; all accept ``min`` and ``max`` too."""
KINDS: Final = (*_KINDS, "empirical")


@memoised(1 << 20, _LONGEST, entry_bytes=2000)
def parse_distribution(text: str) -> Distribution:
    """Read a distribution of seconds: a number, ``inf``, ``uniform low=1 high=5``, ``empirical 1 5 30``.

    Raises:
        BadDistribution: The text is invalid; the message says why.
    """
    if len(text) > _LONGEST:
        raise BadDistribution(f"a distribution of more than {_LONGEST} characters")
    name, *rest = text.split() or [""]
    if not rest and "=" not in name and name not in KINDS:
        seconds = _number(name, text, f", and no distribution ({', '.join(KINDS)})")
        return Distribution(lambda _: seconds)
    return _named(name, rest, text)


def _named(name: str, rest: Sequence[str], text: str) -> Distribution:
    if name not in KINDS:
        raise BadDistribution(f"{name!r} is no distribution{nearest(name, KINDS)}")
    plain = [_number(part, text) for part in rest if "=" not in part]
    given = dict(_parameter(part, text) for part in rest if "=" in part)
    low, high = given.pop("min", 0.0), given.pop("max", math.inf)
    if low > high:
        raise BadDistribution(f"min={low:g} is above max={high:g}")
    if name == "empirical":
        return Distribution(_empirical(plain, given), low, high)
    if name == "constant" and len(plain) == 1 and not given:
        plain, given = [], {"value": plain[0]}
    make, choices = _KINDS[name]
    if plain or frozenset(given) not in choices:
        wants = " or ".join(" ".join(f"{one}=" for one in sorted(choice)) for choice in choices)
        raise BadDistribution(f"{text!r}: {name} takes {wants}, and min= and max=")
    return Distribution(make(given), low, high)


def _empirical(values: Sequence[float], given: Mapping[str, float]) -> Callable[[float], float]:
    if not values or given:
        raise BadDistribution("empirical takes a list of seconds, and min= and max=: empirical 1 5 5 30")
    ordered = sorted(values)
    return lambda part: ordered[min(int(part * len(ordered)), len(ordered) - 1)]


def _parameter(text: str, whole: str) -> tuple[str, float]:
    name, _, value = text.partition("=")
    return name, _number(value, whole)


def _number(text: str, whole: str, hint: str = "") -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not value >= 0 or not text.isascii():
        where = f"{whole!r}: " if whole != text else ""
        raise BadDistribution(f"{where}{text!r} is no number of seconds, 0 or more{hint}")
    return value
