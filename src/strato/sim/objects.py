"""The fidelity with every API object: runs a trace through the real server, controllers, scheduler and hollow nodes.

Nothing here reads the machine's clock or draws unseeded random numbers: equal arguments give an equal record.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from random import Random
from typing import Final

from strato.api import catalog
from strato.api.core import Pod
from strato.api.meta import Json
from strato.api.volcano.scheduling import PodGroup, Queue
from strato.clock import run_virtual
from strato.controllers.manager import DEFAULT, controllers_of
from strato.controllers.training.adapters import ADAPTERS
from strato.controllers.vpa import VerticalAutoscalerController
from strato.errors import ApiError
from strato.node.shapes import NodeShape
from strato.scheduler.framework.options import Config
from strato.sim.arrivals import Arrivals
from strato.sim.cluster import ClusterOptions, SimulatedCluster
from strato.sim.machines import columns_of, node_objects
from strato.sim.measure import JOB_LABEL, PodFollower
from strato.sim.progress import Progress
from strato.sim.rest import STALL_SECONDS, START, RestingClock, RestingLoop, instant
from strato.sim.results.record import RunRecord, RunRecorder
from strato.sim.submission import NAMESPACE, manifest_of, prepare, waiting_reason
from strato.sim.traces import Trace

_CONTROLLERS: Final = tuple(
    name for name in controllers_of(DEFAULT, {*ADAPTERS, catalog.TRAINJOB}) if name != VerticalAutoscalerController.name
)
"""The default ones without those of training jobs and vertical autoscalers: no trace has such objects, and these
controllers would look for some every minute of the trace's time."""


def simulate_objects(
    trace: Trace,
    shapes: tuple[NodeShape, ...],
    config: Config | None = None,
    *,
    seed: int = 0,
    queues: Sequence[Json] = (),
    start: float = START,
    progress: Callable[[Progress], None] | None = None,
) -> RunRecord:
    """Run a trace to its end. Depends on its arguments only.

    Args:
        trace: The jobs.
        shapes: The nodes; empty takes those of the trace.
        config: The policy; None is the built-in one.
        seed: Seeds every random generator of the cluster.
        queues: Manifests; queues that the trace names and these do not are made with weight 1.
        start: The instant at which the trace begins, seconds since the epoch.
        progress: Called after each job that was submitted or ended.

    Raises:
        ApiError: A queue was refused.
    """
    clock = RestingClock(start)
    options = ClusterOptions(nodes=shapes or trace.nodes, scheduler_config=config, controllers=_CONTROLLERS)
    cluster = SimulatedCluster(clock, Random(seed), options)
    return run_virtual(clock, _run(cluster, trace, queues, progress), loop=RestingLoop)


async def _run(
    cluster: SimulatedCluster, trace: Trace, queues: Sequence[Json], progress: Callable[[Progress], None] | None
) -> RunRecord:
    replay = _Replay(cluster, trace, progress)
    await cluster.start()
    try:
        queue_informer = cluster.informers.informer(Queue)
        await cluster.guard(prepare(cluster.admin, queue_informer, trace.jobs, queues))
        await cluster.guard(replay.run())
        reasons = await replay.reasons()
    finally:
        await cluster.stop()
    return replay.recorder.record(replay.recorder.last_change_at, reasons)


class _Replay:
    """Submits the jobs of a trace when their time comes and waits for their end."""

    def __init__(self, cluster: SimulatedCluster, trace: Trace, progress: Callable[[Progress], None] | None) -> None:
        self._cluster = cluster
        self._jobs = trace.jobs
        self._rows = {job.name: row for row, job in enumerate(trace.jobs)}
        self._progress = progress
        self._arrivals = Arrivals(trace.jobs)
        self._refused: dict[int, str] = {}
        self._origin = 0.0
        self._submitted = 0
        self._submitted_at = 0.0
        self._changed = asyncio.Event()
        self._pods = cluster.informers.informer(Pod)
        nodes = columns_of(node_objects(cluster.options.nodes, cluster.clock.now()))
        self.recorder = RunRecorder(trace.jobs, nodes)
        self._follower = PodFollower(
            self.recorder,
            self._rows,
            {name: row for row, name in enumerate(nodes.names)},
            now=self._now,
            beneficiary=self._beneficiary_of,
            on_end=self._on_end,
        )

    def _now(self) -> float:
        """Return the time since the start of the trace, in seconds."""
        return instant(self._cluster.clock.monotonic() - self._origin)

    async def run(self) -> None:
        """Submit all jobs, and return when they have ended or none can start any more."""
        self._origin = self._cluster.clock.monotonic()
        self._pods.add_batch_handler(self._follower.on_pods)
        while self.recorder.finished + len(self._refused) < len(self._jobs):
            self._changed.clear()
            for row in self._arrivals.take(self._now()):
                await self._submit(row)
            wait = self._wait_seconds()
            if wait is not None and wait <= 0:
                return
            try:
                async with asyncio.timeout(wait):
                    await self._changed.wait()
            except TimeoutError:
                pass

    def _wait_seconds(self) -> float | None:
        """Return how long to wait for the end of a job: None is without limit, 0 or less means that no job can start.

        While pods run, one of them will end. When none runs and nothing is left to submit, `STALL_SECONDS` decide.
        """
        if self._changed.is_set():
            return None
        if self._arrivals.next_at is not None:
            return self._arrivals.next_at - self._now()
        if self.recorder.running_pods:
            return None
        return max(self.recorder.last_change_at, self._submitted_at) + STALL_SECONDS - self._now()

    async def _submit(self, row: int) -> None:
        self._submitted += 1
        self._submitted_at = self._now()
        try:
            await self._cluster.admin.create(catalog.VCJOB, manifest_of(self._jobs[row]), NAMESPACE)
        except ApiError as error:
            self._refused[row] = str(error)
        self._report()

    def _on_end(self, row: int) -> None:
        self._arrivals.ended(self._jobs[row].name, self._now(), failed=self.recorder.has_failed(row))
        self._changed.set()
        self._report()

    def _beneficiary_of(self, pod: Pod) -> str:
        """Return the name of the job for which a pod was evicted; empty when for none."""
        scheduler = self._cluster.scheduler
        if scheduler is None:
            return ""
        for entry in reversed(scheduler.eviction_records.entries):
            if entry.uid == pod.metadata.uid:
                task = scheduler.world.tasks.get(entry.beneficiary)
                return task.pod.metadata.label(JOB_LABEL) if task is not None else ""
        return ""

    def _report(self) -> None:
        if self._progress is not None:
            recorder = self.recorder
            self._progress(
                Progress(self._now(), self._submitted, recorder.finished, len(self._jobs), recorder.running_pods)
            )

    async def reasons(self) -> dict[int, str]:
        """Return why jobs have not ended, by row: not submitted, refused, or what their pod group's condition says."""
        found = {**self._arrivals.reasons(), **self._refused}
        if self.recorder.finished < len(self._jobs):
            for group in (await self._cluster.admin.list(PodGroup, NAMESPACE)).items:
                for owner in group.metadata.owner_references or ():
                    found[self._rows[owner.name]] = waiting_reason(group)
        return found
