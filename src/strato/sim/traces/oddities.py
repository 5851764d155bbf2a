"""`Oddities`: collects what could not be read of a trace: counts by reason, and the first hundred problems in full."""

from __future__ import annotations

from collections import Counter

from strato.errors import InvalidInput, Problem

_MAX_PROBLEMS = 100
_MAX_REASONS = 50
"""Most reasons that are counted separately; a hostile file could have a different one in each line."""


class Oddities:
    """Counts of skipped entries by reason, and problems with their places.

    Args:
        strict: Whether a line that cannot be read is an error of the reading; else it is only skipped and counted.
    """

    def __init__(self, *, strict: bool = False) -> None:
        self._strict = strict
        self._problems: list[Problem] = []
        self._more = 0
        self._reasons: Counter[str] = Counter()

    def skip(self, reason: str, count: int = 1) -> None:
        """Count skipped entries of the trace; this alone is no problem, as jobs that did not run are skipped too."""
        known = reason in self._reasons or len(self._reasons) < _MAX_REASONS
        self._reasons[reason if known else "other reasons"] += count

    def name(self, source: str, line: int, column: str, message: str) -> None:
        """Add a problem; line 0 is the whole file. The line must be counted as skipped by `skip`."""
        if len(self._problems) >= _MAX_PROBLEMS:
            self._more += 1
            return
        place = source + (f": line {line}" if line else "") + (f": {column}" if column else "")
        self._problems.append(Problem(place, message))

    @property
    def skipped(self) -> int:
        """Number of skipped entries."""
        return self._reasons.total()

    @property
    def reasons(self) -> dict[str, int]:
        """Reason → number of entries skipped for it, the most frequent first."""
        return dict(self._reasons.most_common())

    @property
    def problems(self) -> tuple[Problem, ...]:
        """The first problems, and the number of further ones."""
        if not self._more:
            return tuple(self._problems)
        source = self._problems[0].where.partition(": line ")[0]
        return (*self._problems, Problem(source, f"and {self._more} more problems"))

    def raise_any(self) -> None:
        """Raise the problems if the reading is strict and there are any.

        Raises:
            InvalidInput: The problems.
        """
        if self._strict:
            self.raise_all()

    def raise_all(self) -> None:
        """Raise the problems, if there are any, also in a reading that is not strict.

        Raises:
            InvalidInput: The problems.
        """
        if self._problems:
            raise InvalidInput("the trace", self.problems)
