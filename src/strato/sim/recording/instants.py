"""Reads and writes instants for users: a date, seconds since the epoch, or a time after a log's beginning."""

from __future__ import annotations

import math

from strato.clock import format_time, parse_time
from strato.errors import UsageError
from strato.units import duration_seconds


def parse_instant(text: str, begin: float) -> float:
    """Return seconds since the epoch.

    Args:
        text: ``2026-03-01T12:00:00Z``, ``1772366400.5``, or ``+90s`` after ``begin``.
        begin: The log's first instant.

    Raises:
        UsageError: The text is none of these.
    """
    try:
        if text.startswith("+"):
            return begin + duration_seconds(text[1:])
        if text[4:5] == "-":
            return parse_time(text)
        instant = float(text)
    except (ValueError, OverflowError) as error:
        raise UsageError(f"{text!r} is no instant: write 2026-03-01T12:00:00Z, +90s or seconds since 1970") from error
    if not math.isfinite(instant):
        raise UsageError(f"{text!r} is no instant")
    return instant


def show_instant(instant: float) -> str:
    """Return an instant as text for users, to the millisecond."""
    whole = math.floor(instant)
    return f"{format_time(whole).removesuffix('Z')}.{int((instant - whole) * 1000):03d}Z"
