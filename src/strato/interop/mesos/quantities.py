"""Amounts by resource name, in thousandths of the resource's unit, for shares, quotas and minimums."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import ROUND_HALF_UP, Decimal

Quantities = Mapping[str, int]
"""Thousandths by name. A missing name means 0, or no limit in limits."""

LARGEST_MILLIS = 2**63 - 1
"""Larger amounts are refused: Mesos keeps thousandths in 64 bits."""


def to_millis(value: float | str | Decimal) -> int:
    """Return a scalar in thousandths, half rounded up.

    Raises:
        ValueError: It is not a number, negative, infinite or too large; the message says which.
    """
    try:
        exact = Decimal(repr(value) if isinstance(value, float) else value)
    except ArithmeticError:
        raise ValueError(f"{value!r} is not a number") from None
    if not exact.is_finite():
        raise ValueError(f"{value} is not a finite number")
    if exact < 0:
        raise ValueError(f"{value} is negative")
    if exact > LARGEST_MILLIS // 1000:
        raise ValueError(f"{value} is more than {LARGEST_MILLIS // 1000}")
    return int((exact * 1000).to_integral_value(ROUND_HALF_UP))


def from_millis(millis: int) -> float:
    """Return a scalar in its own unit: a whole number where it is one."""
    return millis // 1000 if millis % 1000 == 0 else millis / 1000


def covers(had: Quantities, wanted: Quantities) -> bool:
    """Whether ``had`` has at least the wanted amount of every name."""
    for name, millis in wanted.items():  # noqa: SIM110 - the loop takes half the time of all()
        if had.get(name, 0) < millis:
            return False
    return True


def total(*parts: Quantities) -> dict[str, int]:
    """Return the sum by name."""
    result: dict[str, int] = {}
    for part in parts:
        for name, millis in part.items():
            result[name] = result.get(name, 0) + millis
    return result
