"""Records of runs made by hand: ``run(jobs, ran)`` with each pod's node and times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from strato.sim.results.columns import RunColumns
from strato.sim.results.record import Ending, NodeColumns, RunRecord, RunRecorder
from strato.sim.traces import TraceJob


class Ran(NamedTuple):
    """One pod's time on a node; without an end it still runs."""

    job: int
    begin: float
    end: float | None
    node: int = 0
    pod: int = 0
    ending: Ending = Ending.SUCCEEDED
    gainer: int = -1


def job(
    name: str, submit: float = 0.0, *, cpu: str = "1", queue: str = "", replicas: int = 1, **more: object
) -> TraceJob:
    requests: Mapping[str, str] = {"cpu": cpu, "memory": "1Gi"}
    return TraceJob(
        name=name, submit_seconds=submit, run_seconds=1, queue=queue, replicas=replicas, requests=requests, **more
    )  # type: ignore[arg-type]  # the other fields as they are


def nodes(count: int = 1, cpu: int = 4, **more: int) -> NodeColumns:
    amounts = {"cpu": cpu * 1000, "memory": 16 << 30, "pods": 110, **more}
    capacity = {name: np.full(count, amount, np.int64) for name, amount in amounts.items()}
    return NodeColumns(names=tuple(f"node-{i}" for i in range(count)), capacity=capacity)


def record(
    jobs: Sequence[TraceJob],
    ran: Sequence[Ran],
    on: NodeColumns | None = None,
    *,
    end: float | None = None,
    reasons: Mapping[int, str] | None = None,
) -> RunRecord:
    recorder = RunRecorder(jobs, on or nodes())
    events: list[tuple[float, int, Ran]] = []
    for one in ran:
        events.append((one.begin, 1, one))
        if one.end is not None:
            events.append((one.end, 0, one))
    for at, is_begin, one in sorted(events, key=lambda event: (event[0], event[1], event[2].job, event[2].pod)):
        if is_begin:
            recorder.begin(one.job, one.pod, one.node, at)
        else:
            recorder.end(one.job, one.pod, at, one.ending, one.gainer)
    last = max([0.0, *(event[0] for event in events)])
    return recorder.record(last if end is None else end, reasons)


def columns(jobs: Sequence[TraceJob], ran: Sequence[Ran], on: NodeColumns | None = None) -> RunColumns:
    return RunColumns(record(jobs, ran, on))
