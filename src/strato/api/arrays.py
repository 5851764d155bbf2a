"""Job arrays as Slurm writes them: ``0-99%10``, ``1,3,5-9``, ``0-40:4``. Pure.

A job array is a job whose plugin ``array`` gives every element an index. The plugin's arguments have the same syntax.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

LARGEST = 100_000
"""Most elements; each has at least one pod."""
LARGEST_INDEX = 2**31 - 1

_PART = re.compile(r"(\d+)(?:-(\d+)(?::(\d+))?)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Array:
    """The elements of an array."""

    text: str
    """The indexes as written, without the limit."""
    indexes: tuple[int, ...]
    """The indexes, ascending, each once."""
    limit: int
    """Most elements that may be active at once; 0 is no limit."""

    @property
    def step(self) -> int:
        """The distance between consecutive indexes if it is always the same, else 1."""
        steps = {after - before for before, after in zip(self.indexes, self.indexes[1:], strict=False)}
        return steps.pop() if len(steps) == 1 else 1


def parse_array(text: str) -> Array:
    """Read an array's indexes with or without a limit.

    Raises:
        ValueError: The text is invalid; the message says why.
    """
    body, percent, limit = text.replace(" ", "").partition("%")
    if percent and not (limit.isascii() and limit.isdecimal() and int(limit[:10]) > 0):
        raise ValueError(f"%{limit} is no limit; write for example 0-99%10")
    indexes: set[int] = set()
    for part in body.split(","):
        for index in _range(part):
            indexes.add(index)
            if len(indexes) > LARGEST:
                raise ValueError(f"{text!r} has more than {LARGEST} elements")
    return Array(body, tuple(sorted(indexes)), min(int(limit[:10]), LARGEST) if percent else 0)


def _range(part: str) -> range:
    found = _PART.fullmatch(part)
    if found is None:
        raise ValueError(f"{part!r} is no index and no range; write for example 0-99, 0-40:4 or 1,3,5-9")
    first, last, step = (int(number[:11]) if number is not None else None for number in found.groups())
    assert first is not None
    last = first if last is None else last
    if max(first, last) > LARGEST_INDEX:
        raise ValueError(f"{part!r}: an index is at most {LARGEST_INDEX}")
    if last < first:
        raise ValueError(f"{part!r}: the first index is above the last")
    if step == 0:
        raise ValueError(f"{part!r}: a step is at least 1")
    return range(first, last + 1, step or 1)
