"""Google's trace of 2011 (clusterdata-2011-2): ``task_events`` and ``machine_events`` in parts, without headers.

Task events: time (µs; 0 is before the trace, 2^63-1 after it), missing information, job, task, machine, event (0
submit, 1 schedule, 2 evict, 3 fail, 4 finish, 5 kill, 6 lost, 7 and 8 update), user, scheduling class, priority (0 to
11), CPU, memory and disk asked for (shares of the largest machine), other machines wanted. Machine events: time,
machine, event (0 add, 1 remove, 2 update), platform, CPUs, memory. Source: google/cluster-data, format and schema of
version 2.1. How tasks become jobs is in `borg`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from strato.sim.traces.formats.borg import Machines, TaskEvent, Tasks
from strato.sim.traces.formats.tables import fixed, is_number, is_whole, most_fit
from strato.sim.traces.input import InputFile
from strato.sim.traces.reading import Format, Head, Reading

_TASK_FIELDS, _MACHINE_FIELDS = 13, 6
_EVENTS = (TaskEvent.SUBMIT, TaskEvent.START, *(TaskEvent.END,) * 5, TaskEvent.OTHER, TaskEvent.OTHER)
_AFTER_THE_TRACE = 2**63 - 1
_REMOVED = "1"


def _recognise(head: Head) -> int:
    named = head.name.startswith("part-") or "_events" in head.name
    return (11 if named else 10) if most_fit(head, _is_task) or most_fit(head, _is_machine) else 0


def _is_task(row: Sequence[str]) -> bool:
    whole = (row[0], row[2], row[3], row[5], row[8]) if len(row) == _TASK_FIELDS else ("",)
    return all(map(is_whole, whole)) and 0 <= int(row[5]) < len(_EVENTS)


def _is_machine(row: Sequence[str]) -> bool:
    return (
        len(row) == _MACHINE_FIELDS
        and is_whole(row[0])
        and is_whole(row[1])
        and row[2] in ("0", "1", "2")
        and all(not cell.strip() or is_number(cell) for cell in row[4:])
    )


def _read(files: Sequence[InputFile], reading: Reading) -> None:
    tasks, machines = Tasks(), Machines()
    for file in files:  # the order of the names is the order of time
        if _is_machine(file.head.partition(b"\n")[0].decode(errors="replace").strip().split(",")):
            _read_machines(file, machines, reading)
        else:
            _read_tasks(file, tasks, reading)
    tasks.add_to(reading)
    machines.add_to(reading)


def _read_tasks(file: InputFile, tasks: Tasks, reading: Reading) -> None:
    for line, cells in fixed(file, reading, _TASK_FIELDS):
        at = line.whole("time", cells[0], 0, _AFTER_THE_TRACE)
        event = line.whole("event type", cells[5], 0, len(_EVENTS) - 1)
        priority = line.whole("priority", cells[8], 0, 1000)
        cpu = line.number_in("CPU request", cells[9], 0, 1.01) if cells[9] else 0.0
        mem = line.number_in("memory request", cells[10], 0, 1.01) if cells[10] else 0.0
        if not line.reject() and at < _AFTER_THE_TRACE:
            tasks.note((cells[2], cells[3]), _EVENTS[event], at, (cpu, mem), (priority, cells[6]))


def _read_machines(file: InputFile, machines: Machines, reading: Reading) -> None:
    for line, (time, name, event, platform, cpu_text, mem_text) in fixed(file, reading, _MACHINE_FIELDS):
        at = line.whole("time", time, 0, _AFTER_THE_TRACE)
        cpu = line.number_in("CPUs", cpu_text, 0, 1.01) if cpu_text else 0.0
        mem = line.number_in("memory", mem_text, 0, 1.01) if mem_text else 0.0
        if not line.reject() and event != _REMOVED:
            machines.note(name, at, cpu, mem, platform)


FORMAT: Final = Format(
    name="google-2011",
    title="Google 2011, parts of task_events with machine_events",
    recognise=_recognise,
    read=_read,
    reads_parts=True,
    queue_fields=("user",),
)
