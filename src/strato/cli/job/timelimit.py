"""Time limits as Slurm writes them, and as Go does: 30, 1:00:00, 1-00:00:00, 90m."""

from __future__ import annotations

import math
import re

from strato.units import duration_seconds

_SLURM = re.compile(
    r"(?:(?P<days>\d{1,6})-)?(?P<first>\d{1,9})(?::(?P<second>\d{1,9}))?(?::(?P<third>\d{1,9}))?", re.ASCII
)
_UNLIMITED = frozenset({"0", "-1", "infinite", "unlimited"})
_LARGEST = 2**31 - 1
"""Largest value of ``activeDeadlineSeconds``."""


def parse_time_limit(text: str) -> int | None:
    """Return the seconds of a time limit, None for no limit.

    A bare number is minutes, two are minutes and seconds, three hours, minutes and seconds; after days they are hours,
    hours and minutes, or all three.

    Raises:
        ValueError: The text is no time limit.
    """
    if text.lower() in _UNLIMITED:
        return None
    found = _SLURM.fullmatch(text)
    if found is not None:
        numbers = [int(number) for number in found.group("first", "second", "third") if number is not None]
        if found["days"] is not None:
            hours, minutes, seconds = (*numbers, 0, 0)[:3]
            hours += 24 * int(found["days"])
        else:
            hours, minutes, seconds = {1: (0, *numbers, 0), 2: (0, *numbers), 3: tuple(numbers)}[len(numbers)]
        total = 3600 * hours + 60 * minutes + seconds
    else:
        try:
            total = math.ceil(duration_seconds(text))
        except (ValueError, OverflowError):
            total = 0
    if not 0 < total <= _LARGEST:
        raise ValueError(f"{text!r} is no time limit; write for example 30 (minutes), 1:30:00, 2-12:00:00 or 90m")
    return total
