"""Read traces: what was submitted when, how wide, and how long it ran. A CSV of ours, or Standard Workload Format.

Every problem of a file is reported together, each with line and column. Times of a trace are moved so that its first
job is submitted at zero.
"""

from __future__ import annotations

import csv
import gzip
import io
import math
import re
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from strato.api import names, quantity
from strato.errors import InvalidInput, Problem, UsageError
from strato.sim.nodes import NodeShape
from strato.units import duration_seconds

GPU = "nvidia.com/gpu"
_MAX_PROBLEMS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceJob:
    """One job of a trace: ``replicas`` equal pods that start together."""

    name: str
    """Valid as the name of a Kubernetes object, different from all others."""
    submit_seconds: float
    """After the start of the trace."""
    run_seconds: float
    """How long each pod runs, ≥ 0."""
    replicas: int = 1
    requests: Mapping[str, str] = field(default_factory=dict)
    """Of each pod, as Kubernetes quantities."""
    queue: str = ""
    """Empty is the default queue."""
    priority: int = 0
    """Higher goes first."""
    estimate_seconds: float | None = None
    """The user's estimate, where the trace has one."""
    min_replicas: int | None = None
    """Pods without which it does not start; None is all. Fewer than ``replicas``: it is elastic between them."""
    user: str = ""
    """Who submitted it, as the trace calls them; the tenant where queues say nothing."""
    application: str = ""
    """What runs, as the trace calls it: its executable, model or job type; performance models look it up."""
    after: tuple[str, ...] = ()
    """Names of jobs that must have ended well before it is submitted; its submission then counts from there."""
    deadline_seconds: float | None = None
    """When it should have ended, after the start of the trace."""
    node_selector: Mapping[str, str] = field(default_factory=dict)
    """Labels that its nodes must have."""
    annotations: Mapping[str, str] = field(default_factory=dict)
    """Of its pods: shares of devices and the like."""
    waited_seconds: float | None = None
    """How long it waited in the system that the trace was recorded on."""

    @property
    def members(self) -> int:
        """Pods that it needs to start."""
        return self.replicas if self.min_replicas is None else self.min_replicas


@dataclass(frozen=True, slots=True)
class Trace:
    """A whole trace, by submission."""

    jobs: tuple[TraceJob, ...]
    skipped: int = 0
    """Entries of a log that never ran (cancelled in the queue, no run time or processors recorded)."""
    nodes: tuple[NodeShape, ...] = ()
    """The machines it was recorded on, where its publisher names them."""


def read_trace(path: Path, *, queue_by: str = "", limit: int = 0) -> Trace:
    """Read a trace, compressed with gzip or not.

    Args:
        path: ``*.swf`` is Standard Workload Format, anything else CSV; ``.gz`` may follow.
        queue_by: For SWF: ``queue``, ``user`` or ``group`` puts each job in a queue named after that field.
        limit: Only the first so many jobs; 0 is all.

    Raises:
        UsageError: The file cannot be read.
        InvalidInput: What is wrong with its lines.
    """
    text = trace_text(path)
    suffixes = [suffix for suffix in path.suffixes if suffix != ".gz"]
    if suffixes and suffixes[-1].lower() == ".swf":
        trace = parse_swf(text, str(path), queue_by=queue_by)
    else:
        trace = parse_csv(text, str(path))
    if not trace.jobs:
        raise UsageError(f"{path} holds no job that ran")
    return replace(trace, jobs=trace.jobs[:limit]) if limit else trace


def trace_text(path: Path) -> str:
    """Return a trace file as text, compressed with gzip or not.

    Raises:
        UsageError: It cannot be read.
    """
    try:
        data = path.read_bytes()
        if data[:2] == b"\x1f\x8b":
            data = gzip.decompress(data)
        return data.decode("utf-8-sig")
    except OSError as error:
        raise UsageError(f"the trace {path} cannot be read: {error.strerror or error}") from error
    except (EOFError, zlib.error) as error:
        raise UsageError(f"the trace {path} is not whole gzip: {error}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"the trace {path} is not UTF-8 text (byte {error.start})") from error


class _Problems:
    """Collects what is wrong, up to a number a person will read."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._found: list[Problem] = []
        self._more = 0

    def add(self, line: int, column: str, message: str) -> None:
        if len(self._found) < _MAX_PROBLEMS:
            place = f"{self._source}: line {line}" + (f": {column}" if column else "")
            self._found.append(Problem(place, message))
        else:
            self._more += 1

    def raise_any(self) -> None:
        if self._more:
            self._found.append(Problem(self._source, f"and {self._more} more problems"))
        if self._found:
            raise InvalidInput("the trace", self._found)


# CSV

_COLUMNS: dict[str, tuple[str, ...]] = {
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
}
"""Our columns and the names they go by."""

_REQUIRED = ("submit", "run_time")
_RESOURCES = {"cpu": "cpu", "memory": "memory", "gpu": GPU}


def parse_csv(text: str, source: str) -> Trace:
    """Read the CSV format: a header, then one job a line.

    ``submit`` and ``run_time`` are seconds or durations (``1h30m``) and required; ``replicas`` (1), ``cpu`` (1),
    ``memory``, ``gpu``, ``queue``, ``priority``, ``name`` and ``estimate`` are not. Further columns are passed over.
    Lines may be in any order.

    Raises:
        InvalidInput: What is wrong, by line and column.
    """
    problems = _Problems(source)
    reader = csv.reader(io.StringIO(text))
    rows = _rows(reader, problems)
    header_line, header = next(rows, (1, []))
    columns = _header(header, header_line, problems)
    problems.raise_any()
    jobs: list[TraceJob] = []
    taken: set[str] = set()
    for line, row in rows:
        cells = {name: row[at].strip() if at < len(row) else "" for name, at in columns.items()}
        if len(row) > len(header):
            problems.add(line, "", f"has {len(row)} fields, the header {len(header)}")
            continue
        job = _csv_job(cells, _Cells(line, problems), len(jobs) + 1)
        if job.name in taken:
            problems.add(line, "name", f"{job.name!r} is taken by an earlier line")
        taken.add(job.name)
        jobs.append(job)
    problems.raise_any()
    return Trace(_from_zero(jobs))


def _rows(reader: Iterator[list[str]], problems: _Problems) -> Iterator[tuple[int, list[str]]]:
    """Yield the lines that say something, with their numbers."""
    while True:
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            problems.add(_line_of(reader), "", str(error))
            return
        if any(cell.strip() for cell in row) and not row[0].lstrip().startswith("#"):
            yield _line_of(reader), row


def _line_of(reader: object) -> int:
    number: int = getattr(reader, "line_num", 0)  # csv.reader has it; typeshed's name for its class is private
    return number


def _header(header: Sequence[str], line: int, problems: _Problems) -> dict[str, int]:
    known = {alias: name for name, aliases in _COLUMNS.items() for alias in aliases}
    columns: dict[str, int] = {}
    for at, title in enumerate(header):
        name = known.get(title.strip().lower().replace(" ", "_"))
        if name is None:
            continue
        if name in columns and name != "name":
            problems.add(line, title, f"says the same as column {header[columns[name]]!r}")
        columns.setdefault(name, at)
    for name in _REQUIRED:
        if name not in columns:
            problems.add(line, name, f"is missing; the header needs {' and '.join(_REQUIRED)}, it has {list(header)}")
    return columns


class _Cells:
    """Reads the cells of one line; what cannot be read is noted and replaced by the default."""

    def __init__(self, line: int, problems: _Problems) -> None:
        self._line = line
        self._problems = problems

    def seconds(self, column: str, text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            try:
                value = duration_seconds(text)
            except ValueError:
                value = math.nan
        if not math.isfinite(value) or value < 0:
            what = "is empty" if not text else f"{text!r} is no time"
            self.note(column, f"{what}; write seconds (90) or a duration (1m30s), not negative")
            return 0.0
        return value

    def whole(self, column: str, text: str, default: int, low: int) -> int:
        if not text:
            return default
        try:
            value = int(text)
        except ValueError:
            value = low - 1
        if value < low:
            self.note(column, f"{text!r} is no whole number ≥ {low}")
            return default
        return value

    def amount(self, column: str, text: str) -> str:
        try:
            parsed = quantity.parse(text)
        except ValueError as error:
            self.note(column, f"{text!r} is no quantity: {error}")
            return ""
        if parsed < quantity.parse("0"):
            self.note(column, f"{text!r} is negative")
            return ""
        return quantity.canonical(text)

    def object_name(self, column: str, text: str) -> str:
        problems = names.check_label(text)
        if problems:
            self.note(column, f"{text!r} cannot name an object: {problems[0]}")
        return text

    def note(self, column: str, message: str) -> None:
        self._problems.add(self._line, column, message)


def _csv_job(cells: Mapping[str, str], read: _Cells, number: int) -> TraceJob:
    requests: dict[str, str] = {}
    for column, resource in _RESOURCES.items():
        text = cells.get(column, "")
        amount = read.amount(column, text) if text else ""
        if amount not in ("", "0"):
            requests[resource] = amount
    if not requests:
        requests["cpu"] = "1"
    queue = cells.get("queue", "")
    estimate = cells.get("estimate", "")
    return TraceJob(
        name=_name_from(cells.get("name", ""), number),
        submit_seconds=read.seconds("submit", cells["submit"]),
        run_seconds=read.seconds("run_time", cells["run_time"]),
        replicas=read.whole("replicas", cells.get("replicas", ""), 1, 1),
        requests=requests,
        queue=read.object_name("queue", queue) if queue else "",
        priority=read.whole("priority", cells.get("priority", ""), 0, -(2**31) + 1),
        estimate_seconds=read.seconds("estimate", estimate) if estimate else None,
    )


def _name_from(text: str, number: int) -> str:
    """Make an object's name of what a trace calls a job; jobs without a name are numbered."""
    cleaned = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:40].rstrip("-")
    if not cleaned:
        return f"job-{number}"
    return cleaned if cleaned[0].isalpha() else f"job-{cleaned}"


# Standard Workload Format

_SWF_FIELDS = 18
_NODE_REQUEST = re.compile(r"(\d+):ppn=(\d+)")
_SWF_QUEUE_FIELD = {"user": 11, "group": 12, "queue": 14}


def parse_swf(text: str, source: str, *, queue_by: str = "") -> Trace:
    """Read Standard Workload Format; a job that never ran is skipped.

    A processor becomes a pod of one cpu. Where a log names nodes and processors per node (a field such as
    ``2:ppn=8``, beyond the standard's 18), a node becomes a pod of that many cpus.

    Raises:
        InvalidInput: What is wrong, by line and field.
        UsageError: ``queue_by`` names no field.
    """
    if queue_by and queue_by not in _SWF_QUEUE_FIELD:
        raise UsageError(f"queues cannot be made by {queue_by!r}; choose {', '.join(sorted(_SWF_QUEUE_FIELD))}")
    problems = _Problems(source)
    jobs: list[TraceJob] = []
    taken: set[str] = set()
    skipped = 0
    for line, content in enumerate(text.splitlines(), start=1):
        content = content.partition(";")[0].strip()
        if not content:
            continue
        fields = content.split()
        if len(fields) < _SWF_FIELDS:
            problems.add(line, "", f"has {len(fields)} fields, the format has {_SWF_FIELDS}")
            continue
        numbers = _numbers(fields, line, problems)
        if numbers is None:
            continue
        job = _swf_job(fields, numbers, queue_by)
        if job is None:
            skipped += 1
        elif job.name in taken:
            problems.add(line, "field 1 (job)", f"{fields[0]!r} is taken by an earlier line")
        else:
            taken.add(job.name)
            jobs.append(job)
    problems.raise_any()
    return Trace(_from_zero(jobs), skipped)


_SWF_NAMES = (
    "job",
    "submit",
    "wait",
    "run",
    "processors",
    "cpu time",
    "memory",
    "requested processors",
    "requested time",
    "requested memory",
    "status",
    "user",
    "group",
    "executable",
    "queue",
    "partition",
    "preceding job",
    "think time",
)  # fmt: skip -- a table


def _numbers(fields: Sequence[str], line: int, problems: _Problems) -> list[float] | None:
    numbers: list[float] = []
    for at, (name, text) in enumerate(zip(_SWF_NAMES, fields, strict=False), start=1):
        try:
            number = float(text)
        except ValueError:
            number = math.nan
        if not math.isfinite(number):
            problems.add(line, f"field {at} ({name})", f"{text!r} is no number")
            return None
        numbers.append(number)
    return numbers


def _swf_job(fields: Sequence[str], numbers: Sequence[float], queue_by: str) -> TraceJob | None:
    run = numbers[3]
    processors = int(numbers[7] if numbers[4] <= 0 else numbers[4])
    if run <= 0 or processors <= 0 or numbers[1] < 0:
        return None
    replicas, cpus = processors, 1
    for extra in fields[_SWF_FIELDS:]:
        shape = _NODE_REQUEST.match(extra)
        if shape is not None and int(shape[1]) * int(shape[2]) == processors:
            replicas, cpus = int(shape[1]), int(shape[2])
    queue = ""
    if queue_by:
        number = int(numbers[_SWF_QUEUE_FIELD[queue_by]])
        queue = f"{queue_by}-{number}" if number >= 0 else ""
    return TraceJob(
        name=f"job-{fields[0]}",
        submit_seconds=numbers[1],
        run_seconds=run,
        replicas=replicas,
        requests={"cpu": str(cpus)},
        queue=queue,
        estimate_seconds=numbers[8] if numbers[8] > 0 else None,
    )


def _from_zero(jobs: Sequence[TraceJob]) -> tuple[TraceJob, ...]:
    if not jobs:
        return ()
    first = min(job.submit_seconds for job in jobs)
    moved = (replace(job, submit_seconds=job.submit_seconds - first) for job in jobs)
    by_submission: Callable[[TraceJob], float] = lambda job: job.submit_seconds  # noqa: E731 -- names the key
    return tuple(sorted(moved, key=by_submission))
