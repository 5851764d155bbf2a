"""What the pictures of one run need, taken from its record so that the record need not be kept in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from strato.sim.report import Report, report_of
from strato.sim.results.columns import Floats, RunColumns
from strato.sim.results.gantt import JobBars, NodeBars, NodeUse, job_bars, node_rows
from strato.sim.results.record import RunRecord
from strato.sim.results.shares import QueueShares, queue_shares

CURVE_POINTS: Final = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDigest:
    """One run of an experiment, by what it was run under."""

    policy: str
    variant: str
    seed: int
    report: Report
    waits: Floats
    """Per job of the trace; NaN where it never started."""
    slowdown_curve: tuple[Floats, Floats]
    """Bounded slowdown, and the part of the finished jobs that have at most that."""
    shares: QueueShares
    nodes: NodeBars | NodeUse
    jobs: JobBars


def digest_run(
    record: RunRecord,
    *,
    policy: str = "",
    variant: str = "",
    seed: int = 0,
    trace: str = "",
    nodes: str = "",
    skipped: int = 0,
    queues: Sequence[Mapping[str, Any]] = (),
) -> RunDigest:
    """Return what reports and pictures need of a run. Pure; arguments as for `report_of`."""
    run = RunColumns(record)
    return RunDigest(
        policy=policy,
        variant=variant,
        seed=seed,
        report=report_of(record, trace=trace, nodes=nodes, seed=seed, skipped=skipped, queues=queues),
        waits=run.wait_seconds,
        slowdown_curve=cumulative(run.slowdown, CURVE_POINTS),
        shares=queue_shares(run, queues),
        nodes=node_rows(run),
        jobs=job_bars(run),
    )


def cumulative(values: Floats, points: int) -> tuple[Floats, Floats]:
    """Return at most so many points of the cumulative distribution of the values that are there, ends included."""
    ordered = np.sort(values[~np.isnan(values)])
    count = len(ordered)
    if not count:
        return np.zeros(0), np.zeros(0)
    ranks = np.unique(np.linspace(0, count - 1, min(points, count)).round().astype(np.int64))
    return ordered[ranks], (ranks + 1.0) / count
