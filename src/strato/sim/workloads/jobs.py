"""What a workload is: jobs with their instants and sizes, whether read from a trace or drawn from a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from operator import attrgetter
from typing import Final

from strato.errors import Problem
from strato.node.shapes import NodeShape


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceJob:
    """One job of a trace: ``replicas`` equal pods that start together."""

    name: str
    """Valid as the name of a Kubernetes object, different from all others."""
    submit_seconds: float
    """After the start of the trace."""
    run_seconds: float
    """How long each pod runs, ≥ 0."""
    replicas: int = 1
    requests: Mapping[str, str] = field(default_factory=dict)
    """Of each pod, as Kubernetes quantities."""
    queue: str = ""
    """Empty is the default queue."""
    priority: int = 0
    """Higher goes first."""
    estimate_seconds: float | None = None
    """The user's estimate, where the trace has one."""
    min_replicas: int | None = None
    """Pods without which it does not start; None is all. Fewer than ``replicas``: it is elastic between them."""
    user: str = ""
    """Who submitted it, as the trace calls them; the tenant where queues say nothing."""
    application: str = ""
    """What runs, as the trace calls it: its executable, model or job type; performance models look it up."""
    after: tuple[str, ...] = ()
    """Names of jobs that must have ended well before it is submitted; its submission then counts from there."""
    deadline_seconds: float | None = None
    """When it should have ended, after the start of the trace."""
    node_selector: Mapping[str, str] = field(default_factory=dict)
    """Labels that its nodes must have."""
    annotations: Mapping[str, str] = field(default_factory=dict)
    """Of its pods: shares of devices and the like."""
    waited_seconds: float | None = None
    """How long it waited in the system that the trace was recorded on."""

    @property
    def members(self) -> int:
        """Pods that it needs to start."""
        return self.replicas if self.min_replicas is None else self.min_replicas


@dataclass(frozen=True, slots=True)
class Trace:
    """A whole trace, by submission."""

    jobs: tuple[TraceJob, ...]
    skipped: int = 0
    """Entries of a log that never ran (cancelled in the queue, no run time or processors recorded)."""
    nodes: tuple[NodeShape, ...] = ()
    """The machines it was recorded on, where its publisher names them."""
    format: str = ""
    """Of the file that it was read from, or the model that made it."""
    reasons: Mapping[str, int] = field(default_factory=dict)
    """Why entries were skipped, and how many for each reason."""
    problems: tuple[Problem, ...] = ()
    """The first lines that could not be read and what is odd about each; they are among the skipped."""


_FIELDS: Final = tuple(one.name for one in fields(TraceJob))
_values: Final = attrgetter(*_FIELDS)


def from_zero(jobs: Sequence[TraceJob]) -> tuple[TraceJob, ...]:
    """Return jobs by submission, moved so that the first is submitted at zero."""
    if not jobs:
        return ()
    first = min(job.submit_seconds for job in jobs)
    return tuple(sorted((_earlier(job, first) for job in jobs), key=_submission))


def _earlier(job: TraceJob, seconds: float) -> TraceJob:
    if seconds == 0:
        return job
    values = dict(zip(_FIELDS, _values(job), strict=True))  # half the time of `replace`, which asks one by one
    values["submit_seconds"] -= seconds
    if job.deadline_seconds is not None:
        values["deadline_seconds"] -= seconds
    return TraceJob(**values)


def _submission(job: TraceJob) -> float:
    return job.submit_seconds


def only_known(jobs: Sequence[TraceJob]) -> tuple[TraceJob, ...]:
    """Return jobs that wait for one another only, not for jobs that are not among them."""
    known = {job.name for job in jobs} if any(job.after for job in jobs) else set()
    return tuple(
        job
        if all(name in known for name in job.after)
        else replace(job, after=tuple(name for name in job.after if name in known))
        for job in jobs
    )


def in_circles(jobs: Sequence[TraceJob]) -> set[str]:
    """Return the names of jobs that wait for themselves through others, or for one that does."""
    waits = {job.name: len(job.after) for job in jobs if job.after}
    followers: dict[str, list[str]] = {}
    for job in jobs:
        for name in job.after:
            followers.setdefault(name, []).append(job.name)
    free = [name for name in followers if name not in waits]
    while free:
        for follower in followers.get(free.pop(), ()):
            waits[follower] -= 1
            if waits[follower] == 0:
                free.append(follower)
    return {name for name, count in waits.items() if count > 0}
