"""`describe`: sums a trace up in numbers: sizes, run times, arrivals, and the load that it is for machines. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from strato.api import quantity
from strato.node.shapes import NodeShape, total_capacity
from strato.sim.workloads.jobs import Trace, TraceJob
from strato.units import human_bytes, human_duration

PERCENTILES: Final = (10, 50, 90, 99)
_BAR: Final = 40
"""Characters of the longest bar of a histogram."""
_RUN_BOUNDS: Final = (0, 1, 10, 60, 600, 3600, 6 * 3600, 86400, 7 * 86400, np.inf)
_RUN_NAMES: Final = ("< 1s", "1s", "10s", "1m", "10m", "1h", "6h", "1d", "≥ 7d")
_MOST_NAMED: Final = 5
_SHOWN_PROBLEMS: Final = 10


@dataclass(frozen=True, slots=True)
class Spread:
    """How a number is distributed over jobs."""

    mean: float
    percentiles: Mapping[str, float]
    largest: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """The numbers of one trace."""

    name: str
    format: str
    jobs: int
    pods: int
    skipped: int
    reasons: Mapping[str, int]
    span_seconds: float
    """Time from the first submission to the last."""
    users: int
    queues: Mapping[str, int]
    """Number of jobs of the largest queues."""
    queue_count: int
    applications: int
    with_dependencies: int
    elastic: int
    spreads: Mapping[str, Spread]
    """Name of a number, such as ``runSeconds`` or ``podsPerJob`` → its distribution."""
    work: Mapping[str, float]
    """Resource → amount × seconds of all pods: cpu in cores, memory in bytes, others in units."""
    machines: int
    capacity: Mapping[str, float]
    """Resource → capacity of the machines, in the same units."""
    offered_load: Mapping[str, float]
    """Resource → work divided by capacity and span; above 1 the machines cannot keep up."""
    run_histogram: Mapping[str, int]
    """Shortest run time of a bin → number of jobs in it."""
    hourly: tuple[float, ...]
    """Share of the submissions in each hour of the day, counted from the first submission."""
    problems: tuple[tuple[str, str], ...]
    """Places and messages of the first lines that could not be read."""


def describe(trace: Trace, name: str, nodes: Sequence[NodeShape] = ()) -> Description:
    """Return the numbers of a trace.

    Args:
        trace: A trace with at least one job.
        name: Its name in the report.
        nodes: Machines to compare its load with; empty takes the trace's own.
    """
    jobs = trace.jobs
    submit = np.array([job.submit_seconds for job in jobs])
    run = np.array([job.run_seconds for job in jobs])
    pods = np.array([job.replicas for job in jobs], np.int64)
    span = float(submit.max() - submit.min())
    amounts = _amounts(jobs)
    work = {resource: float(np.sum(each * pods * run)) for resource, each in amounts.items()}
    machines = tuple(nodes or trace.nodes)
    capacity = {
        resource: amount / 1000 if resource == "cpu" else float(amount)
        for resource, amount in total_capacity(machines).items()
        if resource != "pods"
    }
    length = max(span, 1.0)
    queues = Counter(job.queue or "default" for job in jobs)
    return Description(
        name=name,
        format=trace.format,
        jobs=len(jobs),
        pods=int(pods.sum()),
        skipped=trace.skipped,
        reasons=dict(trace.reasons),
        span_seconds=span,
        users=len({job.user for job in jobs} - {""}),
        queues=dict(queues.most_common(_MOST_NAMED)),
        queue_count=len(queues),
        applications=len({job.application for job in jobs} - {""}),
        with_dependencies=sum(bool(job.after) for job in jobs),
        elastic=sum(job.members < job.replicas for job in jobs),
        spreads=_spreads(jobs, run, pods, submit, amounts),
        work=work,
        machines=sum(shape.count for shape in machines),
        capacity=capacity,
        offered_load={
            resource: amount / (capacity[resource] * length)
            for resource, amount in work.items()
            if capacity.get(resource)
        },
        run_histogram=_histogram(run),
        hourly=_hourly(submit),
        problems=tuple((problem.where, problem.message) for problem in trace.problems[:_SHOWN_PROBLEMS]),
    )


def _amounts(jobs: Sequence[TraceJob]) -> dict[str, NDArray[np.float64]]:
    """Return the requests of one pod of each job, by resource."""
    names = sorted({name for job in jobs for name in job.requests})
    return {name: np.array([_amount(name, job.requests.get(name, "0")) for job in jobs]) for name in names}


def _amount(name: str, text: str) -> float:
    return quantity.milli(text) / 1000 if name == "cpu" else float(quantity.value(text))


def _spreads(
    jobs: Sequence[TraceJob],
    run: NDArray[np.float64],
    pods: NDArray[np.int64],
    submit: NDArray[np.float64],
    amounts: Mapping[str, NDArray[np.float64]],
) -> dict[str, Spread]:
    columns: dict[str, NDArray[np.float64]] = {
        "runSeconds": run,
        "podsPerJob": pods.astype(float),
        "secondsBetween": np.diff(np.sort(submit)),
        "waitedSeconds": np.array([job.waited_seconds for job in jobs if job.waited_seconds is not None], float),
        "estimateSeconds": np.array([job.estimate_seconds for job in jobs if job.estimate_seconds is not None], float),
    }
    columns |= {f"{resource}PerPod": each for resource, each in amounts.items()}
    return {name: _spread(values) for name, values in columns.items() if len(values)}


def _spread(values: NDArray[np.float64]) -> Spread:
    found = np.percentile(values, PERCENTILES)
    named = {f"p{at}": float(value) for at, value in zip(PERCENTILES, found, strict=True)}
    return Spread(float(values.mean()), named, float(values.max()))


def _histogram(run: NDArray[np.float64]) -> dict[str, int]:
    counts, _ = np.histogram(run, np.array(_RUN_BOUNDS))
    return {name: int(count) for name, count in zip(_RUN_NAMES, counts, strict=True)}


def _hourly(submit: NDArray[np.float64]) -> tuple[float, ...]:
    hours = np.bincount(((submit % 86400) // 3600).astype(int), minlength=24)
    return tuple(round(float(count) / max(1, len(submit)), 4) for count in hours[:24])


def to_json(description: Description) -> bytes:
    """Return a description as JSON, with camelCase keys."""
    encoded = msgspec.json.encode({_camel(key): value for key, value in asdict(description).items()})
    return msgspec.json.format(encoded, indent=2) + b"\n"


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.title() for word in rest)


def to_table(description: Description) -> str:
    """Return a description as text for a terminal."""
    one = description
    lines = [
        f"{one.name}: {one.format}",
        f"  {one.jobs:,} jobs, {one.pods:,} pods over {human_duration(one.span_seconds)}"
        + _some(one.with_dependencies, "wait for others")
        + _some(one.elastic, "may start with fewer pods"),
        f"  {one.users:,} users, {one.applications:,} applications, {one.queue_count:,} queues: {_queues(one)}",
    ]
    if one.skipped:
        lines.append(f"  {one.skipped:,} skipped")
        lines += [f"    {count:,}: {reason}" for reason, count in one.reasons.items()]
    lines += ["", f"  {'':<24}" + "".join(f"{title:>10}" for title in ("MEAN", "P10", "P50", "P90", "P99", "MAX"))]
    for name, spread in one.spreads.items():
        title, text = _column(name)
        values = (spread.mean, *spread.percentiles.values(), spread.largest)
        lines.append(f"  {title:<24}" + "".join(f"{text(value):>10}" for value in values))
    lines += ["", *_load_lines(one), "", "  run time", *_bars(one.run_histogram)]
    lines += ["", "  submissions by hour, from the first one on", *_bars(_hours(one.hourly))]
    if one.problems:
        lines += ["", "  lines that could not be read"]
        lines += [f"    {where}: {message}" for where, message in one.problems]
    return "\n".join(lines) + "\n"


def _some(count: int, what: str) -> str:
    return f"; {count:,} {what}" if count else ""


def _queues(one: Description) -> str:
    named = ", ".join(f"{name} {count:,}" for name, count in one.queues.items())
    return named + (", …" if one.queue_count > len(one.queues) else "")


def _column(name: str) -> tuple[str, Callable[[float], str]]:
    titles = {
        "runSeconds": "run time",
        "podsPerJob": "pods per job",
        "secondsBetween": "time between submissions",
        "waitedSeconds": "waited where recorded",
        "estimateSeconds": "run time as estimated",
    }
    if name.endswith("Seconds") or name == "secondsBetween":
        return titles[name], _seconds
    if name == "memoryPerPod":
        return "memory per pod", human_bytes
    return titles.get(name, name.removesuffix("PerPod")[-16:] + " per pod"), _plain


def _seconds(value: float) -> str:
    return f"{value:.1f}s" if value < 10 and value % 1 else human_duration(value)


def _plain(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.2f}"


def _load_lines(one: Description) -> list[str]:
    lines = [f"  work: {', '.join(_work(name, amount) for name, amount in one.work.items())}"]
    if one.machines:
        offered = ", ".join(f"{name} {_of(name, amount)}" for name, amount in one.capacity.items())
        lines.append(f"  {one.machines:,} machines: {offered}")
        load = ", ".join(f"{name} {share:.1%}" for name, share in one.offered_load.items())
        lines.append(f"  offered load: {load}")
    return lines


def _work(name: str, amount: float) -> str:
    hours = amount / 3600
    return f"{hours / (1 << 30):,.0f} GiB-hours" if name == "memory" else f"{hours:,.0f} {name}-hours"


def _of(name: str, amount: float) -> str:
    return human_bytes(amount) if name == "memory" else f"{amount:,.0f}"


def _hours(hourly: Sequence[float]) -> dict[str, int]:
    return {f"{hour:02d}": round(share * 10_000) for hour, share in enumerate(hourly)}


def _bars(counts: Mapping[str, int]) -> list[str]:
    most = max(counts.values(), default=0)
    total = sum(counts.values())
    return [
        f"    {name:>6} {'#' * round(_BAR * count / most) if most else '':<{_BAR}} {count / max(1, total):6.1%}"
        for name, count in counts.items()
    ]
