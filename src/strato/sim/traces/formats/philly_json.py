"""Microsoft Philly 2017 as its publisher ships it: ``cluster_job_log`` (JSON) and ``cluster_machine_list`` (CSV).

A job has ``status``, ``vc`` (virtual cluster), ``jobid``, ``user``, ``submitted_time`` and ``attempts``, each with
``start_time``, ``end_time`` and ``detail``: the servers (``ip``) with the GPUs on each. A job may have no attempt, and
an attempt no start or end. Source: https://github.com/msr-fiddle/philly-traces (README). A job becomes a gang of pods
with one GPU each; its run time is that of all its attempts, for it held its GPUs so long.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import msgspec

from strato.decoding import UNDECODABLE
from strato.errors import UsageError
from strato.sim.traces.cells import LineReader
from strato.sim.traces.formats.tables import fixed, gpu_requests
from strato.sim.traces.input import InputFile, why
from strato.sim.traces.reading import Format, Head, Reading, machine
from strato.sim.workloads.jobs import TraceJob

_MACHINE = re.compile(r"^m\d+, *\d+, *\d+ *GB", re.MULTILINE)


class _Server(msgspec.Struct):
    gpus: list[str] = []


class _Attempt(msgspec.Struct):
    start_time: str | None = None
    end_time: str | None = None
    detail: list[_Server] = []


class _Job(msgspec.Struct):
    jobid: str = ""
    vc: str = ""
    user: str | None = None
    submitted_time: str | None = None
    attempts: list[_Attempt] = []


def _recognise(head: Head) -> int:
    if _is_machines(head.file):
        return 10
    start = head.text[:4000].replace(" ", "").replace("\n", "")
    return 10 if start.startswith("[{") and '"attempts":' in start and '"vc":' in start else 0


def _is_machines(file: InputFile) -> bool:
    text = file.head[:1000].decode(errors="replace")
    return ("machineId" in text.partition("\n")[0] and "gpu" in text.lower() and "util" not in text) or (
        _MACHINE.match(text) is not None
    )


def _read(files: Sequence[InputFile], reading: Reading) -> None:
    for file in files:
        if _is_machines(file):
            _read_machines(file, reading)
        else:
            _read_jobs(file, reading)


def _read_jobs(file: InputFile, reading: Reading) -> None:
    line = reading.line(file)
    try:
        entries = msgspec.json.decode(file.document(), type=list[msgspec.Raw])
    except UNDECODABLE as error:
        raise UsageError(f"{file.label} is no list of jobs in JSON: {why(error)}") from error
    decoder = msgspec.json.Decoder(_Job)
    for number, entry in enumerate(entries, start=1):
        line.at(number)
        try:
            job = decoder.decode(entry)
        except UNDECODABLE as error:
            line.note("", f"job {number} of the file: {why(error)}")
            line.reject()
            continue
        _take(job, line, reading)


def _take(job: _Job, line: LineReader, reading: Reading) -> None:
    submit = line.instant("submitted_time", job.submitted_time or "")
    if line.reject():
        return
    run, first = 0.0, None
    for attempt in job.attempts:
        if attempt.start_time and attempt.end_time:
            begin, end = line.instant("start_time", attempt.start_time), line.instant("end_time", attempt.end_time)
            first = begin if first is None else min(first, begin)
            run += max(0.0, end - begin)
    if line.reject():
        return
    gpus = max((sum(len(server.gpus) for server in attempt.detail) for attempt in job.attempts), default=0)
    if first is None or run <= 0:
        line.skip("never ran to an end (no attempt with start and end)")
    elif not gpus:
        line.skip("no GPUs recorded")
    else:
        reading.add(
            TraceJob(
                name=reading.names.new(job.jobid.removeprefix("application_")),
                submit_seconds=submit,
                run_seconds=run,
                replicas=gpus,
                requests=gpu_requests(1),
                queue=reading.queue(queue=job.vc, user=job.user or ""),
                user=job.user or "",
                waited_seconds=max(0.0, first - submit),
            )
        )


def _read_machines(file: InputFile, reading: Reading) -> None:
    for line, (name, gpus, _) in fixed(file, reading, 3, header="machineId"):
        count = line.whole("number of GPUs", gpus, 0, 64)
        if not line.reject():
            reading.add_nodes(machine(reading.names.like(name), gpus=count))


FORMAT: Final = Format(
    name="philly-json",
    title="Microsoft Philly 2017, cluster_job_log (JSON) with cluster_machine_list",
    recognise=_recognise,
    read=_read,
    reads_parts=True,
    queue_fields=("queue", "user"),
)
