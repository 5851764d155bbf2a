"""A million live pods on ten thousand hollow nodes, through HTTPS: rate and memory from the first pod to the last.

    python -m benchmarks.million [--pods N] [--nodes N] [--gang N] [--ahead N]

Volcano Jobs are submitted to ``strato up`` with a journal on disk, at most ``--ahead`` pods before those that run.
A process of its own GETs a small object meanwhile, fifty times a second, each counted from when it was due. Then a
namespace is listed in pages, and the cluster is stopped and started: how long until one more pod is bound.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.cluster import STRATO, Running
from benchmarks.report import RESULTS, check_writable, commit, hardware
from strato.api import catalog
from strato.api.core import Pod
from strato.client import kubeconfig
from strato.client.http import HttpCluster
from strato.clock import SystemClock
from strato.errors import Gone

NAMESPACE_PODS = 100_000
PAGE = 1000
SAMPLE_SECONDS = 2.0
PROBE_SECONDS = 0.02
POINTS = 200
"""Samples that the results keep at most."""
BARS = {
    "pods/s, whole run": 2000.0,
    "pods/s, slowest tenth": 2000.0,
    "RSS GiB": 8.0,
    "GET p99 ms": 100.0,
    "list of 100,000 s": 3.0,
    "restart to first bind s": 60.0,
}
LEAST = ("pods/s, whole run", "pods/s, slowest tenth")


@dataclass(slots=True)
class Sample:
    """What was so at an instant of the run."""

    second: float
    running: int
    cpu_seconds: Sequence[float]
    """Per process, from the start."""
    rss_mib: Sequence[int]
    """Per process."""


@dataclass(slots=True)
class Load:
    """Jobs on their way to the cluster."""

    cluster: HttpCluster
    pods: int
    gang: int
    ahead: int
    running: dict[str, int] = field(default_factory=dict)
    """Pods per job, as its status has them."""
    submitted: int = 0
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def alive(self) -> int:
        return sum(self.running.values())

    async def run(self) -> None:
        """Submit everything; return when all pods run."""
        for number in range(-(-self.pods // NAMESPACE_PODS)):
            body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": f"load-{number}"}}
            await self.cluster.create(catalog.NAMESPACE, body)
        watching = asyncio.create_task(self._watch())
        try:
            async with asyncio.TaskGroup() as group:
                for number in range(-(-self.pods // self.gang)):
                    while self.submitted - self.alive >= self.ahead:
                        self.changed.clear()
                        await self.changed.wait()
                    size = min(self.gang, self.pods - self.submitted)
                    self.submitted += size
                    group.create_task(self._submit(number, size))
            while self.alive < self.pods:
                self.changed.clear()
                await self.changed.wait()
        finally:
            watching.cancel()

    async def _submit(self, number: int, size: int) -> None:
        namespace = f"load-{number * self.gang // NAMESPACE_PODS}"
        await self.cluster.create(catalog.VCJOB, job(f"job-{number}", namespace, size), namespace)

    async def _watch(self) -> None:
        version = ""
        while True:
            if not version:
                page = await self.cluster.list(catalog.VCJOB)
                version = page.resource_version
                self._note(page.items)
            try:
                async for batch in self.cluster.watch(catalog.VCJOB, resource_version=version):
                    version = batch[-1].object["metadata"]["resourceVersion"]
                    self._note([event.object for event in batch])
            except Gone:
                version = ""

    def _note(self, jobs: Sequence[dict[str, Any]]) -> None:
        for one in jobs:
            running = one.get("status", {}).get("running", 0)
            if running:
                meta = one["metadata"]
                self.running[f"{meta['namespace']}/{meta['name']}"] = running
        self.changed.set()


def job(name: str, namespace: str, replicas: int) -> dict[str, Any]:
    requests = {"cpu": "200m", "memory": "1Gi"}
    container = {"name": "worker", "image": "busybox:1.36", "resources": {"requests": requests}}
    template = {
        "metadata": {"labels": {"app": name}},
        "spec": {"schedulerName": "volcano", "restartPolicy": "Never", "containers": [container]},
    }
    return {
        "apiVersion": catalog.VCJOB.api_version,
        "kind": "Job",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "schedulerName": "volcano",
            "minAvailable": replicas,
            "queue": "default",
            "tasks": [{"name": "worker", "replicas": replicas, "template": template}],
        },
    }


def used(running: Running) -> tuple[list[float], list[int]]:
    """Return CPU seconds and resident MiB of each process of the cluster."""
    cpu, rss = [], []
    for pid in running.processes:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        cpu.append((int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"))
        rss.append(int(fields[21]) * os.sysconf("SC_PAGE_SIZE") >> 20)
    return cpu, rss


async def fill(running: Running, args: argparse.Namespace) -> list[Sample]:
    """Create all pods; return what was seen on the way."""
    cluster = HttpCluster(kubeconfig.load([running.kubeconfig]), SystemClock())
    load = Load(cluster, args.pods, args.gang, args.ahead)
    samples: list[Sample] = []
    started = time.monotonic()

    def sample() -> None:
        samples.append(Sample(time.monotonic() - started, load.alive, *used(running)))

    async def follow() -> None:
        while True:
            sample()
            if len(samples) % 15 == 0:
                last = samples[-1]
                print(f"  {last.second:6.0f} s {last.running:>9,} pods {sum(last.rss_mib):>6,} MiB", flush=True)
            await asyncio.sleep(SAMPLE_SECONDS)

    following = asyncio.create_task(follow())
    try:
        async with asyncio.timeout(args.timeout):
            await load.run()
    except TimeoutError:
        raise SystemExit(f"{load.alive:,} of {args.pods:,} pods run after {args.timeout} s") from None
    finally:
        following.cancel()
        sample()
        await cluster.close()
    return samples


class PageMeta(msgspec.Struct, rename={"token": "continue"}):
    token: str = ""


class Page(msgspec.Struct):
    """A page of a list; what its reader makes of the items is not the server's time."""

    metadata: PageMeta
    items: list[msgspec.Raw]


async def list_namespace(path: Path) -> tuple[int, float]:
    """List a namespace in pages; return how many pods it has and the seconds."""
    cluster = HttpCluster(kubeconfig.load([path]), SystemClock())
    count, started = 0, time.monotonic()
    query = {"limit": str(PAGE)}
    while True:
        page = msgspec.json.decode(await cluster.raw("GET", catalog.POD.path("load-0"), query=query), type=Page)
        count += len(page.items)
        if not page.metadata.token:
            break
        query["continue"] = page.metadata.token
    seconds = time.monotonic() - started
    await cluster.close()
    return count, seconds


async def first_bind(path: Path) -> None:
    """Submit one more pod and return when it is bound."""
    cluster = HttpCluster(kubeconfig.load([path]), SystemClock())
    body = job("one-more", "default", 1)
    await cluster.create(catalog.VCJOB, body, "default")
    page = await cluster.list(Pod, "default")
    if not any(pod.spec.node_name for pod in page.items):
        async for batch in cluster.watch(Pod, "default", resource_version=page.resource_version):
            if any(event.object.spec.node_name for event in batch):
                break
    await cluster.close()


async def probe(path: Path) -> None:
    """GET a small object fifty times a second and print each latency in ms, until killed."""
    cluster = HttpCluster(kubeconfig.load([path]), SystemClock())
    due = time.monotonic()
    while True:
        await cluster.get(catalog.NAMESPACE, "default")
        print(f"{(time.monotonic() - due) * 1000:.2f}", flush=True)
        due = max(due + PROBE_SECONDS, time.monotonic() - 10)
        await asyncio.sleep(max(0.0, due - time.monotonic()))


def percentile(values: Sequence[float], part: float) -> float:
    return sorted(values)[min(len(values) - 1, int(part * len(values)))] if values else float("nan")


def slowest_tenth(samples: Sequence[Sample], pods: int) -> float:
    """Return the rate of the slowest tenth of the pods."""
    at = [0.0] * 11
    for sample in reversed(samples):
        for tenth in range(11):
            if sample.running >= pods * tenth / 10:
                at[tenth] = sample.second
    at[0] = 0.0
    return min((pods / 10) / max(at[tenth + 1] - at[tenth], 1e-9) for tenth in range(10))


def measure(args: argparse.Namespace, home: Path) -> dict[str, Any]:
    base = [*STRATO, "--home", str(home)]
    up = [*base, "up", "--port", "0", "--no-sandbox", "--hollow-nodes", f"{args.nodes}x32cpu,256Gi,zone=a..c,rack=40"]
    began = time.monotonic()
    subprocess.run(up, check=True, stdout=subprocess.DEVNULL)
    running = Running(home, time.monotonic() - began)
    try:
        idle_cpu, idle_rss = used(running)
        with (home / "probe").open("w") as out:
            probing = subprocess.Popen(
                [sys.executable, "-m", "benchmarks.million", "--probe", str(running.kubeconfig)], stdout=out
            )
            try:
                samples = asyncio.run(fill(running, args))
            finally:
                probing.terminate()
                probing.wait()
        latencies = [float(text) for text in (home / "probe").read_text().split()]
        listed, list_seconds = asyncio.run(list_namespace(running.kubeconfig))
        cpu, rss = used(running)
        subprocess.run([*base, "down"], check=True, stdout=subprocess.DEVNULL)
        began = time.monotonic()
        subprocess.run(up, check=True, stdout=subprocess.DEVNULL)
        ready = time.monotonic() - began
        asyncio.run(first_bind(running.kubeconfig))
        bind = time.monotonic() - began
        again_cpu, again_rss = used(running)
    finally:
        subprocess.run([*base, "down"], check=False, stdout=subprocess.DEVNULL)
    seconds = samples[-1].second
    summary = {
        "pods": args.pods,
        "nodes": args.nodes,
        "ready s": running.ready_seconds,
        "pods/s, whole run": args.pods / seconds,
        "pods/s, slowest tenth": slowest_tenth(samples, args.pods),
        "cpu us per pod, process by process": [(b - a) / args.pods * 1e6 for a, b in zip(idle_cpu, cpu, strict=True)],
        "RSS GiB": max(sum(sample.rss_mib) for sample in samples) / 1024,
        "RSS MiB, process by process": rss,
        "bytes per pod": (sum(rss) - sum(idle_rss)) * 2**20 / args.pods,
        "GETs": len(latencies),
        "GET p50 ms": percentile(latencies, 0.5),
        "GET p99 ms": percentile(latencies, 0.99),
        f"list of {listed:,} s": list_seconds,
        "ready again s": ready,
        "restart to first bind s": bind,
        "restart cpu s": sum(again_cpu),
        "RSS MiB after restart": sum(again_rss),
    }
    step = max(1, len(samples) // POINTS)
    kept = [asdict(sample) for sample in [*samples[:-1:step], samples[-1]]]
    return {"benchmark": "million", "commit": commit(), "hardware": hardware(), "summary": summary, "samples": kept}


def show(summary: dict[str, Any]) -> bool:
    """Print the summary with the bars; return whether all hold."""
    holds = True
    for name, value in summary.items():
        bar, verdict = BARS.get(name), ""
        if bar is not None:
            good = value >= bar if name in LEAST else value <= bar
            holds &= good
            verdict = f"  {'holds' if good else 'MISSES'}: {'at least' if name in LEAST else 'at most'} {bar:g}"
        shown = ", ".join(f"{one:,.0f}" for one in value) if isinstance(value, list) else f"{value:,.5g}"
        print(f"{name:40} {shown}{verdict}")
    return holds


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--pods", type=int, default=1_000_000)
    parser.add_argument("--nodes", type=int, default=10_000)
    parser.add_argument("--gang", type=int, default=500, help="pods of a job")
    parser.add_argument("--ahead", type=int, default=10_000, help="pods that may be submitted before those that run")
    parser.add_argument("--timeout", type=float, default=3600, help="seconds that all pods may take")
    parser.add_argument("--home", type=Path, help="directory of the cluster instead of a temporary one")
    parser.add_argument("--probe", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.probe:
        asyncio.run(probe(args.probe))
        return 0
    check_writable()
    if args.home:
        args.home.mkdir(parents=True, exist_ok=True)
        result = measure(args, args.home)
    else:
        with tempfile.TemporaryDirectory(prefix="strato-bench-") as directory:
            result = measure(args, Path(directory))
    (RESULTS / "million.json").write_text(json.dumps(result, indent=1) + "\n")
    return 0 if show(result["summary"]) else 1


if __name__ == "__main__":
    sys.exit(main())
