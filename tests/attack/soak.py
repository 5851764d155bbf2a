"""Run an embedded cluster at half of full load for an hour, and look whether its memory stays flat.

Jobs come at a steady rate and go when they have run, so what is in the cluster stays the same; so must be the resident
memory of every process: the median of the last quarter at most 5 % above that of the second quarter.

    python -m tests.attack.soak [--minutes M] [--rate PODS_PER_SECOND]
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from strato.api import catalog
from strato.api.volcano.batch import Job
from strato.client import kubeconfig
from strato.client.http import HttpCluster
from strato.clock import SystemClock
from strato.errors import ApiError
from strato.testing.manifests import vcjob
from tests.e2e.worlds import embedded

FULL_LOAD_PODS_PER_SECOND = 800.0
"""Of jobs of one pod each, on two cores (benchmarks.end_to_end)."""
NODES = 100
PODS_PER_JOB = 4
SAMPLE_SECONDS = 5.0
FLAT_RATIO = 1.05


class Sample(NamedTuple):
    """What one process held at one time."""

    at: float
    process: str
    mebibytes: float


def resident_mebibytes(pid: int) -> float:
    """Return the resident memory of a process."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return 0.0


def verdict(samples: Sequence[Sample], seconds: float) -> dict[str, tuple[float, float, bool]]:
    """Return by process the medians of the second and the last quarter, and whether the memory is flat."""
    found = {}
    for process in dict.fromkeys(sample.process for sample in samples):
        own = [sample for sample in samples if sample.process == process]
        early = [s.mebibytes for s in own if 0.25 * seconds <= s.at < 0.5 * seconds]
        late = [s.mebibytes for s in own if 0.75 * seconds <= s.at]
        before, after = statistics.median(early), statistics.median(late)
        found[process] = before, after, after <= FLAT_RATIO * before
    return found


async def load(cluster: HttpCluster, rate: float, seconds: float) -> int:
    """Make jobs at a steady rate; return how many."""
    began, made = time.monotonic(), 0
    while (now := time.monotonic() - began) < seconds:
        while made * PODS_PER_JOB < now * rate:
            job: Any = vcjob(f"soak{made}", min_available=PODS_PER_JOB)
            job = job.task("w", PODS_PER_JOB, cpu="100m", run_seconds=1.0)
            job["spec"]["ttlSecondsAfterFinished"] = 5
            with contextlib.suppress(ApiError):
                await cluster.create(catalog.VCJOB, job, "default")
            made += 1
        await asyncio.sleep(0.02)
    return made


async def watch_memory(processes: dict[str, int], samples: list[Sample], seconds: float) -> None:
    """Take samples until the time is over."""
    began = time.monotonic()
    while (now := time.monotonic() - began) < seconds:
        line = []
        for name, pid in processes.items():
            held = resident_mebibytes(pid)
            samples.append(Sample(now, name, held))
            line.append(f"{name} {held:.0f} MiB")
        print(f"\r{now:5.0f} s: {', '.join(line)}", end="", flush=True)
        await asyncio.sleep(SAMPLE_SECONDS)


async def soak(config: Path, processes: dict[str, int], rate: float, seconds: float) -> tuple[list[Sample], int, int]:
    """Return the samples, how many jobs were made, and how many were left in the end."""
    cluster = HttpCluster(kubeconfig.load([config]), SystemClock())
    samples: list[Sample] = []
    try:
        made, _ = await asyncio.gather(
            load(cluster, rate, seconds), watch_memory(processes, samples, seconds), return_exceptions=False
        )
        await asyncio.sleep(30.0)
        left = (await cluster.list(Job, "default")).items
    finally:
        await cluster.close()
    return samples, made, len(left)


def main(arguments: Sequence[str] | None = None) -> int:
    """Return 1 when memory grew, or jobs were left."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--rate", type=float, default=FULL_LOAD_PODS_PER_SECOND / 2, help="pods per second")
    options = parser.parse_args(arguments)
    seconds = options.minutes * 60
    with tempfile.TemporaryDirectory(prefix="strato-soak-") as directory:
        shape = ("--no-sandbox", "--hollow-nodes", str(NODES), "--cpu", "64", "--memory", "256Gi")
        with embedded(Path(directory) / "home", *shape) as world:
            names = ("API server", "parts")
            processes = dict(zip(names, world.processes, strict=False))
            samples, made, left = asyncio.run(soak(world.kubeconfig, processes, options.rate, seconds))
    print(f"\n\n{'process':<12}{'2nd quarter':>14}{'last quarter':>14}  flat")
    flat = True
    for process, (before, after, holds) in verdict(samples, seconds).items():
        print(f"{process:<12}{before:10.0f} MiB{after:10.0f} MiB  {'yes' if holds else 'NO'}")
        flat = flat and holds
    for process in dict.fromkeys(sample.process for sample in samples):
        own = [sample.mebibytes for sample in samples if sample.process == process]
        print(f"{process}: " + " ".join(f"{held:.0f}" for held in own[:: max(1, len(own) // 24)]))
    print(f"{made} jobs made, {left} left")
    return int(not flat or left > 0)


if __name__ == "__main__":
    sys.exit(main())
