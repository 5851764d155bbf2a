"""Tasks of Alibaba's 2018 trace as CloudSimPy samples them: a CSV with a header.

Columns: ``submit_time`` (s), ``duration`` (s, mean of the instances), ``cpu`` (cores per instance), ``memory`` (share
of the largest machine, 0 to 1), ``job_id``, ``task_id`` (``6_2_5`` is task 6, after tasks 2 and 5), ``instances_num``.
Source: RobertLexis/CloudSimPy; derived from alibaba/clusterdata, ``cluster-trace-v2018``. Sizes and instances are as
in `alibaba2018`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Final

from strato.sim.traces.cells import MOST_SECONDS, LineReader, cores, memory, requests_of
from strato.sim.traces.formats.alibaba2018 import LARGEST_MEMORY_BYTES, BatchTask, add_workflow
from strato.sim.traces.formats.tables import has_header, records
from strato.sim.traces.input import InputFile
from strato.sim.traces.reading import Format, Head, Reading
from strato.sim.workloads.jobs import TraceJob

_COLUMNS = ("submit_time", "duration", "cpu", "memory", "job_id", "task_id", "instances_num")


def _recognise(head: Head) -> int:
    return 10 if has_header(head, *_COLUMNS) else 0


def _read(files: Sequence[InputFile], reading: Reading) -> None:
    for file in files:
        jobs: dict[str, list[BatchTask]] = defaultdict(list)
        for line, cells in records(file, reading, _COLUMNS):
            task = _task(cells, line, reading)
            if not line.reject():
                jobs[cells[4]].append(task)
        for tasks in jobs.values():
            add_workflow(tasks, reading)


def _task(cells: Sequence[str], line: LineReader, reading: Reading) -> BatchTask:
    submitted, duration, cpu, mem, job, task, instances = cells
    number, *after = task.split("_")
    replicas = line.whole("instances_num", instances, 1)
    share = line.number_in("memory", mem, 0, 1.01)
    requests = requests_of(cpu=cores(line.number_in("cpu", cpu, 0, 1e6)), memory=memory(share * LARGEST_MEMORY_BYTES))
    made = TraceJob(
        name=reading.names.new(f"{job}-{number}"),
        submit_seconds=line.number_in("submit_time", submitted, 0, MOST_SECONDS),
        run_seconds=line.number_in("duration", duration, 0, MOST_SECONDS),
        replicas=replicas,
        min_replicas=1 if replicas > 1 else None,
        requests=requests,
    )
    return BatchTask(number, tuple(after), made)


FORMAT: Final = Format(
    name="cloudsimpy",
    title="Alibaba 2018, sample of CloudSimPy (CSV with a header)",
    recognise=_recognise,
    read=_read,
)
