"""Preemption of the plugin: who is starved, which pods are marked for them, and when these go.

A pod is marked first, and goes after the wait if whom it makes room for still waits. What has to outlive a cycle
(since when somebody is starved, who is marked) is in `Remembered`, which the world keeps.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from strato.interop.yarn.fair.cluster import ANYWHERE, Ask, ClusterNode, Container, EngineApp
from strato.interop.yarn.fair.preemption import Preemptor
from strato.interop.yarn.fairplugin.mirror import Mirror
from strato.interop.yarn.resources import Amounts, is_zero, subtract
from strato.scheduler.model.jobs import Job, Task
from strato.scheduler.model.tasks import BOUND, RUNNING

log = logging.getLogger(__name__)

_STAYS = (BOUND, RUNNING)


class Mark(NamedTuple):
    """A pod that is to go."""

    pod: str
    """Its key."""
    beneficiary: str
    """Key of the job it makes room for."""
    goes_ms: float
    """When it goes, in milliseconds since the epoch."""


@dataclass(slots=True)
class Remembered:
    """What outlives a cycle."""

    satisfied: dict[str, float] = field(default_factory=dict)
    """By job when it last had its fair share."""
    next_check: dict[str, float] = field(default_factory=dict)
    queues: dict[str, float] = field(default_factory=dict)
    """By queue when it last had its minimum."""
    marks: dict[str, Mark] = field(default_factory=dict)
    """By the pod's UID."""


class PodPreemptor(Preemptor):
    """Preempts pods: of a gang none that it needs, and only those that offer their place."""

    def __init__(self, mirror: Mirror, tasks: dict[int, Task]) -> None:
        super().__init__(mirror.state)
        self._tasks = tasks

    def may_take(self, container: Container, considered: Amounts) -> bool:
        """Return whether a pod may go; a gang keeps its minimum."""
        task = self._tasks[container.number]
        job = task.job
        if job is None or task.status not in _STAYS or not task.preemptable:
            return False
        if job.queue is not None and not job.queue.reclaimable:
            return False
        leaving = len(container.app.marked) + count_of(container, considered)
        if job.min_available > 1 and job.ready - leaving - 1 < job.min_available:
            return False
        return super().may_take(container, considered)


def count_of(container: Container, considered: Amounts) -> int:
    """Return how many containers of this one's size were considered already."""
    biggest = max(range(len(considered)), key=lambda at: container.size[at])
    return -(-considered[biggest] // container.size[biggest]) if container.size[biggest] else 0


class MakingRoom:
    """One cycle's preemption.

    Args:
        mirror: The tree.
        memory: What is remembered.
        now: Seconds since the epoch.
    """

    def __init__(self, mirror: Mirror, memory: Remembered, now: float) -> None:
        self._mirror = mirror
        self._memory = memory
        self._now_ms = now * 1000.0
        self._tasks: dict[int, Task] = {}
        self._due: dict[str, str] = {}
        self._plan()

    # -- answers -------------------------------------------------------------------------------------------------------

    def starves(self, job: Job) -> bool:
        """Return whether a job lacks something that others are to make room for."""
        app = self._mirror.apps.get(job.key)
        return app is not None and (not is_zero(app.starvation) or self._waits_for_marked(job.key))

    def victims(self, beneficiary: Job, candidates: Iterable[Task]) -> list[Task]:
        """Return those of some tasks whose time to make room for a job has come."""
        return [task for task in candidates if self._due.get(task.uid) == beneficiary.key]

    def marks_for(self, job: Job) -> list[Mark]:
        """Return the pods that are marked for a job."""
        return [mark for mark in self._memory.marks.values() if mark.beneficiary == job.key]

    def _waits_for_marked(self, key: str) -> bool:
        return any(mark.beneficiary == key for mark in self._memory.marks.values())

    # -- the plan ------------------------------------------------------------------------------------------------------

    def _plan(self) -> None:
        state, memory = self._mirror.shares(), self._memory
        state.now_ms = self._now_ms
        self._drop_marks()
        self._build()
        preemptor = PodPreemptor(self._mirror, self._tasks)
        for key, app in self._mirror.apps.items():
            app.satisfied_ms = memory.satisfied.get(key, app.start_time)
            app.next_check_ms = memory.next_check.get(key, 0.0)
        preemptor.satisfied = {leaf.name: memory.queues.get(leaf.name, self._now_ms) for leaf in state.tree.leaves()}
        preemptor.update()
        for beneficiary, containers in preemptor.chosen:
            for container in containers:
                task = self._tasks[container.number]
                goes = self._now_ms + state.options.wait_before_kill_ms
                memory.marks[task.uid] = Mark(task.key, beneficiary.name, goes)
                log.info("pod is marked to make room: pod=%s for=%s", task.key, beneficiary.name)
        memory.satisfied = {key: app.satisfied_ms for key, app in self._mirror.apps.items()}
        memory.next_check = {key: app.next_check_ms for key, app in self._mirror.apps.items() if app.next_check_ms}
        memory.queues = dict(preemptor.satisfied)
        self._due = {uid: mark.beneficiary for uid, mark in memory.marks.items() if mark.goes_ms <= self._now_ms}

    def _drop_marks(self) -> None:
        """Forget marks of pods that are gone, and those for jobs that wait for nothing any more."""
        world = self._mirror.world
        for uid, mark in list(self._memory.marks.items()):
            task, job = world.tasks.get(mark.pod), world.jobs.get(mark.beneficiary)
            if task is None or task.uid != uid or task.status not in _STAYS or job is None or not job.pending:
                del self._memory.marks[uid]

    def _build(self) -> None:
        """Make nodes and containers of what runs, and asks of what waits."""
        world, units, state = self._mirror.world, self._mirror.units, self._mirror.state
        nodes = world.nodes
        for row, name in enumerate(nodes.names):
            if not nodes.present[row]:
                continue
            total = units.held(nodes.allocatable[row].tolist())
            free = units.held(nodes.free(row))
            node = state.nodes[name] = ClusterNode(name, "", total, subtract(total, free))
            for task in nodes.tasks[row].values():
                app = self._mirror.apps.get(task.job.key) if task.job is not None else None
                if app is not None and task.row == row and task.status in _STAYS:
                    self._add(task, app, node)
        for key, app in self._mirror.apps.items():
            job = world.jobs[key]
            for task in job.pending.values():
                size = units.asked(task.cls.amounts)
                if app.asks and app.asks[-1].size == size:
                    app.asks[-1].counts[ANYWHERE] += 1
                else:
                    app.asks.append(Ask(1, size, {ANYWHERE: 1}))

    def _add(self, task: Task, app: EngineApp, node: ClusterNode) -> None:
        number = len(self._tasks)
        self._tasks[number] = task
        size = self._mirror.units.asked(task.cls.amounts)
        container = Container(number, app, node, size, self._mirror.is_master(task))
        node.containers[number] = container
        app.containers[number] = container
        mark = self._memory.marks.get(task.uid)
        other = self._mirror.apps.get(mark.beneficiary) if mark is not None else None
        if other is not None:
            app.marked[number] = container
            node.claim(other, [container])
