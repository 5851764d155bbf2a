"""Whole lives of batch and training jobs, server, controllers, scheduler and nodes in one process: pods and writes.

``python -m benchmarks.jobs [--jobs N] [--tasks N] [--single N] [--wide N] [--training N]``

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
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any

from benchmarks.report import check_writable, publish
from strato.api import catalog
from strato.api.kinds import Kind
from strato.api.wire import Request, Response
from strato.cli.serving import run_loop
from strato.clock import SystemClock
from strato.controllers import EMBEDDED
from strato.controllers.job.terms import FINISHED_PHASES
from strato.node.shapes import parse_nodes
from strato.server.path import parse_path
from strato.sim.cluster import ClusterOptions, SimulatedCluster
from strato.testing import pod, vcjob

CREATORS = 64
"""Jobs created at the same time."""
RUN_SECONDS = 0.1
"""How long each pod runs."""


@dataclass(frozen=True, slots=True)
class Workload:
    """What is run: jobs of one kind."""

    kind: Kind
    body: Callable[[int, int], Mapping[str, Any]]
    """Returns a job by its number and how many pods it has."""
    is_over: Callable[[Any], bool]


def _batch_job(number: int, tasks: int) -> Mapping[str, Any]:
    return vcjob(f"job-{number}").task("w", tasks, cpu="1", run_seconds=RUN_SECONDS)


def _training_job(number: int, tasks: int) -> Mapping[str, Any]:
    """Return a chief that ends with the others, so that all pods live."""
    made = pod("template", cpu="1", run_seconds=RUN_SECONDS)
    container = {**made["spec"]["containers"][0], "name": "tensorflow"}
    template = {"metadata": {"annotations": made["metadata"]["annotations"]}, "spec": {"containers": [container]}}
    replicas = {"Chief": 1, "Worker": tasks - 1}
    return {
        "apiVersion": catalog.TFJOB.api_version,
        "kind": catalog.TFJOB.name,
        "metadata": {"name": f"job-{number}"},
        "spec": {"tfReplicaSpecs": {role: {"replicas": n, "template": template} for role, n in replicas.items()}},
    }


BATCH = Workload(catalog.VCJOB, _batch_job, lambda job: job.status.state.phase in FINISHED_PHASES)
TRAINING = Workload(
    catalog.TFJOB,
    _training_job,
    lambda job: any(one.type in ("Succeeded", "Failed") and one.status == "True" for one in job.status.conditions),
)


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


async def live(name: str, workload: Workload, jobs: int, tasks: int, nodes: str) -> dict[str, object]:
    """Run ``jobs`` jobs of ``tasks`` pods to their end."""
    world = SimulatedCluster(
        SystemClock(), Random(1), ClusterOptions(nodes=parse_nodes(nodes), controllers=EMBEDDED, max_lease_rate=0.0)
    )
    ended: set[str] = set()
    all_ended = asyncio.Event()

    def on_job(change: Any) -> None:
        if change.new is not None and workload.is_over(change.new):
            ended.add(change.new.metadata.name)
            if len(ended) == jobs:
                all_ended.set()

    world.informers.informer(workload.kind.view).add_handler(on_job)
    await world.prepare()
    await world.start()
    counted = Counted(world)
    bodies = [workload.body(number, tasks) for number in range(jobs)]
    gc.collect()
    wall, cpu = time.perf_counter(), time.process_time()
    numbers = iter(bodies)

    async def create() -> None:
        for body in numbers:
            await world.admin.create(workload.kind, body, "default")

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
    parser.add_argument("--training", type=int, default=1000)
    parser.add_argument("--nodes", default="200x64cpu,256Gi")
    chosen = parser.parse_args()
    check_writable()
    rows: list[dict[str, object]] = []

    async def run(name: str, workload: Workload, jobs: int, tasks: int) -> None:
        rows.append(await live(name, workload, jobs, tasks, chosen.nodes))

    for name, workload, jobs, tasks in (
        ("many jobs", BATCH, chosen.jobs, chosen.tasks),
        ("one-pod jobs", BATCH, chosen.single, 1),
        ("one wide job", BATCH, 1, chosen.wide),
        ("training jobs", TRAINING, chosen.training, 6),
    ):
        if jobs and tasks:
            run_loop(partial(run, name, workload, jobs, tasks))
    publish("jobs", rows, "bar: 1,000 jobs of 10 pods, and 1,000 training jobs of 6, at 1,000 pods/s")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
