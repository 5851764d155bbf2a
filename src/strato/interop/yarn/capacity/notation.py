"""Parse capacities in the notations of ``capacity-scheduler.xml``.

12.5                            percent of the parent
2w                              a weight beside the siblings'
[memory=10240,vcores=12]        absolute; memory in MB, or with a unit: [memory=10Gi,vcores=12]
[memory=50%,vcores=1w]          a vector: each type in a way of its own (only with `legacy-queue-mode.enabled=false`)
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from strato.errors import UsageError, nearest
from strato.interop.yarn.capacity.arithmetic import single
from strato.interop.yarn.resources import MEMORY, MOST, VCORES, Amounts, ResourceTypes

_LONGEST = 4096
_ALIASES = {"memory": MEMORY, "mem": MEMORY, "vcore": VCORES, "cpu": VCORES}
_BINARY = {"Ki": -10, "Mi": 0, "Gi": 10, "Ti": 20, "Pi": 30}
"""Powers of two of one MB."""
_DECIMAL = {"k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15}
_ENTRY = re.compile(r"([+-]?\d+(?:\.\d+)?)\s*([A-Za-z%]*)")
_NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?[fFdD]?")


class NotationError(UsageError):
    """A capacity cannot be parsed; the message says what was expected, and callers put the place before it."""


class Unit(StrEnum):
    """The unit of a capacity."""

    PERCENT = "percent"
    WEIGHT = "weight"
    ABSOLUTE = "absolute"


@dataclass(frozen=True, slots=True)
class Part:
    """The capacity of one type of resource."""

    unit: Unit
    value: float
    """Percent, a weight, or an amount in the type's base unit."""


@dataclass(frozen=True, slots=True)
class Capacity:
    """A capacity as configured."""

    parts: tuple[Part, ...]
    """Parts, one per resource type."""
    is_vector: bool
    """Whether it was written in brackets."""

    @property
    def unit(self) -> Unit | None:
        """The unit of all types; None when they differ."""
        units = {part.unit for part in self.parts}
        return units.pop() if len(units) == 1 else None

    @property
    def fraction(self) -> float:
        """A percentage as a 32-bit fraction."""
        return single(self.parts[0].value / 100)

    @property
    def amounts(self) -> Amounts:
        """An absolute capacity."""
        return tuple(int(part.value) for part in self.parts)


def everything(types: ResourceTypes, unit: Unit, value: float) -> Capacity:
    """Return the same capacity for all types."""
    return Capacity((Part(unit, value),) * len(types), is_vector=False)


def number(text: str) -> float:
    """Parse a number as Java's Float.parseFloat does, into 32 bits.

    Raises:
        NotationError: The text is no number.
    """
    if len(text) > _LONGEST or not _NUMBER.fullmatch(text):
        raise NotationError(f"{text[:80]!r} is no number")
    return single(float(text.rstrip("fFdD")))


def parse(text: str, types: ResourceTypes) -> Capacity:
    """Read a capacity.

    Raises:
        NotationError: It cannot be read.
    """
    text = text.strip()
    if len(text) > _LONGEST:
        raise NotationError(f"has {len(text)} characters; no capacity needs more than {_LONGEST}")
    if text.startswith("["):
        return _vector(text, types)
    if text.endswith("w"):
        weight = number(text[:-1].strip())
        if weight < 0:
            raise NotationError(f"{text!r}: a weight is at least 0")
        return everything(types, Unit.WEIGHT, weight)
    return everything(types, Unit.PERCENT, number(text.removesuffix("%").strip()))


def _vector(text: str, types: ResourceTypes) -> Capacity:
    if not text.endswith("]"):
        raise NotationError(f"{text[:80]!r}: the closing ] is missing")
    parts = [Part(Unit.ABSOLUTE, 0.0)] * len(types)
    named: set[str] = set()
    for entry in filter(None, (part.strip() for part in text[1:-1].split(","))):
        written, equals, value = (part.strip() for part in entry.partition("="))
        name = _ALIASES.get(written, written)
        if not equals or not value:
            raise NotationError(f"{entry!r}: expected name=amount")
        if name not in types.index:
            known = ("memory", *types.names[1:])
            raise NotationError(
                f"{written!r} is no type of resource{nearest(written, known)}; known: {', '.join(known)}"
            )
        if name in named:
            raise NotationError(f"{written!r} is named twice")
        named.add(name)
        parts[types.index[name]] = _part(entry, value, is_memory=name == MEMORY)
    if not named:
        raise NotationError(f"{text!r} names no type of resource")
    return Capacity(tuple(parts), is_vector=True)


def _part(entry: str, value: str, *, is_memory: bool) -> Part:
    found = _ENTRY.fullmatch(value)
    if found is None:
        raise NotationError(f"{entry!r}: expected a number, with a unit, % or w at most")
    amount, unit = float(found.group(1)), found.group(2)
    if amount < 0:
        raise NotationError(f"{entry!r}: a capacity is at least 0")
    if unit == "%":
        return Part(Unit.PERCENT, amount)
    if unit == "w":
        return Part(Unit.WEIGHT, amount)
    if unit in _BINARY:
        power = _BINARY[unit] + (0 if is_memory else 20)
        amount = amount * 2.0**power
    elif unit in _DECIMAL:
        amount = amount * _DECIMAL[unit] / (2**20 if is_memory else 1)
    elif unit:
        raise NotationError(f"{entry!r}: {unit!r} is no unit; known: {', '.join((*_BINARY, *_DECIMAL))}")
    if amount > MOST:
        raise NotationError(f"{entry!r}: more than there can be")
    return Part(Unit.ABSOLUTE, float(int(amount)))
