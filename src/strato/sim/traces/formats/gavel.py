"""The traces of Gavel: jobs in steps, which take as long as the GPU they run on needs for them.

Fields, separated by tabs, without a header: job type, command, name of the steps' argument, needs data (0 or 1),
steps, arrival (s), scale factor (GPUs); later copies have ten: job type, command, working directory, name of the
steps' argument, needs data, steps, scale factor, weight of its priority, objective, arrival. ``cluster_specs.json``
has the number of GPUs per type (``v100:p100:k80``), ``simulation_throughputs.json`` steps per second by GPU type, job
type and scale factor. Source: stanford-futuredata/gavel; D. Narayanan et al., OSDI 2020. A job becomes a gang of pods
with one GPU each; its run time is that on V100s that stand together, which the performance models scale. A node has
one GPU, as there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from strato.decoding import UNDECODABLE
from strato.errors import InvalidInput, Problem, UsageError
from strato.node.shapes import GPU, NodeShape
from strato.sim.traces.cells import MOST_SECONDS, LineReader
from strato.sim.traces.formats.tables import gpu_requests, is_number, most_fit
from strato.sim.traces.input import InputFile, why
from strato.sim.traces.reading import GPU_MODEL, Format, Head, Reading
from strato.sim.workloads.jobs import TraceJob

REFERENCE_GPU: Final = "v100"
"""The type of GPU for which run times of jobs are computed."""
_GPU_TYPES = ("v100", "p100", "k80")
_PLACES = {7: (0, 4, 5, 6), 10: (0, 5, 9, 6)}
"""Number of fields of a line → indexes of job type, steps, arrival and scale factor."""
_UNKNOWN_TYPE = "no throughput known for its type and number of GPUs"


def _recognise(head: Head) -> int:
    if head.file.name in ("cluster_specs.json", "cluster_specs_heterogeneous.json", "simulation_throughputs.json"):
        return 10
    return 10 if most_fit(head, _is_row, "\t") else 0


def _is_row(row: Sequence[str]) -> bool:
    return len(row) in _PLACES and all(is_number(row[place]) for place in _PLACES[len(row)][1:])


def _read(files: Sequence[InputFile], reading: Reading) -> None:
    rates: Mapping[str, float] | None = None
    traces = []
    for file in files:
        if not file.name.endswith(".json"):
            traces.append(file)
        elif "throughputs" in file.name:
            rates = rates_of(_json(file), file.label)
        else:
            _read_cluster(file, reading)
    for file in traces:
        if rates is None:
            where = "beside it or in the folder above"
            raise UsageError(
                f"{file.label} needs simulation_throughputs.json {where}, or named too: its jobs are in steps"
            )
        for number, text in file.lines(reading.odd):
            if text.strip():
                _take(text.split("\t"), reading.line(file).at(number), rates, reading)


def _alone(files: Sequence[InputFile]) -> Sequence[InputFile]:
    traces = [file for file in files if not file.name.endswith(".json")]
    return traces if len(traces) > 1 else ()


def _take(fields: Sequence[str], line: LineReader, rates: Mapping[str, float], reading: Reading) -> None:
    if len(fields) not in _PLACES:
        line.note("", f"has {len(fields)} fields, the format has 7 or 10")
        line.reject()
        return
    kind, steps, arrival, scale = (fields[place].strip() for place in _PLACES[len(fields)])
    count = line.number_in("steps", steps, 0)
    submit = line.number_in("arrival", arrival, 0, MOST_SECONDS)
    gpus = line.whole("scale factor", scale, 1)
    if line.reject():
        return
    rate = rates.get(f"({kind!r}, {gpus})")
    if rate is None or rate <= 0 or count / rate > MOST_SECONDS:
        line.skip(_UNKNOWN_TYPE)
        return
    reading.add(
        TraceJob(
            name=reading.names.new(str(line.number)),
            submit_seconds=submit,
            run_seconds=count / rate,
            replicas=gpus,
            requests=gpu_requests(1),
            application=kind,
        )
    )


def rates_of(document: object, label: str) -> Mapping[str, float]:
    """Return steps per second of a job alone on the reference GPU, by ``('job type', scale factor)``.

    Raises:
        InvalidInput: The document does not hold throughputs.
    """
    by_type = document.get(REFERENCE_GPU) if isinstance(document, dict) else None
    if not isinstance(by_type, dict):
        raise InvalidInput("the trace", [Problem(label, f"has no throughputs of {REFERENCE_GPU}")])
    alone = {key: value.get("null") for key, value in by_type.items() if isinstance(value, dict)}
    return {key: float(rate) for key, rate in alone.items() if isinstance(rate, int | float)}


def _json(file: InputFile) -> object:
    try:
        document: object = msgspec.json.decode(file.document())
    except UNDECODABLE as error:
        raise UsageError(f"{file.label} is no JSON: {why(error)}") from error
    return document


def _read_cluster(file: InputFile, reading: Reading) -> None:
    document = _json(file)
    specs = next(iter(document.values()), None) if isinstance(document, dict) else None
    counts = specs[0].split(":") if isinstance(specs, list) and specs and isinstance(specs[0], str) else []
    if len(counts) != len(_GPU_TYPES) or not all(count.isdecimal() and len(count) < 7 for count in counts):
        raise InvalidInput("the trace", [Problem(file.label, 'is no cluster; it has to be {"name": ["500:0:0"]}')])
    for kind, count in zip(_GPU_TYPES, map(int, counts), strict=True):
        if count:
            resources = {"cpu": "8", "memory": "64Gi", "pods": "110", GPU: "1"}
            reading.add_nodes(NodeShape(count, resources, labels={GPU_MODEL: kind}))


FORMAT: Final = Format(
    name="gavel",
    title="Gavel's traces, with simulation_throughputs.json and cluster_specs.json",
    recognise=_recognise,
    read=_read,
    reads_parts=True,
    alone=_alone,
)
