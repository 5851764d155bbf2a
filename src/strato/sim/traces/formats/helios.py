"""SenseTime Helios 2020: ``cluster_log.csv`` of Slurm jobs, and ``cluster_gpu_number.csv`` with the GPUs per day.

Columns of the log: ``job_id``, ``user``, ``vc`` (virtual cluster), ``gpu_num``, ``cpu_num``, ``node_num``, ``state``,
``submit_time``, ``start_time``, ``end_time``, ``duration`` (s), ``queue`` (s waited). Source: HeliosData (README); Q.
Hu et al., "Characterization and Prediction of Deep Learning Workloads in Large-Scale GPU Datacenters", SC 2021. A job
becomes a gang with a pod per node where its GPUs or CPUs divide evenly, else with a pod per GPU. The nodes are as many
with 8 GPUs, 48 CPUs and 376 GiB (Venus' in the paper) as hold the GPUs of the largest day.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from strato.sim.traces.cells import MOST_SECONDS, LineReader, cores
from strato.sim.traces.formats.tables import gpu_requests, has_header, records
from strato.sim.traces.input import InputFile
from strato.sim.traces.reading import Format, Head, Reading, machine
from strato.sim.workloads.jobs import TraceJob

_COLUMNS = ("job_id", "user", "vc", "gpu_num", "cpu_num", "node_num", "state", "submit_time", "duration", "queue")
_GPUS_OF_NODE = 8


def _recognise(head: Head) -> int:
    if has_header(head, *_COLUMNS):
        return 10
    return 10 if _is_capacity(head.header) else 0


def _is_capacity(header: Sequence[str]) -> bool:
    return bool(header) and header[0] == "date" and header[-1] == "total" and header[1].startswith("vc")


def _read(files: Sequence[InputFile], reading: Reading) -> None:
    for file in files:
        first = file.head.partition(b"\n")[0].decode(errors="replace").strip().lower()
        if _is_capacity(first.split(",")):
            _read_capacity(file, reading)
            continue
        for line, cells in records(file, reading, _COLUMNS):
            job = _job(cells, line, reading)
            if not line.reject() and job is not None:
                reading.add(job)


def _job(cells: Sequence[str], line: LineReader, reading: Reading) -> TraceJob | None:
    number, user, cluster, gpu_text, cpu_text, node_text, state, submitted, duration, waited = cells
    gpus, cpus = line.whole("gpu_num", gpu_text), line.whole("cpu_num", cpu_text)
    nodes = max(1, line.whole("node_num", node_text))
    submit = line.instant("submit_time", submitted)
    run = line.number_in("duration", duration, 0, MOST_SECONDS)
    if run <= 0:
        line.skip(f"never ran ({state.lower()[:20] or 'no state'})")
        return None
    pods = nodes if not gpus or gpus % nodes == 0 else gpus
    return TraceJob(
        name=reading.names.new(number),
        submit_seconds=submit,
        run_seconds=run,
        replicas=pods,
        requests=gpu_requests(gpus // pods, cores(cpus / pods)),
        queue=reading.queue(queue=cluster, user=user),
        user=user,
        waited_seconds=line.number_in("queue", waited, 0, MOST_SECONDS) if waited else None,
    )


def _read_capacity(file: InputFile, reading: Reading) -> None:
    most = max((line.whole("total", total) for line, (total,) in records(file, reading, ("total",))), default=0)
    if most:
        reading.add_nodes(machine("", "48", "376Gi", _GPUS_OF_NODE, count=-(-most // _GPUS_OF_NODE)))


FORMAT: Final = Format(
    name="helios",
    title="SenseTime Helios 2020, cluster_log.csv with cluster_gpu_number.csv",
    recognise=_recognise,
    read=_read,
    reads_parts=True,
    queue_fields=("queue", "user"),
)
