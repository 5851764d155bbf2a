"""Preemption of the plugin: find starved jobs, mark pods for them, and offer the pods as victims after the wait.

A pod is marked for a job first, and evicted after the wait if that job still waits. State across cycles (since when
jobs are starved, which pods are marked) is in `Remembered`, which the world keeps and Queue annotations persist
(`strato.interop.yarn.remembering`).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from strato.interop.yarn.fair.cluster import ANYWHERE, ClusterNode, Container, EngineApp, ResourceAsk
from strato.interop.yarn.fair.preemption import Preemptor
from strato.interop.yarn.fair.tree import FairQueue
from strato.interop.yarn.fairplugin.mirror import Mirror
from strato.interop.yarn.remembering import Kept, QueueMemory
from strato.interop.yarn.reservations import Held
from strato.interop.yarn.resources import MOST, Amounts, is_zero, subtract
from strato.scheduler.model.jobs import Job, Task
from strato.scheduler.model.queues import Queue
from strato.scheduler.model.tasks import BOUND, RUNNING

log = logging.getLogger(__name__)

_STAYS = (BOUND, RUNNING)


class Mark(NamedTuple):
    """A pod that is to be evicted for a job."""

    pod: str
    """Key of the pod."""
    beneficiary: str
    """Key of the job it makes room for."""
    goes_ms: float
    """When it may be evicted, in milliseconds since the epoch."""


@dataclass(slots=True)
class Remembered(Kept):
    """State of preemption across cycles; times are milliseconds since the epoch."""

    satisfied: dict[str, float] = field(default_factory=dict)
    """When each job last had its fair share, by key."""
    next_check: dict[str, float] = field(default_factory=dict)
    queues: dict[str, float] = field(default_factory=dict)
    """When each queue last had its minimum, by the Queue object's name."""
    marks: dict[str, Mark] = field(default_factory=dict)
    """Marks by the pod's UID."""

    def recall(self, queue: str, found: QueueMemory) -> None:
        """Restore state from a queue's annotation."""
        Kept.recall(self, queue, found)
        self.satisfied.update(found.lacking_since_ms)
        self.next_check.update(found.next_check_ms)
        if found.below_minimum_since_ms is not None:
            self.queues[queue] = found.below_minimum_since_ms
        self.marks.update({uid: Mark(*mark) for uid, mark in found.making_room.items()})


class PodPreemptor(Preemptor):
    """Preempts pods; spares those that a gang needs for its minimum, and those that may not be preempted."""

    def __init__(self, mirror: Mirror, tasks: dict[int, Task]) -> None:
        super().__init__(mirror.state)
        self._tasks = tasks

    def may_take(self, container: Container, considered: Amounts) -> bool:
        """Return whether a pod may be preempted; a gang keeps its minimum."""
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
    """Return how many containers of this one's size the considered amount makes."""
    biggest = max(range(len(considered)), key=lambda at: container.size[at])
    return -(-considered[biggest] // container.size[biggest]) if container.size[biggest] else 0


class FairPreemption:
    """One cycle's preemption.

    Args:
        mirror: The cycle's tree.
        memory: State of earlier cycles.
        now: Seconds since the epoch.
        reserved: The reserved nodes, whose free resources other jobs cannot use.
    """

    def __init__(self, mirror: Mirror, memory: Remembered, now: float, reserved: Iterable[Held] = ()) -> None:
        self._mirror = mirror
        self._reserved = tuple(reserved)
        self._memory = memory
        self._now_ms = now * 1000.0
        self._tasks: dict[int, Task] = {}
        self._due: dict[str, str] = {}
        self._plan()

    # -- answers for the plugin
    # -------------------------------------------------------------------------------------------------------

    def starves(self, job: Job) -> bool:
        """Return whether a job is starved, or pods marked for it still run."""
        app = self._mirror.apps.get(job.key)
        return app is not None and (not is_zero(app.starvation) or self._waits_for_marked(job.key))

    def victims(self, beneficiary: Job, candidates: Sequence[Task], *, within: bool) -> Sequence[Task]:
        """Return the candidates that are marked for a job and whose wait is over, of any queue."""
        return [task for task in candidates if self._due.get(task.uid) == beneficiary.key]

    def announced(self, job: Job) -> Sequence[str]:
        """Return texts on the pods marked for a job, and when they go."""
        return [
            f"pod {mark.pod} makes room for it and goes in {max(0.0, (mark.goes_ms - self._now_ms) / 1000):.0f} s"
            for mark in self._memory.marks.values()
            if mark.beneficiary == job.key
        ]

    def nodes_making_room(self, job: Job) -> frozenset[str]:
        """Return the nodes of pods that are marked for a job."""
        tasks = self._mirror.world.tasks
        names = self._mirror.world.nodes.names
        marks = [mark.pod for mark in self._memory.marks.values() if mark.beneficiary == job.key]
        return frozenset(names[tasks[pod].row] for pod in marks if pod in tasks and tasks[pod].row >= 0)

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
            # A job older than the scheduler that holds resources and has no persisted starvation counts as satisfied.
            had_share = memory.is_restarted and not is_zero(app.usage)
            app.satisfied_ms = memory.satisfied.get(key, self._now_ms if had_share else app.start_time)
            app.next_check_ms = memory.next_check.get(key, 0.0)
        leaves = self._leaves()
        preemptor.satisfied = {leaf.name: memory.queues.get(name, self._now_ms) for name, leaf in leaves.items()}
        preemptor.update()
        for beneficiary, containers in preemptor.chosen:
            for container in containers:
                task = self._tasks[container.number]
                goes = self._now_ms + state.options.wait_before_kill_ms
                memory.marks[task.uid] = Mark(task.key, beneficiary.name, goes)
                log.info("pod is marked to make room: pod=%s for=%s", task.key, beneficiary.name)
        memory.satisfied = {key: app.satisfied_ms for key, app in self._mirror.apps.items()}
        memory.next_check = {key: app.next_check_ms for key, app in self._mirror.apps.items() if app.next_check_ms}
        memory.queues = {name: preemptor.satisfied.get(leaf.name, self._now_ms) for name, leaf in leaves.items()}
        self._due = {uid: mark.beneficiary for uid, mark in memory.marks.items() if mark.goes_ms <= self._now_ms}

    def _leaves(self) -> dict[str, FairQueue]:
        """Return the leaves by their Queue objects' names."""
        queues = [queue for queue in self._mirror.world.queues.values() if queue.view is not None and queue.jobs]
        found = {queue.name: self._mirror.leaf(queue) for queue in queues}
        return {name: leaf for name, leaf in found.items() if leaf is not None}

    def write(self, queue: Queue, found: QueueMemory) -> None:
        """Add the state of a queue's jobs that must be persisted because it cannot be derived."""
        memory = self._memory
        leaf = self._mirror.leaf(queue) if queue.name in memory.queues else None
        if leaf is not None and leaf.min_timeout_ms < MOST and memory.queues[queue.name] < self._now_ms:
            found.below_minimum_since_ms = int(memory.queues[queue.name])
        for key in queue.jobs:
            app, since = self._mirror.apps.get(key), memory.satisfied.get(key)
            if app is None or since is None:
                continue
            if app.queue.fair_timeout_ms < MOST and app.start_time < since < self._now_ms:
                found.lacking_since_ms[key] = int(since)
            if memory.next_check.get(key, 0.0) > self._now_ms:
                found.next_check_ms[key] = int(memory.next_check[key])
        for uid, mark in memory.marks.items():
            if mark.beneficiary in queue.jobs:
                found.making_room[uid] = (mark.pod, mark.beneficiary, int(mark.goes_ms))

    def _drop_marks(self) -> None:
        """Drop marks of pods that are gone, and marks for jobs without pending pods."""
        world = self._mirror.world
        for uid, mark in list(self._memory.marks.items()):
            task, job = world.tasks.get(mark.pod), world.jobs.get(mark.beneficiary)
            if task is None or task.uid != uid or task.status not in _STAYS or job is None or not job.pending:
                del self._memory.marks[uid]

    def _build(self) -> None:
        """Build the engine's nodes and containers from running pods, and its asks from pending ones."""
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
        for held in self._reserved:
            app = self._mirror.apps.get(held.task.job.key) if held.task.job is not None else None
            if app is not None and held.node in state.nodes:
                size = units.asked(held.task.cls.amounts)
                state.nodes[held.node].reserved = app, ResourceAsk(1, size, {ANYWHERE: 1})
        for key, app in self._mirror.apps.items():
            job = world.jobs[key]
            for task in job.pending.values():
                size = units.asked(task.cls.amounts)
                if app.asks and app.asks[-1].size == size:
                    app.asks[-1].counts[ANYWHERE] += 1
                else:
                    app.asks.append(ResourceAsk(1, size, {ANYWHERE: 1}))

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
