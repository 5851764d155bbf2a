"""Google's traces of 2019 as BigQuery exports them: ``instance_events``, ``collection_events``, ``machine_events``.

An export is JSON, an object a line with numbers as text, or CSV with a header and nested fields such as
``resource_request.cpus`` (or ``resource_request_cpus``, or the object as text). Fields and values are those of
clusterdata_trace_format_v3.proto in google/cluster-data: time in µs (0 is before the trace), type by number or name (0
SUBMIT, 3 SCHEDULE, 4 EVICT, 5 FAIL, 6 FINISH, 7 KILL, 8 LOST), collection_id, instance_index, priority,
resource_request (shares of the largest machine), collection_type (1 is an alloc set: a reservation, passed over).
Collections give the user and ``start_after_collection_ids``. How instances become jobs is in `borg`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from strato.decoding import UNDECODABLE
from strato.sim.traces.cells import LineReader
from strato.sim.traces.formats.borg import Machines, TaskEvent, Tasks
from strato.sim.traces.formats.tables import cells_by_title
from strato.sim.traces.input import InputFile, why
from strato.sim.traces.reading import Format, Head, Reading

ALLOCS: Final = "reservations (alloc instances)"
_TYPES = (
    *("SUBMIT", "QUEUE", "ENABLE", "SCHEDULE", "EVICT", "FAIL", "FINISH", "KILL", "LOST"),
    *("UPDATE_PENDING", "UPDATE_RUNNING"),
)
"""The types of events, by their number."""
_NUMBERS = {**{name: number for number, name in enumerate(_TYPES)}, **{str(number): number for number in range(11)}}
_EVENTS = (
    TaskEvent.SUBMIT,
    TaskEvent.OTHER,
    TaskEvent.OTHER,
    TaskEvent.START,
    *(TaskEvent.END,) * 5,
    TaskEvent.OTHER,
    TaskEvent.OTHER,
)
_MACHINE_TYPES = {"1": 1, "2": 2, "3": 3, "ADD": 1, "REMOVE": 2, "UPDATE": 3}
_AFTER_THE_TRACE = 2**63 - 1
_SETS = ("1", "ALLOC_SET")


def _recognise(head: Head) -> int:
    keys = _keys(head)
    instances = {"time", "type", "collection_id", "instance_index"} <= keys
    collections = {"time", "type", "collection_id", "user"} <= keys
    machines = {"time", "type", "machine_id", "platform_id"} <= keys
    return 10 if instances or collections or machines else 0


def _keys(head: Head) -> set[str]:
    first = head.lines[0] if head.lines else ""
    if not first.lstrip().startswith("{"):
        return set(head.header)
    try:
        entry = msgspec.json.decode(first)
    except UNDECODABLE:
        return set()
    return set(entry) if isinstance(entry, dict) else set()


def _read(files: Sequence[InputFile], reading: Reading) -> None:
    tasks, machines = Tasks(), Machines()
    users: dict[str, str] = {}
    after: dict[str, list[str]] = {}
    for file in sorted(files, key=_is_collections, reverse=True):  # first the files that give users of collections
        for line, entry in _entries(file, reading):
            if "instance_index" in entry:
                _note_instance(entry, line, tasks, users)
            elif "collection_id" in entry:
                _note_collection(entry, users, after)
            else:
                _note_machine(entry, line, machines)
            line.reject()
    tasks.add_to(reading, after)
    machines.add_to(reading)


def _is_collections(file: InputFile) -> bool:
    return b"instance_index" not in file.head[:4000]


def _entries(file: InputFile, reading: Reading) -> Iterator[tuple[LineReader, Mapping[str, Any]]]:
    if not file.head.lstrip().startswith(b"{"):
        yield from cells_by_title(file, reading)
        return
    line = reading.line(file)
    decoder = msgspec.json.Decoder(dict[str, Any])
    for number, text in file.lines(reading.odd):
        if not text.strip():
            continue
        try:
            entry = decoder.decode(text)
        except UNDECODABLE as error:
            line.at(number).note("", f"is no object in JSON: {why(error)}")
            line.reject()
            continue
        yield line.at(number), entry


def _text(entry: Mapping[str, Any], key: str) -> str:
    value = entry.get(key)
    return "" if value is None else str(value).strip()


def _type(entry: Mapping[str, Any], line: LineReader) -> int:
    number = _NUMBERS.get(_text(entry, "type").upper())
    if number is None:
        line.note("type", f"{_text(entry, 'type')[:40]!r} is no event")
        return 1
    return number


def _size(entry: Mapping[str, Any], name: str, line: LineReader) -> tuple[float, float]:
    """Return CPUs and memory of a nested or flat entry."""
    value = entry.get(name)
    if isinstance(value, str) and value.startswith("{") and len(value) < 200:
        try:
            value = ast.literal_eval(value)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            value = None
    found = []
    for part in ("cpus", "memory"):
        given = value.get(part) if isinstance(value, dict) else entry.get(f"{name}.{part}", entry.get(f"{name}_{part}"))
        found.append(0.0 if given in (None, "") else line.number_in(f"{name}.{part}", str(given), 0, 1.01))
    return found[0], found[1]


def _note_instance(entry: Mapping[str, Any], line: LineReader, tasks: Tasks, users: Mapping[str, str]) -> None:
    event = _EVENTS[_type(entry, line)]
    at = line.whole("time", _text(entry, "time"), 0, _AFTER_THE_TRACE)
    priority = line.whole("priority", _text(entry, "priority") or "0", 0, 1000)
    size = _size(entry, "resource_request", line)
    if _text(entry, "collection_type").upper() in _SETS:
        if event is TaskEvent.SUBMIT:
            line.skip(ALLOCS)
        return
    job = _text(entry, "collection_id")
    if at < _AFTER_THE_TRACE:
        tasks.note((job, _text(entry, "instance_index")), event, at, size, (priority, users.get(job, "")))


def _note_collection(entry: Mapping[str, Any], users: dict[str, str], after: dict[str, list[str]]) -> None:
    job = _text(entry, "collection_id")
    if user := _text(entry, "user"):
        users.setdefault(job, user)
    before = entry.get("start_after_collection_ids")
    if isinstance(before, str):
        before = [part.strip(" '\"") for part in before.strip("[]").split(",")]
    if isinstance(before, list):
        known = after.setdefault(job, [])
        known.extend(str(one) for one in before[:100] if str(one) and str(one) not in known)


def _note_machine(entry: Mapping[str, Any], line: LineReader, machines: Machines) -> None:
    at = line.whole("time", _text(entry, "time"), 0, _AFTER_THE_TRACE)
    cpu, mem = _size(entry, "capacity", line)
    if _MACHINE_TYPES.get(_text(entry, "type").upper(), 1) != 2:
        machines.note(_text(entry, "machine_id"), at, cpu, mem, _text(entry, "platform_id"))


FORMAT: Final = Format(
    name="google-2019",
    title="Google 2019, instance_events with collection_events and machine_events (JSON or CSV of BigQuery)",
    recognise=_recognise,
    read=_read,
    reads_parts=True,
    queue_fields=("user",),
)
