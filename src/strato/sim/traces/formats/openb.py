"""Alibaba's GPU cluster of 2023 ("openb"): lists of nodes and of pods that share GPUs.

Nodes: ``sn``, ``cpu_milli``, ``memory_mib``, ``gpu`` (number), ``model``. Pods: ``name``, ``cpu_milli``,
``memory_mib``, ``num_gpu``, ``gpu_milli`` (thousandths of each GPU; below 1000 of one only), and where the list has
them ``gpu_spec`` (accepted models, separated by ``|``), ``qos``, ``pod_phase``, ``creation_time``, ``deletion_time``,
``scheduled_time`` (s). Source: alibaba/clusterdata, ``cluster-trace-gpu-v2023``; Q. Weng et al., USENIX ATC 2023.
Shares of GPUs and models are written as the plugins ``deviceshare`` and ``fgd`` read them; the model is a label of
nodes. Lists without times are of pods that arrive a second apart in their order and stay.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from strato.node.shapes import NodeShape
from strato.sim.traces.cells import MOST_SECONDS, LineReader, cores, label_value, memory
from strato.sim.traces.formats.tables import USE_MODELS, has_header, records, share_requests, shared_cards
from strato.sim.traces.input import InputFile
from strato.sim.traces.reading import GPU_MODEL, Format, Head, Reading
from strato.sim.workloads.jobs import TraceJob

STAYS_SECONDS: Final = 1e7
"""Run time of pods in lists that have no times."""
_NODES = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
_PODS = ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli")
_MORE = ("gpu_spec", "creation_time", "deletion_time", "scheduled_time")
_MIB = 1 << 20


def _recognise(head: Head) -> int:
    return 10 if has_header(head, *_NODES) or has_header(head, *_PODS) else 0


def _read(files: Sequence[InputFile], reading: Reading) -> None:
    nodes = [file for file in files if _first_column(file) == "sn"]
    pods = [file for file in files if file not in nodes]
    for file in nodes:
        _read_nodes(file, reading)
    for file in pods:
        for number, (line, cells) in enumerate(records(file, reading, _PODS, _MORE)):
            job = _job(cells, line, number, reading)
            if not line.reject():
                reading.add(job)


def _alone(files: Sequence[InputFile]) -> Sequence[InputFile]:
    nodes = [file for file in files if _first_column(file) == "sn"]
    pods = [file for file in files if file not in nodes]
    return pods if len(pods) > 1 else nodes if len(nodes) > 1 else ()


def _first_column(file: InputFile) -> str:
    return file.head.partition(b",")[0].decode(errors="replace").strip().lower()


def _read_nodes(file: InputFile, reading: Reading) -> None:
    for line, (name, cpu, mib, gpus, model) in records(file, reading, _NODES):
        cards = line.whole("gpu", gpus, 0, 64)
        resources = {
            "cpu": cores(line.number_in("cpu_milli", cpu, 1) / 1000),
            "memory": memory(line.number_in("memory_mib", mib, 1) * _MIB),
            "pods": "1000",
            **shared_cards(cards),
        }
        labels = {GPU_MODEL: label_value(model)} if model else {}
        if not line.reject():
            reading.add_nodes(NodeShape(1, resources, labels=labels, name=reading.names.new(name)))


def _job(cells: Sequence[str], line: LineReader, number: int, reading: Reading) -> TraceJob:
    name, cpu, mib, gpu_text, milli_text, models, created, deleted, scheduled = cells
    gpus = line.whole("num_gpu", gpu_text, 0, 64)
    milli = line.whole("gpu_milli", milli_text, 0, 1000) if gpus else 0
    requests = {
        "cpu": cores(line.number_in("cpu_milli", cpu) / 1000),
        "memory": memory(line.number_in("memory_mib", mib) * _MIB),
        **share_requests(milli / 10 if gpus == 1 else gpus * 100),
    }
    submit, run, waited = float(number), STAYS_SECONDS, None
    if created or deleted:
        submit = line.number_in("creation_time", created, 0, MOST_SECONDS)
        begun = line.number_in("scheduled_time", scheduled, 0, MOST_SECONDS) if scheduled else submit
        run = line.number_in("deletion_time", deleted, begun, MOST_SECONDS) - begun
        waited = max(0.0, begun - submit) if scheduled else None
    return TraceJob(
        name=reading.names.new(name),
        submit_seconds=submit,
        run_seconds=run,
        requests={resource: amount for resource, amount in requests.items() if amount} or {"cpu": "1"},
        annotations={USE_MODELS: models.replace("|", ",")} if models and gpus else {},
        waited_seconds=waited,
    )


FORMAT: Final = Format(
    name="openb",
    title="Alibaba GPU 2023 (openb), list of pods with the list of nodes",
    recognise=_recognise,
    read=_read,
    reads_parts=True,
    alone=_alone,
)
