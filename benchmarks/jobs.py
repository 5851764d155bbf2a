"""Whole lives of batch jobs, server, controllers, scheduler and hollow nodes in one process: pods and writes.

``python -m benchmarks.jobs [--jobs N] [--tasks N] [--single N] [--wide N]``

Every job is created, admitted, placed, run for a moment, finished and cleaned up; the clock runs from the first
create to the last job's end, on the event loop of ``strato up`` and with its settings. Process time tells more than
wall time on a machine that others use. Writes are what the server was asked to store, by kind.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import time
from collections import Counter
from functools import partial
from random import Random
from typing import Any

from benchmarks.report import check_writable, publish
from strato.api import catalog
from strato.api.volcano.batch import Job
from strato.api.wire import Request, Response
from strato.cli.serving import run_loop
from strato.clock import SystemClock
from strato.controllers import EMBEDDED
from strato.controllers.job.terms import FINISHED_PHASES
from strato.server.path import parse_path
from strato.sim.cluster import ClusterOptions, SimulatedCluster
from strato.sim.nodes import parse_nodes
from strato.testing import vcjob

CREATORS = 64
"""Jobs created at the same time."""


class Counted:
    """A server that notes what it is asked to write."""

    def __init__(self, world: SimulatedCluster) -> None:
        self._asked: Counter[tuple[str, str, str]] = Counter()
        self._handle = world.server.handle
        world.server.handle = self.handle  # type: ignore[method-assign] # only a benchmark looks over its shoulder

    async def handle(self, request: Request) -> Response:
        if request.method != "GET":
            target = parse_path(request.path)
            if target is not None:
                self._asked[request.method, target.plural, target.subresource] += 1
        return await self._handle(request)

    @property
    def writes(self) -> Counter[str]:
        """How often each kind was written, and how."""
        return Counter(
            {f"{method} {'/'.join(filter(None, place))}": count for (method, *place), count in self._asked.items()}
        )


async def live(name: str, jobs: int, tasks: int, nodes: str) -> dict[str, object]:
    """Run ``jobs`` jobs of ``tasks`` pods to their end."""
    world = SimulatedCluster(
        SystemClock(), Random(1), ClusterOptions(nodes=parse_nodes(nodes), controllers=EMBEDDED, max_lease_rate=0.0)
    )
    ended: set[str] = set()
    all_ended = asyncio.Event()

    def on_job(change: Any) -> None:
        if change.new is not None and change.new.status.state.phase in FINISHED_PHASES:
            ended.add(change.new.metadata.name)
            if len(ended) == jobs:
                all_ended.set()

    world.informers.informer(Job).add_handler(on_job)
    await world.prepare()
    await world.start()
    counted = Counted(world)
    bodies = [vcjob(f"job-{n}").task("w", tasks, cpu="1", run_seconds=0.1) for n in range(jobs)]
    gc.collect()
    wall, cpu = time.perf_counter(), time.process_time()
    numbers = iter(bodies)

    async def create() -> None:
        for body in numbers:
            await world.admin.create(catalog.VCJOB, body, "default")

    await asyncio.gather(*(create() for _ in range(CREATORS)))
    await asyncio.wait_for(all_ended.wait(), 600)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    await asyncio.sleep(0.5)
    await world.stop()
    pods = jobs * tasks
    for what, count in counted.writes.most_common(14):
        print(f"    {count / jobs:8.2f} per job  {what}")
    return {
        "case": name,
        "jobs": jobs,
        "pods": pods,
        "wall s": wall,
        "cpu s": cpu,
        "pods/s": pods / wall,
        "pods/cpu s": pods / cpu,
        "writes per pod": sum(counted.writes.values()) / pods,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument("--tasks", type=int, default=10)
    parser.add_argument("--single", type=int, default=1000)
    parser.add_argument("--wide", type=int, default=5000)
    parser.add_argument("--nodes", default="200x64cpu,256Gi")
    chosen = parser.parse_args()
    check_writable()
    rows: list[dict[str, object]] = []

    async def run(name: str, jobs: int, tasks: int) -> None:
        rows.append(await live(name, jobs, tasks, chosen.nodes))

    for name, jobs, tasks in (
        ("many jobs", chosen.jobs, chosen.tasks),
        ("one-pod jobs", chosen.single, 1),
        ("one wide job", 1, chosen.wide),
    ):
        if jobs and tasks:
            run_loop(partial(run, name, jobs, tasks))
    publish("jobs", rows, "bar: 1,000 jobs of 10 pods at 1,000 pods/s")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
