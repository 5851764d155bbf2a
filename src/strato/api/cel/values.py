"""The values of expressions besides plain JSON: quantities, semantic versions, optional values, and the errors."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from functools import total_ordering
from ipaddress import IPv4Address, IPv4Interface, IPv6Address, IPv6Interface
from typing import Any
from urllib.parse import SplitResult

from strato.api.quantity import Quantity, parse
from strato.errors import StratoError

Env = Mapping[str, Any]
Program = Callable[[Env], Any]


class UnsupportedExpression(StratoError):
    """The expression is malformed, or uses an unsupported part of CEL."""


class MalformedExpression(UnsupportedExpression):
    """The expression is no CEL at all."""


class EvaluationError(StratoError):
    """The expression failed on this value: no such key, wrong type, division by zero."""


class NoSuchKey(EvaluationError):
    """A field does not exist; ``has`` turns this error, and no other, into false."""


def quantity(number: str | float) -> Quantity:
    """Return a quantity for use in expressions.

    Raises:
        InvalidQuantity: The value is no quantity.
    """
    return parse(number)


_SEMVER = re.compile(r"(\d+)\.(\d+)\.(\d+)(?:-([0-9A-Za-z.-]+))?(?:\+[0-9A-Za-z.-]+)?", re.ASCII)


@total_ordering
class Version:
    """A semantic version; ordered by the rules of semver.org, ignoring build information."""

    __slots__ = ("before", "numbers")

    def __init__(self, numbers: tuple[int, int, int], before: str) -> None:
        self.numbers = numbers
        self.before = before

    def _key(self) -> tuple[Any, ...]:
        parts = (
            tuple((0, int(p), "") if p.isdecimal() else (1, 0, p) for p in self.before.split("."))
            if self.before
            else ()
        )
        return self.numbers, not self.before, parts

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Version) and self._key() == other._key()

    def __lt__(self, other: Version) -> bool:
        return self._key() < other._key()

    def __hash__(self) -> int:
        return hash(self._key())


def semver(text: str, *, normalize: bool = False) -> Version:
    """Read a semantic version; ``normalize`` also takes ``v1.2`` and leading zeros.

    Raises:
        ValueError: The text is no semantic version.
    """
    if normalize:
        main, dash, rest = text.removeprefix("v").partition("-")
        text = ".".join(str(int(part)) for part in [*main.split("."), "0", "0"][:3]) + dash + rest
    match = _SEMVER.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is no semantic version")
    return Version((int(match[1]), int(match[2]), int(match[3])), match[4] or "")


class Optional:
    """A value that may be missing, such as ``oldSelf`` in rules with ``optionalOldSelf``."""

    __slots__ = ("inner",)

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        """The value; None if there is none."""

    def value(self) -> Any:
        """Return the value.

        Raises:
            EvaluationError: There is no value.
        """
        if self.inner is None:
            raise EvaluationError("optional.none() dereference")
        return self.inner


NONE = Optional(None)
"""The optional without a value."""


class CelMessage(dict[str, Any]):
    """A value of a type that the expression names, such as ``Object.spec``."""

    __slots__ = ("type_name",)

    def __init__(self, type_name: str, fields: Mapping[str, Any]) -> None:
        super().__init__(fields)
        self.type_name = type_name


_NAMES: dict[type, str] = {
    bool: "bool",
    int: "int",
    float: "double",
    str: "string",
    list: "list",
    dict: "map",
    type(None): "null_type",
    Quantity: "kubernetes.Quantity",
    Version: "kubernetes.Semver",
    Optional: "optional_type",
    datetime: "google.protobuf.Timestamp",
    timedelta: "google.protobuf.Duration",
    IPv4Address: "net.IP",
    IPv6Address: "net.IP",
    IPv4Interface: "net.CIDR",
    IPv6Interface: "net.CIDR",
    SplitResult: "kubernetes.URL",
}


def type_name(value: Any) -> str:
    """Return CEL's name of the type of a value."""
    if isinstance(value, CelMessage):
        return value.type_name
    return _NAMES.get(type(value)) or ("map" if isinstance(value, Mapping) else type(value).__name__)


def no_overload(name: str, *values: Any) -> EvaluationError:
    """Return the error for an operator or function that does not accept these types."""
    return EvaluationError(f"no such overload: {name}({', '.join(type_name(value) for value in values)})")
