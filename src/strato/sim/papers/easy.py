"""EASY backfilling on two logs in Standard Workload Format: waits of the plugin, of the algorithm, and recorded ones.

The recorded waits come from a real scheduler with queues, priorities and limits that the logs do not hold; so they are
only shown, as mean and distribution. Two things are judged: that the plugin's waits are near those of the textbook
algorithm on HPC2N, where all processors are equal, and that backfilling makes waits shorter.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np

from strato.api import quantity
from strato.scheduler.config import parse_config
from strato.sim.decisions.run import simulate_decisions
from strato.sim.papers.backfilling import Submitted, waits
from strato.sim.papers.outcome import Cell, Reproduction
from strato.sim.papers.work import ReproductionOptions, each
from strato.sim.traces import TraceJob, read_trace

FOLDER: Final = "hpc-swf"
LOGS: Final = {"hpc2n": "hpc2n-2002-head.swf.gz", "metacentrum": "metacentrum-wagap-2013.swf.gz"}
_JUDGED: Final = "hpc2n"
_TOLERANCE_RATIO: Final = 0.05
_SLICE_JOBS: Final = 600
_PERCENTILES: Final = (50, 75, 90, 95, 99)
_POLICY: Final = """
actions: "enqueue, allocate"
tiers:
- plugins: [{name: gang}, {name: easy}, {name: predicates}]
"""

Waits = tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Log:
    """One log, or its beginning."""

    data: Path
    name: str
    limit: int


@dataclass(frozen=True, slots=True)
class LogWaits:
    """Waits of the jobs of a log, in seconds."""

    plugin: Waits
    """NaN for jobs that never started."""
    easy: Waits
    fcfs: Waits
    recorded: Waits


def reproduce(work: ReproductionOptions) -> Reproduction:
    """Simulate both logs, or for a slice the beginning of the smaller one.

    Raises:
        UsageError: The logs are missing.
        InvalidInput: A log has problems.
    """
    names = [_JUDGED] if work.is_slice else list(LOGS)
    logs = [Log(work.data, name, _SLICE_JOBS if work.is_slice else 0) for name in names]
    found = dict(zip(names, each(work, waits_of, logs), strict=True))
    cells = [cell for name, waited in found.items() for cell in cells_of(name, waited)]
    return Reproduction(
        name="easy",
        title="Waits under EASY backfilling, by the plugin and as recorded",
        source="the waits in the logs; the algorithm of Lifka and of Mu'alem and Feitelson for what is judged",
        unit="seconds",
        cells=tuple(cells),
        notes=(
            "Rows 'recorded' compare with the real scheduler of the log, whose queues and limits are not known.",
            "Row 'FCFS' compares EASY with first come, first served: on HPC2N the smaller of both is to be ours.",
            "The algorithms take any processors; MetaCentrum's jobs are one pod each, which needs a node with as many.",
        ),
    )


def waits_of(log: Log) -> LogWaits:
    """Simulate one log with the plugin and with the algorithms."""
    trace = read_trace(log.data / FOLDER / LOGS[log.name], limit=log.limit)
    trace = replace(trace, jobs=tuple(job for job in trace.jobs if job.waited_seconds is not None))
    record = simulate_decisions(trace, (), parse_config(_POLICY))
    processors = sum(quantity.milli(shape.resources["cpu"]) // 1000 * shape.count for shape in trace.nodes)
    submitted = [submitted_of(job, processors) for job in trace.jobs]
    return LogWaits(
        tuple((record.start_seconds - np.array([job.submit_seconds for job in trace.jobs])).tolist()),
        tuple(waits(submitted, processors, backfill=True)),
        tuple(waits(submitted, processors, backfill=False)),
        tuple(float(job.waited_seconds or 0.0) for job in trace.jobs),
    )


def submitted_of(job: TraceJob, most: int) -> Submitted:
    """Return a job for the algorithm, with at most as many processors as the machine has (``most``)."""
    processors = math.ceil(quantity.milli(job.requests.get("cpu", "1")) * job.replicas / 1000)
    return Submitted(
        job.submit_seconds, job.run_seconds, job.estimate_seconds or job.run_seconds, min(processors, most)
    )


def cells_of(name: str, waited: LogWaits) -> list[Cell]:
    """Return the comparisons of one log."""
    plugin, easy, fcfs, recorded = map(np.array, (waited.plugin, waited.easy, waited.fcfs, waited.recorded))
    ours = plugin[~np.isnan(plugin)]
    ratio = _TOLERANCE_RATIO if name == _JUDGED else math.inf
    cells = [
        _cell(f"{name}, the algorithm", "mean", ours.mean(), easy.mean(), ratio),
        Cell(
            row=f"{name}, FCFS",
            column="mean",
            ours=float(ours.mean()),
            reference=float(fcfs.mean()),
            tolerance=math.inf if name != _JUDGED or ours.mean() <= fcfs.mean() else 0.0,
        ),
        _cell(f"{name}, recorded", "mean", ours.mean(), recorded.mean(), math.inf),
        Cell(
            row=f"{name}, jobs",
            column="never started",
            ours=float(np.isnan(plugin).sum()),
            reference=0,
            tolerance=0,
        ),
    ]
    for other, values in (("the algorithm", easy), ("recorded", recorded)):
        theirs: Sequence[float] = np.percentile(values, _PERCENTILES).tolist()
        mine: Sequence[float] = np.percentile(ours, _PERCENTILES).tolist()
        cells += [
            _cell(f"{name}, {other}", f"p{percent}", a, b, math.inf)
            for percent, a, b in zip(_PERCENTILES, mine, theirs, strict=True)
        ]
    return cells


def _cell(row: str, column: str, ours: float, reference: float, ratio: float) -> Cell:
    tolerance = ratio * abs(float(reference)) if math.isfinite(ratio) else math.inf
    return Cell(row=row, column=column, ours=float(ours), reference=float(reference), tolerance=tolerance)
