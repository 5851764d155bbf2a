"""Durations and sizes between text and numbers, with the unit in every name."""

from __future__ import annotations

import re
from typing import NamedTuple

_DURATION_PART = re.compile(r"(\d++(?:\.\d*+)?|\.\d++)(ns|us|µs|μs|ms|s|m|h)", re.ASCII)
_MOST_SECONDS = (2**63 - 1) / 1e9
"""The longest duration: Go counts nanoseconds in 64 bits."""
_SECONDS_PER_UNIT = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}


class DurationParts(NamedTuple):
    """The parts of a Go duration.

    Attributes:
        amounts: Pairs of number and unit, in order.
        end: Position in the text after the last pair.
    """

    amounts: list[tuple[str, str]]
    end: int


def duration_parts(text: str, start: int) -> DurationParts:
    """Read consecutive numbers with units, from a position in a text.

    It takes linear time; a regular-expression search would start again at each digit of a long number.
    """
    amounts, at = [], start
    while (part := _DURATION_PART.match(text, at)) is not None:
        amounts.append((part[1], part[2]))
        at = part.end()
    return DurationParts(amounts, at)


def duration_seconds(text: str) -> float:
    """Read a Go duration (``1h30m``, ``250ms``, ``-2s``, ``0``) as seconds.

    Raises:
        ValueError: The text is not a duration, or is one of more than 292 years; the message names it.
    """
    signed = text.startswith(("-", "+"))
    if text[signed:] == "0":
        return 0.0
    amounts, end = duration_parts(text, int(signed))
    if not amounts or end < len(text):
        raise ValueError(f"{text!r} is not a duration; write for example 90s, 1h30m or 250ms")
    total = sum(float(number) * _SECONDS_PER_UNIT[unit] for number, unit in amounts)
    if total > _MOST_SECONDS:
        raise ValueError(f"{text!r} is longer than 292 years, the longest duration")
    return -total if text.startswith("-") else total


def format_duration(seconds: float) -> str:
    """Write seconds as Go does: ``1h30m0s``, ``1.5s``, ``250ms``, ``0s``."""
    nanos = round(abs(seconds) * 1e9)
    if nanos == 0:
        return "0s"
    sign = "-" if seconds < 0 else ""
    if nanos < 1_000_000_000:
        for unit, size in (("ms", 1_000_000), ("µs", 1_000), ("ns", 1)):
            if nanos >= size:
                return f"{sign}{_plain(nanos / size)}{unit}"
    hours, rest = divmod(nanos, 3600 * 1_000_000_000)
    minutes, rest = divmod(rest, 60 * 1_000_000_000)
    text = f"{_plain(rest / 1e9)}s"
    if hours or minutes:
        text = f"{minutes}m{text}"
    if hours:
        text = f"{hours}h{text}"
    return sign + text


def _plain(value: float) -> str:
    return f"{value:.9f}".rstrip("0").rstrip(".")


def human_duration(seconds: float) -> str:
    """Write an age the way kubectl's AGE column does (spec volcano-cli A2.3).

    Below 2 min seconds; 10 min ``XmYs``; 3 h minutes; 8 h ``XhYm``; 48 h hours; 8 d ``XdYh``; 2 y days;
    8 y ``XyYd``; then years. Parts that are zero are left out; more than a second in the future is ``<invalid>``.
    """
    if seconds < -1:
        return "<invalid>"
    total = max(0, int(seconds))
    minutes, hours, days = total // 60, total // 3600, total // 86400
    if total < 120:
        return f"{total}s"
    if minutes < 10:
        return f"{minutes}m" + (f"{total % 60}s" if total % 60 else "")
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return f"{hours}h" + (f"{minutes % 60}m" if minutes % 60 else "")
    if hours < 48:
        return f"{hours}h"
    if days < 8:
        return f"{days}d" + (f"{hours % 24}h" if hours % 24 else "")
    if days < 730:
        return f"{days}d"
    years = days // 365
    if years < 8:
        return f"{years}y" + (f"{days % 365}d" if days % 365 else "")
    return f"{years}y"


def human_bytes(count: float) -> str:
    """Write a size in the largest binary unit that keeps it above one: ``1.5 GiB``."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(count) < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"
