"""Standard Workload Format of the Parallel Workloads Archive: one job a line, 18 numbers; ``;`` begins a comment.

The fields are those of version 2.2 (https://www.cs.huji.ac.il/labs/parallel/workload/swf.html): job, submit (s),
wait (s), run (s), processors, average CPU time, memory used, processors requested, time requested (s), memory
requested, status, user, group, executable, queue, partition, preceding job, think time; -1 is not known. MetaCentrum's
logs add the nodes of the job, the name of its queue, and a request such as ``2:ppn=8``. Beside a log ``x.swf`` may
stand ``x.machines`` as the simulator Alea has it: id, name, nodes, CPUs per node, speed, memory per node in KB.
Without it the comments ``MaxNodes`` and ``MaxProcs`` give the machine.

Memory is ignored, as logs disagree on its unit. The preceding job is ignored too: the time of submission is in the log.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from strato.errors import UsageError
from strato.sim.traces.cells import LONGEST_NAME, MOST_REPLICAS, LineReader, cleaned_name, memory, shown
from strato.sim.traces.input import InputFile
from strato.sim.traces.oddities import Oddities
from strato.sim.traces.reading import Format, Head, Reading, ReadOptions, machine
from strato.sim.workloads.jobs import Trace, TraceJob

NEVER_RAN: Final = "never ran (no run time, processors or submission recorded)"
_FIELDS = 18
_NODE_REQUEST = re.compile(r"(\d{1,7}):ppn=(\d{1,7})")
_QUEUE_FIELD = {"user": 11, "group": 12, "queue": 14}
_NAMES = (
    "job",
    "submit",
    "wait",
    "run",
    "processors",
    "cpu time",
    "memory",
    "requested processors",
    "requested time",
    "requested memory",
    "status",
    "user",
    "group",
    "executable",
    "queue",
    "partition",
    "preceding job",
    "think time",
)  # fmt: skip -- a table
_LARGEST = 1e15
_MACHINE_COMMENT = re.compile(r";\s*(MaxNodes|MaxProcs):\s*(\d{1,9})\b")


def _recognise(head: Head) -> int:
    named = head.name.endswith(".swf")
    rows = [line.split() for line in head.lines if not line.lstrip().startswith(";")]
    fit = sum(len(row) >= _FIELDS and all(_number(text) is not None for text in row[:_FIELDS]) for row in rows)
    if rows and fit * 2 > len(rows):
        return 11 if named else 10
    return 3 if named else 0


def _read(files: Sequence[InputFile], reading: Reading) -> None:
    machines = [file for file in files if file.name.endswith(".machines")]
    limits: dict[str, int] = {}
    for file in files:
        if file not in machines:
            _read_lines(file.lines(reading.odd), file.label, reading, limits)
    for file in machines:
        _read_machines(file, reading)
    procs, nodes = limits.get("MaxProcs", 0), limits.get("MaxNodes", 0)
    if not machines and procs:
        count = nodes if 0 < nodes <= procs else procs
        reading.add_nodes(machine("", str(procs // count), count=count))


def _read_lines(lines: Iterator[tuple[int, str]], label: str, reading: Reading, limits: dict[str, int]) -> None:
    line = LineReader(label, reading.odd)
    taken: set[str] = set()
    for number, text in lines:
        content, mark, _ = text.partition(";")
        if mark and (found := _MACHINE_COMMENT.match(text)) is not None:
            limits.setdefault(found[1], int(found[2]))
        if not content.strip():
            continue
        fields = content.split()
        numbers = _numbers(fields, line.at(number))
        if not line.reject():
            _take(fields, numbers, line, reading, taken)


def _take(fields: Sequence[str], numbers: Sequence[float], line: LineReader, reading: Reading, taken: set[str]) -> None:
    job = _job(fields, numbers, reading)
    if job is None:
        line.skip(NEVER_RAN)
        return
    if job.name in taken:
        line.note("field 1 (job)", f"{shown(fields[0])} is taken by an earlier line")
    if not line.reject():
        taken.add(job.name)
        reading.add(job)


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if abs(number) < _LARGEST else None


def _numbers(fields: Sequence[str], line: LineReader) -> list[float]:
    if len(fields) < _FIELDS:
        line.note("", f"has {len(fields)} fields, the format has {_FIELDS}")
        return []
    numbers: list[float] = []
    for at, (name, text) in enumerate(zip(_NAMES, fields, strict=False), start=1):
        number = _number(text)
        if number is None:
            line.note(f"field {at} ({name})", f"{shown(text)} is no number")
            return []
        numbers.append(number)
    if max(numbers[4], numbers[7]) > MOST_REPLICAS:
        line.note("field 5 (processors)", f"{max(numbers[4], numbers[7]):g} is more than {MOST_REPLICAS:,}")
    return numbers


def _job(fields: Sequence[str], numbers: Sequence[float], reading: Reading) -> TraceJob | None:
    run = numbers[3]
    processors = int(numbers[7] if numbers[4] <= 0 else numbers[4])
    if run <= 0 or processors <= 0 or numbers[1] < 0:
        return None
    replicas, cpus = processors, 1
    for extra in fields[_FIELDS:]:
        shape = _NODE_REQUEST.match(extra)
        if shape is not None and int(shape[1]) * int(shape[2]) == processors:
            replicas, cpus = int(shape[1]), int(shape[2])
    user, executable = int(numbers[11]), int(numbers[13])
    return TraceJob(
        name=_job_name(fields[0]),
        submit_seconds=numbers[1],
        run_seconds=run,
        replicas=replicas,
        requests={"cpu": str(cpus)},
        queue=_queue(numbers, reading.options.queue_by),
        estimate_seconds=numbers[8] if numbers[8] > 0 else None,
        user=f"user-{user}" if user >= 0 else "",
        application=f"app-{executable}" if executable >= 0 else "",
        waited_seconds=numbers[2] if numbers[2] >= 0 else None,
    )


def _job_name(number: str) -> str:
    return f"job-{cleaned_name(number, LONGEST_NAME)}"


def _queue(numbers: Sequence[float], queue_by: str) -> str:
    if not queue_by:
        return ""
    number = int(numbers[_QUEUE_FIELD[queue_by]])
    return f"{queue_by}-{number}" if number >= 0 else ""


def _read_machines(file: InputFile, reading: Reading) -> None:
    line = reading.line(file)
    for number, text in file.lines(reading.odd):
        fields = text.split()
        if not fields:
            continue
        line.at(number)
        if len(fields) < 6:
            line.note("", f"has {len(fields)} fields, a list of machines has 6")
        else:
            count = line.whole("field 3 (nodes)", fields[2], 1)
            cpus = line.whole("field 4 (CPUs)", fields[3], 1)
            kib = line.number_in("field 6 (memory)", fields[5], 1)
        if not line.reject():
            labels = {"strato.dev/machine": reading.names.like(fields[1])}
            reading.add_nodes(machine("", str(cpus), memory(kib * 1024), count=count, labels=labels))


def parse_swf(text: str, source: str, *, queue_by: str = "") -> Trace:
    """Read Standard Workload Format; a job that never ran is skipped.

    A processor becomes a pod of one cpu. Where a log names nodes and processors per node (a field such as
    ``2:ppn=8``, beyond the standard's 18), a node becomes a pod of that many cpus.

    Raises:
        InvalidInput: Lines have problems; they are listed with line and field.
        UsageError: ``queue_by`` names no field.
    """
    if queue_by and queue_by not in _QUEUE_FIELD:
        raise UsageError(f"queues cannot be made by {queue_by!r}; choose {', '.join(sorted(_QUEUE_FIELD))}")
    reading = Reading(ReadOptions(queue_by=queue_by, strict=True), Oddities(strict=True))
    _read_lines(iter(enumerate(text.splitlines(), start=1)), source, reading, {})
    return reading.trace(FORMAT.name)


FORMAT: Final = Format(
    name="swf",
    title="Standard Workload Format of the Parallel Workloads Archive, with a list of machines beside it",
    recognise=_recognise,
    read=_read,
    queue_fields=("group", "queue", "user"),
)
