"""Pods per second from creation to running and to the end, and the time one pod takes on an idle cluster.

    python -m benchmarks.end_to_end [--quick] [--kubeconfig FILE]

Submits Volcano Jobs over HTTPS to an embedded cluster with hollow nodes and watches their pods, from a process of its
own. With ``--kubeconfig`` it measures that cluster instead (for example a real control plane with our scheduler).
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
from pathlib import Path
from typing import Any

from benchmarks.cluster import Running, embedded
from benchmarks.report import check_writable, publish
from strato.api import catalog
from strato.client import kubeconfig
from strato.client.cluster import EventType
from strato.client.http import HttpCluster
from strato.clock import SystemClock


def job(name: str, replicas: int, label: str, command: list[str]) -> dict[str, Any]:
    resources = {"cpu": "1", "memory": "1Gi"}
    container = {
        "name": "worker",
        "image": "busybox:1.36",
        "command": command,
        "resources": {"requests": resources, "limits": resources},
    }
    template = {
        "metadata": {"labels": {"bench": label}},
        "spec": {"schedulerName": "volcano", "restartPolicy": "Never", "containers": [container]},
    }
    return {
        "apiVersion": catalog.VCJOB.api_version,
        "kind": "Job",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "schedulerName": "volcano",
            "minAvailable": replicas,
            "queue": "default",
            "tasks": [{"name": "worker", "replicas": replicas, "template": template}],
        },
    }


class Follower:
    """Notes when each pod of a label was first seen created, bound and running."""

    def __init__(self, cluster: HttpCluster, label: str, total: int) -> None:
        self.cluster, self.label, self.total = cluster, label, total
        self.created: dict[str, float] = {}
        self.bound: dict[str, float] = {}
        self.running: dict[str, float] = {}

    async def run(self) -> None:
        """Return when all run. A server that is busy may end a watch at any time; it goes on where it ended."""
        page = await self.cluster.list(catalog.POD, "default", label_selector=f"bench={self.label}")
        version = page.resource_version
        while True:
            async for batch in self.cluster.watch(
                catalog.POD, "default", label_selector=f"bench={self.label}", resource_version=version
            ):
                now = time.monotonic()
                for event in batch:
                    version = event.object["metadata"]["resourceVersion"]
                    if event.type is not EventType.BOOKMARK:
                        self.note(event.object, now)
                if len(self.running) >= self.total:
                    return

    def note(self, pod: dict[str, Any], now: float) -> None:
        name = pod["metadata"]["name"]
        self.created.setdefault(name, now)
        if pod["spec"].get("nodeName"):
            self.bound.setdefault(name, now)
        if pod.get("status", {}).get("phase") in ("Running", "Succeeded"):
            self.running.setdefault(name, now)


async def measure(
    cluster: HttpCluster, label: str, jobs: int, replicas: int, command: list[str], timeout: float = 600
) -> tuple[Follower, float]:
    """Submit and wait until all pods run; return what was seen and the instant of the first submission.

    Raises:
        SystemExit: There is nothing to submit, or not all pods run in time.
    """
    if jobs < 1 or replicas < 1:
        raise SystemExit(f"{label}: {jobs} jobs of {replicas} pods are nothing to wait for")
    follower = Follower(cluster, label, jobs * replicas)
    task = asyncio.create_task(follower.run())
    await asyncio.sleep(0.3)
    gate = asyncio.Semaphore(16)
    started = time.monotonic()

    async def post(number: int) -> None:
        async with gate:
            await cluster.create(catalog.VCJOB, job(f"{label}-{number}", replicas, label, command), "default")

    await asyncio.gather(*(post(number) for number in range(jobs)))
    try:
        async with asyncio.timeout(timeout):
            await task
    except TimeoutError:
        seen = f"{len(follower.created)} created, {len(follower.bound)} bound, {len(follower.running)} running"
        raise SystemExit(f"{label}: not all of {jobs * replicas} pods run after {timeout:g} s: {seen}") from None
    return follower, started


async def throughput(
    running: Running | None, path: Path, name: str, jobs: int, replicas: int, command: list[str]
) -> dict[str, Any]:
    cluster = HttpCluster(kubeconfig.load([path]), SystemClock())
    try:
        cpu = running.cpu_seconds() if running else 0.0
        follower, started = await measure(cluster, name, jobs, replicas, command)
    finally:
        await cluster.close()
    pods = jobs * replicas
    bound, run = max(follower.bound.values()) - started, max(follower.running.values()) - started
    waits = sorted(follower.bound[pod] - follower.created[pod] for pod in follower.bound)
    return {
        "workload": name,
        "pods": pods,
        "all bound s": bound,
        "all running s": run,
        "running pods/s": pods / run,
        "created to bound p50 s": statistics.median(waits),
        "cpu s": running.cpu_seconds() - cpu if running else float("nan"),
        "RSS MiB": running.resident_mib() if running else 0,
    }


async def lives(running: Running, name: str, jobs: int, replicas: int) -> dict[str, Any]:
    """Measure whole lives, from the first POST to the end of the last job; every pod runs a tenth of a second."""
    cluster = HttpCluster(kubeconfig.load([running.kubeconfig]), SystemClock())
    ended: set[str] = set()

    async def follow() -> None:
        version = (await cluster.list(catalog.VCJOB, "default")).resource_version
        while len(ended) < jobs:
            async for batch in cluster.watch(catalog.VCJOB, "default", resource_version=version):
                for event in batch:
                    version = event.object["metadata"]["resourceVersion"]
                    if event.object.get("status", {}).get("state", {}).get("phase") == "Completed":
                        ended.add(event.object["metadata"]["name"])
                if len(ended) == jobs:
                    return

    gate = asyncio.Semaphore(16)

    async def post(number: int) -> None:
        async with gate:
            body = job(f"{name}-{number}", replicas, name, ["sleep", "0.1"])
            await cluster.create(catalog.VCJOB, body, "default")

    try:
        task = asyncio.create_task(follow())
        await asyncio.sleep(0.3)
        cpu, started = running.cpu_seconds(), time.monotonic()
        await asyncio.gather(*(post(number) for number in range(jobs)))
        async with asyncio.timeout(600):
            await task
        seconds, cpu = time.monotonic() - started, running.cpu_seconds() - cpu
    finally:
        await cluster.close()
    pods = jobs * replicas
    return {
        "workload": name,
        "jobs": jobs,
        "pods": pods,
        "all ended s": seconds,
        "pods/s": pods / seconds,
        "cpu s": cpu,
    }


async def latency(path: Path, samples: int) -> dict[str, Any]:
    """Measure one pod at a time on an idle cluster, from the POST's start to the watch event of its binding."""
    cluster = HttpCluster(kubeconfig.load([path]), SystemClock())
    waits = []
    try:
        for sample in range(samples):
            follower, started = await measure(cluster, f"idle-{sample}", 1, 1, ["sleep", "3600"], timeout=60)
            waits.append(max(follower.bound.values()) - started)
    finally:
        await cluster.close()
    waits.sort()
    return {
        "samples": samples,
        "idle to bound p50 ms": 1000 * statistics.median(waits),
        "p90 ms": 1000 * waits[int(0.9 * samples)],
        "max ms": 1000 * waits[-1],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--quick", action="store_true", help="only 1,000 nodes")
    parser.add_argument("--kubeconfig", type=Path, help="measure this cluster instead of embedded ones")
    args = parser.parse_args()
    check_writable()
    long_run = ["sleep", "3600"]
    workloads = [("gangs", 100, 50, long_run), ("single", 2000, 1, ["sleep", "0"])]
    rows, waits = [], []
    if args.kubeconfig:
        rows += [{"nodes": "given", **asyncio.run(throughput(None, args.kubeconfig, *w))} for w in workloads]
        waits.append({"nodes": "given", **asyncio.run(latency(args.kubeconfig, 10))})
    else:
        for nodes in (1000,) if args.quick else (1000, 10_000):
            for workload in workloads:
                options = ("--no-sandbox", "--hollow-nodes", str(nodes), "--cpu", "32", "--memory", "256Gi")
                with embedded(*options) as running:
                    row = asyncio.run(throughput(running, running.kubeconfig, *workload))
                    rows.append({"nodes": nodes, "ready s": running.ready_seconds, **row})
        whole = []
        for name, jobs, replicas in (("many-jobs", 1000, 10), ("one-wide-job", 1, 5000)):
            with embedded("--no-sandbox", "--hollow-nodes", "1000") as running:
                whole.append(asyncio.run(lives(running, name, jobs, replicas)))
        publish("lives", whole, "bar: 1,000 jobs of 10 pods at 1,000 pods/s")
        with embedded("--no-sandbox", "--hollow-nodes", "1000") as running:
            waits.append({"nodes": 1000, **asyncio.run(latency(running.kubeconfig, 30))})
    publish("end_to_end", rows)
    publish("idle_to_bound", waits)


if __name__ == "__main__":
    main()
