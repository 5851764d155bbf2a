"""What could not be read from a trace: counted by reason, the first hundred named with their places."""

from __future__ import annotations

from collections import Counter

from strato.errors import InvalidInput, Problem

_MAX_PROBLEMS = 100
_MAX_REASONS = 50
"""Kinds that are counted one by one; a hostile file can have as many as it has lines."""


class Oddities:
    """Collects what is odd about a trace.

    Args:
        strict: Whether a line that cannot be read is an error; if not, it is skipped and counted.
    """

    def __init__(self, *, strict: bool = False) -> None:
        self._strict = strict
        self._problems: list[Problem] = []
        self._more = 0
        self._reasons: Counter[str] = Counter()

    def skip(self, reason: str, count: int = 1) -> None:
        """Count entries that are passed over because nothing ran: no fault of the file."""
        known = reason in self._reasons or len(self._reasons) < _MAX_REASONS
        self._reasons[reason if known else "other reasons"] += count

    def name(self, source: str, line: int, column: str, message: str) -> None:
        """Name one thing that is odd; line 0 is the whole file. Counts nothing as skipped."""
        if len(self._problems) >= _MAX_PROBLEMS:
            self._more += 1
            return
        place = source + (f": line {line}" if line else "") + (f": {column}" if column else "")
        self._problems.append(Problem(place, message))

    @property
    def skipped(self) -> int:
        """Entries that were passed over, for all reasons."""
        return self._reasons.total()

    @property
    def reasons(self) -> dict[str, int]:
        """Why, the most frequent first."""
        return dict(self._reasons.most_common())

    @property
    def problems(self) -> tuple[Problem, ...]:
        """The first that were named."""
        if not self._more:
            return tuple(self._problems)
        source = self._problems[0].where.partition(": line ")[0]
        return (*self._problems, Problem(source, f"and {self._more} more problems"))

    def raise_any(self) -> None:
        """Raise what was named if the reading is strict.

        Raises:
            InvalidInput: All problems.
        """
        if self._strict:
            self.raise_all()

    def raise_all(self) -> None:
        """Raise what was named: the file is of no use as it is.

        Raises:
            InvalidInput: All problems.
        """
        if self._problems:
            raise InvalidInput("the trace", self.problems)
