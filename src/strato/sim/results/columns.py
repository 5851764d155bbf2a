"""`RunColumns`: arrays that all reports of a run need: requests, queues and users by number, waits, slowdowns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from strato.api import quantity
from strato.sim.results.record import Ending, RunRecord
from strato.sim.traces import TraceJob

DEFAULT_QUEUE: Final = "default"
"""Queue of jobs that name none."""
SLOWDOWN_FLOOR_SECONDS: Final = 10.0
"""The bounded slowdown counts shorter jobs as this long; the usual bound (Feitelson)."""

Floats = NDArray[np.float64]
Numbers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class JobGroups:
    """Jobs grouped by a name, such as that of their queue or user."""

    names: tuple[str, ...]
    """The different names, sorted."""
    of_job: NDArray[np.int32]
    """Per job, the index of its name in ``names``."""

    @classmethod
    def by(cls, jobs: Sequence[TraceJob], name_of: Callable[[TraceJob], str]) -> JobGroups:
        """Group jobs by the name that a function returns."""
        called = [name_of(job) for job in jobs]
        names = tuple(sorted(set(called)))
        number = {name: i for i, name in enumerate(names)}
        return cls(names, np.array([number[name] for name in called], np.int32))

    def rows(self, number: int) -> NDArray[np.intp]:
        """Return the rows of the jobs of the name with an index."""
        return np.flatnonzero(self.of_job == number)


class RunColumns:
    """A run's record, and arrays computed from it; each is computed once, when it is first needed."""

    def __init__(self, record: RunRecord) -> None:
        self.record = record

    @cached_property
    def submit_seconds(self) -> Floats:
        """Per job, when it was submitted: a job that comes after others not before the last of these has ended."""
        jobs = self.record.jobs
        found = np.array([job.submit_seconds for job in jobs], np.float64)
        if any(job.after for job in jobs):
            row = {job.name: i for i, job in enumerate(jobs)}
            for i, job in enumerate(jobs):
                ends = [float(self.record.finish_seconds[row[name]]) for name in job.after if name in row]
                found[i] = max([float(found[i]), *(end for end in ends if not np.isnan(end))])
        return found

    @cached_property
    def replicas(self) -> Numbers:
        """Per job, its number of pods."""
        return np.array([job.replicas for job in self.record.jobs], np.int64)

    @cached_property
    def queues(self) -> JobGroups:
        """Jobs by queue."""
        return JobGroups.by(self.record.jobs, lambda job: job.queue or DEFAULT_QUEUE)

    @cached_property
    def tenants(self) -> JobGroups:
        """Jobs by user if the trace names users, else by queue."""
        if any(job.user for job in self.record.jobs):
            return JobGroups.by(self.record.jobs, lambda job: job.user or job.queue or DEFAULT_QUEUE)
        return self.queues

    @cached_property
    def requests(self) -> Mapping[str, Numbers]:
        """Resource → what each pod of each job requests: cpu in millicores, everything else in units."""
        kinds: dict[tuple[tuple[str, str], ...], int] = {}
        of_job = np.array([kinds.setdefault(_key(job.requests), len(kinds)) for job in self.record.jobs], np.intp)
        names = sorted({name for kind in kinds for name, _ in kind})
        amounts = [{name: amount_of(name, text) for name, text in kind} for kind in kinds]
        return {name: np.array([kind.get(name, 0) for kind in amounts], np.int64)[of_job] for name in names}

    @cached_property
    def capacity(self) -> dict[str, int]:
        """Resource → capacity of all nodes together."""
        return {name: int(amounts.sum()) for name, amounts in sorted(self.record.nodes.capacity.items())}

    @cached_property
    def resources(self) -> tuple[str, ...]:
        """Resources that at least one node has and at least one job requests, cpu and memory first."""
        wanted = [name for name, amounts in self.requests.items() if self.capacity.get(name, 0) > 0 and amounts.any()]
        return tuple(sorted((name for name in wanted if name != "pods"), key=_resource_order))

    @cached_property
    def wait_seconds(self) -> Floats:
        """Per job, seconds from submission to start; NaN if it never started."""
        return self.record.start_seconds - self.submit_seconds

    @cached_property
    def run_seconds(self) -> Floats:
        """Per job, seconds from start to end; NaN if it did not start or end."""
        return self.record.finish_seconds - self.record.start_seconds

    @cached_property
    def slowdown(self) -> Floats:
        """Per job, the bounded slowdown; NaN if it has not ended."""
        whole = self.wait_seconds + self.run_seconds
        return np.maximum(1.0, whole / np.maximum(self.run_seconds, SLOWDOWN_FLOOR_SECONDS))

    @cached_property
    def has_ended(self) -> NDArray[np.bool_]:
        """Per interval, whether its pod ended before the end of the run."""
        return np.asarray(self.record.interval_ending != Ending.RUNS)

    @cached_property
    def makespan_seconds(self) -> float:
        """From the first submission to the last end or beginning of a pod."""
        ends = self.record.interval_end[self.has_ended]
        instants = np.concatenate([self.record.interval_begin, ends, [0.0]])
        return float(instants.max())

    def interval_amounts(self, resource: str) -> Floats:
        """Return per interval what its pod requests of a resource."""
        amounts = self.requests.get(resource)
        if amounts is None:
            return np.zeros(len(self.record.interval_job))
        return amounts[self.record.interval_job].astype(np.float64)

    @cached_property
    def dominant_ratio(self) -> Floats:
        """Per job, the dominant share that all its pods together request: the largest part of a resource's capacity."""
        found = np.zeros(len(self.record.jobs))
        for name in self.resources:
            found = np.maximum(found, self.requests[name] * self.replicas / self.capacity[name])
        return found


def amount_of(resource: str, text: str) -> int:
    """Return a quantity as a number: cpu in millicores, everything else in units."""
    return quantity.milli(text) if resource == "cpu" else quantity.value(text)


def _key(requests: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(requests.items()))


def _resource_order(name: str) -> tuple[int, str]:
    first = ("cpu", "memory")
    return (first.index(name), "") if name in first else (len(first), name)
