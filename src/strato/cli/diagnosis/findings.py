"""The result of one check, and the command that mends what is wrong."""

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
class CheckResult:
    """The result of one check."""

    check: str
    """Short, stable name of the check, for scripts to compare."""
    what: str
    """The result in words."""
    status: Status = Status.OK
    todo: str = ""
    """The command to type, or another remedy; empty if none is needed."""


def warning(check: str, what: str, todo: str) -> CheckResult:
    """Return a finding of something that works and could do more."""
    return CheckResult(check, what, Status.WARNING, todo)


def problem(check: str, what: str, todo: str) -> CheckResult:
    """Return a finding of something that is wrong."""
    return CheckResult(check, what, Status.PROBLEM, todo)
