"""The Philly jobs of Chronus with deadlines: CSV of jobs that lease GPUs, strict, soft or best effort.

Columns: ``job_id``, ``user`` (virtual cluster), ``num_gpu``, ``submit_time`` (s), ``iterations``, ``model_name``,
``duration`` (s), ``interval`` (checkpoint, s), ``expect_time_list`` (deadlines in s after submission, separated by
``-``), ``expect_value_list``, ``best_effort``, ``job_type``. The first deadline is the one with the full value; jobs
of the type ``best`` have none. A job is a gang of pods with one GPU each; about 200 ask for none and are a pod of one
CPU. Source: S-Lab-System-Group/ChronusArtifact; W. Gao et al., "Chronus", SoCC 2021.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from strato.sim.traces.cells import MOST_SECONDS, LineReader
from strato.sim.traces.formats.tables import gpu_requests, has_header, records
from strato.sim.traces.input import InputFile
from strato.sim.traces.reading import Format, Head, Reading
from strato.sim.workloads.jobs import TraceJob

_COLUMNS = ("job_id", "user", "num_gpu", "submit_time", "model_name", "duration", "expect_time_list", "job_type")


def _recognise(head: Head) -> int:
    return 10 if has_header(head, *_COLUMNS) else 0


def _read(files: Sequence[InputFile], reading: Reading) -> None:
    for file in files:
        for line, cells in records(file, reading, _COLUMNS):
            job = _job(cells, line, reading)
            if not line.reject():
                reading.add(job)


def _job(cells: Sequence[str], line: LineReader, reading: Reading) -> TraceJob:
    number, user, gpus, submitted, model, duration, expected, kind = cells
    submit = line.number_in("submit_time", submitted, 0, MOST_SECONDS)
    deadline = None
    if kind != "best" and expected:
        deadline = submit + line.number_in("expect_time_list", expected.partition("-")[0], 0, MOST_SECONDS)
    replicas = line.whole("num_gpu", gpus)
    return TraceJob(
        name=reading.names.new(number),
        submit_seconds=submit,
        run_seconds=line.number_in("duration", duration, 0, MOST_SECONDS),
        replicas=max(1, replicas),
        requests=gpu_requests(min(1, replicas)),
        queue=reading.queue(queue=user),
        application=model,
        deadline_seconds=deadline,
    )


FORMAT: Final = Format(
    name="chronus",
    title="Philly with deadlines, of Chronus (CSV)",
    recognise=_recognise,
    read=_read,
    queue_fields=("queue",),
)
