"""104 Spark queries at once on four nodes, with and without room reserved for whole queries.

    python experiment.py [--queries 104] [--seed 1] [--svg plot.svg] [--json results.json]

Each query is a driver of 1 CPU and 4Gi that, once it runs, asks for five executors of the same size; the nodes have
8 CPUs and 64Gi each. The pods are scheduled by the real scheduler and controllers on the real API server, in virtual
time (`strato.sim`). What stands for Spark is `Query`: what a driver does, with Spark's own rules for static allocation.
Three ways to run them:

pods       all at once; every pod is scheduled by itself
batches    26 at a time, the next ones when those are done: what people do about it
reserved   all at once; each query has a PodGroup whose minResources are those of its driver and its executors,
           as Spark's VolcanoFeatureStep makes it from a PodGroup template
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any
from xml.sax.saxutils import escape

from strato.api import catalog
from strato.api.core import Pod
from strato.client.informer import Change
from strato.clock import VirtualClock, run_virtual
from strato.controllers.manager import DEFAULT
from strato.node.shapes import parse_nodes
from strato.sim.cluster import ClusterOptions, SimulatedCluster

EXECUTORS = 5
POD = {"cpu": "1", "memory": "4Gi"}
QUERY = {"cpu": "6", "memory": "24Gi"}
NODES = "4x8cpu,64Gi"
DRIVER_START_SECONDS = (6.0, 12.0)
"""From a driver's start until it asks for executors: a JVM, the context, the jars."""
EXECUTOR_START_SECONDS = (3.0, 6.0)
WORK_SECONDS = (200.0, 400.0)
"""Of one CPU, that a query's tasks need; executors share them."""
REGISTRATION_SECONDS = 30.0
"""``spark.scheduler.maxRegisteredResourcesWaitingTime``: after this a query begins with the executors it has."""
REGISTERED_RATIO = 0.8
"""``spark.scheduler.minRegisteredResourcesRatio`` on Kubernetes: with these it begins at once."""
STALL_SECONDS = 3600.0
"""So long without a query's end, and nothing will ever end."""
BATCH = 26
CONTROLLERS = (*DEFAULT, "kube-garbage-collector")
"""Those of a cluster, and what removes PodGroups of pods that are gone."""
NAMESPACE = "default"


@dataclass
class Query:
    """One query: what its driver does."""

    name: str
    reserved: bool
    work_left: float
    cluster: SimulatedCluster
    random: Random
    running: set[str] = field(default_factory=set)
    """Executors that have registered."""
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    driver_runs: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self) -> None:
        """Submit the driver and follow it to the query's end."""
        if self.reserved:
            await self.cluster.admin.create(catalog.PODGROUP, self._group(), NAMESPACE)
        await self._pod(f"{self.name}-driver", "driver")
        await self.driver_runs.wait()
        await self.cluster.clock.sleep(self.random.uniform(*DRIVER_START_SECONDS))
        for number in range(EXECUTORS):
            await self._pod(f"{self.name}-exec-{number}", "executor")
        await self._registration()
        await self._work()
        for name in [f"{self.name}-exec-{number}" for number in range(EXECUTORS)] + [f"{self.name}-driver"]:
            await self.cluster.admin.delete(Pod, name, NAMESPACE, grace_period_seconds=0)
        if self.reserved:
            await self.cluster.admin.delete(catalog.PODGROUP, self.name, NAMESPACE)

    async def executor_runs(self, name: str) -> None:
        """Let an executor register, a little after its start."""
        await self.cluster.clock.sleep(self.random.uniform(*EXECUTOR_START_SECONDS))
        self.running.add(name)
        self._changed.set()

    async def _registration(self) -> None:
        clock, since = self.cluster.clock, self.cluster.clock.now()
        while len(self.running) < REGISTERED_RATIO * EXECUTORS:
            left = since + REGISTRATION_SECONDS - clock.now()
            if left <= 0 and self.running:
                return
            await self._change(left if left > 0 else None)

    async def _work(self) -> None:
        clock = self.cluster.clock
        while self.work_left > 1e-6:
            since, executors = clock.now(), len(self.running)
            await self._change(self.work_left / executors)
            self.work_left -= (clock.now() - since) * executors

    async def _change(self, seconds: float | None) -> None:
        """Wait until an executor registers, ``seconds`` at most."""
        self._changed.clear()
        changed = asyncio.ensure_future(self._changed.wait())
        waiting = {changed}
        if seconds is not None:
            waiting.add(asyncio.ensure_future(self.cluster.clock.sleep(seconds)))
        _, left = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        for task in left:
            task.cancel()

    def _group(self) -> dict[str, Any]:
        return {
            "apiVersion": catalog.PODGROUP.api_version,
            "kind": catalog.PODGROUP.name,
            "metadata": {"name": self.name, "namespace": NAMESPACE},
            "spec": {"minMember": 1, "minResources": QUERY, "queue": "default"},
        }

    async def _pod(self, name: str, role: str) -> None:
        annotations = {"scheduling.k8s.io/group-name": self.name} if self.reserved else {}
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": name,
                "namespace": NAMESPACE,
                "labels": {"spark-role": role, "spark-app": self.name},
                "annotations": annotations,
            },
            "spec": {
                "schedulerName": "volcano",
                "containers": [{"name": role, "image": "spark", "resources": {"requests": POD, "limits": POD}}],
            },
        }
        await self.cluster.admin.create(catalog.POD, body, NAMESPACE)


@dataclass
class Result:
    """What one run came to."""

    name: str
    queries: int
    ended: list[float] = field(default_factory=list)
    """Seconds after the start at which queries ended, in order."""
    most_drivers: int = 0
    """Drivers that ran at a time."""

    @property
    def seconds(self) -> float | None:
        """Until the last query ended; None when not all did."""
        return self.ended[-1] if len(self.ended) == self.queries else None


class Experiment:
    """One run of all queries."""

    def __init__(self, name: str, queries: int, seed: int, *, reserved: bool, batch: int) -> None:
        self.result = Result(name, queries)
        self._seed, self._reserved, self._batch = seed, reserved, batch
        self._queries: dict[str, Query] = {}
        self._started: set[str] = set()
        self._drivers: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._end = asyncio.Event()

    def run(self) -> Result:
        """Run it in virtual time."""
        clock = VirtualClock(1_700_000_000.0)
        run_virtual(clock, self._run(clock))
        return self.result

    async def _run(self, clock: VirtualClock) -> None:
        random = Random(self._seed)
        cluster = SimulatedCluster(clock, random, ClusterOptions(nodes=parse_nodes(NODES), controllers=CONTROLLERS))
        await cluster.start()
        cluster.informers.informer(Pod).add_handler(self._on_pod)
        begin = clock.now()
        names = [f"query-{number:03d}" for number in range(self.result.queries)]
        for first in range(0, len(names), self._batch):
            batch = names[first : first + self._batch]
            for name in batch:
                work = Random(f"{self._seed}/{name}").uniform(*WORK_SECONDS)
                query = Query(name, self._reserved, work, cluster, Random(f"{self._seed}/{name}/starts"))
                self._queries[name] = query
                self._start(self._follow(query, clock, begin))
            if not await self._until_ended(first + len(batch), cluster):
                break
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await cluster.stop()

    def _start(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _follow(self, query: Query, clock: VirtualClock, begin: float) -> None:
        await query.run()
        self.result.ended.append(clock.now() - begin)
        self._end.set()

    async def _until_ended(self, number: int, cluster: SimulatedCluster) -> bool:
        """Wait until so many queries have ended; False when none has ended for very long."""
        while len(self.result.ended) < number:
            self._end.clear()
            ended, stalled = asyncio.ensure_future(self._end.wait()), cluster.clock.sleep(STALL_SECONDS)
            waiting = {ended, asyncio.ensure_future(stalled)}
            done, left = await cluster.guard(asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED))
            for task in left:
                task.cancel()
            if ended not in done:
                return False
        return True

    def _on_pod(self, change: Change[Pod]) -> None:
        pod = change.new
        if pod is None:
            self._drivers.discard(change.key.name)
            return
        name = pod.metadata.name
        if pod.status.phase != "Running" or name in self._started:
            return
        self._started.add(name)
        query = self._queries[pod.metadata.label("spark-app")]
        if pod.metadata.label("spark-role") == "driver":
            self._drivers.add(name)
            self.result.most_drivers = max(self.result.most_drivers, len(self._drivers))
            query.driver_runs.set()
        else:
            self._start(query.executor_runs(name))


def svg(results: Sequence[Result]) -> str:
    """Return the plot: queries that have ended, over time, one line a run."""
    width, height, left, bottom = 760, 300, 50, 40
    longest = max((result.ended[-1] for result in results if result.ended), default=1.0) * 1.05
    most = max(result.queries for result in results)
    parts = []
    for result, colour in zip(results, ("#a8a29a", "#d9822b", "#4c78a8"), strict=True):
        steps, count = [(0.0, 0)], 0
        for second in result.ended:
            steps += [(second, count), (second, count + 1)]
            count += 1
        steps.append((longest, count))
        places = " ".join(
            f"{left + x / longest * (width - left - 20):.1f},{height - bottom - y / most * (height - bottom - 20):.1f}"
            for x, y in steps
        )
        parts.append(f'<polyline points="{places}" fill="none" stroke="{colour}" stroke-width="2"/>')
        text = f"{result.name}: {len(result.ended)} of {result.queries} in {steps[-2][0]:.0f} s"
        parts.append(f'<text x="{left + 10}" y="{30 + 18 * len(parts) // 2}" fill="{colour}">{escape(text)}</text>')
    axes = f'<path d="M{left},10 V{height - bottom} H{width - 10}" stroke="#888" fill="none"/>'
    labels = f'<text x="{width // 2}" y="{height - 10}">seconds; the lines end at {longest:.0f}</text>'
    size = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="13"'
    ground = '<rect width="100%" height="100%" fill="#fff"/>'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size}>{ground}{axes}{labels}{"".join(parts)}</svg>\n'


def experiments(queries: int, seed: int) -> list[Experiment]:
    """Return the three runs."""
    return [
        Experiment("pods", queries, seed, reserved=False, batch=queries),
        Experiment("batches", queries, seed, reserved=False, batch=BATCH),
        Experiment("reserved", queries, seed, reserved=True, batch=queries),
    ]


def main() -> int:
    """Run all three and print what they came to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queries", type=int, default=104)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--svg", type=Path)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    results = [experiment.run() for experiment in experiments(args.queries, args.seed)]
    print(f"{'run':<10} {'ended':>9} {'most drivers':>13} {'seconds':>8}")
    for result in results:
        seconds = f"{result.seconds:.0f}" if result.seconds is not None else "never"
        print(f"{result.name:<10} {len(result.ended):>5}/{result.queries} {result.most_drivers:>13} {seconds:>8}")
    batches, reserved = results[1].seconds, results[2].seconds
    if batches and reserved:
        print(f"reserved is {100 * (1 - reserved / batches):.0f} % faster than batches of {BATCH}")
    if args.svg:
        args.svg.write_text(svg(results))
    if args.json:
        args.json.write_text(json.dumps([vars(result) for result in results]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
