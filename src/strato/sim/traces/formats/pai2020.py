"""Alibaba's GPU cluster of 2020 (PAI): ``pai_task_table``, ``pai_job_table`` and ``pai_machine_spec``, without
headers.

Tasks: job_name, task_name, inst_num, status, start_time, end_time (s), plan_cpu (100 is a core), plan_mem (GB),
plan_gpu (100 is a GPU, 50 a half), gpu_type. Jobs: job_name, inst_id, user, status, start_time (of its submission),
end_time. Machines: machine, gpu_type, cap_cpu, cap_mem (GB), cap_gpu. Source: alibaba/clusterdata,
``cluster-trace-gpu-v2020``; Q. Weng et al., "MLaaS in the Wild", NSDI 2022. Each task (``ps``, ``worker``, …) becomes
a job of equal pods that start together; with the table of jobs it is submitted when its job was, and has its user.
Shares of GPUs are written as the plugins ``deviceshare`` and ``fgd`` read them. The type of GPU is the one a task got,
so it is not asked for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from strato.node.shapes import NodeShape
from strato.sim.traces.cells import MOST_SECONDS, LineReader, cores, label_value, memory
from strato.sim.traces.formats.alibaba2018 import NOT_WHOLE
from strato.sim.traces.formats.tables import fixed, is_number, most_fit, share_requests, shared_cards
from strato.sim.traces.input import InputFile
from strato.sim.traces.reading import GPU_MODEL, Format, Head, Reading
from strato.sim.workloads.jobs import TraceJob

_GIB = 1 << 30
_STATES = frozenset({"Terminated", "Failed", "Running", "Waiting"})
_HEADERS = {"job_name": (6, 10), "machine": (5,)}
_TASKS, _JOBS, _MACHINES = 10, 6, 5


def _recognise(head: Head) -> int:
    kind = max(
        (_TASKS, _JOBS, _MACHINES), key=lambda fields: sum(_kind(line.split(",")) == fields for line in head.lines)
    )
    return (11 if head.name.startswith("pai_") else 10) if most_fit(head, lambda row: _kind(row) == kind) else 0


def _kind(row: Sequence[str]) -> int:
    """Return the number of fields of the table to which a row seems to belong; 0 if it belongs to none."""
    if len(row) in _HEADERS.get(row[0], ()) and (row[1] in ("task_name", "inst_id", "gpu_type")):
        return len(row)
    if len(row) == _TASKS and row[3] in _STATES and is_number(row[2]):
        return _TASKS
    if len(row) == _JOBS and row[3] in _STATES and len(row[1]) > 20:
        return _JOBS
    return _MACHINES if len(row) == _MACHINES and len(row[0]) == 24 and all(map(is_number, row[2:])) else 0


def _read(files: Sequence[InputFile], reading: Reading) -> None:
    by_kind: dict[int, list[InputFile]] = {_TASKS: [], _JOBS: [], _MACHINES: []}
    for file in files:
        first = file.head.partition(b"\n")[0].decode(errors="replace").strip().split(",")
        by_kind.get(_kind(first), []).append(file)
    submitted: dict[str, tuple[float, str]] = {}
    for file in by_kind[_JOBS]:
        for line, (name, _, user, _, start, _) in fixed(file, reading, _JOBS, header="job_name"):
            at = line.number_in("start_time", start, 0, MOST_SECONDS) if start else -1.0
            if not line.reject():
                submitted[name] = (at, user)
    for file in by_kind[_TASKS]:
        for line, cells in fixed(file, reading, _TASKS, header="job_name"):
            job = _job(cells, line, submitted, reading)
            if not line.reject() and job is not None:
                reading.add(job)
    for file in by_kind[_MACHINES]:
        _read_machines(file, reading)


def _job(
    cells: Sequence[str], line: LineReader, submitted: Mapping[str, tuple[float, str]], reading: Reading
) -> TraceJob | None:
    name, task, instances, _, start_text, end_text, cpu, mem, gpu, _ = cells
    if not start_text or not end_text or not instances:
        line.skip(NOT_WHOLE)
        return None
    start = line.number_in("start_time", start_text, 0, MOST_SECONDS)
    end = line.number_in("end_time", end_text, 0, MOST_SECONDS)
    replicas = line.whole("inst_num", instances, 1)
    requests = {
        "cpu": cores(line.number_in("plan_cpu", cpu, 0, 1e6) / 100) if cpu else "",
        "memory": memory(line.number_in("plan_mem", mem, 0, 1e6) * _GIB) if mem else "",
        **share_requests(line.number_in("plan_gpu", gpu, 0, 1e5) if gpu else 0.0),
    }
    if end < start:
        line.skip(NOT_WHOLE)
        return None
    at, user = submitted.get(name, (-1.0, ""))
    submit = at if 0 <= at <= start else start
    return TraceJob(
        name=reading.names.new(f"{name[:24]}-{task}"),
        submit_seconds=submit,
        run_seconds=end - start,
        replicas=replicas,
        requests={resource: amount for resource, amount in requests.items() if amount} or {"cpu": "1"},
        queue=reading.queue("", user=user),
        user=user,
        application=task,
        waited_seconds=start - submit if at >= 0 else None,
    )


def _read_machines(file: InputFile, reading: Reading) -> None:
    for line, (name, model, cpu, mem, gpu) in fixed(file, reading, _MACHINES, header="machine"):
        resources = {
            "cpu": cores(line.number_in("cap_cpu", cpu, 1, 1e5)),
            "memory": memory(line.number_in("cap_mem", mem, 1, 1e6) * _GIB),
            "pods": "1000",
            **shared_cards(line.whole("cap_gpu", gpu, 0, 64)),
        }
        if not line.reject():
            labels = {GPU_MODEL: label_value(model)} if model and model != "CPU" else {}
            reading.add_nodes(NodeShape(1, resources, labels=labels, name=reading.names.new(name)))


FORMAT: Final = Format(
    name="alibaba-gpu-2020",
    title="Alibaba GPU 2020 (PAI), pai_task_table with pai_job_table and pai_machine_spec",
    recognise=_recognise,
    read=_read,
    reads_parts=True,
    queue_fields=("user",),
)
