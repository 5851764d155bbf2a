"""The report of a simulation: waits, utilisation, fairness and evictions, as a table for people and as JSON.

The JSON depends on trace, options and seed alone, so equal runs give equal bytes: it holds no wall-clock time and no
path beyond the trace's name, and floats are rounded to six decimals.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec
import numpy as np

from strato.sim.results.columns import Floats, JobGroups, RunColumns
from strato.sim.results.evictions import EvictionReport, evictions_of
from strato.sim.results.fragmentation import fragmented
from strato.sim.results.overtime import edges_of, utilisation
from strato.sim.results.record import RunRecord
from strato.sim.results.shares import QueueShares, jain, queue_shares
from strato.sim.results.sizes import jobs_by_size
from strato.units import format_duration

_REASONS_SHOWN: Final = 5
"""Reasons why jobs never started that the table shows, each with its first job; the JSON has all jobs."""
_NO_REASON: Final = "it has no pod group"
SERIES_POINTS: Final = 200
"""Points of the series over time."""


class Distribution(msgspec.Struct, frozen=True):
    """Mean, percentiles (by nearest rank) and maximum of a number over jobs; all zero for no jobs."""

    mean: float
    p50: float
    p95: float
    p99: float
    max: float


class QueueReport(msgspec.Struct, frozen=True):
    """The jobs of one queue."""

    jobs: int
    finished: int
    wait_seconds: Distribution
    bounded_slowdown: Distribution
    cpu_seconds: float
    """Cpu that its pods requested, times the seconds that they ran."""
    held_share: float
    """The queue's dominant share of the cluster, mean over the makespan."""
    deserved_share: float
    """The share that the water-filling of the plugin proportion gives the queue, mean over the makespan."""
    drf_share: float
    """The share that dominant resource fairness gives the queue, mean over the makespan."""
    drf_distance: float
    """Distance of the held share from the DRF share, mean over the makespan; in [0, 1]."""


class GroupReport(msgspec.Struct, frozen=True):
    """Jobs of one size or of one tenant."""

    jobs: int
    wait_seconds: Distribution
    bounded_slowdown: Distribution


class JobReport(msgspec.Struct, frozen=True):
    """One job; instants are seconds after the start of the trace, None if the job never started or finished."""

    name: str
    queue: str
    replicas: int
    submit_seconds: float
    start_seconds: float | None
    finish_seconds: float | None
    failed: bool
    reason: str
    """Why the job never started, in the scheduler's words; empty if it started."""


class Series(msgspec.Struct, frozen=True):
    """Utilisation and fragmentation over time, in equal steps of the makespan."""

    step_seconds: float
    ratio: dict[str, list[float]]
    """Per resource and step, the mean share of the capacity that pods requested, in [0, 1]."""
    fragmented: dict[str, list[float]]
    """Per resource, at the middle of each step: the share of the capacity that is free where no typical pod fits."""


class SimulationReport(msgspec.Struct, frozen=True):
    """Everything that follows from a simulation."""

    trace: str
    nodes: str
    seed: int
    jobs: int
    finished: int
    failed: int
    unfinished: int
    never_started: int
    """Unfinished jobs that never had all their pods running; makespan and utilisation do not count them."""
    skipped: int
    pods: int
    """Pods that ran."""
    makespan_seconds: float
    """From the first submission to the end of the last pod."""
    jobs_per_hour: float
    """Jobs that finished, per hour of the makespan."""
    wait_seconds: Distribution
    """From a job's submission until its minimum number of pods runs; of jobs that started."""
    bounded_slowdown: Distribution
    """Of jobs that finished."""
    utilisation: dict[str, float]
    """Per resource, the share of the capacity that pods requested, mean over the makespan."""
    fragmentation: dict[str, float]
    """Per resource, the share of the capacity that is free where no typical pod fits, mean over the makespan."""
    slowdown_fairness: float
    """Jain's index of the queues' mean bounded slowdown."""
    drf_fairness: float
    """Jain's index of the ratios of held share to DRF share over the queues."""
    capacity: dict[str, int]
    """Cpu in millicores, everything else in units."""
    queues: dict[str, QueueReport]
    size_unit: str
    sizes: dict[str, GroupReport]
    tenants: dict[str, GroupReport]
    """By user, or by queue if the trace names no users."""
    evictions: EvictionReport
    series: Series
    job_list: list[JobReport]

    def to_json(self) -> bytes:
        """Write as JSON: the same run gives the same bytes."""
        return msgspec.json.format(msgspec.json.encode(self), indent=1) + b"\n"

    def to_table(self) -> str:
        """Write for a terminal."""
        stopped = self.unfinished - self.never_started
        lines = [
            f"{self.finished} of {self.jobs} jobs finished"
            + (f", {self.failed} failed" if self.failed else "")
            + (f", {self.never_started} never started" if self.never_started else "")
            + (f", {stopped} started and never ended" if stopped else "")
            + f"; {self.pods} pods on {self.nodes}",
            f"makespan     {format_duration(round(self.makespan_seconds, 1))}   ({self.jobs_per_hour:.1f} jobs/h)",
            "utilisation  " + "  ".join(f"{name} {ratio:.1%}" for name, ratio in self.utilisation.items()),
            *self._evictions(),
            "",
        ]
        header = ("QUEUE", "JOBS", "DONE", "WAIT MEAN", "P50", "P95", "P99", "MAX", "SLOWDOWN MEAN", "P95")
        rows = [_row(name, queue) for name, queue in self.queues.items()]
        if len(rows) > 1:
            rows.append(_row("all", self))
        return "\n".join([*lines, *aligned([header, *rows]), *self._reasons()]) + "\n"

    def _evictions(self) -> list[str]:
        found = self.evictions
        if not found.pods:
            return []
        known = f", for {found.beneficiaries} jobs of which {found.helped} started" if found.beneficiaries else ""
        lost = short_duration(found.cpu_seconds_lost)
        return [f"evictions    {found.pods} pods of {found.jobs} jobs{known}; {lost} of a cpu's work lost"]

    def _reasons(self) -> list[str]:
        """Return a line for each reason why jobs never started, with the first job of that reason."""
        lines = [
            f"  {names[0]}{f' and {len(names) - 1} more' if len(names) > 1 else ''}: {reason}"
            for reason, names in never_started(self).items()
        ]
        more = [f"  … and {len(lines) - _REASONS_SHOWN} more reasons"] if len(lines) > _REASONS_SHOWN else []
        return ["", "never started", *lines[:_REASONS_SHOWN], *more] if lines else []


def never_started(report: SimulationReport) -> dict[str, list[str]]:
    """Return the names of the jobs that never started, by reason."""
    held: dict[str, list[str]] = {}
    for job in report.job_list:
        if job.start_seconds is None:
            held.setdefault(job.reason, []).append(job.name)
    return held


def report_of(
    record: RunRecord,
    *,
    trace: str,
    nodes: str,
    seed: int,
    skipped: int = 0,
    queues: Sequence[Mapping[str, Any]] = (),
) -> SimulationReport:
    """Compute the report of a run. Pure.

    Args:
        record: The run.
        trace: The trace's name.
        nodes: The nodes' shapes as the user wrote them.
        seed: The run's seed.
        skipped: Number of the trace's entries that were not read as jobs.
        queues: Queue manifests that the run was given; they set weights and capabilities.
    """
    run = RunColumns(record)
    makespan = run.makespan_seconds
    finished = int((~np.isnan(record.finish_seconds)).sum())
    started = ~np.isnan(record.start_seconds)
    use = utilisation(run, SERIES_POINTS)
    middles = edges_of(makespan, 2 * SERIES_POINTS)[1::2]
    fragments = fragmented(run, middles) if makespan else {}
    by_queue = _queue_reports(run, queue_shares(run, queues))
    shares = by_queue[1]
    slowdowns = [queue.bounded_slowdown.mean for queue in by_queue[0].values() if queue.finished]
    unit, sizes = jobs_by_size(run)
    return SimulationReport(
        trace=trace,
        nodes=nodes,
        seed=seed,
        jobs=len(record.jobs),
        finished=finished,
        failed=int(record.failed.sum()),
        unfinished=len(record.jobs) - finished,
        never_started=int((~started).sum()),
        skipped=skipped,
        pods=len(record.interval_job),
        makespan_seconds=_rounded(makespan),
        jobs_per_hour=_rounded(finished / makespan * 3600) if makespan else 0.0,
        wait_seconds=spread(run.wait_seconds),
        bounded_slowdown=spread(run.slowdown),
        utilisation={name: _rounded(float(points.mean())) for name, points in use.items() if points.any()},
        fragmentation={name: _rounded(float(points.mean())) for name, points in fragments.items()},
        slowdown_fairness=_rounded(jain(slowdowns)),
        drf_fairness=_rounded(shares.fairness()),
        capacity=run.capacity,
        queues=by_queue[0],
        size_unit=unit,
        sizes=_group_reports(run, sizes),
        tenants=_group_reports(run, run.tenants),
        evictions=evictions_of(run),
        series=Series(
            _rounded(makespan / SERIES_POINTS),
            {name: _points(points) for name, points in use.items() if points.any() or not makespan},
            {name: _points(points) for name, points in fragments.items()},
        ),
        job_list=_job_reports(run),
    )


def distribution(values: Sequence[float]) -> Distribution:
    """Return mean, percentiles by nearest rank, and maximum."""
    return spread(np.asarray(values, np.float64))


def spread(values: Floats) -> Distribution:
    """Return mean, percentiles by nearest rank, and maximum of the values that are not NaN."""
    ordered = np.sort(values[~np.isnan(values)])
    if not len(ordered):
        return Distribution(0.0, 0.0, 0.0, 0.0, 0.0)

    def rank(ratio: float) -> float:
        return _rounded(float(ordered[max(0, math.ceil(ratio * len(ordered)) - 1)]))

    mean = math.fsum(ordered.tolist()) / len(ordered)
    return Distribution(_rounded(mean), rank(0.5), rank(0.95), rank(0.99), _rounded(float(ordered[-1])))


def _queue_reports(run: RunColumns, shares: QueueShares) -> tuple[dict[str, QueueReport], QueueShares]:
    record = run.record
    lasted = record.interval_end - record.interval_begin
    queue = run.queues.of_job[record.interval_job]
    cpu = np.bincount(queue, lasted * run.interval_amounts("cpu") / 1000, len(run.queues.names))
    finished = np.bincount(run.queues.of_job[~np.isnan(record.finish_seconds)], minlength=len(run.queues.names))
    distance = shares.distance()
    found = {}
    for number, (name, group) in enumerate(_group_reports(run, run.queues).items()):
        found[name] = QueueReport(
            jobs=group.jobs,
            finished=int(finished[number]),
            wait_seconds=group.wait_seconds,
            bounded_slowdown=group.bounded_slowdown,
            cpu_seconds=_rounded(float(cpu[number])),
            held_share=_rounded(float(shares.held[:, number].mean())),
            deserved_share=_rounded(float(shares.deserved[:, number].mean())),
            drf_share=_rounded(float(shares.drf[:, number].mean())),
            drf_distance=_rounded(float(distance[number])),
        )
    return found, shares


def _group_reports(run: RunColumns, groups: JobGroups) -> dict[str, GroupReport]:
    order = np.argsort(groups.of_job, kind="stable")
    ends = np.searchsorted(groups.of_job[order], np.arange(len(groups.names) + 1))
    parts = {name: order[ends[i] : ends[i + 1]] for i, name in enumerate(groups.names)}
    return {
        name: GroupReport(len(rows), spread(run.wait_seconds[rows]), spread(run.slowdown[rows]))
        for name, rows in parts.items()
    }


def _job_reports(run: RunColumns) -> list[JobReport]:
    record, names = run.record, run.queues.names
    rows: Iterable[tuple[Any, ...]] = zip(
        record.jobs,
        run.queues.of_job.tolist(),
        run.submit_seconds.tolist(),
        record.start_seconds.tolist(),
        record.finish_seconds.tolist(),
        record.failed.tolist(),
        strict=True,
    )
    return [
        JobReport(
            name=job.name,
            queue=names[queue],
            replicas=job.replicas,
            submit_seconds=_rounded(submit),
            start_seconds=None if math.isnan(start) else _rounded(start),
            finish_seconds=None if math.isnan(finish) else _rounded(finish),
            failed=failed,
            reason=record.reasons.get(row, _NO_REASON) if math.isnan(start) else "",
        )
        for row, (job, queue, submit, start, finish, failed) in enumerate(rows)
    ]


def _points(values: Floats) -> list[float]:
    return [_rounded(value) for value in values.tolist()]


def _rounded(value: float) -> float:
    return round(value, 6) + 0.0  # not -0.0


def _row(name: str, part: QueueReport | SimulationReport) -> tuple[str, ...]:
    wait, slow = part.wait_seconds, part.bounded_slowdown
    waits = (short_duration(value) for value in (wait.mean, wait.p50, wait.p95, wait.p99, wait.max))
    return name, str(part.jobs), str(part.finished), *waits, f"{slow.mean:.2f}", f"{slow.p95:.2f}"


def short_duration(seconds: float) -> str:
    """Write a duration for a table: whole seconds from a minute on."""
    return format_duration(round(seconds) if abs(seconds) >= 60 else round(seconds, 2))


def aligned(rows: Sequence[Sequence[Any]]) -> list[str]:
    """Return the lines of a table: the first column to the left, the others to the right."""
    widths = [max(len(str(row[at])) for row in rows) for at in range(len(rows[0]))]
    return [
        "  ".join(
            str(cell).ljust(width) if at == 0 else str(cell).rjust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
