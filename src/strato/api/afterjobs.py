"""The annotation ``strato.dev/after``: which jobs a job waits for. Pure.

It is a list such as ``ok:prepare,any:clean/UID``: a condition, a job of the same namespace and optionally the job's
uid, so that a later job of the same name does not count.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Final, NamedTuple

from strato.api.volcano.batch import Job

AFTER: Final = "strato.dev/after"
"""Annotation of a job: the jobs for which it waits."""
RELEASED: Final = "strato.dev/after-released"
"""Annotation of a job that has finished waiting; it does not wait again, whatever happens to those jobs."""

NEVER_SATISFIED: Final = "DependencyNeverSatisfied"
WAITING: Final = "Dependency"
"""Values of ``status.state.reason`` of jobs that wait in vain, and of jobs that wait; the names are Slurm's."""


_MOST_JOBS = 1000
"""Most jobs for which one job may wait."""


class AwaitedState(StrEnum):
    """The state of the other job that ends the waiting."""

    START = "start"
    ANY = "any"
    OK = "ok"
    NOT_OK = "not-ok"


_WORDS = {
    AwaitedState.START: "has started",
    AwaitedState.ANY: "has ended",
    AwaitedState.OK: "has completed",
    AwaitedState.NOT_OK: "has failed",
}
_COMPLETED = "Completed"
_ENDED = frozenset({_COMPLETED, "Failed", "Terminated"})
_NOT_STARTED = frozenset({"", "Pending"})


class Dependency(NamedTuple):
    """A job for which another one waits."""

    condition: AwaitedState
    job: str
    uid: str = ""

    def __str__(self) -> str:
        return f"{self.condition}:{self.job}" + (f"/{self.uid}" if self.uid else "")


class WaitVerdict(NamedTuple):
    """Whether a job waits."""

    waits: bool
    never: bool = False
    """Whether the condition cannot be fulfilled any more."""
    message: str = ""


def parse_after(text: str) -> tuple[Dependency, ...]:
    """Read the annotation; a job without a condition must complete.

    Raises:
        ValueError: The text is invalid; the message lists all problems.
    """
    if text.count(",") >= _MOST_JOBS:
        raise ValueError(f"it names more than {_MOST_JOBS} jobs; make them one job array or a JobFlow")
    found: list[Dependency] = []
    problems: list[str] = []
    for part in text.split(","):
        condition, colon, name = part.strip().rpartition(":")
        job, _, uid = name.partition("/")
        if not job or (colon and condition not in list(AwaitedState)):
            problems.append(f"{part.strip()!r} is not {'|'.join(AwaitedState)}:JOB")
        else:
            found.append(Dependency(AwaitedState(condition or AwaitedState.OK), job, uid))
    if problems:
        raise ValueError("; ".join(problems))
    return tuple(found)


def decide(dependencies: Sequence[Dependency], find: Callable[[str], Job | None]) -> WaitVerdict:
    """Return whether a job has to wait.

    Args:
        dependencies: The jobs for which it waits.
        find: Returns the job of a name in its namespace, None when there is none.
    """
    waits: list[str] = []
    for dependency in dependencies:
        job = find(dependency.job)
        if dependency.uid and (job is None or job.metadata.uid != dependency.uid):
            if dependency.condition is AwaitedState.OK:
                return _never(dependency, "it was deleted before that")
        elif job is None:
            waits.append(f"there is a job {dependency.job}")
        else:
            phase = job.status.state.phase
            if dependency.condition in (AwaitedState.OK, AwaitedState.NOT_OK) and phase in _ENDED:
                if (phase == _COMPLETED) != (dependency.condition is AwaitedState.OK):
                    return _never(dependency, f"it is {phase}")
            elif phase in _NOT_STARTED or (dependency.condition is not AwaitedState.START and phase not in _ENDED):
                waits.append(f"job {dependency.job} {_WORDS[dependency.condition]}")
    return WaitVerdict(bool(waits), message=f"waits until {' and '.join(waits)}" if waits else "")


def _never(dependency: Dependency, why: str) -> WaitVerdict:
    message = f"was to start once job {dependency.job} {_WORDS[dependency.condition]}, but {why}"
    return WaitVerdict(waits=True, never=True, message=message)
