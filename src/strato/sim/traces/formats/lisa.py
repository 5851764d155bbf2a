"""SURF Lisa 2022, and the tasks of OpenDC: a CSV or Parquet with submission and duration in milliseconds.

Columns: ``id``, ``submission_time`` (Unix milliseconds, or a time), ``duration`` (ms), and where they are not left out
``cpu_count``, ``cpu_capacity`` (MHz), ``mem_capacity`` (MB). Source: atlarge-research/opendc, the workload
``surf_halfyear``; F. Mastenbroek et al., "OpenDC 2.0", CCGrid 2021. Where sizes are left out a job asks for 16 cores
and 100 GB, as every job of that workload does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from strato.sim.traces.cells import MOST_SECONDS, LineReader, cores, instant_seconds, memory
from strato.sim.traces.formats.tables import has_header, is_number, records
from strato.sim.traces.input import InputFile
from strato.sim.traces.reading import Format, Head, Reading
from strato.sim.workloads.jobs import TraceJob

_COLUMNS = ("id", "submission_time", "duration")
_MORE = ("cpu_count", "mem_capacity")
_OTHERS = frozenset({*_COLUMNS, *_MORE, "cpu_capacity", "nature", "deadline", "deferrable"})
_MEGABYTE = 1_000_000


def _recognise(head: Head) -> int:
    return 10 if has_header(head, *_COLUMNS) and set(head.header) <= _OTHERS else 0


def _read(files: Sequence[InputFile], reading: Reading) -> None:
    for file in files:
        for line, cells in records(file, reading, _COLUMNS, _MORE):
            job = _job(cells, line, reading)
            if not line.reject():
                reading.add(job)


def _job(cells: Sequence[str], line: LineReader, reading: Reading) -> TraceJob:
    number, submitted, duration, cpus, mem = cells
    return TraceJob(
        name=reading.names.new(number),
        submit_seconds=_instant(submitted, line),
        run_seconds=line.number_in("duration", duration, 0, MOST_SECONDS * 1000) / 1000,
        requests={
            "cpu": cores(line.number_in("cpu_count", cpus, 1, 1e5)) if cpus else "16",
            "memory": memory(line.number_in("mem_capacity", mem, 0, 1e9) * _MEGABYTE) or "1Gi" if mem else "100G",
        },
    )


def _instant(text: str, line: LineReader) -> float:
    if not is_number(text) and (found := instant_seconds(text)) is not None:
        return found
    return line.number_in("submission_time", text, 0, MOST_SECONDS * 1000) / 1000


FORMAT: Final = Format(
    name="lisa",
    title="SURF Lisa 2022 and other tasks of OpenDC (CSV or Parquet, milliseconds)",
    recognise=_recognise,
    read=_read,
)
