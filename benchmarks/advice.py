"""Advice on CPU requests against a month of real use: how often it is too little, and how much of it is wasted.

Each hour every policy advises each virtual machine out of what that machine used until then, and the next hour's use is
held against it. Without history a machine keeps the request it had. The folder holds ``usage.csv.gz`` and ``vms.csv``
of the Bitbrains traces (id, timestamp, duration, cpu_count, cpu_usage in MHz; id, …, cpu_count, cpu_capacity in MHz).
"""

from __future__ import annotations

import argparse
import csv
import gzip
import sys
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from benchmarks.report import publish
from strato.advice import autopilot
from strato.advice.estimators import Amounts, Rules, container_minimum, estimate
from strato.advice.histogram import CPU, Histogram
from strato.advice.use import Aggregation, ContainerUse, UseHistograms

HOUR_SECONDS = 3600.0
DEFAULT = Path(__file__).parents[1] / ".." / "shared" / "data" / "bitbrains-vm-usage"


class Sample(NamedTuple):
    ended: float
    seconds: float
    cores: float


def read(folder: Path) -> dict[str, tuple[float, list[Sample]]]:
    """Return of each machine its CPUs and its samples in the order of time."""
    with (folder / "vms.csv").open() as lines:
        machines = {row["id"]: (float(row["cpu_count"]), float(row["cpu_capacity"])) for row in csv.DictReader(lines)}
    samples: dict[str, list[Sample]] = defaultdict(list)
    with gzip.open(folder / "usage.csv.gz", "rt") as lines:
        for row in csv.DictReader(lines):
            count, capacity = machines[row["id"]]
            cores = float(row["cpu_usage"]) / (capacity / count)
            samples[row["id"]].append(Sample(float(row["timestamp"]), min(float(row["duration"]), 300.0), cores))
    return {name: (machines[name][0], sorted(found)) for name, found in samples.items()}


class Vpa:
    """The vertical pod autoscaler's target; its upper bound is beyond all machines in the first days."""

    def __init__(self) -> None:
        self._use = UseHistograms(Aggregation())
        self._state = ContainerUse(cpu=self._use.cpu, memory=self._use.memory)

    def add(self, sample: Sample) -> None:
        if self._state.add_cpu(sample.ended, sample.cores):
            self._use.count_sample(sample.ended)

    def advise(self) -> float:
        rules = Rules()
        return estimate(self._use, rules, container_minimum(rules.pod_minimum, 1)).target.cpu_millicores / 1000


class Autopilot:
    """Autopilot's recommendation for batch (the mean) or serving (a percentile weighted by load), hourly."""

    def __init__(self, limit: Callable[[dict[int, float]], float]) -> None:
        self._limit, self._histogram = limit, Histogram(CPU, autopilot.CPU_HALF_LIFE_SECONDS)

    def add(self, sample: Sample) -> None:
        self._histogram.add(sample.cores, 1.0, sample.ended)

    def advise(self) -> float:
        cores = self._limit(self._histogram.buckets())
        return autopilot.with_margin(Amounts.of(cores, 0)).cpu_millicores / 1000


POLICIES: dict[str, Callable[[], Vpa | Autopilot] | None] = {
    "requests as they were": None,
    "vpa: target (p90 + 15 %)": Vpa,
    "autopilot: batch (mean)": lambda: Autopilot(lambda weights: autopilot.weighted_mean(CPU, weights)),
    "autopilot: serving (load-adjusted p95)": lambda: Autopilot(
        lambda weights: autopilot.load_adjusted(CPU, weights, 0.95)
    ),
}


def replay(
    machines: dict[str, tuple[float, list[Sample]]], make: Callable[[], Vpa | Autopilot] | None
) -> dict[str, float]:
    over = total = 0
    reserved = used = unserved = seconds = 0.0
    for cpus, samples in machines.values():
        policy, advice, since = (make() if make is not None else None), cpus, samples[0].ended
        for sample in samples:
            if policy is not None and sample.ended - since >= HOUR_SECONDS:
                advice, since = policy.advise(), sample.ended
            total += 1
            over += sample.cores > advice
            reserved += advice * sample.seconds
            used += min(sample.cores, advice) * sample.seconds
            unserved += max(sample.cores - advice, 0.0) * sample.seconds
            seconds += sample.seconds
            if policy is not None:
                policy.add(sample)
    demand = used + unserved
    return {
        "samples over, %": round(100 * over / total, 2),
        "use over, %": round(100 * unserved / demand, 2),
        "waste, %": round(100 * (reserved - used) / reserved, 1),
        "reserved, cores": round(reserved / seconds * len(machines), 1),
        "used, cores": round(demand / seconds * len(machines), 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=DEFAULT, help="with usage.csv.gz and vms.csv")
    folder = parser.parse_args().folder
    if not (folder / "usage.csv.gz").exists():
        print(f"skipped: {folder} has no usage.csv.gz; name the folder of the Bitbrains traces", file=sys.stderr)
        return
    machines = read(folder)
    rows = [{"policy": name, **replay(machines, make)} for name, make in POLICIES.items()]
    publish(
        "advice", rows, f"{len(machines)} virtual machines; advice renewed hourly, held against the hour that follows"
    )


if __name__ == "__main__":
    main()
