"""Sorted, disjoint, inclusive ranges of whole numbers, such as ports."""

from __future__ import annotations

from collections.abc import Iterable

Ranges = tuple[tuple[int, int], ...]
"""Pairs of first and last number, sorted; neighbouring ranges do not touch."""


def joined(ranges: Iterable[tuple[int, int]]) -> Ranges:
    """Sort ranges and join those that touch or overlap."""
    result: list[tuple[int, int]] = []
    for begin, end in sorted(ranges):
        if result and begin <= result[-1][1] + 1:
            result[-1] = (result[-1][0], max(result[-1][1], end))
        else:
            result.append((begin, end))
    return tuple(result)


def without(ranges: Ranges, taken: Ranges) -> Ranges:
    """Return the numbers of ``ranges`` that are not in ``taken``."""
    result: list[tuple[int, int]] = []
    position = 0
    for begin, end in ranges:
        while position < len(taken) and taken[position][1] < begin:
            position += 1
        at, first = position, begin
        while at < len(taken) and taken[at][0] <= end:
            if taken[at][0] > first:
                result.append((first, taken[at][0] - 1))
            first = max(first, taken[at][1] + 1)
            at += 1
        if first <= end:
            result.append((first, end))
    return tuple(result)


def covers(ranges: Ranges, wanted: Ranges) -> bool:
    """Whether each number of ``wanted`` is in ``ranges``."""
    return not without(wanted, ranges)


def count(ranges: Ranges) -> int:
    """Return how many numbers there are."""
    return sum(end - begin + 1 for begin, end in ranges)
