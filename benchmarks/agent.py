"""Measure the node agent at 110 pods: a decision, a second of samples, and what the process holds.

    python -m benchmarks.agent

Containers' files are a faked tree of version 2 in memory (``/dev/shm``). CPU time is the process's; a decision asks all
handlers on an overloaded host where half of the containers are training ones.
"""

from __future__ import annotations

import resource
import statistics
import tempfile
import time
from pathlib import Path
from random import Random

from benchmarks.report import publish
from strato.agent.events import ContainerEvent, HostEvent, Suppression, Workload
from strato.agent.policy import read_policy
from strato.agent.registry import HandlerRegistry
from strato.agent.rounds import HandlerSet
from strato.agent.sampling.layouts import ControlGroup
from strato.agent.sampling.sampler import Sampler

CONTAINERS = 110
ROUNDS = 200
SECONDS = 900


def containers(random: Random) -> list[ContainerEvent]:
    found = []
    for number in range(CONTAINERS):
        used = random.uniform(0.05, 1.0)
        cut = Suppression(id="", from_milli=2000, to_milli=500, at=number) if number % 7 == 0 else None
        found.append(
            ContainerEvent(
                at=0,
                pod_uid=f"uid-{number}",
                container="main",
                id=f"id-{number}",
                priority=random.choice([0, 100, 1000]),
                workload=Workload.TRAINING if number % 2 else Workload.ONLINE,
                used_cores=used,
                throttled_ratio=random.choice([0.0, 0.2]),
                limit_milli=1000,
                base_milli=1000,
                suppression=cut,
            )
        )
    return found


def decision_seconds() -> list[float]:
    random = Random(1)
    policy = read_policy("handlers: {suppress: {rounds: 1}}", {}, HandlerRegistry())
    handlers = HandlerSet(policy, random)
    took = []
    for number in range(ROUNDS):
        cpu = 0.95 if number % 3 else 0.5
        host = HostEvent(at=number * 5.0, capacity_cores=48, cpu=cpu, containers=tuple(containers(random)))
        began = time.process_time()
        handlers.decide(host)
        took.append(time.process_time() - began)
    return took


def sample_seconds(folder: Path) -> float:
    """Return the CPU seconds that a second costs, with a decision's readings every five."""
    groups = {}
    for number in range(CONTAINERS):
        directory = folder / str(number)
        directory.mkdir()
        stats = "".join(f"field_{line} 12345678\n" for line in range(40)) + "inactive_file 300\n"
        pressure = "some avg10=1.00 avg60=0.00 avg300=0.00 total=1\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n"
        usage = "usage_usec 2500000\nuser_usec 1\nsystem_usec 1\nnr_periods 10\nnr_throttled 3\nthrottled_usec 1\n"
        files = {"cpu.stat": usage, "cpu.max": "100000 100000\n", "cpu.max.burst": "0\n", "memory.current": "900\n"}
        files |= {"memory.stat": stats, "cpu.pressure": pressure, "memory.pressure": pressure, "io.stat": ""}
        for name, text in files.items():
            (directory / name).write_text(text)
        groups[f"uid-{number}/main"] = ControlGroup(str(directory), str(directory), str(directory), is_unified=True)
    sampler = Sampler(48, 1.0)
    began = time.process_time()
    for second in range(SECONDS):
        sampler.sample(float(second), groups)
        if second % 5 == 0:
            sampler.sample_slowly(float(second))
    return (time.process_time() - began) / SECONDS


def main() -> None:
    took = decision_seconds()
    shared = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=shared if shared.is_dir() else None) as folder:
        second = sample_seconds(Path(folder))
    row = {
        "containers": CONTAINERS,
        "decision, median ms": round(statistics.median(took) * 1000, 3),
        "decision, worst ms": round(max(took) * 1000, 3),
        "samples of a second, ms": round(second * 1000, 3),
        "of a core, %": round((second + statistics.median(took) / 5) * 100, 2),
        "peak memory, MB": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
    }
    publish("agent", [row])


if __name__ == "__main__":
    main()
