"""One thing that was looked at, and what to type when it is wrong."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Status(StrEnum):
    """How bad a finding is."""

    OK = "ok"
    WARNING = "warning"
    """It works, and could do more."""
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at."""

    check: str
    """Short, stable name of the check, for scripts to compare."""
    what: str
    """What was found."""
    status: Status = Status.OK
    todo: str = ""
    """What to type, or to do; empty when there is nothing to do."""


def warning(check: str, what: str, todo: str) -> Finding:
    """Return a finding of something that works and could do more."""
    return Finding(check, what, Status.WARNING, todo)


def problem(check: str, what: str, todo: str) -> Finding:
    """Return a finding of something that is wrong."""
    return Finding(check, what, Status.PROBLEM, todo)
