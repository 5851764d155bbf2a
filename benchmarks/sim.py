"""CPU time of simulations at the size of public traces, in both fidelities, and of synthetic weeks.

``python -m benchmarks.sim [--only NAME…] [--limit JOBS]``

Traces are read from the folder that STRATO_DATA names (``../shared/data`` unless it does); what is not there is left
out. Each run has a process of its own. The clusters keep up with the load on average: what is measured is a scheduler
that works, not the length of a queue.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import resource
import time
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np

from benchmarks.report import check_writable, publish
from strato.node.shapes import parse_nodes
from strato.sim.run import DECISIONS, FIDELITIES, OBJECTS
from strato.sim.traces import Trace, TraceJob, read_trace

WEEK_SECONDS = 7 * 86400
_DATA = Path(__file__).parents[1].parent / "shared" / "data"


@dataclass(frozen=True, slots=True)
class Case:
    """One run."""

    name: str
    files: tuple[str, ...]
    """In the data folder; none for a synthetic week."""
    fidelity: str
    bar_seconds: float
    """Of CPU."""
    nodes: str = ""
    """Empty takes those of the trace."""


CASES = (
    Case(
        "openb",
        (
            "alibaba-gpu-2023-openb/openb_node_list_all_node.csv",
            "alibaba-gpu-2023-openb/pods/openb_pod_list_default.csv.gz",
        ),
        DECISIONS,
        15.0,
    ),
    Case("surf-lisa", ("surf-lisa-2022/jobs.csv.gz",), DECISIONS, 120.0, "400x16cpu,128Gi"),
    Case("philly", ("philly-2017/philly_jobs.csv.gz",), DECISIONS, 60.0, "320x64cpu,512Gi,8gpu"),
    Case("alibaba-2018", ("alibaba-2018-batch-sample/jobs.csv.gz",), DECISIONS, 600.0, "400x96cpu,1Ti,pods=1000"),
    Case("hpc2n", ("hpc-swf/hpc2n-2002-head.swf.gz",), DECISIONS, 300.0),
    Case("metacentrum", ("hpc-swf/metacentrum-wagap-2013.swf.gz",), DECISIONS, 300.0),
    Case("hpc2n objects", ("hpc-swf/hpc2n-2002-head.swf.gz",), OBJECTS, 300.0),
    Case("metacentrum objects", ("hpc-swf/metacentrum-wagap-2013.swf.gz",), OBJECTS, 300.0),
    Case("a week, idle", (), OBJECTS, 20.0, "20x32cpu,256Gi"),
    Case("a week, crowded", (), OBJECTS, 20.0, "4x16cpu,128Gi"),
)


def synthetic(jobs: int) -> Trace:
    """Return a week of jobs: lognormal run times, mostly narrow, three queues, two priorities."""
    rng = random.Random(3)
    made = [
        TraceJob(
            name=f"job-{number}",
            submit_seconds=round(rng.uniform(0, WEEK_SECONDS), 3),
            run_seconds=round(min(86400.0, rng.lognormvariate(7.5, 1.2)), 1),
            replicas=rng.choice([1, 1, 1, 2, 4, 8]),
            requests={"cpu": str(rng.choice([1, 2, 4])), "memory": f"{rng.choice([2, 4, 8])}Gi"},
            queue=rng.choice("abc"),
            priority=rng.choice([0, 0, 1]),
        )
        for number in range(jobs)
    ]
    return Trace(tuple(sorted(made, key=lambda job: job.submit_seconds)))


def cases(folder: Path, only: list[str]) -> Iterator[Case]:
    """Yield the runs whose traces are there; without names, all of them."""
    for case in CASES:
        if only and case.name not in only:
            continue
        absent = [file for file in case.files if not (folder / file).is_file()]
        if absent:
            print(f"{case.name} is left out: there is no {folder / absent[0]}")
        else:
            yield case


def measure(case: Case, folder: Path, limit: int, connection: Connection) -> None:
    """Run one case and send what it took."""
    began = time.process_time()
    trace = read_trace([folder / file for file in case.files], limit=limit) if case.files else synthetic(limit or 1000)
    read = time.process_time()
    record = FIDELITIES[case.fidelity](trace, parse_nodes(case.nodes) if case.nodes else trace.nodes, None)
    seconds = time.process_time() - read
    waits = record.start_seconds - np.array([job.submit_seconds for job in trace.jobs])
    pods = sum(job.replicas for job in trace.jobs)
    connection.send(
        {
            "trace": case.name,
            "fidelity": case.fidelity,
            "nodes": len(record.nodes.names),
            "jobs": len(trace.jobs),
            "pods": pods,
            "finished": int((~np.isnan(record.finish_seconds)).sum()),
            "mean wait s": float(np.nanmean(waits)),
            "virtual days": record.end_seconds / 86400,
            "read CPU s": read - began,
            "CPU s": seconds,
            "bar s": case.bar_seconds,
            "µs per pod": 1e6 * seconds / pods,
            "MiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        }
    )


def main() -> int:
    """Run the cases one after the other."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", default=[], choices=[case.name for case in CASES])
    parser.add_argument("--limit", type=int, default=0, help="only the first jobs of each trace; results are not kept")
    chosen = parser.parse_args()
    check_writable()
    folder = Path(os.environ.get("STRATO_DATA") or _DATA)
    context = multiprocessing.get_context("spawn")
    rows: list[dict[str, object]] = []
    for case in cases(folder, chosen.only):
        ours, theirs = context.Pipe()
        process = context.Process(target=measure, args=(case, folder, chosen.limit, theirs))
        process.start()
        theirs.close()
        rows.append(ours.recv())
        process.join()
        print(rows[-1], flush=True)
    if rows:
        publish("sim" if not (chosen.only or chosen.limit) else "sim-part", rows, "CPU time of one process")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
