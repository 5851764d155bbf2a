"""`RunRecord`: what happened in one simulated run, in columns. Every report, plot and comparison is computed from it.

Both fidelities of the simulator write it through a `RunRecorder`: the one with every API object from the pods that its
informer shows, the one of decisions only from its own events. So equal decisions are equal records.
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
"""An instant that did not come."""


class Ending(IntEnum):
    """Why a pod no longer runs."""

    RUNS = 0
    """It still ran when the run ended."""
    SUCCEEDED = 1
    FAILED = 2
    EVICTED = 3
    """Preempted, reclaimed or rescheduled: its place went to somebody else."""
    LOST = 4
    """Its node died."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeColumns:
    """The nodes of a run, row by row."""

    names: tuple[str, ...]
    capacity: Mapping[str, NDArray[np.int64]]
    """Resource → amount per row that pods can have: cpu in millicores, everything else in units."""
    labels: tuple[Mapping[str, str], ...] = ()
    """Per row; empty where no node has any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """One run. Instants are virtual seconds after the start of the trace."""

    jobs: tuple[TraceJob, ...]
    nodes: NodeColumns
    start_seconds: NDArray[np.float64]
    """Per job: when as many of its pods as it needs had first begun; `NEVER`."""
    finish_seconds: NDArray[np.float64]
    """Per job: when its last pod had ended; `NEVER`."""
    failed: NDArray[np.bool_]
    """Per job."""
    interval_job: NDArray[np.int32]
    """Intervals: one for each time that a pod ran, by its beginning. Row of its job."""
    interval_pod: NDArray[np.int32]
    """Number of the pod within its job, from 0."""
    interval_node: NDArray[np.int32]
    """Row of its node."""
    interval_begin: NDArray[np.float64]
    interval_end: NDArray[np.float64]
    """`end_seconds` where it still ran."""
    interval_ending: NDArray[np.int8]
    """An `Ending`."""
    interval_for: NDArray[np.int32]
    """Row of the job that an evicted pod's room was for; -1 where nobody's or not known."""
    end_seconds: float
    """When the run ended."""
    reasons: Mapping[int, str] = field(default_factory=dict)
    """Row of a job that never started → what the scheduler says about it."""


class RunRecorder:
    """Collects a run as it happens; `record` closes it."""

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
        """Jobs whose pods have all ended."""
        self.last_change_at = 0.0
        """The last instant at which a pod began or ended."""

    @property
    def running_pods(self) -> int:
        """Pods that run now."""
        return len(self._open)

    def begin(self, job: int, pod: int, node: int, at: float) -> None:
        """Note that a pod runs from now on, and where."""
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
        """Note that a pod runs no longer.

        Args:
            job: Its row.
            pod: Its number.
            at: When.
            ending: Why.
            beneficiary: Row of the job that an evicted pod's room is for.

        Returns:
            Whether its job has ended with it.
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
        """Return what happened, up to ``end_seconds``."""
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
