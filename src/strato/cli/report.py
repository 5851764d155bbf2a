"""``strato report`` and ``strato stats``: runs, waits, roles and how busy hosts were, by day, queue and role."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import date, datetime, time, timedelta, tzinfo
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from strato.cli.history import opened, store_option, zone_named
from strato.clock import SystemClock
from strato.errors import UsageError

if TYPE_CHECKING:
    from strato.history.rows import Host, JobRun, PodContainer
    from strato.history.statistics import Period

_BY = ("day", "queue", "role")
_MOST_DAYS = 3660
_LOW_COVERAGE = 0.95


class _Data(NamedTuple):
    runs: Sequence[JobRun]
    replicas: Sequence[PodContainer]
    hosts: Sequence[Host]


@click.command()
@click.option("--day", default="", metavar="DAY", help="Only this day, as 2026-08-01.")
@click.option("--since", default="", metavar="DAY", help="From this day on; by default the last seven.")
@click.option("--until", default="", metavar="DAY", help="Up to this day, inclusive; today by default.")
@click.option("--by", default="", metavar="day,queue,role", help="What to divide by.")
@click.option("--jobs", is_flag=True, help="Count jobs instead of their attempts.")
@click.option("--tz", default="", metavar="ZONE", help="Time zone of days; that of this machine by default.")
@click.option(
    "-o", "--output", type=click.Choice(["table", "json", "csv"]), default="table", show_default=True, help="Format."
)
@store_option
@click.pass_context
def report(
    ctx: click.Context,
    day: str,
    since: str,
    until: str,
    by: str,
    jobs: bool,
    tz: str,
    output: str,
    path: str | None,
) -> None:
    """Show how many runs of jobs there were, how long they ran and waited, and how busy hosts were."""
    zone = zone_named(tz)
    first, last = _days(day, since, until, zone)
    groups = _groups(by)
    with opened(ctx, path) as store:
        whole = _period(first, last, zone)
        bounds = (whole.since, whole.until)
        data = _Data(store.runs(*bounds), store.replicas(*bounds), store.hosts(*bounds))
    days = [first + timedelta(number) for number in range((last - first).days + 1)]
    spans = [(str(one), _period(one, one, zone)) for one in days] if "day" in groups else [("", whole)]
    now = SystemClock().now()
    records = [
        {**({"day": name} if name else {}), **record}
        for name, period in spans
        for record in _records(data, period, groups, now=now, count_jobs=jobs)
    ]
    _print(records, output)


def _days(day: str, since: str, until: str, zone: tzinfo) -> tuple[date, date]:
    if day and (since or until):
        raise UsageError("--day cannot be given together with --since or --until; give one or the other")
    today = datetime.fromtimestamp(SystemClock().now(), zone).date()
    last = _date("--until", until) if until else _date("--day", day) if day else today
    first = _date("--since", since) if since else _date("--day", day) if day else last - timedelta(6)
    if not 0 <= (last - first).days < _MOST_DAYS:
        raise UsageError(f"--since {first} --until {last}: give at most ten years, the earlier day first")
    return first, last


def _date(option: str, text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError as error:
        raise UsageError(f"{option} {text!r} is no day; write for example 2026-08-01") from error


def _groups(text: str) -> frozenset[str]:
    groups = frozenset(part.strip() for part in text.split(",") if part.strip())
    unknown = sorted(groups - set(_BY))
    if unknown:
        raise UsageError(f"--by {unknown[0]!r}: divide by any of {', '.join(_BY)}, with commas between")
    return groups


def _period(first: date, last: date, zone: tzinfo) -> Period:
    """Return from midnight to midnight of a zone, where days may have 23 or 25 hours."""
    from strato.history.statistics import Period

    begin = datetime.combine(first, time(), zone)
    end = datetime.combine(last + timedelta(1), time(), zone)
    return Period(begin.timestamp(), end.timestamp())


def _records(
    data: _Data, period: Period, groups: frozenset[str], *, now: float, count_jobs: bool
) -> Iterator[dict[str, Any]]:
    from strato.history import statistics

    period = statistics.Period(period.since, max(min(period.until, now), period.since))
    queues = sorted({run.queue for run in data.runs}) if "queue" in groups else [""]
    for queue in queues:
        runs = [run for run in data.runs if not queue or run.queue == queue]
        ids = {run.run_id for run in runs}
        replicas = [one for one in data.replicas if one.run_id in ids]
        named = {"queue": queue} if queue else {}
        if "role" in groups:
            for role in sorted({one.role for one in replicas}):
                of_role = statistics.of_role((one for one in replicas if one.role == role), period)
                yield {**named, "role": role or "-", **_named(asdict(of_role))}
            continue
        found = _named(asdict(statistics.of_runs(runs, period)))
        by_attempt, by_job = found.pop("runs"), found.pop("jobs")
        count = {"jobs": by_job} if count_jobs else {"runs": by_attempt}
        shared = {"allocated": statistics.allocated(replicas, data.hosts, period)}
        hosts = {} if queue else _hosts(asdict(statistics.of_hosts(data.hosts, period)))
        predicted = _named(asdict(statistics.of_predictions(runs, period)))
        yield {**named, **count, **found, **(predicted if predicted["predictions"] else {}), **shared, **hosts}


_NAMES = {
    "mean_run": "meanRunSeconds",
    "mean_failed_run": "meanFailedRunSeconds",
    "mean_wait": "meanWaitSeconds",
    "mean_queue_wait": "meanQueueWaitSeconds",
    "mean_capacity_wait": "meanCapacityWaitSeconds",
    "mean_startup": "meanStartupSeconds",
    "waiting": "waitingNow",
    "oldest_wait": "oldestWaitSeconds",
    "prediction_error": "predictionErrorSeconds",
    "mean_wait_error": "meanWaitErrorSeconds",
    "within_interval": "withinInterval",
}


def _named(found: dict[str, Any]) -> dict[str, Any]:
    return {_NAMES.get(name, name): value for name, value in found.items()}


def _hosts(found: dict[str, Any]) -> dict[str, Any]:
    names = {"mean": "hostCpuMean", "p90": "hostCpuP90", "p90_hosts": "p90Hosts", "p90_time": "p90Time"}
    hosts = {names[name]: value for name, value in found.items() if name in names}
    return hosts | ({"coverage": found["coverage"]} if found["coverage"] < _LOW_COVERAGE else {})


def _print(records: Sequence[dict[str, Any]], output: str) -> None:
    from strato.cli.output import fitted_table, text_of

    if output == "json":
        click.echo(text_of({"kind": "List", "apiVersion": "v1", "items": list(records)}, output))
        return
    headers: list[str] = list(dict.fromkeys(name for record in records for name in record))
    if output == "csv":
        lines = [headers, *([_plain(record.get(name)) for name in headers] for record in records)]
        click.echo("\n".join(",".join(line) for line in lines))
    elif len(records) == 1 and not set(_BY) & records[0].keys():
        click.echo(fitted_table(("MEASURE", "VALUE"), [(name, _shown(name, records[0][name])) for name in headers]))
    else:
        rows = [[_shown(name, record.get(name)) for name in headers] for record in records]
        click.echo(fitted_table([name.upper() for name in headers], rows))


def _plain(value: Any) -> str:
    """Return a cell of CSV; names of queues and roles have no commas."""
    return "" if value is None else str(value)


_RATIOS = ("withinInterval", "hostCpuMean", "hostCpuP90", "p90Hosts", "p90Time", "allocated", "efficiency", "coverage")


def _shown(name: str, value: Any) -> str:
    from strato.units import format_duration

    if value is None:
        return "–"
    if name.endswith("Seconds"):
        return format_duration(round(value))
    return f"{value:.1%}" if name in _RATIOS else str(value)
