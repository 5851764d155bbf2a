"""The annotation ``strato.dev/after``: which jobs a job waits for. Pure.

It is a list such as ``ok:prepare,any:clean/UID``: a condition, a job of the same namespace and, so that another job of
that name is not taken for it, the job's uid.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Final, NamedTuple

from strato.api.volcano.batch import Job

AFTER: Final = "strato.dev/after"
"""On a job: what it waits for."""
RELEASED: Final = "strato.dev/after-released"
"""On the same job once it has waited; whatever becomes of those jobs then, it does not wait again."""

NEVER_SATISFIED: Final = "DependencyNeverSatisfied"
WAITING: Final = "Dependency"
"""Values of ``status.state.reason``, those that Slurm shows."""


_MOST_JOBS = 1000
"""That one job waits for."""


class Condition(StrEnum):
    """What must have become of the other job."""

    START = "start"
    ANY = "any"
    OK = "ok"
    NOT_OK = "not-ok"


_WORDS = {
    Condition.START: "has started",
    Condition.ANY: "has ended",
    Condition.OK: "has completed",
    Condition.NOT_OK: "has failed",
}
_COMPLETED = "Completed"
_ENDED = frozenset({_COMPLETED, "Failed", "Terminated"})
_NOT_STARTED = frozenset({"", "Pending"})


class Dependency(NamedTuple):
    """One job that is waited for."""

    condition: Condition
    job: str
    uid: str = ""

    def __str__(self) -> str:
        return f"{self.condition}:{self.job}" + (f"/{self.uid}" if self.uid else "")


class Verdict(NamedTuple):
    """Whether a job waits."""

    waits: bool
    never: bool = False
    """What it waits for cannot happen any more."""
    message: str = ""


def parse_after(text: str) -> tuple[Dependency, ...]:
    """Read the annotation; a job without a condition must complete.

    Raises:
        ValueError: Says everything that is wrong.
    """
    if text.count(",") >= _MOST_JOBS:
        raise ValueError(f"it names more than {_MOST_JOBS} jobs; make them one job array or a JobFlow")
    found: list[Dependency] = []
    problems: list[str] = []
    for part in text.split(","):
        condition, colon, name = part.strip().rpartition(":")
        job, _, uid = name.partition("/")
        if not job or (colon and condition not in list(Condition)):
            problems.append(f"{part.strip()!r} is not {'|'.join(Condition)}:JOB")
        else:
            found.append(Dependency(Condition(condition or Condition.OK), job, uid))
    if problems:
        raise ValueError("; ".join(problems))
    return tuple(found)


def decide(dependencies: Sequence[Dependency], find: Callable[[str], Job | None]) -> Verdict:
    """Say whether a job waits.

    Args:
        dependencies: What it waits for.
        find: Returns the job of a name in its namespace, None when there is none.
    """
    waits: list[str] = []
    for dependency in dependencies:
        job = find(dependency.job)
        if dependency.uid and (job is None or job.metadata.uid != dependency.uid):
            if dependency.condition is Condition.OK:
                return _never(dependency, "it was deleted before that")
        elif job is None:
            waits.append(f"there is a job {dependency.job}")
        else:
            phase = job.status.state.phase
            if dependency.condition in (Condition.OK, Condition.NOT_OK) and phase in _ENDED:
                if (phase == _COMPLETED) != (dependency.condition is Condition.OK):
                    return _never(dependency, f"it is {phase}")
            elif phase in _NOT_STARTED or (dependency.condition is not Condition.START and phase not in _ENDED):
                waits.append(f"job {dependency.job} {_WORDS[dependency.condition]}")
    return Verdict(bool(waits), message=f"waits until {' and '.join(waits)}" if waits else "")


def _never(dependency: Dependency, why: str) -> Verdict:
    message = f"was to start once job {dependency.job} {_WORDS[dependency.condition]}, but {why}"
    return Verdict(waits=True, never=True, message=message)
