"""Durations as Go writes them: ``1h30m``, ``1.5s``."""

from __future__ import annotations

import re
from typing import NamedTuple

_PART = re.compile(r"(\d++(?:\.\d*+)?|\.\d++)(h|ms|us|µs|ns|m|s)", re.ASCII)


class Parts(NamedTuple):
    """What a duration consists of.

    Attributes:
        amounts: Number and unit, in order.
        end: Where in the text they end.
    """

    amounts: list[tuple[str, str]]
    end: int


def parts_of(text: str, start: int) -> Parts:
    """Read numbers with units, from a place in a text on as long as one follows the other.

    In linear time: a search would begin anew at each digit of a long number.
    """
    amounts, at = [], start
    while (part := _PART.match(text, at)) is not None:
        amounts.append((part[1], part[2]))
        at = part.end()
    return Parts(amounts, at)
