"""Reads recorded CPU usage of virtual machines or containers from a file: series of samples.

A CSV with a header, compressed with gzip or not. Columns: ``series`` or ``id`` (one series where there is none),
``seconds`` or ``timestamp`` (of the sample, increasing within a series), ``cores`` or ``cpu_usage``. A sample holds
until the next one of its series.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from strato.agent.options import between
from strato.api.cpudemand import MOST_CORES, SHORTEST_SECONDS, Samples
from strato.errors import InvalidInput, Problem, UsageError
from strato.sim.traces import trace_text

_COLUMNS: Final[Mapping[str, tuple[str, ...]]] = {
    "series": ("series", "id"),
    "seconds": ("seconds", "timestamp"),
    "cores": ("cores", "cpu_usage"),
}
_MOST_PROBLEMS: Final = 100
_MOST_BYTES: Final = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceOptions:
    """A trace of CPU usage that an experiment names."""

    file: str = ""
    """Path of the file, relative to the experiment's file or absolute. Required."""
    per_core: float = 1.0
    """Units of the column of use that are one core, such as 2926 for MHz of a processor with 2.926 GHz."""

    def problems(self) -> list[tuple[str, str]]:
        """Return field and problem of each value out of range."""
        return list(between(self, {"per_core": (1e-9, 1e12)}))


def read_use_trace(folder: Path, options: TraceOptions) -> dict[str, Samples]:
    """Return the series of a trace by name.

    Raises:
        UsageError: The file is missing or cannot be read.
        InvalidInput: The file has problems; they are listed with their lines.
    """
    if not options.file:
        raise UsageError("is missing; name a CSV file with columns series, seconds and cores")
    path = folder / options.file
    if path.is_file() and path.stat().st_size > _MOST_BYTES:
        raise UsageError(f"{path} is longer than {_MOST_BYTES} bytes")
    return parse_use_trace(trace_text(path), options.per_core)


def parse_use_trace(text: str, per_core: float = 1.0) -> dict[str, Samples]:
    """Return the series of a trace's text by name; each begins at its own first sample.

    Raises:
        InvalidInput: The text has problems; the first hundred are listed with their lines.
    """
    try:
        lines = list(csv.reader(io.StringIO(text)))
    except csv.Error as error:
        raise InvalidInput("the trace", [Problem("", f"is no CSV: {error}")]) from error
    header = lines[0] if lines else []
    columns = {
        name: at
        for name, aliases in _COLUMNS.items()
        for at, title in enumerate(header)
        if title.strip().lower() in aliases
    }
    missing = [" or ".join(_COLUMNS[name]) for name in ("seconds", "cores") if name not in columns]
    if missing:
        raise InvalidInput("the trace", [Problem("line 1", f"has no column {' and none '.join(missing)}")])
    found: dict[str, tuple[list[float], list[float]]] = {}
    problems: list[Problem] = []
    for number, row in enumerate(lines[1:], start=2):
        if not any(cell.strip() for cell in row):
            continue
        where = f"line {number}"
        if len(row) != len(header):
            problems.append(Problem(where, f"has {len(row)} fields, the header {len(header)}"))
        else:
            problems += _take(row, columns, per_core, found, where)
        if len(problems) >= _MOST_PROBLEMS:
            break
    if not found and not problems:
        problems.append(Problem("", "it has no samples"))
    if problems:
        raise InvalidInput("the trace", problems)
    return {name: _samples(*series) for name, series in found.items()}


def _take(
    row: list[str],
    columns: Mapping[str, int],
    per_core: float,
    found: dict[str, tuple[list[float], list[float]]],
    where: str,
) -> list[Problem]:
    """Add a line to its series; return the problems of the line."""
    problems = []
    at, cores = _number(row[columns["seconds"]]), _number(row[columns["cores"]]) / per_core
    if math.isnan(at):
        problems.append(Problem(where, f"{row[columns['seconds']]!r} is no time in seconds"))
    if not 0 <= cores <= MOST_CORES:
        problems.append(Problem(where, f"{row[columns['cores']]!r} is no use of CPU from 0 to {MOST_CORES:g} cores"))
    name = row[columns["series"]].strip() if "series" in columns else "all"
    times, values = found.setdefault(name, ([], []))
    if times and not math.isnan(at) and at < times[-1] + SHORTEST_SECONDS:
        text = f"{at:g} s is not {SHORTEST_SECONDS:g} s or more after the sample before, {times[-1]:g} s"
        problems.append(Problem(where, text))
    if not problems:
        times.append(at)
        values.append(cores)
    return problems


def _samples(times: list[float], cores: list[float]) -> Samples:
    first = times[0]
    last_step = times[-1] - times[-2] if len(times) > 1 else 300.0
    return Samples(tuple(at - first for at in times), tuple(cores), times[-1] - first + last_step)


def _number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        return math.nan
    return value if math.isfinite(value) else math.nan
