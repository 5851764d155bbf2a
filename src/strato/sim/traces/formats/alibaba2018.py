"""Alibaba's cluster of 2018: ``batch_task.csv`` and ``machine_meta.csv``, without headers.

Tasks: task_name, inst_num, task_type, job_name, status, start_time, end_time (s; 0 is outside the eight days),
plan_cpu (100 is a core), plan_mem (per cent of the largest machine). Names say what a task waits for: ``M1`` for
nothing, ``R4_2_3`` for the tasks 2 and 3 of its job; others (``task_Nzg3…``) for nothing. Machines: machine_id,
time_stamp, failure domains 1 and 2, cpu_num, mem_size (per cent), status. Source: alibaba/clusterdata,
``cluster-trace-v2018`` (schema.txt, trace_2018.md).

A task becomes a job whose pods, its instances, start one by one as they fit. A task that waits for others is submitted
when the first task of its job began, and starts after these; other tasks are submitted when they began. The memory of
the largest machine is not published; 512 GiB is assumed.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from typing import Final, NamedTuple

from strato.node.shapes import NodeShape
from strato.sim.traces.cells import MOST_SECONDS, LineReader, cores, label_value, memory, requests_of
from strato.sim.traces.formats.tables import fixed, is_whole, most_fit
from strato.sim.traces.input import InputFile
from strato.sim.traces.reading import Format, Head, Reading
from strato.sim.workloads.jobs import TraceJob

LARGEST_MEMORY_BYTES: Final = 512 << 30
"""Assumed memory of the largest machine; the trace has shares of it."""
NOT_WHOLE: Final = "did not run to its end within the trace"
_DAG_NAME = re.compile(r"[A-Za-z]+(\d{1,9})((?:_\d{1,9})*)(?:_|$)")
_STATES = frozenset({"Terminated", "Failed", "Running", "Waiting", "Ready", "Interrupted", "Cancelled"})
_TASK_FIELDS, _MACHINE_FIELDS = 9, 7
_RACK, _ZONE = "topology.kubernetes.io/rack", "topology.kubernetes.io/zone"


class BatchTask(NamedTuple):
    """One task of a workflow."""

    number: str
    """The task's number in its job; empty if its name has none, so that no task can wait for it."""
    after: tuple[str, ...]
    """Numbers of the tasks that must end before this one starts."""
    job: TraceJob
    """The task as a job, still without dependencies."""


def _recognise(head: Head) -> int:
    if not most_fit(head, _is_task) and not most_fit(head, _is_machine):
        return 0
    return 11 if "batch_task" in head.name or "machine_meta" in head.name else 10


def _is_task(row: Sequence[str]) -> bool:
    return len(row) == _TASK_FIELDS and row[4] in _STATES and is_whole(row[1])


def _is_machine(row: Sequence[str]) -> bool:
    return len(row) == _MACHINE_FIELDS and row[0].startswith("m_") and all(map(is_whole, (row[1], row[2], row[4])))


def _read(files: Sequence[InputFile], reading: Reading) -> None:
    jobs: dict[str, list[BatchTask]] = defaultdict(list)
    for file in files:
        first = file.head.partition(b"\n")[0].decode(errors="replace").strip().split(",")
        if _is_machine(first):
            _read_machines(file, reading)
            continue
        for line, cells in fixed(file, reading, _TASK_FIELDS):
            task = _task(cells, line, reading)
            if not line.reject() and task is not None:
                jobs[cells[3]].append(task)
    for tasks in jobs.values():
        add_workflow(tasks, reading)


def _task(cells: Sequence[str], line: LineReader, reading: Reading) -> BatchTask | None:
    name, instances, _, job_name, state, start_text, end_text, cpu, mem = cells
    start = line.number_in("start_time", start_text, 0, MOST_SECONDS)
    end = line.number_in("end_time", end_text, 0, MOST_SECONDS)
    if state != "Terminated" or start <= 0 or end < start:
        line.skip(NOT_WHOLE)
        return None
    replicas = line.whole("inst_num", instances, 1)
    number, after = dag_of(name)
    share = line.number_in("plan_mem", mem, 0, 101) / 100 if mem else 0.0
    job = TraceJob(
        name=reading.names.new(f"{job_name}-{number or name[-12:]}"),
        submit_seconds=start,
        run_seconds=end - start,
        replicas=replicas,
        min_replicas=1 if replicas > 1 else None,
        requests=requests_of(
            cpu=cores(line.number_in("plan_cpu", cpu, 0, 1e6) / 100) if cpu else "",
            memory=memory(share * LARGEST_MEMORY_BYTES),
        ),
    )
    return BatchTask(number, after, job)


def dag_of(name: str) -> tuple[str, tuple[str, ...]]:
    """Return the number of a task and those of the tasks that it waits for, from its name; empty if it names none."""
    found = _DAG_NAME.match(name)
    if found is None or name.startswith("task_"):
        return "", ()
    return found[1], tuple(filter(None, found[2].split("_")))


def add_workflow(tasks: Sequence[BatchTask], reading: Reading) -> None:
    """Add the tasks of a job to a reading, with dependencies on those tasks of it that the trace has.

    A task with dependencies is submitted when the first task of the job began, the others when they began.
    """
    names = {task.number: task.job.name for task in tasks if task.number}
    start = min(task.job.submit_seconds for task in tasks)
    for task in tasks:
        earlier = [number for number in task.after if _is_before(number, task.number)]
        after = tuple(names[number] for number in dict.fromkeys(earlier) if number in names)
        reading.add(_with(task.job, start if after else task.job.submit_seconds, after))


def _is_before(number: str, other: str) -> bool:
    """Whether a number is lower than another. Dependencies on higher numbers are left out, so there is no cycle."""
    return (len(number), number) < (len(other), other)


def _with(job: TraceJob, submit: float, after: tuple[str, ...]) -> TraceJob:
    return TraceJob(
        name=job.name,
        submit_seconds=submit,
        run_seconds=job.run_seconds,
        replicas=job.replicas,
        min_replicas=job.min_replicas,
        requests=job.requests,
        after=after,
    )


def _read_machines(file: InputFile, reading: Reading) -> None:
    known: set[str] = set()
    for line, (name, _, near, far, cpus, mem, _) in fixed(file, reading, _MACHINE_FIELDS):
        if name in known:  # a later event of the same machine
            continue
        cpu = line.whole("cpu_num", cpus, 1)
        share = line.number_in("mem_size", mem, 0, 101) / 100
        if not line.reject():
            known.add(name)
            resources = {"cpu": str(cpu), "memory": memory(share * LARGEST_MEMORY_BYTES) or "1Gi", "pods": "1000"}
            labels = {_RACK: label_value(near), _ZONE: label_value(far)}
            reading.add_nodes(NodeShape(1, resources, labels=labels, name=reading.names.new(name)))


FORMAT: Final = Format(
    name="alibaba-2018",
    title="Alibaba 2018, batch_task.csv with machine_meta.csv",
    recognise=_recognise,
    read=_read,
    reads_parts=True,
)
