"""Simulated weeks per second: synthetic traces and a real log through `strato.sim.run.simulate`.

``python -m benchmarks.sim [--log FILE.swf.gz] [--jobs N]``
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from pathlib import Path

from benchmarks.report import check_writable, publish
from strato.sim.run import SimulationOptions, simulate

WEEK_SECONDS = 7 * 86400


def synthetic(path: Path, jobs: int) -> Path:
    """Write a week of jobs: lognormal run times, mostly narrow, three queues, two priorities."""
    rng = random.Random(3)
    lines = ["submit,run_time,replicas,cpu,memory,queue,priority"]
    for _ in range(jobs):
        run = min(86400.0, rng.lognormvariate(7.5, 1.2))
        lines.append(
            f"{rng.uniform(0, WEEK_SECONDS):.3f},{run:.1f},{rng.choice([1, 1, 1, 2, 4, 8])},{rng.choice([1, 2, 4])},"
            f"{rng.choice([2, 4, 8])}Gi,{rng.choice('abc')},{rng.choice([0, 0, 1])}"
        )
    path.write_text("\n".join(lines) + "\n")
    return path


def measure(name: str, options: SimulationOptions) -> dict[str, object]:
    """Run one simulation and time it."""
    started = time.perf_counter()
    report = simulate(options)
    seconds = time.perf_counter() - started
    return {
        "trace": name,
        "nodes": options.nodes,
        "jobs": report.jobs,
        "pods": report.pods,
        "finished": report.finished,
        "virtual days": report.makespan_seconds / 86400,
        "seconds": seconds,
        "ms per job": 1000 * seconds / report.jobs,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument("--log", type=Path, default=None, help="a Standard Workload Format log")
    parser.add_argument("--limit", type=int, default=1000, help="jobs of the log")
    chosen = parser.parse_args()
    check_writable()
    rows = []
    with tempfile.TemporaryDirectory() as directory:
        trace = synthetic(Path(directory) / "week.csv", chosen.jobs)
        rows.append(measure("a week, idle", SimulationOptions(trace=trace, nodes="20x32cpu,256Gi")))
        rows.append(measure("a week, crowded", SimulationOptions(trace=trace, nodes="4x16cpu,128Gi")))
    if chosen.log is not None:
        rows.append(
            measure(chosen.log.name, SimulationOptions(trace=chosen.log, nodes="120x2cpu,4Gi", limit=chosen.limit))
        )
    publish("sim", rows, "bar: 1,000 jobs over a week in 20 s")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
