"""`run_forward`: runs a copy of a cluster's state forward in virtual time, until all its jobs have started.

The copy is that of `strato.scheduler.dryrun.trial`. The engine of simulated traces (`strato.sim.decisions.engine`) runs
the cycles, with the jobs of the state in place of a trace's. Bound pods run at once and end after their expected run
time; evicted pods are replaced at once, as their controllers would do. Pods whose run time is not known never end;
`Forecast.unknown` counts them.
"""

from __future__ import annotations

import math
import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Final

import numpy as np
from msgspec import structs

from strato.api.core import Pod, PodStatus
from strato.clock import parse_time
from strato.scheduler.cache.world import World
from strato.scheduler.dryrun.run import build
from strato.scheduler.dryrun.trial import Copy
from strato.scheduler.model.jobs import Job, Task
from strato.scheduler.model.plan import Plan
from strato.scheduler.model.reasons import Verdict
from strato.scheduler.model.resources import PODS
from strato.scheduler.model.tasks import BINDING, BOUND, COMPLETED_SET, RELEASING, RUNNING, SUCCEEDED
from strato.scheduler.plugins.gang import GANG
from strato.scheduler.reporting.explain import ranked
from strato.sim.decisions.activejobs import with_status
from strato.sim.decisions.engine import Engine
from strato.sim.decisions.timeline import Timeline
from strato.sim.foresight.runseconds import RunSeconds

MOST_INSTANTS: Final = 50_000
_OVERDUE_RATIO: Final = 0.25
"""A pod that has run longer than expected is assumed to run this share of its elapsed time longer still."""
_SECOND: Final = 1.0
_TINY: Final = 1e-6
_TICK_SECONDS: Final = 300.0
"""Time between two cycles for time-based plugins. Long, as a month must be run forward within seconds."""


@dataclass(slots=True)
class JobForecast:
    """The forecast for one job.

    Attributes:
        key: The key of its pod group, or ``namespace/pod:name`` for a pod without one.
        name: ``namespace/name`` of the job or pod, for the user.
        queue: The name of its queue.
        pods: Number of its pods.
        started: Number of its pods that ran at the beginning.
        starts_at: Seconds from the beginning until its minimum number of pods is placed; None if that did not happen.
        evicted: Number of its pods that were evicted.
        reason: Why it could not be placed at the end; empty if it has started.
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
    """The forecast for a state.

    Attributes:
        jobs: Jobs that wait at the beginning or lose pods to an eviction, by key.
        running: Keys of the jobs that have their minimum number of pods at the beginning.
        in_use: By resource, the share of the nodes' allocatable that pods hold after the cycles of the first instant.
        in_use_later: The mean share from the beginning until the last job starts; ``in_use`` if none starts later.
        evictions: Keys of each victim and of the pod that it was evicted for.
        nodes: Number of schedulable nodes.
        unknown: Number of pods without a known run time.
        ended_at: When the run ended, seconds after its beginning.
        is_cut: Whether a limit of time or instants ended it, although waiting jobs might still have started.
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
        """Jobs that did not start in the run."""
        return [job for job in self.jobs.values() if job.starts_at is None]

    @property
    def at_once(self) -> list[JobForecast]:
        """Jobs that start at the first instant, before any pod has ended."""
        return [job for job in self.jobs.values() if job.starts_at == 0.0]


@dataclass(slots=True)
class _Usage:
    """Integrates over time which share of the nodes' resources pods hold.

    Attributes:
        latest: The share held of each resource since ``at``.
        at: The latest instant, seconds after the beginning.
    """

    latest: Mapping[str, float]
    at: float = 0.0
    _totals: dict[str, float] = field(default_factory=dict)
    _kept: dict[str, float] = field(default_factory=dict)
    _kept_at: float = 0.0

    def passed(self, now: float, latest: Mapping[str, float]) -> None:
        """Move on to an instant; from then on pods hold other shares."""
        for name, share in self.latest.items():
            self._totals[name] = self._totals.get(name, 0.0) + share * (now - self.at)
        self.at, self.latest = now, latest

    def until_here(self) -> None:
        """Let `mean` cover the time until this instant."""
        self._kept, self._kept_at = dict(self._totals), self.at

    def mean(self) -> dict[str, float]:
        """Return the mean from the beginning to the instant of the last `until_here`; empty if no time lies between."""
        return {name: total / self._kept_at for name, total in self._kept.items()} if self._kept_at else {}


class _NoArrivals:
    """No arrivals: a forecast knows only the jobs that are submitted already."""

    next_at: float | None = None


@dataclass(slots=True)
class _Ends:
    """The counts that the engine asks for (`strato.sim.decisions.engine.Record`).

    Attributes:
        running_pods: Number of running pods that will end.
        last_change_at: When a job started or a pod ended last.
    """

    running_pods: int = 0
    last_change_at: float = 0.0


class _LiveJobs:
    """The jobs of a state: running pods end after their expected run time, evicted pods are replaced by waiting ones.

    Args:
        world: The scheduler's World.
        timeline: Virtual time; calls this class back when pods end.
        run_seconds: See `RunSeconds`.
        names: Key of a pod group → name of its job for the user.
        only: Keys of the pod groups whose start ends the run; None is all that wait.

    Attributes:
        found: The forecast, filled in as the run goes on.
        ends: Counts for the engine.
        submitted_at: The beginning, as no job is submitted.
        arrivals: None.
        is_cut: Whether the run must end now, even if jobs wait; `run_forward` sets it.
    """

    def __init__(
        self,
        world: World,
        timeline: Timeline,
        run_seconds: RunSeconds,
        names: Mapping[str, str],
        only: Collection[str] | None,
    ) -> None:
        self._world = world
        self._timeline = timeline
        self._run_seconds = run_seconds
        self._names = names
        self._only = only
        self._numbers = count()
        self._verdicts: dict[str, Sequence[Verdict]] = {}
        self.found = Forecast()
        self.ends = _Ends()
        self.submitted_at = 0.0
        self.arrivals = _NoArrivals()
        self.is_cut = False

    @property
    def are_over(self) -> bool:
        """Whether the run ends: it was cut, or all jobs whose start ends it have started."""
        return self.is_cut or not self.is_awaited

    @property
    def is_awaited(self) -> bool:
        """Whether a job whose start ends the run has not started."""
        jobs = self.found.jobs
        if self._only is None:
            return any(job.starts_at is None for job in jobs.values())
        return any(key in jobs and jobs[key].starts_at is None for key in self._only)

    def submit_due(self) -> None:
        """Submit nothing."""

    # -- the beginning -----------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Read the state: plan the end of running pods, replace terminating ones, and list the waiting jobs."""
        world = self._world
        world.runtimes.on = True
        for task in list(world.tasks.values()):
            if task.status == SUCCEEDED:
                world.runtimes.note(task)
        for task in list(world.tasks.values()):
            if task.status in (RUNNING, BOUND):
                self._will_end(task)
            elif task.status == RELEASING:
                self._leave(task)
        for job in world.jobs.values():
            if _has_started(job):
                self.found.running.add(job.key)
            elif job.pending and (job.group is not None or job.solo):
                self._watch(job)

    def _watch(self, job: Job) -> JobForecast:
        known = self.found.jobs.get(job.key)
        if known is None:
            name = self._names.get(job.key) or _name_of(job)
            running = job.counts[RUNNING] + job.counts[BOUND]
            known = self.found.jobs[job.key] = JobForecast(job.key, name, job.queue_name, len(job.tasks), running)
        return known

    def _will_end(self, task: Task) -> None:
        """Plan the end of a running pod, rounded up to whole seconds so that fewer instants have events."""
        seconds = self._run_seconds(self._world, task)
        if seconds is None:
            self.found.unknown += 1
            return
        since, now = _started_at(task.pod), self._timeline.now
        elapsed = max(0.0, self._timeline.epoch - since) if since is not None else 0.0
        left = seconds - elapsed if elapsed < seconds else max(_SECOND, _OVERDUE_RATIO * elapsed)
        if left < math.inf:
            self.ends.running_pods += 1
            self._timeline.after(max(0.0, math.ceil(now + left - _TINY) - now), self._end, task.key, task.uid)

    # -- decisions of a cycle ----------------------------------------------------------------------------------------

    def carry_out(self, plan: Plan) -> None:
        """Apply a cycle's plan to the world: binds, evictions, removed gates, statuses of pod groups."""
        world = self._world
        self._verdicts.update(plan.verdicts)
        for bind in plan.binds:
            if bind.task.status == BINDING:
                world.move(bind.task, RUNNING, bind.task.row)
                self._will_end(bind.task)
        self.found.evictions += [(one.task.key, one.beneficiary) for one in plan.evictions]
        for eviction in plan.evictions:
            if eviction.task.status == RELEASING:
                self._leave(eviction.task)
        for task in plan.admitted.values():
            world.set_pod(structs.replace(task.pod, spec=structs.replace(task.pod.spec, scheduling_gates=())))
        for status in plan.groups:
            if status.job.group is not None:
                world.set_group(with_status(status.job.group, status))
        for job in {bind.task.job: None for bind in plan.binds}:
            known = self.found.jobs.get(job.key) if job is not None else None
            if job is not None and known is not None and known.starts_at is None and _has_started(job):
                known.starts_at = self.ends.last_change_at = self._timeline.now

    def _leave(self, task: Task) -> None:
        """Remove a terminating pod, and add a pending one in its place if it was evicted in this run.

        A pod with a deletion timestamp was terminating in the state already, so its successor is in the state or never
        comes; nor does one for a pod without controller and job.
        """
        job, pod = task.job, task.pod
        world = self._world
        world.remove_pod(task.key)
        if pod.metadata.deletion_timestamp is not None or not (pod.metadata.controller or job is not None):
            return
        uid = f"{pod.metadata.uid}-{next(self._numbers)}"
        meta = structs.replace(pod.metadata, uid=uid, creation_timestamp=self._timeline.text, generation=0)
        spec = structs.replace(pod.spec, node_name="")
        world.set_pod(structs.replace(pod, metadata=meta, spec=spec, status=PodStatus(phase="Pending")))
        again = world.tasks.get(task.key)
        if again is not None and again.job is not None and not _has_started(again.job):
            known = self._watch(again.job)
            known.evicted += 1
            known.starts_at = None

    # -- ends ----------------------------------------------------------------------------------------------------------

    def _end(self, key: str, uid: str) -> None:
        """End a pod after its run time, if it was not evicted before."""
        self.ends.running_pods -= 1
        task = self._world.tasks.get(key)
        if task is None or task.uid != uid or task.status in COMPLETED_SET or task.row < 0:
            return
        self.ends.last_change_at = self._timeline.now
        node = self._world.nodes.names[task.row]
        spec = structs.replace(task.pod.spec, node_name=node)
        self._world.set_pod(structs.replace(task.pod, spec=spec, status=PodStatus(phase="Succeeded")))
        self._end_job(self._world.tasks[key].job)

    def _end_job(self, job: Job | None) -> None:
        """Remove a job whose pods have all ended, so that its queue is no longer charged for it."""
        if job is None or any(task.status not in COMPLETED_SET for task in job.tasks.values()):
            return
        for key in list(job.tasks):
            self._world.remove_pod(key)
        self._world.remove_group(job.key)

    def explain(self) -> None:
        """Set the reason of each job that has not started, from its latest verdict or condition."""
        for known in self.found.waiting:
            job = self._world.jobs.get(known.key)
            if job is None:
                known.reason = "it has gone"
                continue
            verdicts = ranked(self._verdicts.get(job.key, ()))
            condition = job.conditions.get("Unschedulable")
            known.reason = verdicts[0].text if verdicts else condition[2] if condition is not None else ""


def run_forward(
    copy: Copy,
    run_seconds: RunSeconds,
    *,
    horizon_seconds: float = 30 * 86_400.0,
    names: Mapping[str, str] | None = None,
    only: Collection[str] | None = None,
) -> Forecast:
    """Run a state forward until all jobs have started, none can start any more, or the horizon is reached.

    Args:
        copy: The state.
        run_seconds: See `RunSeconds`.
        horizon_seconds: The longest virtual time to run; 0 runs the first instant only.
        names: Key of a pod group → name of its job for the user.
        only: Keys of the pod groups whose start ends the run; None is all that wait.
    """
    world, timeline = build(copy.objects), Timeline(copy.now)
    world.gangs_are_whole = any(option.name == GANG for tier in copy.config.tiers for option in tier)
    jobs = _LiveJobs(world, timeline, run_seconds, names or {}, only)
    rng = random.Random(copy.seed)
    engine = Engine(world, copy.config, jobs, jobs.ends, timeline, rng, tick_seconds=_TICK_SECONDS)
    found = jobs.found
    jobs.begin()
    engine.begin()
    found.in_use = _use_of(world)
    found.nodes = _count_nodes(world)
    usage = _Usage(found.in_use)
    waiting, instants = len(found.waiting), 0

    def passed() -> None:
        nonlocal waiting, instants
        instants += 1
        usage.passed(timeline.now, _use_of(world))
        if len(found.waiting) < waiting:
            usage.until_here()
        waiting = len(found.waiting)
        jobs.is_cut = instants >= MOST_INSTANTS

    engine.run(passed, until=horizon_seconds)
    found.is_cut = jobs.is_awaited and engine.next_at is not None
    found.in_use_later = usage.mean() or dict(found.in_use)
    found.ended_at = timeline.now
    jobs.explain()
    return found


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
    """Return for each resource which share of the schedulable nodes' allocatable pods hold."""
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
