"""`RunDigest`: the data that reports and pictures need of a run, so that its record need not stay in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from strato.sim.report import SimulationReport, report_of
from strato.sim.results.columns import Floats, RunColumns
from strato.sim.results.gantt import JobBars, NodeBars, NodeUse, job_bars, node_rows
from strato.sim.results.record import RunRecord
from strato.sim.results.shares import QueueShares, queue_shares

CURVE_POINTS: Final = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDigest:
    """The data of one run, named by its policy, variant and seed."""

    policy: str
    variant: str
    seed: int
    report: SimulationReport
    waits: Floats
    """Wait of each job of the trace in seconds; NaN if it never started."""
    slowdown_curve: tuple[Floats, Floats]
    """Points of the cumulative distribution: bounded slowdown, and the part of the finished jobs with at most that."""
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
    """Compute the digest of a run. Pure; for the arguments see `report_of`."""
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
    """Return at most ``points`` points of the cumulative distribution of values, with both ends; NaN is left out."""
    ordered = np.sort(values[~np.isnan(values)])
    count = len(ordered)
    if not count:
        return np.zeros(0), np.zeros(0)
    ranks = np.unique(np.linspace(0, count - 1, min(points, count)).round().astype(np.int64))
    return ordered[ranks], (ranks + 1.0) / count
