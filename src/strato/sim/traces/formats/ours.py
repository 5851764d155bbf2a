"""Our own CSV format: a header, then one job a line. Other files with a header of such names can be read too."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from strato.api import names, quantity
from strato.node.shapes import GPU
from strato.sim.traces.cells import MOST_REPLICAS, LineReader, shown
from strato.sim.traces.input import InputFile, Rows, rows_of
from strato.sim.traces.oddities import Oddities
from strato.sim.traces.reading import Format, Head, Reading, ReadOptions
from strato.sim.workloads.jobs import Trace, TraceJob

COLUMNS: Final[dict[str, tuple[str, ...]]] = {
    "name": ("name", "job", "job_name", "id", "job_id"),
    "submit": ("submit", "submit_time", "submit_seconds", "submission_time", "arrival_time"),
    "run_time": ("run_time", "run", "runtime", "duration", "run_seconds"),
    "replicas": ("replicas", "tasks", "workers", "instances_num"),
    "cpu": ("cpu", "cpus"),
    "memory": ("memory", "mem"),
    "gpu": ("gpu", "gpus", "num_gpus"),
    "queue": ("queue",),
    "priority": ("priority",),
    "estimate": ("estimate", "requested_time", "time_limit"),
    "min_replicas": ("min_replicas", "min_available"),
    "user": ("user",),
    "application": ("application", "model"),
    "after": ("after",),
    "deadline": ("deadline",),
    "node_selector": ("node_selector",),
    "annotations": ("annotations",),
    "requests": ("requests",),
    "waited": ("waited",),
}
"""Column → the names in a header by which it is recognised."""
_REQUIRED = ("submit", "run_time")
_RESOURCES = {"cpu": "cpu", "memory": "memory", "gpu": GPU}
_SEPARATOR = ";"
"""Separates the entries of a list in a cell."""


def _recognise(head: Head) -> int:
    known = {_alias(title) for title in head.header}
    return 5 if all(known & set(COLUMNS[name]) for name in _REQUIRED) else 0


def _read(files: Sequence[InputFile], reading: Reading) -> None:
    for file in files:
        _read_rows(file.rows(reading.odd, comments=True), file.label, reading)


def _read_rows(rows: Rows, label: str, reading: Reading) -> None:
    odd = reading.odd
    header_line, header = next(rows, (1, []))
    columns = _header(header, LineReader(label, odd).at(header_line))
    if columns is None:
        odd.raise_all()
        return
    line = LineReader(label, odd)
    for number, (at, row) in enumerate(rows, start=1):
        line.at(at)
        if len(row) > len(header):
            line.note("", f"has {len(row)} fields, the header {len(header)}")
            line.reject()
        else:
            cells = {name: row[at].strip() if at < len(row) else "" for name, at in columns.items()}
            take(cells, line, number, reading)


def take(cells: Mapping[str, str], line: LineReader, number: int, reading: Reading) -> None:
    """Add the job of a line, unless a cell cannot be read.

    Args:
        cells: Name of a column, as in `COLUMNS` → its cell.
        line: Takes problems.
        number: Number of the job, which becomes its name if the line has none.
        reading: Takes the job.
    """
    job = _job(cells, line, number, reading)
    if not reading.names.take(job.name):
        line.note("name", f"{shown(job.name)} is taken by an earlier line")
    if not line.reject():
        reading.add(job)


def _alias(title: str) -> str:
    return title.strip().lower().replace(" ", "_")


def _header(header: Sequence[str], line: LineReader) -> dict[str, int] | None:
    """Return the index of each column; if the header is wrong, report its problems and return None."""
    known = {alias: name for name, aliases in COLUMNS.items() for alias in aliases}
    columns: dict[str, int] = {}
    fine = True
    for at, title in enumerate(header):
        name = known.get(_alias(title))
        if name is None:
            continue
        if name in columns and name != "name":
            line.note(title, f"says the same as column {header[columns[name]]!r}")
            fine = False
        columns.setdefault(name, at)
    for name in _REQUIRED:
        if name not in columns:
            held = [title[:40] for title in header[:30]]
            line.note(name, f"is missing; the header needs {' and '.join(_REQUIRED)}, it has {held}")
            fine = False
    return columns if fine else None


def _job(cells: Mapping[str, str], line: LineReader, number: int, reading: Reading) -> TraceJob:
    queue, user = cells.get("queue", ""), cells.get("user", "")
    requests = _requests(line, cells)
    submit, run = line.seconds("submit", cells["submit"]), line.seconds("run_time", cells["run_time"])
    by_user = reading.options.queue_by == "user"
    replicas = _whole(line, "replicas", cells, 1, 1, MOST_REPLICAS)
    least = _whole(line, "min_replicas", cells, 0, 0, replicas)
    if queue:
        _object_name(line, "queue", queue)
    selector, annotations = _pairs(line, "node_selector", cells), _pairs(line, "annotations", cells)
    return TraceJob(
        name=reading.names.like(cells.get("name", "")) or f"job-{number}",
        submit_seconds=submit,
        run_seconds=run,
        replicas=replicas,
        requests=requests,
        queue=reading.queues.of(user) if by_user else queue,
        priority=_whole(line, "priority", cells, 0, -(2**31) + 1, 2**31 - 1),
        estimate_seconds=_optional(line, "estimate", cells),
        min_replicas=least or None,
        user=user,
        application=cells.get("application", ""),
        after=tuple(filter(None, map(reading.names.like, cells.get("after", "").split(_SEPARATOR)))),
        deadline_seconds=_optional(line, "deadline", cells),
        node_selector=selector,
        annotations=annotations,
        waited_seconds=_optional(line, "waited", cells),
    )


def _requests(line: LineReader, cells: Mapping[str, str]) -> dict[str, str]:
    requests: dict[str, str] = {}
    named = {resource: cells.get(column, "") for column, resource in _RESOURCES.items()}
    for column, (resource, text) in zip(_RESOURCES, named.items(), strict=True):
        if text and (amount := _amount(line, column, text)) not in ("", "0"):
            requests[resource] = amount
    for resource, text in _pairs(line, "requests", cells).items():
        if (amount := _amount(line, "requests", text)) not in ("", "0"):
            requests[resource] = amount
    return requests or {"cpu": "1"}


def _amount(line: LineReader, column: str, text: str) -> str:
    try:
        parsed = quantity.parse(text)
    except ValueError as error:
        line.note(column, f"{shown(text)} is no quantity: {error}")
        return ""
    if parsed < quantity.ZERO:
        line.note(column, f"{shown(text)} is negative")
        return ""
    return quantity.canonical(text)


def _whole(line: LineReader, column: str, cells: Mapping[str, str], default: int, low: int, high: int) -> int:
    text = cells.get(column, "")
    return line.whole(column, text, low, high) if text else default


def _optional(line: LineReader, column: str, cells: Mapping[str, str]) -> float | None:
    text = cells.get(column, "")
    return line.seconds(column, text) if text else None


def _pairs(line: LineReader, column: str, cells: Mapping[str, str]) -> dict[str, str]:
    """Read ``key=value;key=value``."""
    pairs: dict[str, str] = {}
    for part in filter(None, cells.get(column, "").split(_SEPARATOR)):
        key, equals, value = part.partition("=")
        problems = names.check_qualified_name(key.strip())
        if not equals or problems:
            line.note(column, f"{shown(part)} is no key=value" + (f": {problems[0]}" if equals else ""))
        pairs[key.strip()] = value.strip()
    return pairs


def _object_name(line: LineReader, column: str, text: str) -> None:
    problems = names.check_label(text)
    if problems:
        line.note(column, f"{shown(text)} cannot name an object: {problems[0]}")


def parse_csv(text: str, source: str) -> Trace:
    """Read the CSV format: a header, then one job a line.

    ``submit`` and ``run_time`` are seconds or durations (``1h30m``) and required, `COLUMNS` has the others. Further
    columns are ignored. Lines may be in any order.

    Raises:
        InvalidInput: Lines have problems; they are listed with line and column.
    """
    reading = Reading(ReadOptions(strict=True), Oddities(strict=True))
    lines = iter(text.splitlines(keepends=True))
    _read_rows(rows_of(source, lines, reading.odd, comments=True), source, reading)
    return reading.trace(FORMAT.name)


def write_csv(jobs: Iterable[TraceJob]) -> Iterable[list[str]]:
    """Yield a header and one row per job; reading them gives equal jobs."""
    yield list(_WRITTEN)
    for job in jobs:
        others = {name: amount for name, amount in job.requests.items() if name not in _RESOURCES.values()}
        yield [
            job.name,
            _number(job.submit_seconds),
            _number(job.run_seconds),
            str(job.replicas),
            *(job.requests.get(resource, "") for resource in _RESOURCES.values()),
            job.queue,
            str(job.priority or ""),
            _number(job.estimate_seconds),
            str(job.min_replicas or ""),
            job.user,
            job.application,
            _SEPARATOR.join(job.after),
            _number(job.deadline_seconds),
            _joined(job.node_selector),
            _joined(job.annotations),
            _joined(others),
            _number(job.waited_seconds),
        ]


_WRITTEN = tuple(COLUMNS)


def _number(value: float | None) -> str:
    return "" if value is None else str(int(value)) if value == int(value) else repr(value)


def _joined(pairs: Mapping[str, str]) -> str:
    return _SEPARATOR.join(f"{key}={value}" for key, value in pairs.items())


FORMAT: Final = Format(
    name="strato",
    title="CSV with a header (submit, run_time, …), see below",
    recognise=_recognise,
    read=_read,
    queue_fields=("queue", "user"),
)
