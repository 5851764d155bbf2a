"""`simulate`: replay a trace against the real server, controllers and scheduler, in virtual time.

Nothing here reads the machine's clock or draws unseeded random numbers: the same trace, options and seed give the same
report, byte for byte.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from strato.api import catalog, yamltext
from strato.api.core import Pod
from strato.api.volcano.scheduling import PodGroup, Queue
from strato.client.cluster import Cluster, Json
from strato.clock import VirtualClock, run_virtual
from strato.controllers.manager import DEFAULT
from strato.errors import InvalidInput, Problem, UsageError, one_line
from strato.scheduler.config import parse_config
from strato.scheduler.framework.options import Config
from strato.sim.cluster import ClusterOptions, SimulatedCluster
from strato.sim.measure import JobRecorder, JobResult
from strato.sim.nodes import NodeShape, parse_nodes, total_capacity
from strato.sim.report import Report, build_report
from strato.sim.traces import Trace, TraceJob, read_trace

DEFAULT_QUEUE = "default"
NAMESPACE = "default"
_STALL_SECONDS = 900.0
"""After the last submission, with nothing running, this long without a start means that nothing ever will."""
_RUN_SECONDS = "strato.dev/run-seconds"


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a running simulation is."""

    virtual_seconds: float
    """After the start of the trace."""
    submitted: int
    finished: int
    total: int
    running_pods: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationOptions:
    """One simulation."""

    trace: Path
    """CSV or SWF; see `strato.sim.traces`."""
    nodes: str = "100x32cpu,256Gi"
    """See `strato.sim.nodes.parse_nodes`."""
    config: Path | None = None
    """The scheduler's configuration file; None is the built-in one."""
    queues: Path | None = None
    """A YAML file of Queue manifests; queues a trace names and this does not are made with weight 1."""
    seed: int = 0
    queue_by: str = ""
    """For SWF: make queues of ``queue``, ``user`` or ``group``."""
    limit: int = 0
    """Only the first so many jobs of the trace; 0 is all."""
    start: float = 1_700_000_000.0
    """The virtual instant at which the trace begins, seconds since the epoch."""
    progress: Callable[[Progress], None] | None = None
    """Told after each job that was submitted or ended."""


@dataclass(frozen=True, slots=True)
class _Inputs:
    trace: Trace
    shapes: tuple[NodeShape, ...]
    config: Config | None
    queues: tuple[Json, ...]


def simulate(options: SimulationOptions) -> Report:
    """Run one simulation to its end.

    Raises:
        InvalidInput: Trace, nodes, configuration or queues have problems; all are listed.
        UsageError: A file cannot be read.
    """
    inputs = _read(options)
    clock = VirtualClock(options.start)
    return run_virtual(clock, _simulate(options, inputs, clock))


def check(options: SimulationOptions) -> None:
    """Read all inputs of a simulation without running it. Raises as `simulate` does."""
    _read(options)


def _read(options: SimulationOptions) -> _Inputs:
    """Read everything; problems of all inputs are reported together."""
    problems: list[Problem] = []
    readers: Mapping[str, Callable[[], Any]] = {
        "trace": lambda: read_trace(options.trace, queue_by=options.queue_by, limit=options.limit),
        "nodes": lambda: parse_nodes(options.nodes),
        "config": lambda: _config(options.config),
        "queues": lambda: _queues(options.queues),
    }
    found: dict[str, Any] = {}
    for name, read in readers.items():
        try:
            found[name] = read()
        except InvalidInput as error:
            problems.extend(error.problems)
        except UsageError as error:
            problems.append(Problem("", str(error)))
    if problems:
        raise InvalidInput("the simulation", problems)
    return _Inputs(found["trace"], found["nodes"], found["config"], found["queues"])


def _config(path: Path | None) -> Config | None:
    if path is None:
        return None
    try:
        return parse_config(_text(path), str(path))
    except InvalidInput as error:  # beside the problems of other files each must name its own
        named = [Problem(f"{path}: {problem.where}".removesuffix(": "), problem.message) for problem in error.problems]
        raise InvalidInput(error.what, named) from error


def _queues(path: Path | None) -> tuple[Json, ...]:
    if path is None:
        return ()
    try:
        documents = [document for document in yamltext.load_all(_text(path)) if document is not None]
    except yamltext.InvalidYaml as error:
        raise InvalidInput("queues", [Problem(str(path), f"is not YAML: {one_line(error)}")]) from error
    problems = []
    for number, document in enumerate(documents, start=1):
        where = f"{path}: document {number}"
        if not isinstance(document, dict) or document.get("kind") != catalog.QUEUE.name:
            problems.append(Problem(where, "is no Queue"))
        elif not isinstance(document.get("metadata"), dict) or not isinstance(document["metadata"].get("name"), str):
            problems.append(Problem(f"{where}: metadata.name", "is missing"))
    if problems:
        raise InvalidInput("queues", problems)
    return tuple(documents)


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8 text (byte {error.start})") from error


async def _simulate(options: SimulationOptions, inputs: _Inputs, clock: VirtualClock) -> Report:
    world = SimulatedCluster(
        clock,
        Random(options.seed),
        ClusterOptions(nodes=inputs.shapes, scheduler_config=inputs.config, controllers=DEFAULT),
    )
    replay = _Replay(options, inputs, world)
    await world.start()
    try:
        await world.guard(replay.run())
        reasons = await replay.reasons()
    finally:
        await world.stop()
    recorder = replay.recorder
    return build_report(
        recorder.results.values(),
        recorder.use,
        total_capacity(inputs.shapes),
        trace=options.trace.name,
        nodes=options.nodes,
        seed=options.seed,
        skipped=inputs.trace.skipped,
        pods=recorder.pods_run,
        default_queue=DEFAULT_QUEUE,
        reasons=reasons,
    )


class _Replay:
    """Submits the jobs of a trace when their time comes and waits for their end."""

    def __init__(self, options: SimulationOptions, inputs: _Inputs, world: SimulatedCluster) -> None:
        self._jobs = inputs.trace.jobs
        self._queues = inputs.queues
        self._progress = options.progress
        self._clock = world.clock
        self._cluster = world.admin
        self._pods = world.informers.informer(Pod)
        self._queue_informer = world.informers.informer(Queue)
        self._submitted = 0
        self._changed = asyncio.Event()
        self.recorder = JobRecorder(world.clock, self._jobs, self._on_finish)

    async def run(self) -> None:
        await self._prepare()
        self.recorder.begin()
        self._pods.add_batch_handler(self.recorder.on_pods)
        for job in self._jobs:
            wait = job.submit_seconds - self.recorder.now_seconds
            if wait > 0:
                await self._clock.sleep(wait)
            await self._cluster.create(catalog.VCJOB, manifest_of(job), NAMESPACE)
            self._submitted += 1
            self._report()
        await self._drain()

    async def _drain(self) -> None:
        """Wait until all jobs have ended, or none can start any more."""
        while self.recorder.finished < len(self._jobs):
            self._changed.clear()
            try:
                async with asyncio.timeout(_STALL_SECONDS):
                    await self._changed.wait()
            except TimeoutError:
                idle = self.recorder.now_seconds - self.recorder.last_change_at
                if self.recorder.running_pods == 0 and idle >= _STALL_SECONDS:
                    return

    async def reasons(self) -> dict[str, str]:
        """Return why the jobs that wait now do so, by their names: what their pod groups say."""
        if self.recorder.finished == len(self._jobs):
            return {}
        found = {}
        for group in (await self._cluster.list(PodGroup, NAMESPACE)).items:
            messages = [condition.message for condition in group.status.conditions if condition.type == "Unschedulable"]
            for owner in group.metadata.owner_references or ():
                found[owner.name] = messages[-1] if messages else f"its pod group is {group.status.phase or 'Pending'}"
        return found

    async def _prepare(self) -> None:
        """Create the queues and priority classes that the trace names."""
        given = {queue["metadata"]["name"] for queue in self._queues}
        named = sorted({job.queue for job in self._jobs if job.queue} - given - {DEFAULT_QUEUE})
        for queue in (*self._queues, *map(_queue_manifest, named)):
            await _create_or_change(self._cluster, queue)
        await self._until_open({queue["metadata"]["name"] for queue in self._queues} | set(named) | {DEFAULT_QUEUE})
        for priority in sorted({job.priority for job in self._jobs} - {0}):
            body = {
                "apiVersion": catalog.PRIORITYCLASS.api_version,
                "kind": catalog.PRIORITYCLASS.name,
                "metadata": {"name": _priority_name(priority)},
                "value": priority,
            }
            await self._cluster.create(catalog.PRIORITYCLASS, body)

    async def _until_open(self, names: set[str]) -> None:
        """Wait until the queue controller has opened the queues that are to be open."""
        queues = self._queue_informer
        queues.add_batch_handler(lambda _: self._changed.set())
        while True:
            self._changed.clear()
            known = {queue.metadata.name: queue.status.state for queue in queues.list()}
            if all(known.get(name) for name in names):
                return
            await self._changed.wait()

    def _on_finish(self, record: JobResult) -> None:
        self._changed.set()
        self._report()

    def _report(self) -> None:
        if self._progress is not None:
            recorder = self.recorder
            self._progress(
                Progress(
                    recorder.now_seconds, self._submitted, recorder.finished, len(self._jobs), recorder.running_pods
                )
            )


def manifest_of(job: TraceJob) -> Json:
    """Return the Volcano job of a trace's job: one task, all pods together or none."""
    requests = dict(job.requests)
    limits = {name: amount for name, amount in requests.items() if "/" in name}
    resources: Json = {"requests": requests}
    if limits:
        resources["limits"] = limits  # extended resources must be limited to what they request
    container = {"name": "main", "image": "simulated", "resources": resources}
    spec: Json = {
        "schedulerName": "volcano",
        "minAvailable": job.replicas,
        "queue": job.queue or DEFAULT_QUEUE,
        "tasks": [
            {
                "name": "task",
                "replicas": job.replicas,
                "template": {
                    "metadata": {"annotations": {_RUN_SECONDS: f"{job.run_seconds:.6f}"}},
                    "spec": {"restartPolicy": "Never", "containers": [container]},
                },
            }
        ],
    }
    if job.priority:
        spec["priorityClassName"] = _priority_name(job.priority)
    return {
        "apiVersion": catalog.VCJOB.api_version,
        "kind": catalog.VCJOB.name,
        "metadata": {"name": job.name, "namespace": NAMESPACE},
        "spec": spec,
    }


def _priority_name(priority: int) -> str:
    return f"trace-{priority}" if priority >= 0 else f"trace-minus-{-priority}"


def _queue_manifest(name: str) -> Json:
    return {
        "apiVersion": catalog.QUEUE.api_version,
        "kind": catalog.QUEUE.name,
        "metadata": {"name": name},
        "spec": {"weight": 1},
    }


async def _create_or_change(cluster: Cluster, queue: Json) -> None:
    name = queue["metadata"]["name"]
    existing = {item["metadata"]["name"] for item in (await cluster.list(catalog.QUEUE)).items}
    if name in existing:
        metadata = {key: queue["metadata"][key] for key in ("annotations", "labels") if queue["metadata"].get(key)}
        await cluster.patch(catalog.QUEUE, name, "", {"metadata": metadata, "spec": queue.get("spec", {})})
    else:
        await cluster.create(catalog.QUEUE, queue)
