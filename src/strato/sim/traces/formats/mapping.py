"""Any CSV or Parquet, by a file that says what its columns mean: a YAML document of the kind ``TraceMapping``.

    kind: TraceMapping
    files: [jobs-2024.csv.gz]            # beside the mapping; CSV or Parquet, gzip or not
    delimiter: ";"                       # of CSV; a comma by default
    header: [id, when, state, secs]      # where the files have none
    columns:
      name: id
      submit: {column: when, unit: ms}   # ns, us, ms, s, m, h, d; time for 2024-01-31 12:00:00
      run_time: {column: secs}           # or {start: began, end: ended, unit: time}
      cpu: {value: 16}                   # the same for every job
      memory: {column: mem, unit: GiB}   # B, KB, KiB, MB, MiB, GB, GiB, TB, TiB; without: a quantity
      gpu: gpus
    filters:
    - {column: state, in: [COMPLETED, FAILED]}
    - {column: secs, min: 1, max: 864000}

Columns are those of our own CSV (`ours.COLUMNS`). A line that a filter leaves out is counted as skipped.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from strato.api import yamltext
from strato.errors import InvalidInput, Problem, called, nearest, one_line
from strato.sim.traces.cells import Line, instant_seconds, shown
from strato.sim.traces.formats import ours
from strato.sim.traces.input import InputFile
from strato.sim.traces.reading import Format, Head, Reading

KIND: Final = "TraceMapping"
FILTERED: Final = "left out by a filter"
_SECONDS: Final = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_BYTES: Final = {
    "B": 1,
    "KB": 10**3,
    "KiB": 1 << 10,
    "MB": 10**6,
    "MiB": 1 << 20,
    "GB": 10**9,
    "GiB": 1 << 30,
    "TB": 10**12,
    "TiB": 1 << 40,
}  # fmt: skip -- a table
_TIME = "time"
_OF_TIME = frozenset({"submit", "run_time", "estimate", "deadline", "waited"})
_KEYS = ("kind", "files", "delimiter", "header", "columns", "filters")
_COLUMN_KEYS = ("column", "unit", "value", "start", "end")
_FILTER_KEYS = ("column", "in", "not", "min", "max")
_MOST_FILES = 100_000


@dataclass(frozen=True, slots=True)
class _Source:
    """Where one of our columns comes from."""

    column: str = ""
    unit: str = ""
    value: str = ""
    start: str = ""
    end: str = ""

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(filter(None, (self.column, self.start, self.end)))


@dataclass(frozen=True, slots=True)
class _Filter:
    column: str
    values: frozenset[str] | None
    others: frozenset[str]
    low: float
    high: float

    def passes(self, text: str) -> bool:
        if text in self.others or (self.values is not None and text not in self.values):
            return False
        if self.low == -math.inf and self.high == math.inf:
            return True
        try:
            return self.low <= float(text) <= self.high
        except ValueError:
            return False


@dataclass(frozen=True, slots=True)
class _Mapping:
    files: tuple[str, ...]
    delimiter: str
    header: tuple[str, ...]
    sources: Mapping[str, _Source]
    filters: tuple[_Filter, ...]


def _recognise(head: Head) -> int:
    return 20 if any(line.replace(" ", "") == f"kind:{KIND}" for line in head.lines) else 0


def _read(files: Sequence[InputFile], reading: Reading) -> None:
    for file in files:
        mapping = read_mapping(file)
        reading.check_queue_by(FORMAT.title, [name for name in ("queue", "user") if name in mapping.sources])
        for name in mapping.files:
            _read_table(InputFile(file.path.parent / name), mapping, file.label, reading)


def read_mapping(file: InputFile) -> _Mapping:
    """Read a mapping.

    Raises:
        InvalidInput: All that is wrong with it.
    """
    try:
        document = yamltext.load(file.document())
    except (yamltext.InvalidYaml, UnicodeDecodeError) as error:
        raise InvalidInput("the mapping", [Problem(file.label, f"is not YAML: {one_line(error)}")]) from error
    return _Checked(file.label).mapping(document)


class _Checked:
    """Reads a mapping and collects what is wrong with it."""

    def __init__(self, label: str) -> None:
        self._label = label
        self._problems: list[Problem] = []

    def mapping(self, document: object) -> _Mapping:
        top = self._dict("", document, _KEYS)
        header = self._texts("header", top.get("header", []))
        columns = top.get("columns")
        known = self._dict("columns", columns, tuple(ours.COLUMNS)) if columns is not None else {}
        sources = {name: self._source(f"columns.{name}", name, value) for name, value in known.items()}
        for name in ("submit", "run_time"):
            if name not in sources:
                self._note(f"columns.{name}", "is missing; every job has one")
        files = self._texts("files", top.get("files", []))
        if not files:
            self._note("files", "is missing; name the CSV or Parquet files")
        given = top.get("filters", [])
        if not isinstance(given, list):
            self._note("filters", f"is {called(given)}, must be a list")
            given = []
        filters = tuple(self._filter(f"filters[{at}]", value) for at, value in enumerate(given))
        delimiter = top.get("delimiter", ",")
        if not isinstance(delimiter, str) or len(delimiter) != 1:
            self._note("delimiter", f"{delimiter!r} is no single character")
            delimiter = ","
        if self._problems:
            raise InvalidInput("the mapping", self._problems)
        return _Mapping(files, delimiter, header, sources, filters)

    def _note(self, path: str, message: str) -> None:
        self._problems.append(Problem(f"{self._label}: {path}" if path else self._label, message))

    def _dict(self, path: str, value: object, keys: Sequence[str]) -> dict[str, Any]:
        if not isinstance(value, dict):
            self._note(path, f"is {called(value)}, must be an object with {', '.join(keys)}")
            return {}
        for key in value:
            if key not in keys:
                self._note(f"{path}.{key}".lstrip("."), f"is not known{nearest(str(key), keys)}")
        return {str(key): one for key, one in value.items() if key in keys}

    def _texts(self, path: str, value: object) -> tuple[str, ...]:
        if isinstance(value, str):
            return (value,)
        if not isinstance(value, list) or not all(isinstance(one, str | int | float | bool) for one in value):
            self._note(path, f"is {called(value)}, must be a list of texts")
            return ()
        return tuple(str(one) for one in value[:_MOST_FILES])

    def _source(self, path: str, name: str, value: object) -> _Source:
        if isinstance(value, str):
            return _Source(column=value)
        found = self._dict(path, value, _COLUMN_KEYS)
        texts = {key: str(one) for key, one in found.items() if one is not None}
        ways = [way for way in (("column",), ("value",), ("start", "end")) if any(key in texts for key in way)]
        if len(ways) != 1 or not all(key in texts for key in ways[0]):
            self._note(path, "needs one of: column; value; start and end")
        units = (*_SECONDS, _TIME) if name in _OF_TIME else tuple(_BYTES) if name == "memory" else ()
        unit = texts.get("unit", "")
        if unit and unit not in units:
            self._note(f"{path}.unit", f"{unit!r} is no unit of {name}" + (nearest(unit, units) if units else ""))
        if "start" in texts and name != "run_time":
            self._note(path, "only run_time is from start to end")
        return _Source(**texts)

    def _filter(self, path: str, value: object) -> _Filter:
        found = self._dict(path, value, _FILTER_KEYS)
        column = found.get("column")
        if not isinstance(column, str):
            self._note(f"{path}.column", "is missing")
        numbers = {}
        for key, default in (("min", -math.inf), ("max", math.inf)):
            given = found.get(key, default)
            if isinstance(given, bool) or not isinstance(given, int | float):
                self._note(f"{path}.{key}", f"is {called(given)}, must be a number")
                given = default
            numbers[key] = float(given)
        allowed = frozenset(self._texts(f"{path}.in", found["in"])) if "in" in found else None
        others = frozenset(self._texts(f"{path}.not", found.get("not", [])))
        return _Filter(str(column), allowed, others, numbers["min"], numbers["max"])


def _read_table(file: InputFile, mapping: _Mapping, label: str, reading: Reading) -> None:
    rows = file.rows(reading.odd, delimiter=mapping.delimiter)
    header = list(mapping.header)
    if not header:
        _, titles = next(rows, (1, []))
        header = [title.strip() for title in titles]
    places = {title: place for place, title in enumerate(header)}
    wanted = {column for source in mapping.sources.values() for column in source.columns}
    wanted |= {one.column for one in mapping.filters}
    if missing := sorted(wanted - set(places)):
        named = [Problem(label, f"{file.label} has no column {name!r}{nearest(name, places)}") for name in missing]
        raise InvalidInput("the mapping", named)
    line = Line(file.label, reading.odd)
    for number, (at, row) in enumerate(rows, start=1):
        line.at(at)
        if len(row) != len(header):
            line.note("", f"has {len(row)} fields, not {len(header)}")
            line.reject()
        elif not all(one.passes(row[places[one.column]].strip()) for one in mapping.filters):
            line.skip(FILTERED)
        else:
            cells = {name: _cell(name, source, row, places, line) for name, source in mapping.sources.items()}
            ours.take(cells, line, number, reading)


def _cell(name: str, source: _Source, row: Sequence[str], places: Mapping[str, int], line: Line) -> str:
    """Return what our own CSV would have in a cell."""
    if source.value:
        return source.value
    if source.start:
        begun = _seconds(source.start, row[places[source.start]].strip(), source.unit, line)
        ended = _seconds(source.end, row[places[source.end]].strip(), source.unit, line)
        return repr(ended - begun)
    text = row[places[source.column]].strip()
    if not text or not (source.unit or name in ("cpu", "gpu")):
        return text
    if name in _OF_TIME:
        return repr(_seconds(source.column, text, source.unit, line))
    if name == "memory":
        return str(math.ceil(line.number_in(source.column, text, 0, 2.0**60) * _BYTES[source.unit]))
    return text


def _seconds(column: str, text: str, unit: str, line: Line) -> float:
    if unit == _TIME:
        found = instant_seconds(text)
        if found is None:
            line.note(column, f"{shown(text)} is no time such as 2024-01-31 12:00:00")
        return found or 0.0
    return line.number_in(column, text, -1e21, 1e21) * _SECONDS[unit or "s"]


FORMAT: Final = Format(
    name="mapping",
    title="any CSV or Parquet, by a YAML file of the kind TraceMapping",
    recognise=_recognise,
    read=_read,
    queue_fields=("queue", "user"),
)
