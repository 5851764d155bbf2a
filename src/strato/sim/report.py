"""The result of a simulation: waits, use, makespan; as a table for people and as JSON that never differs.

The JSON holds nothing but what follows from trace, options and seed: no wall-clock time, no paths beyond the trace's
name, floats rounded to a microsecond.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import msgspec

from strato.sim.measure import JobResult, amounts_of
from strato.units import format_duration

_SLOWDOWN_FLOOR_SECONDS = 10.0
"""Shorter jobs count as this long in the bounded slowdown, as is usual (Feitelson)."""

_REASONS_SHOWN = 5
"""Jobs that never started and are named in the table, one for each reason; the JSON has all."""

_NO_REASON = "it has no pod group"

SERIES_POINTS = 200
"""Points of the utilisation series."""


class Distribution(msgspec.Struct, frozen=True):
    """How a number is spread over jobs; percentiles by nearest rank. All zero for no jobs."""

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
    """Cpu time its pods requested while running."""


class JobReport(msgspec.Struct, frozen=True):
    """One job; instants are seconds after the start of the trace, None where it did not come to it."""

    name: str
    queue: str
    replicas: int
    submit_seconds: float
    start_seconds: float | None
    finish_seconds: float | None
    failed: bool
    reason: str
    """Why it never started, as the scheduler says; empty when it did."""


class Series(msgspec.Struct, frozen=True):
    """Use over time: the mean of each of the equal steps between start and end."""

    step_seconds: float
    ratio: dict[str, list[float]]
    """Per resource, of the capacity, in [0, 1]."""


class Report(msgspec.Struct, frozen=True):
    """Everything a simulation tells."""

    trace: str
    nodes: str
    seed: int
    jobs: int
    finished: int
    failed: int
    unfinished: int
    never_started: int
    """Of the unfinished: jobs that never had all their pods running. They lengthen neither makespan nor use."""
    skipped: int
    pods: int
    """Pods that ran."""
    makespan_seconds: float
    """From the first submission to the end of the last pod."""
    jobs_per_hour: float
    wait_seconds: Distribution
    bounded_slowdown: Distribution
    utilisation: dict[str, float]
    """Mean over the makespan, per resource, of the capacity."""
    capacity: dict[str, int]
    """Cpu in millicores, everything else in units."""
    queues: dict[str, QueueReport]
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
            "",
        ]
        header = ("QUEUE", "JOBS", "DONE", "WAIT MEAN", "P50", "P95", "P99", "MAX", "SLOWDOWN MEAN", "P95")
        rows = [_row(name, queue) for name, queue in self.queues.items()]
        if len(rows) > 1:
            rows.append(_row("all", self))
        return "\n".join([*lines, *aligned([header, *rows]), *self._reasons()]) + "\n"

    def _reasons(self) -> list[str]:
        """Return a line for each reason why jobs never started, with the first job it held back."""
        held: dict[str, list[str]] = {}
        for job in self.job_list:
            if job.start_seconds is None:
                held.setdefault(job.reason, []).append(job.name)
        lines = [
            f"  {names[0]}{f' and {len(names) - 1} more' if len(names) > 1 else ''}: {reason}"
            for reason, names in held.items()
        ]
        more = [f"  … and {len(lines) - _REASONS_SHOWN} more reasons"] if len(lines) > _REASONS_SHOWN else []
        return ["", "never started", *lines[:_REASONS_SHOWN], *more] if lines else []


def build_report(
    results: Iterable[JobResult],
    use: Sequence[tuple[float, Mapping[str, int]]],
    capacity: Mapping[str, int],
    *,
    trace: str,
    nodes: str,
    seed: int,
    skipped: int,
    pods: int,
    default_queue: str,
    reasons: Mapping[str, str] = MappingProxyType({}),
) -> Report:
    """Sum up. Pure.

    Args:
        results: One per job.
        use: Amounts in use from each instant on, the first at 0; pods that still run at the last count no further.
        capacity: Of the whole cluster.
        trace: Its name.
        nodes: Their shapes as written.
        seed: Of the run.
        skipped: Entries of the trace that were no jobs.
        pods: How many ran.
        default_queue: Name of the queue of jobs that name none.
        reasons: Why jobs that never started did not, by their names.
    """
    ordered = list(results)
    finished = [result for result in ordered if result.finished_at is not None]
    makespan = max([use[-1][0], *(result.finished_at or 0.0 for result in finished)])
    by_queue: dict[str, list[JobResult]] = {}
    for result in ordered:
        by_queue.setdefault(result.job.queue or default_queue, []).append(result)
    return Report(
        trace=trace,
        nodes=nodes,
        seed=seed,
        jobs=len(ordered),
        finished=len(finished),
        failed=sum(result.failed for result in ordered),
        unfinished=len(ordered) - len(finished),
        never_started=sum(result.started_at is None for result in ordered),
        skipped=skipped,
        pods=pods,
        makespan_seconds=_rounded(makespan),
        jobs_per_hour=_rounded(len(finished) / makespan * 3600) if makespan else 0.0,
        wait_seconds=_waits(ordered),
        bounded_slowdown=_slowdowns(finished),
        utilisation=_mean_use(use, capacity, makespan),
        capacity=dict(sorted(capacity.items())),
        queues={name: _queue_report(by_queue[name]) for name in sorted(by_queue)},
        series=_series(use, capacity, makespan),
        job_list=[_job_report(result, default_queue, reasons) for result in ordered],
    )


def distribution(values: Sequence[float]) -> Distribution:
    """Return mean, percentiles by nearest rank, and maximum."""
    if not values:
        return Distribution(0.0, 0.0, 0.0, 0.0, 0.0)
    ordered = sorted(values)

    def rank(ratio: float) -> float:
        return _rounded(ordered[max(0, math.ceil(ratio * len(ordered)) - 1)])

    return Distribution(
        _rounded(math.fsum(ordered) / len(ordered)), rank(0.5), rank(0.95), rank(0.99), _rounded(ordered[-1])
    )


def _waits(results: Iterable[JobResult]) -> Distribution:
    return distribution([wait for result in results if (wait := result.wait_seconds) is not None])


def _slowdowns(results: Iterable[JobResult]) -> Distribution:
    found = []
    for result in results:
        if result.wait_seconds is not None and result.finished_at is not None and result.started_at is not None:
            run = result.finished_at - result.started_at
            found.append(max(1.0, (result.wait_seconds + run) / max(run, _SLOWDOWN_FLOOR_SECONDS)))
    return distribution(found)


def _queue_report(results: Sequence[JobResult]) -> QueueReport:
    done = [result for result in results if result.finished_at is not None]
    cpu_seconds = math.fsum(
        (result.finished_at - result.started_at) * result.job.replicas * amounts_of(result.job).get("cpu", 0) / 1000
        for result in done
        if result.finished_at is not None and result.started_at is not None
    )
    return QueueReport(len(results), len(done), _waits(results), _slowdowns(done), _rounded(cpu_seconds))


def _job_report(result: JobResult, default_queue: str, reasons: Mapping[str, str]) -> JobReport:
    return JobReport(
        name=result.job.name,
        queue=result.job.queue or default_queue,
        replicas=result.job.replicas,
        submit_seconds=_rounded(result.job.submit_seconds),
        start_seconds=None if result.started_at is None else _rounded(result.started_at),
        finish_seconds=None if result.finished_at is None else _rounded(result.finished_at),
        failed=result.failed,
        reason=reasons.get(result.job.name, _NO_REASON) if result.started_at is None else "",
    )


def _mean_use(
    use: Sequence[tuple[float, Mapping[str, int]]], capacity: Mapping[str, int], end: float
) -> dict[str, float]:
    series = _binned(use, capacity, end, 1)
    return {name: points[0] for name, points in series.items()}


def _series(use: Sequence[tuple[float, Mapping[str, int]]], capacity: Mapping[str, int], end: float) -> Series:
    return Series(_rounded(end / SERIES_POINTS), _binned(use, capacity, end, SERIES_POINTS))


def _binned(
    use: Sequence[tuple[float, Mapping[str, int]]], capacity: Mapping[str, int], end: float, count: int
) -> dict[str, list[float]]:
    """Average a step function over ``count`` equal steps of [0, end], as a share of the capacity."""
    wanted = sorted(name for name in capacity if name != "pods" and capacity[name] > 0)
    wanted = [name for name in wanted if any(amounts.get(name) for _, amounts in use)]
    if end <= 0:
        return {name: [0.0] * count for name in wanted}
    step = end / count
    sums = {name: [0.0] * count for name in wanted}
    for number, (begin, amounts) in enumerate(use):
        until = min(use[number + 1][0] if number + 1 < len(use) else end, end)
        at = begin
        while at < until:
            index = min(int(at / step), count - 1)
            edge = until if index == count - 1 else min(until, max((index + 1) * step, math.nextafter(at, math.inf)))
            for name in wanted:
                sums[name][index] += amounts.get(name, 0) * (edge - at)
            at = edge
    return {name: [_rounded(value / (step * capacity[name])) for value in sums[name]] for name in wanted}


def _rounded(value: float) -> float:
    return round(value, 6)


def _row(name: str, part: QueueReport | Report) -> tuple[str, ...]:
    wait, slow = part.wait_seconds, part.bounded_slowdown
    waits = (short_duration(value) for value in (wait.mean, wait.p50, wait.p95, wait.p99, wait.max))
    return name, str(part.jobs), str(part.finished), *waits, f"{slow.mean:.2f}", f"{slow.p95:.2f}"


def short_duration(seconds: float) -> str:
    """Write a duration for a table: whole seconds from a minute on."""
    return format_duration(round(seconds) if seconds >= 60 else round(seconds, 2))


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
