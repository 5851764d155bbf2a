"""The Philly jobs of one virtual cluster as ElasticFlow has them: models, iterations and absolute deadlines.

Columns: ``job_id``, ``submit_time`` (s), ``real_iteration``, ``model_name``, ``ddl`` (deadline, s of the trace),
``batch_size``, ``num_gpu``, ``real_duration``, ``duration`` (s), ``iteration``. Source: pkusys/ElasticFlow; D. Gu et
al., "ElasticFlow", ASPLOS 2023.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from strato.sim.traces.cells import MOST_SECONDS
from strato.sim.traces.formats.tables import gpu_requests, has_header, records
from strato.sim.traces.input import InputFile
from strato.sim.traces.reading import Format, Head, Reading
from strato.sim.workloads.jobs import TraceJob

_COLUMNS = ("job_id", "submit_time", "model_name", "ddl", "num_gpu", "duration")


def _recognise(head: Head) -> int:
    return 10 if has_header(head, *_COLUMNS) else 0


def _read(files: Sequence[InputFile], reading: Reading) -> None:
    for file in files:
        for line, (number, submitted, model, deadline, gpus, duration) in records(file, reading, _COLUMNS):
            job = TraceJob(
                name=reading.names.new(number),
                submit_seconds=line.number_in("submit_time", submitted, 0, MOST_SECONDS),
                run_seconds=line.number_in("duration", duration, 0, MOST_SECONDS),
                replicas=line.whole("num_gpu", gpus, 1),
                requests=gpu_requests(1),
                application=model,
                deadline_seconds=line.number_in("ddl", deadline, 0, MOST_SECONDS) if deadline else None,
            )
            if not line.reject():
                reading.add(job)


FORMAT: Final = Format(
    name="elasticflow",
    title="Philly with deadlines, of ElasticFlow (CSV)",
    recognise=_recognise,
    read=_read,
)
