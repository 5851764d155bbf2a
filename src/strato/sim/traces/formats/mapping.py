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
from typing import Final

from strato.api import yamltext
from strato.errors import InvalidInput, Problem, nearest, one_line
from strato.sim.documents import Document
from strato.sim.traces.cells import LineReader, instant_seconds, shown
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


@dataclass(frozen=True, slots=True)
class _Source:
    """The column, value and unit from which one column of our own CSV is made."""

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
        InvalidInput: The mapping has problems; all are listed.
    """
    try:
        document = yamltext.load(file.document())
    except (yamltext.InvalidYaml, UnicodeDecodeError) as error:
        raise InvalidInput("the mapping", [Problem(file.label, f"is not YAML: {one_line(error)}")]) from error
    return _mapping_of(document, Document("the mapping", file.label))


def _mapping_of(given: object, document: Document) -> _Mapping:
    top = document.mapping("", given, _KEYS)
    header = document.texts("header", top.get("header", []))
    known = document.mapping("columns", top.get("columns", {}), tuple(ours.COLUMNS))
    sources = {name: _source(document, f"columns.{name}", name, value) for name, value in known.items()}
    for name in ("submit", "run_time"):
        if name not in sources:
            document.note(f"columns.{name}", "is missing; every job has one")
    files = document.texts("files", top.get("files", []))
    if not files:
        document.note("files", "is missing; name the CSV or Parquet files")
    given_filters = document.items("filters", top.get("filters"))
    filters = tuple(_filter(document, f"filters[{at}]", value) for at, value in enumerate(given_filters))
    delimiter = top.get("delimiter", ",")
    if not isinstance(delimiter, str) or len(delimiter) != 1:
        document.note("delimiter", f"{delimiter!r} is no single character")
        delimiter = ","
    document.raise_any()
    return _Mapping(files, delimiter, header, sources, filters)


def _source(document: Document, path: str, name: str, value: object) -> _Source:
    if isinstance(value, str):
        return _Source(column=value)
    found = document.mapping(path, value, _COLUMN_KEYS)
    texts = {key: str(one) for key, one in found.items() if one is not None}
    ways = [way for way in (("column",), ("value",), ("start", "end")) if any(key in texts for key in way)]
    if len(ways) != 1 or not all(key in texts for key in ways[0]):
        document.note(path, "needs one of: column; value; start and end")
    units = (*_SECONDS, _TIME) if name in _OF_TIME else tuple(_BYTES) if name == "memory" else ()
    unit = texts.get("unit", "")
    if unit and unit not in units:
        document.note(f"{path}.unit", f"{unit!r} is no unit of {name}" + (nearest(unit, units) if units else ""))
    if "start" in texts and name != "run_time":
        document.note(path, "only run_time is from start to end")
    return _Source(**texts)


def _filter(document: Document, path: str, value: object) -> _Filter:
    found = document.mapping(path, value, _FILTER_KEYS)
    column = document.text(f"{path}.column", found.get("column", ""))
    if not column:
        document.note(f"{path}.column", "is missing")
    low, high = (
        document.number(f"{path}.{key}", found[key], -math.inf, math.inf) if key in found else default
        for key, default in (("min", -math.inf), ("max", math.inf))
    )
    allowed = frozenset(document.texts(f"{path}.in", found["in"])) if "in" in found else None
    others = frozenset(document.texts(f"{path}.not", found.get("not", [])))
    return _Filter(column, allowed, others, low, high)


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
    line = LineReader(file.label, reading.odd)
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


def _cell(name: str, source: _Source, row: Sequence[str], places: Mapping[str, int], line: LineReader) -> str:
    """Return the text of a cell of our own CSV."""
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


def _seconds(column: str, text: str, unit: str, line: LineReader) -> float:
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
