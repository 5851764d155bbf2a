"""Kubernetes quantities, exactly: ``100m``, ``1.5Gi``, ``12e6``.

A quantity is a decimal number and the format it was written in. Arithmetic is exact (integers in nano units, where
Kubernetes itself stops: finer input is rounded up to nano). `milli` and `value` are cached fast paths for hot code;
both round up, as ``MilliValue`` and ``Value`` do.
"""

from __future__ import annotations

import re
from enum import Enum
from functools import total_ordering
from typing import TypeAlias

from strato.errors import UsageError
from strato.lru import memoised

INT64_MAX = (1 << 63) - 1
NANO = 1_000_000_000

Number: TypeAlias = str | int | float
"""A quantity as it may stand in JSON."""

_FORM = re.compile(r"([+-]?)(?:(\d+)(?:\.(\d*))?|\.(\d+))(?:([eE])([+-]?\d+)|([KMGTPE]i|[numkMGTPE])?)", re.ASCII)
_WRONG_SUFFIX = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)[eEinumkKMGTP]+[+-]?\d*", re.ASCII)
_BYTES = ("ephemeral-storage", "hugepages-")
"""Prefixes of the names of resources, besides memory, that are measured in bytes."""
_LONGEST = 1000
"""Longest text of a quantity; parsing more digits takes more than linear time."""
_BINARY = {"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40, "Pi": 1 << 50, "Ei": 1 << 60}
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_SUFFIX_OF = {power: suffix for suffix, power in _DECIMAL.items()}

_MESSAGES = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"


class Format(Enum):
    """How a quantity is written."""

    DECIMAL_SI = "DecimalSI"
    BINARY_SI = "BinarySI"
    DECIMAL_EXPONENT = "DecimalExponent"


class InvalidQuantity(UsageError, ValueError):
    """A text is no quantity; the message is Kubernetes'."""

    def __init__(self, text: str, message: str = _MESSAGES) -> None:
        super().__init__(message)
        self.text = text


@total_ordering
class Quantity:
    """An exact amount. Immutable; equal and ordered by amount, whatever the format."""

    __slots__ = ("_nanos", "format")

    def __init__(self, nanos: int, format_: Format = Format.DECIMAL_SI) -> None:
        self._nanos = nanos
        self.format = format_

    @property
    def nanos(self) -> int:
        """The amount in billionths."""
        return self._nanos

    @property
    def value(self) -> int:
        """The amount in whole units, rounded up (away from zero), capped to int64."""
        return _cap(_round_up(self._nanos, NANO))

    @property
    def milli_value(self) -> int:
        """The amount in thousandths, rounded up (away from zero), capped to int64."""
        return _cap(_round_up(self._nanos, 1_000_000))

    @property
    def canonical(self) -> str:
        """The text Kubernetes writes: no fraction, the largest fitting suffix."""
        return _canonical(self._nanos, self.format)

    def __add__(self, other: Quantity) -> Quantity:
        return Quantity(self._nanos + other._nanos, other.format if self._nanos == 0 else self.format)

    def __sub__(self, other: Quantity) -> Quantity:
        return Quantity(self._nanos - other._nanos, other.format if self._nanos == 0 else self.format)

    def __mul__(self, factor: int) -> Quantity:
        return Quantity(self._nanos * factor, self.format)

    def __neg__(self) -> Quantity:
        return Quantity(-self._nanos, self.format)

    def __bool__(self) -> bool:
        return self._nanos != 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Quantity) and self._nanos == other._nanos

    def __lt__(self, other: Quantity) -> bool:
        return self._nanos < other._nanos

    def __hash__(self) -> int:
        return hash(self._nanos)

    def __str__(self) -> str:
        return self.canonical

    def __repr__(self) -> str:
        return f"Quantity({self.canonical!r})"


ZERO = Quantity(0)


def _round_up(amount: int, unit: int) -> int:
    return -(-amount // unit) if amount >= 0 else amount // unit


def _cap(amount: int) -> int:
    return max(-INT64_MAX, min(INT64_MAX, amount))


@memoised(8 << 20)
def _parse_text(text: str) -> Quantity:
    if text == "":
        raise InvalidQuantity(text)
    if len(text) > _LONGEST:
        raise InvalidQuantity(text[:40], "unable to parse quantity's suffix")
    match = _FORM.fullmatch(text)
    if match is None:
        raise InvalidQuantity(text, _complaint(text))
    sign, whole, fraction, bare_fraction, exponent_mark, exponent, suffix = match.groups()
    digits_after = (fraction if fraction is not None else bare_fraction) or ""
    mantissa = int((whole or "0") + digits_after)
    if suffix is not None and suffix in _BINARY:
        numerator, power, format_ = mantissa * _BINARY[suffix], -len(digits_after), Format.BINARY_SI
    elif exponent_mark:
        numerator, power, format_ = mantissa, _exponent(text, exponent) - len(digits_after), Format.DECIMAL_EXPONENT
    else:
        numerator, power, format_ = mantissa, _DECIMAL[suffix or ""] - len(digits_after), Format.DECIMAL_SI
    power += 9
    nanos = numerator * 10**power if power >= 0 else _round_up(numerator, 10**-power)
    nanos = min(nanos, INT64_MAX * NANO)
    return Quantity(-nanos if sign == "-" else nanos, format_)


def _exponent(text: str, digits: str) -> int:
    """Parse an exponent; refuses large ones, so that a hostile quantity cannot become a number of a million digits."""
    exponent = int(digits)
    if abs(exponent) > 400 or len(digits) > 5:
        raise InvalidQuantity(text, "unable to parse quantity's suffix")
    return exponent


def _complaint(text: str) -> str:
    """Return the one of Kubernetes' two messages that applies: about the form, or about the suffix."""
    if _WRONG_SUFFIX.fullmatch(text):
        return "unable to parse quantity's suffix"
    return _MESSAGES


def parse(number: Number) -> Quantity:
    """Read a quantity as it may stand in JSON.

    Raises:
        InvalidQuantity: The value is no quantity; the message is Kubernetes'.
    """
    if type(number) is str:
        return _parse_text(number)
    if isinstance(number, bool) or not isinstance(number, str | int | float):
        raise InvalidQuantity(repr(number))
    return _parse_text(repr(number) if isinstance(number, float) else str(number))


@memoised(8 << 20)
def milli(number: Number) -> int:
    """Return thousandths, rounded up: ``milli("1.5") == 1500``. Cached.

    Raises:
        InvalidQuantity: It is no quantity.
    """
    return parse(number).milli_value


@memoised(8 << 20)
def value(number: Number) -> int:
    """Return whole units, rounded up: ``value("1Ki") == 1024``. Cached.

    Raises:
        InvalidQuantity: It is no quantity.
    """
    return parse(number).value


@memoised(8 << 20)
def _canonical_text(text: str) -> str:
    return _parse_text(text).canonical


def canonical(number: Number) -> str:
    """Return the text Kubernetes would store: ``canonical("1024Mi") == "1Gi"``. Cached.

    Raises:
        InvalidQuantity: It is no quantity.
    """
    return _canonical_text(number) if type(number) is str else parse(number).canonical


def _canonical(nanos: int, format_: Format) -> str:
    if nanos == 0:
        return "0"
    sign, amount = ("-", -nanos) if nanos < 0 else ("", nanos)
    # A binary quantity below 1024 or with a fraction is written in decimal, as Kubernetes does.
    if format_ is Format.BINARY_SI and amount >= 1024 * NANO and amount % NANO == 0:
        return sign + _binary(amount // NANO)
    power, amount = -9, amount
    while power < 18 and amount % 1000 == 0:
        amount //= 1000
        power += 3
    if format_ is Format.DECIMAL_EXPONENT:
        return f"{sign}{amount}e{power}" if power else f"{sign}{amount}"
    return f"{sign}{amount}{_SUFFIX_OF[power]}"


def _binary(units: int) -> str:
    for suffix in ("Ei", "Pi", "Ti", "Gi", "Mi", "Ki"):
        size = _BINARY[suffix]
        if units % size == 0:
            return f"{units // size}{suffix}"
    return str(units)


def decimal_text(number: float) -> str:
    """Write a number with at most two decimals, without zeros at the end."""
    return f"{number:.2f}".rstrip("0").rstrip(".")


def bytes_text(count: float) -> str:
    """Write bytes in the largest binary suffix that keeps them above one: ``1Gi``, ``9.51Gi``, ``512Mi``, ``100``."""
    for suffix, size in reversed(_BINARY.items()):
        if abs(count) >= size:
            return decimal_text(count / size) + suffix
    return decimal_text(count)


def resource_text(name: str, number: Number) -> str:
    """Write an amount of a resource as people do: of memory ``1Gi``, of others ``8``, ``500m``, ``1.5``.

    Raises:
        InvalidQuantity: It is no quantity.
    """
    resource = name.removeprefix("requests.").removeprefix("limits.")
    if resource in ("memory", "storage") or resource.startswith(_BYTES):
        return bytes_text(value(number))
    amount = milli(number)
    return f"{amount}m" if abs(amount) < 1000 and amount % 1000 else decimal_text(amount / 1000)
