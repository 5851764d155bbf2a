"""Azure's virtual machines of 2017 and 2019: ``vmtable.csv``, without a header.

Fields: vm id, subscription id, deployment id, created (s), deleted (s), max, mean and 95th percentile of CPU use,
category, cores (2019: a bucket, ``>24`` for the largest), memory in GB (``>64``). Source: Azure/AzurePublicDataset, V1
and V2; E. Cortez et al., "Resource Central", SOSP 2017. A machine becomes a job of one pod; the buckets that are open
above are 30 cores and 70 GB, as in the publisher's notebook, and a lifetime is at least the five minutes of a sample.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from strato.sim.traces.cells import MOST_SECONDS, LineReader, cores, memory
from strato.sim.traces.formats.tables import fixed, is_number, most_fit
from strato.sim.traces.input import InputFile
from strato.sim.traces.reading import Format, Head, Reading
from strato.sim.workloads.jobs import TraceJob

_FIELDS = 11
_CATEGORIES = frozenset({"Delay-insensitive", "Interactive", "Unknown"})
_OPEN = {">24": "30", ">64": "70"}
_SAMPLE_SECONDS = 300.0


def _recognise(head: Head) -> int:
    return (11 if "vmtable" in head.name else 10) if most_fit(head, _is_row) else 0


def _is_row(row: Sequence[str]) -> bool:
    return len(row) == _FIELDS and row[8] in _CATEGORIES and is_number(row[3])


def _read(files: Sequence[InputFile], reading: Reading) -> None:
    number = 0
    for file in files:
        for line, cells in fixed(file, reading, _FIELDS):
            number += 1
            job = _job(cells, line, number, reading)
            if not line.reject():
                reading.add(job)


def _job(cells: Sequence[str], line: LineReader, number: int, reading: Reading) -> TraceJob:
    user, category, cpu, mem = cells[1], cells[8], cells[9], cells[10]
    created = line.number_in("created", cells[3], 0, MOST_SECONDS)
    deleted = line.number_in("deleted", cells[4], 0, MOST_SECONDS)
    cpus = line.number_in("cores", _OPEN.get(cpu, cpu), 0.01, 1e4)
    gigabytes = line.number_in("memory", _OPEN.get(mem, mem), 0.01, 1e5)
    return TraceJob(
        name=f"vm-{number}",
        submit_seconds=created,
        run_seconds=max(_SAMPLE_SECONDS, deleted - created),
        requests={"cpu": cores(cpus), "memory": memory(gigabytes * (1 << 30))},
        queue=reading.queue("", user=user, group=cells[2]),
        user=user,
        application=category,
    )


FORMAT: Final = Format(
    name="azure",
    title="Azure VM traces 2017 and 2019, vmtable.csv",
    recognise=_recognise,
    read=_read,
    reads_parts=True,
    queue_fields=("group", "user"),
)
