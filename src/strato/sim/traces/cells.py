"""What the fields of traces say: numbers, times, amounts, and names that Kubernetes accepts."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime
from functools import lru_cache

from strato.api import names, quantity
from strato.sim.traces.oddities import Oddities
from strato.units import duration_seconds

LONGEST_NAME = 40
"""Characters of a job's name: pods add to it."""
MOST_REPLICAS = 1_000_000
"""Pods of one job."""
MOST_SECONDS = 3.2e9
"""A hundred years; instants since the epoch are below it too."""
_QUEUE_CHARACTERS = 63


class Line:
    """Reads the fields of one line after the other; what cannot be read is named, and the line is to be skipped.

    Args:
        source: What messages call the file.
        odd: Where it is named.
    """

    __slots__ = ("_first", "_odd", "number", "source")

    def __init__(self, source: str, odd: Oddities) -> None:
        self.source = source
        self._odd = odd
        self.number = 0
        """Of the line."""
        self._first = ""

    def at(self, number: int) -> Line:
        """Begin with a line."""
        self.number = number
        self._first = ""
        return self

    def note(self, column: str, message: str) -> None:
        """Name what is odd about a field; an empty name is the whole line."""
        self._odd.name(self.source, self.number, column, message)
        self._first = self._first or (f"odd {column}" if column else "odd line")

    def reject(self) -> bool:
        """Return whether anything was noted; if so the line is counted as skipped, for the first thing that was."""
        if self._first:
            self._odd.skip(self._first)
        return bool(self._first)

    def skip(self, reason: str) -> None:
        """Count the line as one of which nothing ran, unless it is rejected anyway."""
        if not self._first:
            self._odd.skip(reason)

    def number_in(self, column: str, text: str, low: float = 0.0, high: float = 1e15) -> float:
        """Return a number within bounds."""
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not low <= value <= high:
            self.note(column, f"{shown(text)} is no number from {low:g} to {high:g}" if text else "is empty")
            return low if math.isfinite(low) else 0.0
        return value

    def whole(self, column: str, text: str, low: int = 0, high: int = MOST_REPLICAS) -> int:
        """Return a whole number within bounds; ``4.0`` is one."""
        try:
            value = int(text)
        except ValueError:
            number = _float(text)
            value = int(number) if abs(number) < 1e15 and number.is_integer() else low - 1
        if not low <= value <= high:
            self.note(column, f"{shown(text)} is no whole number from {low} to {high}" if text else "is empty")
            return low
        return value

    def seconds(self, column: str, text: str) -> float:
        """Return seconds, given as such or as a duration (``1h30m``)."""
        value = _float(text)
        if value != value:
            try:
                value = duration_seconds(text)
            except ValueError:
                value = math.nan
        if not 0 <= value <= MOST_SECONDS:
            what = f"{shown(text)} is no time" if text else "is empty"
            self.note(column, f"{what}; write seconds (90) or a duration (1m30s), not negative")
            return 0.0
        return value

    def instant(self, column: str, text: str) -> float:
        """Return seconds since the epoch of ``2017-10-09 07:01:55``; a time without zone is taken as UTC's."""
        value = instant_seconds(text)
        if value is None:
            self.note(column, f"{shown(text)} is no time such as 2017-10-09 07:01:55" if text else "is empty")
            return 0.0
        return value


def _float(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def shown(text: str) -> str:
    """Quote a field in a message, cut when it is long."""
    return repr(text if len(text) <= 60 else f"{text[:60]}…")


def instant_seconds(text: str) -> float | None:
    """Return seconds since the epoch of a date and time in ISO 8601; None when it is none. Without a zone it is UTC."""
    try:
        read = datetime.fromisoformat(text)
        return (read if read.tzinfo is not None else read.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None


@lru_cache(1 << 16)
def cores(number: float) -> str:
    """Return CPUs as a quantity, in thousandths rounded up; empty for none."""
    milli = math.ceil(round(number * 1000, 6))
    return "" if milli <= 0 else str(milli // 1000) if milli % 1000 == 0 else f"{milli}m"


@lru_cache(1 << 16)
def memory(number_bytes: float) -> str:
    """Return bytes as a quantity, in KiB rounded up; empty for none."""
    kib = math.ceil(round(number_bytes / 1024, 6))
    return "" if kib <= 0 else quantity.canonical(f"{kib}Ki")


def requests_of(**amounts: str) -> dict[str, str]:
    """Return what a pod requests of those amounts that are there; one CPU where none is."""
    found = {name: amount for name, amount in amounts.items() if amount and amount != "0"}
    return found or {"cpu": "1"}


class Names:
    """Makes names of Kubernetes objects of what traces call things: equal for equal texts, different for others.

    Args:
        prefix: Of names that would be empty or begin with a digit.
        longest: Characters.
    """

    def __init__(self, prefix: str, longest: int = LONGEST_NAME) -> None:
        self._prefix = prefix
        self._longest = longest
        self._of: dict[str, str] = {}
        self._taken: set[str] = set()
        self._last: dict[str, int] = {}
        """The last number that a name was given."""

    def of(self, text: str) -> str:
        """Return the name of a text, the same each time."""
        known = self._of.get(text)
        if known is None:
            known = self._of[text] = self.new(text)
        return known

    def new(self, text: str) -> str:
        """Return a name like a text that was not given out before."""
        base = self.like(text)
        name = base or self._numbered(self._prefix)
        while name in self._taken:
            name = self._numbered(base or self._prefix)
        self._taken.add(name)
        return name

    def take(self, name: str) -> bool:
        """Return whether a name was free, and keep it."""
        free = name not in self._taken
        self._taken.add(name)
        return free

    def _numbered(self, base: str) -> str:
        self._last[base] = number = self._last.get(base, 0 if base == self._prefix else 1) + 1
        end = f"-{number}"
        return base[: self._longest - len(end)].rstrip("-") + end

    def like(self, text: str) -> str:
        """Return a name like a text, given out or not; empty for one without letters and digits."""
        cleaned = cleaned_name(text, self._longest)
        if not cleaned:
            return ""
        if cleaned[0].isalpha():
            return cleaned
        return f"{self._prefix}-{cleaned}"[: self._longest].rstrip("-")


class QueueNames(Names):
    """Names of queues, which may begin with a digit."""

    def __init__(self) -> None:
        super().__init__("queue", _QUEUE_CHARACTERS)

    def like(self, text: str) -> str:
        """Return a name like a text, given out or not."""
        return cleaned_name(text, self._longest)

    def of(self, text: str) -> str:
        """Return the queue's name; no text is the default queue."""
        return super().of(text) if text else ""


_OTHERS = re.compile(r"[^a-z0-9]+")


def cleaned_name(text: str, longest: int) -> str:
    """Return the letters and digits of a text in lower case, with a dash for all between them."""
    return _OTHERS.sub("-", text[:256].lower()).strip("-")[:longest].rstrip("-")


def label_value(text: str) -> str:
    """Return a text as the value of a label: letters, digits, ``-``, ``_`` and ``.``."""
    if not names.check_label_value(text):
        return text
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text[:256])[:63].strip("-_.")
