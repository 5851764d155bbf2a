"""`Trace` and `TraceJob`: a workload as jobs with instants and sizes, read from a trace or drawn from a model."""

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
    """Its name, valid for a Kubernetes object and unique in the trace."""
    submit_seconds: float
    """When it is submitted, after the start of the trace."""
    run_seconds: float
    """How long each pod runs, ≥ 0."""
    replicas: int = 1
    requests: Mapping[str, str] = field(default_factory=dict)
    """Requests of each pod, as Kubernetes quantities."""
    queue: str = ""
    """Name of its queue; empty is the default queue."""
    priority: int = 0
    """Jobs of higher priority go first."""
    estimate_seconds: float | None = None
    """The user's estimate of the run time, if the trace has one."""
    min_replicas: int | None = None
    """Least number of pods with which it starts; None is all. With fewer than ``replicas`` the job is elastic."""
    user: str = ""
    """The trace's name for the user who submitted it; reports take users as tenants."""
    application: str = ""
    """The trace's name for what runs (executable, model, job type), by which performance models know the job."""
    after: tuple[str, ...] = ()
    """Names of jobs that must have succeeded before it is submitted; it waits from the end of the last of them on."""
    deadline_seconds: float | None = None
    """When it should have ended, after the start of the trace."""
    node_selector: Mapping[str, str] = field(default_factory=dict)
    """Labels that its nodes must have."""
    annotations: Mapping[str, str] = field(default_factory=dict)
    """Annotations of its pods, for example for shares of devices."""
    waited_seconds: float | None = None
    """How long it waited in the system that the trace was recorded on."""

    @property
    def members(self) -> int:
        """Number of pods that it needs to start."""
        return self.replicas if self.min_replicas is None else self.min_replicas


@dataclass(frozen=True, slots=True)
class Trace:
    """The jobs of a trace, in the order of submission, and what is known of the trace."""

    jobs: tuple[TraceJob, ...]
    skipped: int = 0
    """Number of entries that are no jobs here: they never ran (were cancelled, say) or cannot be read."""
    nodes: tuple[NodeShape, ...] = ()
    """The machines that it was recorded on, if its publisher names them."""
    format: str = ""
    """Name of the format of its file, or of the model that generated it."""
    reasons: Mapping[str, int] = field(default_factory=dict)
    """Reason → number of entries skipped for it."""
    problems: tuple[Problem, ...] = ()
    """The problems of the first lines that cannot be read; these lines are counted in ``skipped``."""


_FIELDS: Final = tuple(one.name for one in fields(TraceJob))
_values: Final = attrgetter(*_FIELDS)


def from_zero(jobs: Sequence[TraceJob]) -> tuple[TraceJob, ...]:
    """Return jobs in the order of submission, with times moved so that the first is submitted at zero."""
    if not jobs:
        return ()
    first = min(job.submit_seconds for job in jobs)
    return tuple(sorted((_earlier(job, first) for job in jobs), key=_submission))


def _earlier(job: TraceJob, seconds: float) -> TraceJob:
    if seconds == 0:
        return job
    values = dict(zip(_FIELDS, _values(job), strict=True))  # takes half the time of `dataclasses.replace`
    values["submit_seconds"] -= seconds
    if job.deadline_seconds is not None:
        values["deadline_seconds"] -= seconds
    return TraceJob(**values)


def _submission(job: TraceJob) -> float:
    return job.submit_seconds


def only_known(jobs: Sequence[TraceJob]) -> tuple[TraceJob, ...]:
    """Return jobs without dependencies on jobs that are not among them."""
    known = {job.name for job in jobs} if any(job.after for job in jobs) else set()
    return tuple(
        job
        if all(name in known for name in job.after)
        else replace(job, after=tuple(name for name in job.after if name in known))
        for job in jobs
    )


def in_cycles(jobs: Sequence[TraceJob]) -> set[str]:
    """Return the names of jobs that are on a cycle of dependencies, or depend on a job that is."""
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
