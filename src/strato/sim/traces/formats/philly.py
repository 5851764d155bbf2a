"""Microsoft Philly 2017 as ElasticFlow and Pollux publish it: submission, run time, GPUs and virtual cluster of a job.

Columns: ``timestamp`` (submission, local time), ``duration`` (s), ``num_gpus``, ``gpu_time`` (GPU-seconds),
``cluster`` (virtual cluster, the tenant). Source: pkusys/ElasticFlow, ``pollux/pollux_simulator/traces/philly.csv``;
M. Jeon et al., "Analysis of Large-Scale Multi-Tenant GPU Clusters for DNN Training Workloads", USENIX ATC 2019. A job
is a gang of pods with one GPU each.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from strato.sim.traces.cells import MOST_SECONDS
from strato.sim.traces.formats.tables import gpu_requests, has_header, records
from strato.sim.traces.input import InputFile
from strato.sim.traces.reading import Format, Head, Reading
from strato.sim.workloads.jobs import TraceJob

_COLUMNS = ("timestamp", "duration", "num_gpus", "cluster")


def _recognise(head: Head) -> int:
    return 10 if has_header(head, *_COLUMNS) else 0


def _read(files: Sequence[InputFile], reading: Reading) -> None:
    number = 0
    for file in files:
        for line, (timestamp, duration, gpus, cluster) in records(file, reading, _COLUMNS):
            number += 1
            submit = line.instant("timestamp", timestamp)
            run = line.number_in("duration", duration, 0, MOST_SECONDS)
            replicas = line.whole("num_gpus", gpus, 1)
            if not line.reject():
                queue = reading.queue(queue=cluster)
                requests = gpu_requests(1)
                reading.add(
                    TraceJob(
                        name=f"job-{number}",
                        submit_seconds=submit,
                        run_seconds=run,
                        replicas=replicas,
                        requests=requests,
                        queue=queue,
                    )
                )


FORMAT: Final = Format(
    name="philly",
    title="Microsoft Philly 2017, CSV (timestamp, duration, num_gpus, gpu_time, cluster)",
    recognise=_recognise,
    read=_read,
    queue_fields=("queue",),
)
