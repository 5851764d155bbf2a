"""What a shadow policy costs a scheduler: CPU, and the time from a pod's creation to its bind.

One scheduler on an embedded server in this process, in real time. Phases with and without a shadow alternate under the
same load: the shadow's file is written and emptied. CPU is that of this process and of the children in which the shadow
decides; times to bind are from the creation's call to the bind's watch event. A phase ends with all its pods gone.

    python -m benchmarks.shadow [--phases N] [--jobs N] [--nodes N] [--rate JOBS_PER_SECOND]
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import resource
import tempfile
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from random import Random
from statistics import median

from strato.api import catalog
from strato.api.core import Pod
from strato.api.wire import User
from strato.client.informer import Informers
from strato.client.local import LocalCluster
from strato.clock import SystemClock
from strato.metrics import Registry
from strato.scheduler import Scheduler
from strato.scheduler.options import SchedulerOptions
from strato.scheduler.shadow.service import ShadowOptions
from strato.server.embedded import in_memory_server

SHADOW = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}]
- plugins: [{name: drf}, {name: predicates}, {name: binpack}]
"""
PODS_PER_JOB = 4
SWITCH_SECONDS = 2.5
"""After so long a scheduler has noticed that the shadow's file has changed."""
SETTLE_SECONDS = 3.0
"""For comparisons that are still due at the end of a phase."""


@dataclass
class Phase:
    """What one phase of load took."""

    shadow: bool
    cpu_seconds: float
    children_cpu_seconds: float
    minor_faults: int
    compared: int
    skipped: int
    fork_seconds: float
    bind_ms: list[float] = field(repr=False)

    @property
    def all_cpu_seconds(self) -> float:
        return self.cpu_seconds + self.children_cpu_seconds

    def quantile(self, share: float) -> float:
        ordered = sorted(self.bind_ms)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def used(who: int) -> tuple[float, int]:
    found = resource.getrusage(who)
    return found.ru_utime + found.ru_stime, found.ru_minflt


class Bench:
    """A server, a scheduler, nodes, and what was seen of binds."""

    def __init__(self, directory: Path, nodes: int) -> None:
        self.file = directory / "shadow.yaml"
        self.file.write_text("")
        self._nodes = nodes
        clock, random = SystemClock(), Random(1)
        server = in_memory_server(clock, random)
        self.cluster = LocalCluster(server, User("admin", groups=("system:masters",)))
        self.informers = Informers(self.cluster, clock, random)
        self.metrics = Registry()
        options = SchedulerOptions(shadow=ShadowOptions(config=self.file))
        self.scheduler = Scheduler(self.cluster, self.informers, clock, random, options=options, metrics=self.metrics)
        self.created: dict[str, float] = {}
        self.taken: list[float] = []
        self._numbers = 0

    async def start(self) -> None:
        self._task = asyncio.ensure_future(self.scheduler.run())
        await self.scheduler.ready.wait()
        await self.cluster.patch(catalog.QUEUE, "default", "", {"status": {"state": "Open"}}, subresource="status")
        for number in range(self._nodes):
            await add_node(self.cluster, f"node-{number}")
        self.informers.informer(Pod).add_batch_handler(self._on_pods)
        gc.collect()
        gc.freeze()

    async def stop(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        await self.informers.stop()

    def _on_pods(self, changes: object) -> None:
        now = time.perf_counter()
        for old, new in changes:  # type: ignore[attr-defined]  # it has it
            if new is not None and new.spec.node_name and (old is None or not old.spec.node_name):
                begun = self.created.pop(new.metadata.name, None)
                if begun is not None:
                    self.taken.append(1000 * (now - begun))

    def counted(self, name: str) -> float:
        lines = self.metrics.render().decode().splitlines()
        return next(float(line.split()[-1]) for line in lines if line.startswith(f"{name} "))

    async def phase(self, jobs: int, rate: float, *, shadow: bool) -> Phase:
        self.file.write_text(SHADOW if shadow else "")
        await asyncio.sleep(SWITCH_SECONDS)
        self.taken = []
        names = [
            'strato_shadow_cycles_total{outcome="compared"}',
            'strato_shadow_cycles_total{outcome="skipped"}',
            "strato_shadow_fork_seconds_total",
        ]
        before = [self.counted(name) for name in names]
        own, children = used(resource.RUSAGE_SELF), used(resource.RUSAGE_CHILDREN)
        first = self._numbers
        for number in range(first, first + jobs):
            began = time.perf_counter()
            await self._add_job(f"job-{number}")
            await asyncio.sleep(max(0.0, 1.0 / rate - (time.perf_counter() - began)))
        self._numbers += jobs
        while self.created:
            await asyncio.sleep(0.1)
        await asyncio.sleep(SETTLE_SECONDS)
        cpu, faults = (now - then for now, then in zip(used(resource.RUSAGE_SELF), own, strict=True))
        child_cpu = used(resource.RUSAGE_CHILDREN)[0] - children[0]
        compared, skipped, forks = (self.counted(name) - then for name, then in zip(names, before, strict=True))
        self.file.write_text("")
        await self._clear(first, jobs)
        return Phase(shadow, cpu, child_cpu, int(faults), int(compared), int(skipped), forks, self.taken)

    async def _add_job(self, name: str) -> None:
        group = {
            "apiVersion": catalog.PODGROUP.api_version,
            "kind": "PodGroup",
            "metadata": {"name": name},
            "spec": {"minMember": PODS_PER_JOB, "queue": "default"},
            "status": {"phase": "Inqueue"},
        }
        await self.cluster.create(catalog.PODGROUP, group, "default")
        requests = {"requests": {"cpu": "500m", "memory": "1Gi"}}
        container = {"name": "m", "image": "i", "resources": requests}
        notes = {"scheduling.k8s.io/group-name": name}
        pods = [
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": f"{name}-{number}", "annotations": notes},
                "spec": {"schedulerName": "volcano", "containers": [container]},
            }
            for number in range(PODS_PER_JOB)
        ]
        now = time.perf_counter()
        self.created.update({f"{name}-{number}": now for number in range(PODS_PER_JOB)})
        await self.cluster.create_all(catalog.POD, pods, "default")

    async def _clear(self, first: int, jobs: int) -> None:
        for number in range(first, first + jobs):
            for pod in range(PODS_PER_JOB):
                await self.cluster.delete(catalog.POD, f"job-{number}-{pod}", "default", grace_period_seconds=0)
            await self.cluster.delete(catalog.PODGROUP, f"job-{number}", "default")


async def add_node(cluster: LocalCluster, name: str) -> None:
    await cluster.create(catalog.NODE, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})
    amounts = {"cpu": "64", "memory": "256Gi", "pods": "110"}
    status = {"allocatable": amounts, "capacity": amounts, "conditions": [{"type": "Ready", "status": "True"}]}
    await cluster.patch(catalog.NODE, name, "", {"status": status}, subresource="status")


def show(phase: Phase) -> None:
    kind = "with" if phase.shadow else "without"
    print(
        f"{kind:8} CPU {phase.cpu_seconds:6.2f} s + {phase.children_cpu_seconds:5.2f} s, {phase.minor_faults} pages, "
        f"bind p50 {phase.quantile(0.5):6.1f} ms p99 {phase.quantile(0.99):7.1f} ms, "
        f"compared {phase.compared}, skipped {phase.skipped}, forks {1000 * phase.fork_seconds:.0f} ms",
        flush=True,
    )


async def measure(options: argparse.Namespace) -> list[Phase]:
    with tempfile.TemporaryDirectory() as directory:
        bench = Bench(Path(directory), options.nodes)
        await bench.start()
        found = []
        for number in range(-2, 2 * options.phases):
            phase = await bench.phase(options.jobs, options.rate, shadow=number % 2 == 1)
            if number >= 0:  # the two before warm up
                found.append(phase)
                show(phase)
        await bench.stop()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--phases", type=int, default=3, help="of each kind, alternating, after one of each to warm up")
    parser.add_argument("--jobs", type=int, default=900, help="in a phase, of four pods each")
    parser.add_argument("--nodes", type=int, default=200)
    parser.add_argument("--rate", type=float, default=20.0, help="jobs per second")
    options = parser.parse_args()
    phases = asyncio.run(measure(options))
    plain, shadowed = ([phase for phase in phases if phase.shadow is kind] for kind in (False, True))
    costs = sorted(b.all_cpu_seconds / a.all_cpu_seconds - 1.0 for a, b in zip(plain, shadowed, strict=True))
    base = sum(phase.all_cpu_seconds for phase in plain)
    cost = sum(phase.all_cpu_seconds for phase in shadowed) / base - 1.0
    print(f"the shadow costs {cost:.1%} of the CPU without it (pairs: median {median(costs):.1%}, ", end="")
    print(f"{costs[0]:.1%} to {costs[-1]:.1%}); {sum(phase.compared for phase in shadowed)} comparisons")
    for name, some in (("without", plain), ("with", shadowed)):
        whole = Phase(False, 0, 0, 0, 0, 0, 0, [one for phase in some for one in phase.bind_ms])
        print(f"bind {name}: p50 {whole.quantile(0.5):.1f} ms, p99 {whole.quantile(0.99):.1f} ms")
    print(f"{os.cpu_count()} processors, {options}")
    print(json.dumps([{**asdict(phase), "bind_ms": None} for phase in phases]))


if __name__ == "__main__":
    main()
