"""What a shadow policy costs a scheduler: CPU and the time from a pod's creation to its bind, with and without.

Alternating runs of the same load on an embedded server in this process, in real time. CPU is that of this process and,
apart, of the children in which the shadow decides; times to bind are from the creation's answer to the bind's.

    python -m benchmarks.shadow [--runs N] [--jobs N] [--nodes N]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import time
from dataclasses import asdict, dataclass
from random import Random

from strato.api import catalog
from strato.api.core import Pod
from strato.api.wire import User
from strato.client.informer import Informers
from strato.client.local import LocalCluster
from strato.clock import SystemClock
from strato.metrics import Registry
from strato.scheduler import Scheduler
from strato.scheduler.config import parse_config
from strato.scheduler.options import SchedulerOptions
from strato.scheduler.shadow.publishing import published
from strato.scheduler.shadow.service import ShadowOptions
from strato.server.embedded import in_memory_server

SHADOW = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}]
- plugins: [{name: drf}, {name: predicates}, {name: binpack}]
"""
PODS_PER_JOB = 4


@dataclass
class Run:
    shadow: bool
    cpu_seconds: float
    children_cpu_seconds: float
    bind_p50_ms: float
    bind_p99_ms: float
    compared: int = 0
    skipped: int = 0
    fork_ms: float = 0.0


def cpu(who: int) -> float:
    used = resource.getrusage(who)
    return used.ru_utime + used.ru_stime


async def one_run(jobs: int, nodes: int, rate: float, *, shadow: bool) -> Run:
    clock, random = SystemClock(), Random(1)
    server = in_memory_server(clock, random)
    cluster = LocalCluster(server, User("admin", groups=("system:masters",)))
    informers = Informers(cluster, clock, random)
    options = SchedulerOptions(shadow=ShadowOptions(config=parse_config(SHADOW)) if shadow else None)
    metrics = Registry()
    scheduler = Scheduler(cluster, informers, clock, random, options=options, metrics=metrics)
    task = asyncio.ensure_future(scheduler.run())
    await scheduler.ready.wait()
    await cluster.patch(catalog.QUEUE, "default", "", {"status": {"state": "Open"}}, subresource="status")
    for number in range(nodes):
        await add_node(cluster, f"node-{number}")
    created: dict[str, float] = {}
    taken: list[float] = []

    def on_pods(changes: object) -> None:
        now = time.perf_counter()
        for old, new in changes:  # type: ignore[attr-defined]
            if new is not None and new.spec.node_name and (old is None or not old.spec.node_name):
                begun = created.pop(new.metadata.name, None)
                if begun is not None:
                    taken.append(1000 * (now - begun))

    informers.informer(Pod).add_batch_handler(on_pods)
    await asyncio.sleep(1)
    own, children = cpu(resource.RUSAGE_SELF), cpu(resource.RUSAGE_CHILDREN)
    for number in range(jobs):
        began = time.perf_counter()
        await add_job(cluster, f"job-{number}", created)
        await asyncio.sleep(max(0.0, 1.0 / rate - (time.perf_counter() - began)))
    for _ in range(200):
        if not created:
            break
        await asyncio.sleep(0.1)
    await asyncio.sleep(6)
    taken.sort()
    found = Run(
        shadow,
        cpu(resource.RUSAGE_SELF) - own,
        cpu(resource.RUSAGE_CHILDREN) - children,
        taken[len(taken) // 2],
        taken[int(0.99 * len(taken))],
    )
    if shadow:
        (summary,) = await published(cluster)
        found.compared, found.skipped = summary.compared, summary.skipped
        lines = metrics.render().decode().splitlines()
        forks = next(float(line.split()[-1]) for line in lines if line.startswith("strato_shadow_fork_seconds_total "))
        found.fork_ms = 1000 * forks / max(1, summary.compared)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await informers.stop()
    return found


async def add_node(cluster: LocalCluster, name: str) -> None:
    await cluster.create(catalog.NODE, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})
    amounts = {"cpu": "64", "memory": "256Gi", "pods": "110"}
    status = {"allocatable": amounts, "capacity": amounts, "conditions": [{"type": "Ready", "status": "True"}]}
    await cluster.patch(catalog.NODE, name, "", {"status": status}, subresource="status")


async def add_job(cluster: LocalCluster, name: str, created: dict[str, float]) -> None:
    group = {
        "apiVersion": catalog.PODGROUP.api_version,
        "kind": "PodGroup",
        "metadata": {"name": name},
        "spec": {"minMember": PODS_PER_JOB, "queue": "default"},
        "status": {"phase": "Inqueue"},
    }
    await cluster.create(catalog.PODGROUP, group, "default")
    requests = {"requests": {"cpu": "500m", "memory": "1Gi"}}
    pods = [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"{name}-{number}", "annotations": {"scheduling.k8s.io/group-name": name}},
            "spec": {"schedulerName": "volcano", "containers": [{"name": "m", "image": "i", "resources": requests}]},
        }
        for number in range(PODS_PER_JOB)
    ]
    for pod in pods:
        created[pod["metadata"]["name"]] = time.perf_counter()  # type: ignore[index]
    await cluster.create_all(catalog.POD, pods, "default")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=3, help="of each kind, alternating")
    parser.add_argument("--jobs", type=int, default=400)
    parser.add_argument("--nodes", type=int, default=200)
    parser.add_argument("--rate", type=float, default=20.0, help="jobs per second")
    options = parser.parse_args()
    runs = []
    for number in range(2 * options.runs):
        run = asyncio.run(one_run(options.jobs, options.nodes, options.rate, shadow=number % 2 == 1))
        runs.append(run)
        print(
            f"{'with' if run.shadow else 'without':8} CPU {run.cpu_seconds:6.2f} s + "
            f"{run.children_cpu_seconds:5.2f} s, "
            f"bind p50 {run.bind_p50_ms:6.1f} ms p99 {run.bind_p99_ms:7.1f} ms, compared {run.compared}, "
            f"skipped {run.skipped}, fork {run.fork_ms:.1f} ms",
            flush=True,
        )
    plain, shadowed = ([run for run in runs if run.shadow is kind] for kind in (False, True))
    base = sum(run.cpu_seconds for run in plain)
    cost = sum(run.cpu_seconds + run.children_cpu_seconds for run in shadowed) - base
    print(f"the shadow costs {cost / base:.1%} of the CPU without it, {os.cpu_count()} processors, {options}")
    print(json.dumps([asdict(run) for run in runs]))


if __name__ == "__main__":
    main()
