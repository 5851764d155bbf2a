"""`LineReader` reads fields of a trace's lines as numbers, times and amounts; `Names` makes names valid."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime
from functools import lru_cache

from strato.api import names, quantity
from strato.sim.traces.oddities import Oddities
from strato.units import duration_seconds

LONGEST_NAME = 40
"""Most characters of a job's name, as names of pods are longer by task and index."""
MOST_REPLICAS = 1_000_000
"""Most pods of a job."""
MOST_SECONDS = 3.2e9
"""Largest time that is read: a hundred years, which instants since the epoch do not reach either."""
_QUEUE_CHARACTERS = 63


class LineReader:
    """Reads the fields of one line after the other, and reports fields that cannot be read.

    A reader calls `at` for each line, reads its fields, and then must drop the line if `reject` returns True.

    Args:
        source: How messages name the file.
        odd: Takes the problems and counts of skipped lines.
    """

    __slots__ = ("_first", "_odd", "number", "source")

    def __init__(self, source: str, odd: Oddities) -> None:
        self.source = source
        self._odd = odd
        self.number = 0
        """The number of the present line."""
        self._first = ""

    def at(self, number: int) -> LineReader:
        """Go on to a line."""
        self.number = number
        self._first = ""
        return self

    def note(self, column: str, message: str) -> None:
        """Report a problem of a column of the line; an empty column is the whole line."""
        self._odd.name(self.source, self.number, column, message)
        self._first = self._first or (f"odd {column}" if column else "odd line")

    def reject(self) -> bool:
        """Return whether the line has problems; if so, count it as skipped, for the reason of its first problem."""
        if self._first:
            self._odd.skip(self._first)
        return bool(self._first)

    def skip(self, reason: str) -> None:
        """Count the line as skipped because its job did not run, unless `reject` will count it."""
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
        """Return a time in seconds, read from a number of seconds or a duration (``1h30m``)."""
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
        """Return seconds since the epoch of ``2017-10-09 07:01:55``; a time without zone is in UTC."""
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
    """Return seconds since the epoch of a time in ISO 8601, which is in UTC if it names no zone; None if it is none."""
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
    """Return the requests of a pod, without amounts that are empty or 0; one CPU if none is left."""
    found = {name: amount for name, amount in amounts.items() if amount and amount != "0"}
    return found or {"cpu": "1"}


class Names:
    """Makes names of Kubernetes objects from texts of traces: equal for equal texts, different for different ones.

    Args:
        prefix: Put before names that would be empty or begin with a digit.
        longest: Most characters of a name.
    """

    def __init__(self, prefix: str, longest: int = LONGEST_NAME) -> None:
        self._prefix = prefix
        self._longest = longest
        self._of: dict[str, str] = {}
        self._taken: set[str] = set()
        self._last: dict[str, int] = {}
        """Base of a name → the last number that was added to it."""

    def of(self, text: str) -> str:
        """Return the name for a text, the same at each call."""
        known = self._of.get(text)
        if known is None:
            known = self._of[text] = self.new(text)
        return known

    def new(self, text: str) -> str:
        """Return a name like a text that no call has returned before."""
        base = self.like(text)
        name = base or self._numbered(self._prefix)
        while name in self._taken:
            name = self._numbered(base or self._prefix)
        self._taken.add(name)
        return name

    def take(self, name: str) -> bool:
        """Take a name; return whether it was free."""
        free = name not in self._taken
        self._taken.add(name)
        return free

    def _numbered(self, base: str) -> str:
        self._last[base] = number = self._last.get(base, 0 if base == self._prefix else 1) + 1
        end = f"-{number}"
        return base[: self._longest - len(end)].rstrip("-") + end

    def like(self, text: str) -> str:
        """Return a valid name like a text, taken or not; empty for a text without letters and digits."""
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
        """Return a valid name like a text, taken or not."""
        return cleaned_name(text, self._longest)

    def of(self, text: str) -> str:
        """Return the name of a text's queue; an empty text has an empty name, which is the default queue."""
        return super().of(text) if text else ""


_OTHERS = re.compile(r"[^a-z0-9]+")


def cleaned_name(text: str, longest: int) -> str:
    """Return the letters and digits of a text in lower case, with a dash in place of other characters between them."""
    return _OTHERS.sub("-", text[:256].lower()).strip("-")[:longest].rstrip("-")


def label_value(text: str) -> str:
    """Return a text as a valid value of a label, with ``-`` in place of other characters."""
    if not names.check_label_value(text):
        return text
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text[:256])[:63].strip("-_.")
