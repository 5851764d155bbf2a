"""`RunRecord`: when and where each pod of a simulated run ran, in columns; the source of all reports and pictures.

Both fidelities of the simulator fill it through a `RunRecorder`: the one with every API object from its informer's
pods, the one of decisions only from its own events. So equal decisions give equal records.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

import numpy as np
from numpy.typing import NDArray

from strato.sim.traces import TraceJob

NEVER: Final = np.nan
"""In place of the instant of an event that did not happen."""


class Ending(IntEnum):
    """Why a pod no longer runs."""

    RUNS = 0
    """The pod still ran when the run ended."""
    SUCCEEDED = 1
    FAILED = 2
    EVICTED = 3
    """The scheduler evicted it: by preemption, reclaim or rescheduling."""
    LOST = 4
    """Its node failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeColumns:
    """The nodes of a run, row by row."""

    names: tuple[str, ...]
    capacity: Mapping[str, NDArray[np.int64]]
    """Resource → allocatable amount per row: cpu in millicores, everything else in units."""
    labels: tuple[Mapping[str, str], ...] = ()
    """Labels per row; empty if no node has any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """One run. Instants are virtual seconds after the start of the trace."""

    jobs: tuple[TraceJob, ...]
    nodes: NodeColumns
    start_seconds: NDArray[np.float64]
    """Per job, when it first had its minimum number of running pods; `NEVER` if it had not."""
    finish_seconds: NDArray[np.float64]
    """Per job, when its last pod ended; `NEVER` if not all have."""
    failed: NDArray[np.bool_]
    """Per job, whether a pod of it has failed."""
    interval_job: NDArray[np.int32]
    """Row of the pod's job. There is an interval for each time that a pod ran, in the order of the beginnings."""
    interval_pod: NDArray[np.int32]
    """Index of the pod in its job, from 0."""
    interval_node: NDArray[np.int32]
    """Row of the pod's node."""
    interval_begin: NDArray[np.float64]
    interval_end: NDArray[np.float64]
    """When the pod ended; `end_seconds` if it still ran."""
    interval_ending: NDArray[np.int8]
    """Why the pod ended, as an `Ending`."""
    interval_for: NDArray[np.int32]
    """Row of the job for which the pod was evicted; -1 if it was not, or the job is not known."""
    end_seconds: float
    """When the run ended."""
    reasons: Mapping[int, str] = field(default_factory=dict)
    """Row of a job that never started → the reason that the scheduler gives."""


class RunRecorder:
    """Collects the beginnings and ends of pods during a run; `record` returns its record."""

    def __init__(self, jobs: Sequence[TraceJob], nodes: NodeColumns) -> None:
        self._jobs = tuple(jobs)
        self._nodes = nodes
        self._start = np.full(len(jobs), NEVER)
        self._finish = np.full(len(jobs), NEVER)
        self._failed = np.zeros(len(jobs), bool)
        self._begun = np.zeros(len(jobs), np.int32)
        self._ended = np.zeros(len(jobs), np.int32)
        self._interval_job, self._interval_pod, self._interval_node = array("i"), array("i"), array("i")
        self._interval_begin, self._interval_end = array("d"), array("d")
        self._interval_ending, self._interval_for = array("b"), array("i")
        self._open: dict[tuple[int, int], int] = {}
        self.finished = 0
        """Number of jobs whose pods have all ended."""
        self.last_change_at = 0.0
        """The latest instant at which a pod began or ended."""

    @property
    def running_pods(self) -> int:
        """Number of pods that run now."""
        return len(self._open)

    def begin(self, job: int, pod: int, node: int, at: float) -> None:
        """Record that a pod runs on a node from an instant on; nothing happens if it runs already."""
        if (job, pod) in self._open:
            return
        self._open[job, pod] = len(self._interval_job)
        self._interval_job.append(job)
        self._interval_pod.append(pod)
        self._interval_node.append(node)
        self._interval_begin.append(at)
        self._interval_end.append(NEVER)
        self._interval_ending.append(Ending.RUNS)
        self._interval_for.append(-1)
        self.last_change_at = at
        self._begun[job] += 1
        wanted = self._jobs[job].members
        if self._begun[job] == wanted and np.isnan(self._start[job]):
            self._start[job] = at

    def end(self, job: int, pod: int, at: float, ending: Ending, beneficiary: int = -1) -> bool:
        """Record that a pod has ended; nothing happens if it does not run.

        Args:
            job: Row of the pod's job.
            pod: Index of the pod in its job.
            at: When it ended.
            ending: Why it ended.
            beneficiary: Row of the job for which the pod was evicted, else -1.

        Returns:
            Whether it was the last pod of its job to end.
        """
        number = self._open.pop((job, pod), None)
        if number is None:
            return False
        self._interval_end[number] = at
        self._interval_ending[number] = ending
        self._interval_for[number] = beneficiary
        self.last_change_at = at
        if ending in (Ending.EVICTED, Ending.LOST):
            self._begun[job] -= 1
            return False
        self._failed[job] |= ending == Ending.FAILED
        self._ended[job] += 1
        if self._ended[job] < self._jobs[job].replicas:
            return False
        self._finish[job] = at
        self.finished += 1
        return True

    def has_failed(self, job: int) -> bool:
        """Whether a pod of a job has failed."""
        return bool(self._failed[job])

    def record(self, end_seconds: float, reasons: Mapping[int, str] | None = None) -> RunRecord:
        """Return the record of the run, which ends at ``end_seconds``."""
        ends = np.array(self._interval_end, np.float64)
        ends[np.isnan(ends)] = end_seconds
        return RunRecord(
            jobs=self._jobs,
            nodes=self._nodes,
            start_seconds=self._start,
            finish_seconds=self._finish,
            failed=self._failed,
            interval_job=np.array(self._interval_job, np.int32),
            interval_pod=np.array(self._interval_pod, np.int32),
            interval_node=np.array(self._interval_node, np.int32),
            interval_begin=np.array(self._interval_begin, np.float64),
            interval_end=ends,
            interval_ending=np.array(self._interval_ending, np.int8),
            interval_for=np.array(self._interval_for, np.int32),
            end_seconds=end_seconds,
            reasons=dict(reasons or {}),
        )
