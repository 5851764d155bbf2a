"""Parse amounts of resources in allocation files: absolute or in percent, old style or new.

5120 mb, 2 vcores               old, absolute: both are needed, every other type becomes 0
50%      50% memory, 25% cpu    old, in percent of the cluster; with names both are needed, other types become 0 %
memory-mb=5120, vcores=2        new, absolute: whole numbers without units, by name of the type
memory-mb=40%, vcores=75%       new, in percent; unnamed types 100 %
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from strato.errors import UsageError, nearest
from strato.interop.yarn.resources import MEMORY, MOST, MOST_INT, VCORES, Amounts, ResourceTypes, times

_LONGEST = 4096
"""Characters of an amount; the longest that names 64 types has some 2,000."""

_OLD_VALUE = r"(-?\d+)(?:\.\d*)?\s*"
_OLD_PART = re.compile(r"-?(?<!\d)\d++(?:\.\d*+)?\s*+[a-z]++\s*+")
_PERCENT = r"(-?\d+(?:\.\d*)?)\s*%\s*"
_WHOLE = re.compile(r"[+-]?\d+")


class NotationError(UsageError):
    """An amount cannot be parsed; the message says what was expected, and callers put the place before it."""


@dataclass(frozen=True, slots=True)
class Limit:
    """An amount as configured: absolute, or in fractions of the cluster."""

    amounts: Amounts = ()
    fractions: tuple[float, ...] = ()
    """Fractions of the cluster, for a limit in percent; amounts are empty then."""
    unnamed: tuple[str, ...] = ()
    """Types without a value in a text that names types; their default depends on the notation."""

    @property
    def is_percent(self) -> bool:
        """Whether the limit is in percent of the cluster."""
        return bool(self.fractions)

    def on(self, cluster: Amounts) -> Amounts:
        """Return the amount on a cluster; percentages are cut to whole numbers."""
        if not self.fractions:
            return self.amounts
        return tuple(times((of,), fraction)[0] for of, fraction in zip(cluster, self.fractions, strict=True))


def unlimited(types: ResourceTypes) -> Limit:
    """Return a limit that limits nothing."""
    return Limit(types.filled(MOST))


def parse(text: str, types: ResourceTypes, missing: int = MOST) -> Limit:
    """Read an amount.

    Args:
        text: As written.
        types: The types there are.
        missing: Amount of the types that an absolute text of the new style does not name. If it exceeds 32 bits,
            unnamed vcores become -1, as in YARN.

    Raises:
        NotationError: The text has none of the notations.
    """
    if len(text) > _LONGEST:
        raise NotationError(f"an amount of {len(text)} characters; expected one like '5120 mb, 2 vcores'")
    if not text.strip():
        raise NotationError("empty; expected an amount like '5120 mb, 2 vcores', '50%' or 'memory-mb=5120, vcores=2'")
    if "=" in text:
        return _new_style(text, types, missing)
    if "%" in text:
        return _old_percent(text.lower(), types)
    return _old_absolute(text.lower(), types)


def _parts(text: str) -> list[str]:
    """Split at commas; drop empty parts at the end, as Java does."""
    parts = text.split(",")
    while parts and not parts[-1]:
        parts.pop()
    return parts


def _new_style(text: str, types: ResourceTypes, missing: int) -> Limit:
    in_percent = "%" in text
    found: dict[str, float] = {}
    for part in _parts(text):
        name, equals, value = (side.strip() for side in part.partition("="))
        if not equals or "=" in value or not value:
            raise NotationError(f"{part.strip()!r}: expected name=value, several with commas between")
        if name not in types.index:
            raise NotationError(f"{name!r} is no type of resource{nearest(name, types.names)}")
        found[name] = _percentage(value, "") if in_percent else _whole(value, name)
    unnamed = tuple(name for name in types.names if name not in found)
    if in_percent:
        return Limit(fractions=tuple(found.get(name, 1.0) for name in types.names), unnamed=unnamed)
    amounts = {name: int(value) for name, value in found.items()}
    if VCORES in unnamed and missing > MOST_INT:
        amounts[VCORES] = -1
    return Limit(types.from_mapping(amounts, missing), unnamed=unnamed)


def _whole(value: str, name: str) -> int:
    if not _WHOLE.fullmatch(value):
        raise NotationError(f"{name}={value}: expected a whole number without unit, memory in MB")
    number = int(value)
    if not 0 <= number <= MOST:
        raise NotationError(f"{name}={value}: expected a number from 0 to {MOST}")
    return number


def _old_percent(text: str, types: ResourceTypes) -> Limit:
    parts = _parts(text)
    if len(parts) == 1:
        return Limit(fractions=(_percentage(parts[0].strip(), ""),) * len(types))
    fractions = {
        MEMORY: _percentage(_part_with(parts, "memory"), "memory"),
        VCORES: _percentage(_part_with(parts, "cpu"), "cpu"),
    }
    return Limit(
        fractions=tuple(fractions.get(name, 0.0) for name in types.names),
        unnamed=tuple(name for name in types.names if name not in fractions),
    )


def _percentage(value: str, unit: str) -> float:
    found = re.fullmatch(_PERCENT + unit, value)
    if found is None:
        raise NotationError(f"{value!r}: expected a percentage like '40%{' ' + unit if unit else ''}'")
    fraction = float(found.group(1)) / 100.0
    if fraction < 0:
        raise NotationError(f"{value!r}: a percentage is not negative")
    return fraction


def _part_with(parts: list[str], unit: str) -> str:
    found = next((part.strip() for part in parts if unit in part), None)
    if found is None:
        raise NotationError(f"{unit} is missing; both memory and {'cpu' if unit != 'vcores' else 'vcores'} are needed")
    return found


def _old_absolute(text: str, types: ResourceTypes) -> Limit:
    parts = _parts(text)
    if len(parts) != 2:
        parts = _OLD_PART.findall(text)
    if len(parts) != 2:
        raise NotationError(f"{text.strip()!r}: expected '<number> mb, <number> vcores'")
    amounts = {MEMORY: _old_number(parts, "mb"), VCORES: _old_number(parts, "vcores")}
    return Limit(types.from_mapping(amounts), unnamed=tuple(name for name in types.names if name not in amounts))


def _old_number(parts: list[str], unit: str) -> int:
    found = next((part.strip() for part in parts if unit in part), None)
    if found is None:
        raise NotationError(f"{unit} is missing; expected '<number> mb, <number> vcores'")
    matched = re.match(_OLD_VALUE + unit, found)
    if matched is None:
        raise NotationError(f"{found!r}: expected one number before {unit}")
    number = int(matched.group(1))
    if not 0 <= number <= MOST_INT:
        raise NotationError(f"{found!r}: expected a number from 0 to {MOST_INT}")
    return number
