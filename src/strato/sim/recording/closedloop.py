"""Closed loop: simulates a log's workload under its own and another policy, and compares with the recorded waits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from strato.api.meta import Json
from strato.scheduler.framework.options import Config
from strato.sim.decisions.run import simulate_decisions
from strato.sim.progress import Progress
from strato.sim.recording.log import Log
from strato.sim.recording.replica import config_of
from strato.sim.recording.workload import RecordedWorkload, workload_of
from strato.sim.results.columns import RunColumns
from strato.sim.results.record import Ending, RunRecord
from strato.units import human_duration


@dataclass(frozen=True, slots=True)
class Side:
    """The outcome of a workload: as recorded, or as simulated under a policy.

    Attributes:
        name: Its name in the table.
        waits: Seconds from submission to start, by job in the order of the trace; None for jobs that did not start.
        evictions: Number of evicted pods; None if not known.
        makespan_seconds: Time from the first submission to the last end; None if not known.
    """

    name: str
    waits: Sequence[float | None]
    evictions: int | None
    makespan_seconds: float | None

    @property
    def started(self) -> list[float]:
        """Waits of the jobs that started."""
        return [wait for wait in self.waits if wait is not None]


@dataclass(frozen=True, slots=True)
class WorkloadOutcomes:
    """The outcomes of a workload, side by side.

    Attributes:
        jobs: Names of the jobs.
        sides: The outcome that was recorded, that under the recorded policy, and that under the other policy.
        notes: Sentences for the reader about what the simulation assumes.
    """

    jobs: Sequence[str]
    sides: Sequence[Side]
    notes: Sequence[str]

    def to_json(self) -> Json:
        """Return the outcomes as JSON data."""
        return {
            "jobs": len(self.jobs),
            "notes": list(self.notes),
            "sides": [
                {
                    "name": side.name,
                    "started": len(side.started),
                    "meanWaitSeconds": float(np.mean(side.started)) if side.started else None,
                    "p95WaitSeconds": float(np.percentile(side.started, 95)) if side.started else None,
                    "evictions": side.evictions,
                    "makespanSeconds": side.makespan_seconds,
                    "waitSeconds": dict(zip(self.jobs, side.waits, strict=True)),
                }
                for side in self.sides
            ],
        }

    def to_table(self) -> str:
        """Return the outcomes as a table for a terminal."""
        rows = [("", *(side.name.upper() for side in self.sides))]
        rows.append(("jobs that started", *(f"{len(side.started)} of {len(self.jobs)}" for side in self.sides)))
        rows.append(("mean wait", *(_time(side.started, np.mean) for side in self.sides)))
        rows.append(
            ("95 % wait at most", *(_time(side.started, lambda w: np.percentile(w, 95)) for side in self.sides))
        )
        rows.append(("evictions", *("-" if side.evictions is None else str(side.evictions) for side in self.sides)))
        spans = [side.makespan_seconds for side in self.sides]
        rows.append(("makespan", *("-" if span is None else human_duration(span) for span in spans)))
        widths = [max(len(row[column]) for row in rows) + 3 for column in range(len(rows[0]))]
        return "\n".join(
            "".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
        )


def run_forward(
    log: Log, config: Config, *, name: str = "policy", seed: int = 0, progress: Callable[[Progress], None] | None = None
) -> WorkloadOutcomes:
    """Simulate a log's workload under its own policy and under another.

    Raises:
        BadLog: The log is damaged.
        InvalidInput: The recorded configuration cannot be read on this machine.
    """
    workload = workload_of(log)
    began = log.first()
    recorded = Side("recorded", [workload.waits[job.name] for job in workload.trace.jobs], None, None)
    own = _simulated("own policy", workload, config_of(began.config, began.base), began.at, seed, progress)
    other = _simulated(name, workload, config, began.at, seed, progress)
    names = [job.name for job in workload.trace.jobs]
    notes = [*workload.notes, "nodes are there from the beginning to the end, as they were last seen"]
    return WorkloadOutcomes(names, [recorded, own, other], notes)


def _simulated(
    name: str,
    workload: RecordedWorkload,
    config: Config,
    start: float,
    seed: int,
    progress: Callable[[Progress], None] | None,
) -> Side:
    record: RunRecord = simulate_decisions(
        workload.trace, workload.shapes, config, seed=seed, queues=workload.queues, start=start, progress=progress
    )
    waits = RunColumns(record).wait_seconds
    evictions = int((record.interval_ending == Ending.EVICTED).sum())
    return Side(name, [None if np.isnan(wait) else float(wait) for wait in waits], evictions, float(record.end_seconds))


def _time(waits: Sequence[float], of: Callable[[Sequence[float]], object]) -> str:
    return human_duration(float(str(of(waits)))) if waits else "-"
