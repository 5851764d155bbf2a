"""A state run forward: cycles, pods that end when they are expected to, cycles again, until all has started.

Takes the copy of a state as `strato.scheduler.dryrun.trial` has it. Bound pods run at once; evicted ones wait again, as
their controllers make them anew. What nobody knows the run time of goes on for good, and is counted.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Final

import numpy as np
from msgspec import structs

from strato.api.core import Pod, PodStatus
from strato.clock import format_time, parse_time
from strato.node.hollow.runplan import RUN_SECONDS
from strato.scheduler.cache.world import World
from strato.scheduler.cycle import run_cycle
from strato.scheduler.dryrun.run import build
from strato.scheduler.dryrun.trial import Copy
from strato.scheduler.framework.options import Config
from strato.scheduler.model.jobs import Job, Task
from strato.scheduler.model.plan import Plan
from strato.scheduler.model.reasons import Verdict
from strato.scheduler.model.resources import PODS
from strato.scheduler.model.tasks import BINDING, BOUND, COMPLETED_SET, RELEASING, RUNNING, SUCCEEDED
from strato.scheduler.placement.placer import Placer
from strato.scheduler.reporting.explain import ranked

MOST_ROUNDS: Final = 12
"""Cycles at one instant at most: to be let in, to evict, to be bound, each in a cycle of its own."""
MOST_INSTANTS: Final = 50_000
_OVERDUE_RATIO: Final = 0.25
"""A pod that has run longer than was expected is taken to run so much longer still, as a share of what it has."""
_SECOND: Final = 1.0
"""Ends within it are one instant."""

RunSeconds = Callable[[World, Task], float | None]
"""Returns how long a pod runs from its start, None when nobody knows."""


@dataclass(slots=True)
class JobForecast:
    """What becomes of one job.

    Attributes:
        key: Of its pod group, or ``namespace/pod:name``.
        name: As a person calls it.
        queue: Its queue.
        pods: How many it has.
        started: How many ran at the beginning.
        starts_at: Seconds from now until it has all the pods that it needs; None: it was not seen to start.
        evicted: Pods of it that were evicted.
        reason: What holds it back at the end, if it has not started.
    """

    key: str
    name: str
    queue: str
    pods: int
    started: int
    starts_at: float | None = None
    evicted: int = 0
    reason: str = ""


@dataclass(slots=True)
class Forecast:
    """What a state comes to.

    Attributes:
        jobs: Those that wait at the beginning or are evicted, by key.
        running: Keys of those that have all the pods they need at the beginning.
        in_use: Share of what the nodes have that pods hold, by resource, once nothing more starts at the beginning.
        in_use_later: The same on average until the last job starts; as ``in_use`` when none starts later.
        evictions: Victim and whom it went for.
        nodes: How many nodes take pods.
        unknown: Pods that run or will run for nobody knows how long.
        ended_at: Seconds from now at which it was stopped.
        is_cut: Whether it was stopped by its limits, not because all that can start has.
    """

    jobs: dict[str, JobForecast] = field(default_factory=dict)
    running: set[str] = field(default_factory=set)
    in_use: dict[str, float] = field(default_factory=dict)
    in_use_later: dict[str, float] = field(default_factory=dict)
    evictions: list[tuple[str, str]] = field(default_factory=list)
    nodes: int = 0
    unknown: int = 0
    ended_at: float = 0.0
    is_cut: bool = False

    @property
    def waiting(self) -> list[JobForecast]:
        """Jobs that were not seen to start."""
        return [job for job in self.jobs.values() if job.starts_at is None]

    @property
    def at_once(self) -> list[JobForecast]:
        """Jobs that start without waiting for anything."""
        return [job for job in self.jobs.values() if job.starts_at == 0.0]


def expected_seconds(default: float | None = None) -> RunSeconds:
    """Return what knows run times: annotations and deadlines of pods, what their like took, else a default."""

    def seconds(world: World, task: Task) -> float | None:
        text = task.pod.metadata.annotation(RUN_SECONDS)
        if text:
            try:
                return max(0.0, float(text))
            except ValueError:
                pass  # a distribution, of which the mean is not known here
        known = world.runtimes.expected_seconds(task)
        return known if known is not None else default

    return seconds


def run_forward(
    copy: Copy,
    run_seconds: RunSeconds,
    *,
    horizon_seconds: float = 30 * 86_400.0,
    names: Mapping[str, str] | None = None,
    only: Collection[str] | None = None,
) -> Forecast:
    """Run a state forward until everything has started, nothing can any more, or a time is over.

    Args:
        copy: The state.
        run_seconds: See `RunSeconds`.
        horizon_seconds: The longest time; 0 looks at what starts at once.
        names: By key of a pod group, what the job is called.
        only: Keys of the pod groups on whose start the run ends; None is all that wait.
    """
    return _Run(copy, run_seconds, horizon_seconds, names or {}, only).run()


class _Run:
    def __init__(
        self,
        copy: Copy,
        run_seconds: RunSeconds,
        horizon_seconds: float,
        names: Mapping[str, str],
        only: Collection[str] | None,
    ) -> None:
        self._world = build(copy.objects)
        self._config: Config = copy.config
        self._rng = random.Random(copy.seed)
        self._placer = Placer(self._world.nodes, copy.seed)
        self._begin = self._now = copy.now
        self._run_seconds = run_seconds
        self._horizon = horizon_seconds
        self._names = names
        self._only = only
        self._ends: list[tuple[float, int, str, str]] = []
        self._numbers = count()
        self._cycles = 0
        self._verdicts: dict[str, Sequence[Verdict]] = {}
        self._phases: dict[str, str] = {}
        self._found = Forecast()

    def run(self) -> Forecast:
        """See `run_forward`."""
        self._look_at_beginning()
        found = self._found
        self._decide()
        found.in_use = _use_of(self._world)
        found.nodes = _count_nodes(self._world)
        instants, last_start, totals = 0, 0.0, dict.fromkeys(found.in_use, 0.0)
        averaged = dict(totals)
        while self._is_awaited() and self._ends:
            at = self._ends[0][0]
            if at - self._begin > self._horizon or instants >= MOST_INSTANTS:
                found.is_cut = True
                break
            instants += 1
            for name, share in _use_of(self._world).items():
                totals[name] = totals.get(name, 0.0) + share * (at - self._now)
            self._now = at
            waiting = len(found.waiting)
            self._end_pods(at + _SECOND)
            self._decide()
            if len(found.waiting) < waiting:
                last_start, averaged = self._now - self._begin, dict(totals)
        found.in_use_later = (
            {name: total / last_start for name, total in averaged.items()} if last_start else dict(found.in_use)
        )
        found.ended_at = self._now - self._begin
        self._explain()
        return found

    def _is_awaited(self) -> bool:
        """Whether any job has not started on whose start the run ends."""
        jobs = self._found.jobs
        if self._only is None:
            return any(job.starts_at is None for job in jobs.values())
        return any(key in jobs and jobs[key].starts_at is None for key in self._only)

    # -- the beginning -----------------------------------------------------------------------------------------------

    def _look_at_beginning(self) -> None:
        world = self._world
        world.runtimes.on = True
        for task in list(world.tasks.values()):
            if task.status == SUCCEEDED:
                world.runtimes.note(task)
        for task in list(world.tasks.values()):
            if task.status in (RUNNING, BOUND):
                self._will_end(task)
        for job in world.jobs.values():
            if _has_started(job):
                self._found.running.add(job.key)
            elif job.pending and (job.group is not None or job.solo):
                self._watch(job)

    def _watch(self, job: Job) -> JobForecast:
        known = self._found.jobs.get(job.key)
        if known is None:
            name = self._names.get(job.key) or _name_of(job)
            running = job.counts[RUNNING] + job.counts[BOUND]
            known = self._found.jobs[job.key] = JobForecast(job.key, name, job.queue_name, len(job.tasks), running)
        return known

    def _will_end(self, task: Task) -> None:
        """Note when a pod ends that runs."""
        seconds = self._run_seconds(self._world, task)
        if seconds is None:
            self._found.unknown += 1
            return
        since = _started_at(task.pod)
        elapsed = max(0.0, self._now - since) if since is not None else 0.0
        left = seconds - elapsed if elapsed < seconds else max(_SECOND, _OVERDUE_RATIO * elapsed)
        heapq.heappush(self._ends, (self._now + max(left, 0.0), next(self._numbers), task.key, task.uid))

    # -- cycles ------------------------------------------------------------------------------------------------------

    def _decide(self) -> None:
        """Run cycles until none changes anything."""
        for _ in range(MOST_ROUNDS):
            self._cycles += 1
            plan = run_cycle(
                self._world,
                self._config,
                now=self._now,
                rng=self._rng,
                uid=f"forecast-{self._cycles}",
                placer=self._placer,
            )
            self._verdicts.update(plan.verdicts)
            if not self._carry_out(plan):
                return

    def _carry_out(self, plan: Plan) -> bool:
        """Let a plan come about; return whether the next cycle may decide something else."""
        world = self._world
        for bind in plan.binds:
            if bind.task.status == BINDING:
                world.move(bind.task, RUNNING, bind.task.row)
                self._will_end(bind.task)
        self._found.evictions += [(one.task.key, one.beneficiary) for one in plan.evictions]
        for task in [one for one in world.tasks.values() if one.status == RELEASING] if world.nodes.leaving else []:
            self._leave(task)
        for task in plan.admitted.values():
            world.remove_pod(task.key)
            world.set_pod(structs.replace(task.pod, spec=structs.replace(task.pod.spec, scheduling_gates=())))
        moved = bool(plan.binds or plan.evictions or plan.admitted)
        for status in plan.groups:
            moved |= self._phases.get(status.job.key, "") != status.phase
            self._phases[status.job.key] = status.phase
            if status.condition is not None:
                status.job.conditions[status.condition.type] = status.condition.content
        for job in {bind.task.job: None for bind in plan.binds}:
            known = self._found.jobs.get(job.key) if job is not None else None
            if job is not None and known is not None and known.starts_at is None and _has_started(job):
                known.starts_at = self._now - self._begin
        if moved:
            world.schedulable_generation += 1
        return moved

    def _leave(self, task: Task) -> None:
        """Let an evicted pod go, and its controller make it anew."""
        job, pod = task.job, task.pod
        world = self._world
        world.remove_pod(task.key)
        if pod.metadata.deletion_timestamp is not None or not (pod.metadata.controller or job is not None):
            return
        uid = f"{pod.metadata.uid}-{next(self._numbers)}"
        meta = structs.replace(pod.metadata, uid=uid, creation_timestamp=format_time(self._now), generation=0)
        spec = structs.replace(pod.spec, node_name="")
        world.set_pod(structs.replace(pod, metadata=meta, spec=spec, status=PodStatus(phase="Pending")))
        again = world.tasks.get(task.key)
        if again is not None and again.job is not None and not _has_started(again.job):
            known = self._watch(again.job)
            known.evicted += 1
            known.starts_at = None

    # -- ends ----------------------------------------------------------------------------------------------------------

    def _end_pods(self, until: float) -> None:
        """End the pods whose time is over before an instant."""
        while self._ends and self._ends[0][0] < until:
            _, _, key, uid = heapq.heappop(self._ends)
            task = self._world.tasks.get(key)
            if task is None or task.uid != uid or task.status in COMPLETED_SET or task.row < 0:
                continue
            node = self._world.nodes.names[task.row]
            spec = structs.replace(task.pod.spec, node_name=node)
            self._world.set_pod(structs.replace(task.pod, spec=spec, status=PodStatus(phase="Succeeded")))
            self._end_job(self._world.tasks[key].job)

    def _end_job(self, job: Job | None) -> None:
        """Forget a job whose pods have all ended: its queue has its share back."""
        if job is None or any(task.status not in COMPLETED_SET for task in job.tasks.values()):
            return
        for key in list(job.tasks):
            self._world.remove_pod(key)
        self._world.remove_group(job.key)

    # -- the end -------------------------------------------------------------------------------------------------------

    def _explain(self) -> None:
        for known in self._found.waiting:
            job = self._world.jobs.get(known.key)
            if job is None:
                known.reason = "it has gone"
                continue
            verdicts = ranked(self._verdicts.get(job.key, ()))
            condition = job.conditions.get("Unschedulable")
            known.reason = verdicts[0].text if verdicts else condition[2] if condition is not None else ""


def _has_started(job: Job) -> bool:
    counts = job.counts
    placed = counts[RUNNING] + counts[BOUND] + counts[BINDING] + counts[SUCCEEDED]
    return placed >= max(job.min_available, 1)


def _name_of(job: Job) -> str:
    if job.solo:
        namespace, _, rest = job.key.partition("/")
        return f"{namespace}/{rest.removeprefix('pod:')}"
    owner = job.group.metadata.controller if job.group is not None else None
    return f"{job.namespace}/{owner.name}" if owner is not None else job.key


def _started_at(pod: Pod) -> float | None:
    text = pod.status.start_time
    if not text:
        return None
    try:
        return parse_time(text)
    except ValueError:
        return None


def _count_nodes(world: World) -> int:
    return sum(node is not None and not node.spec.unschedulable for node in world.nodes.facts)


def _use_of(world: World) -> dict[str, float]:
    """Return how much of each resource pods hold, of all that nodes which take pods have."""
    nodes = world.nodes
    rows = np.array(
        [row for row, node in enumerate(nodes.facts) if node is not None and not node.spec.unschedulable], np.int64
    )
    if not len(rows):
        return {}
    have = nodes.allocatable[rows].sum(axis=0)
    idle = nodes.idle[rows].sum(axis=0)
    return {
        name: float(have[column] - idle[column]) / float(have[column])
        for column, name in enumerate(world.dims.names)
        if column != PODS and column < len(have) and have[column] > 0
    }
