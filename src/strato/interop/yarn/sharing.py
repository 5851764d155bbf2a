"""Base class of both plugins: it orders queues and jobs by YARN's tree, offers victims, and records verdicts.

A plugin supplies the tree and the preemption of one of YARN's schedulers. The extension points that are the same for
both plugins are implemented here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from itertools import islice
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from strato.interop.yarn.locality import Locality, LocalityDelay
from strato.interop.yarn.objects import is_master, user_of
from strato.interop.yarn.remembering import REMEMBERED, Kept, QueueMemory, recalled, text_of
from strato.interop.yarn.reservations import Held, Reservations
from strato.interop.yarn.resources import Amounts
from strato.interop.yarn.units import Units
from strato.scheduler.framework.context import CycleContext
from strato.scheduler.framework.plugin import PERMIT, REJECT, Plugin
from strato.scheduler.model.answers import Verdicts
from strato.scheduler.model.jobs import Job, Task
from strato.scheduler.model.nodes import NodeTable, Rows
from strato.scheduler.model.queues import Queue
from strato.scheduler.model.reasons import Verdict
from strato.scheduler.model.resources import Vector
from strato.scheduler.plugins.proportion import QueueFacts

NO_LEAF = "NoLeafQueue"
RESERVED = "NodeReserved"
MARKED = "MakingRoom"
"""Codes of verdicts: a job's queue holds no applications; a node is reserved for a pod; pods make room for a job."""

Leaf = TypeVar("Leaf")
KeptT = TypeVar("KeptT", bound=Kept)

_MOST_MARKS = 5
"""Most marked pods that a job's verdicts name."""


class SharingTree(Protocol[Leaf]):
    """Queues and applications of one cycle, as this module uses them."""

    def leaf(self, queue: Queue) -> Leaf | None:
        """Return the leaf of a Queue object; None if it holds no applications."""

    def position_of(self, leaf: Leaf) -> Any:
        """Return a leaf's sort key among all."""

    def position_of_job(self, job: Job) -> tuple[Any, ...] | None:
        """Return a job's sort key in its leaf; None for a job whose queue is no leaf."""

    def refresh(self, job: Job | None) -> None:
        """Count a job's pods again."""


class CyclePreemption(Protocol):
    """Preemption of one cycle, as this module uses it."""

    def starves(self, job: Job) -> bool:
        """Return whether other jobs' pods are to be preempted for a job that has pending pods."""

    def victims(self, beneficiary: Job, candidates: Sequence[Task], *, within: bool) -> Sequence[Task]:
        """Return the candidates whose wait is over, of the job's own queue (``within``) or of others."""

    def announced(self, job: Job) -> Sequence[str]:
        """Return texts on the pods that are marked for a job, and when they go."""

    def write(self, queue: Queue, found: QueueMemory) -> None:
        """Add the state of a queue's applications that must be persisted."""


RoomT = TypeVar("RoomT", bound=CyclePreemption)


class SharingPlugin(Plugin, ABC, Generic[Leaf, RoomT, KeptT]):
    """Base of the plugins that share as one of YARN's schedulers does; see the module."""

    time_based = True
    standing_code: str
    """Code of the verdict on the usage and share of a job's queue."""
    marked_code: str = MARKED
    """Code of the verdict that names marked pods."""
    remembers: type[KeptT]
    """Class of the plugin's state across cycles."""

    def resources(self) -> Sequence[str]:
        """Return Kubernetes' names of resource types beside memory and vcores, by YARN's."""
        return tuple(self.args.resources.values())

    def open(self, ssn: CycleContext) -> None:
        """Build the cycle's tree, and restore reservations and waits from the state kept."""
        self._ssn = ssn
        self.hierarchy = True  # a placement changes the sort keys of all queues that share ancestors with its queue
        self._noted: set[tuple[str, str]] = set()
        self._tried: set[str] = set()
        self._units = Units.of(ssn.world.dims, self.args.resources)
        memory = ssn.world.plugin_state
        if self.name not in memory:
            memory[self.name] = self.remembers()
            recalled(ssn.world.queues.values(), memory[self.name])
        self._kept: KeptT = memory[self.name]
        self._tree: SharingTree[Leaf] = self._grow()
        self._reservations = Reservations(
            self.name, ssn, self._kept.reserved, self._may_keep, looks_on=self._looks_on_with_reservation()
        )
        delay = self._locality_delay()
        self._locality: Locality | None = None
        if delay is not None:
            self._locality = Locality(
                self.name,
                ssn.world,
                ssn.now,
                self._kept.first_seen,
                self.args.rack_label,
                delay,
                is_restarted=self._kept.is_restarted,
            )
        self._room: RoomT | None = None

    @abstractmethod
    def _grow(self) -> SharingTree[Leaf]:
        """Build and return the cycle's tree."""

    @abstractmethod
    def _locality_delay(self) -> LocalityDelay | None:
        """Return the rule on how long pods wait for preferred nodes; None if they do not wait."""

    @abstractmethod
    def _may_keep(self, job: Job, task: Task) -> bool:
        """Return whether the queue's limits still allow a reservation for a task."""

    @abstractmethod
    def _reserve(self, job: Job, task: Task) -> bool:
        """Reserve a node for a task that fitted nowhere, if allowed; return whether another task of the job may try."""

    def _looks_on_with_reservation(self) -> bool:
        """Return whether a pod with a reservation may also start elsewhere."""
        return True

    @abstractmethod
    def _make_room(self) -> RoomT | None:
        """Return the cycle's preemption; None when it is off."""

    @abstractmethod
    def _standing(self, leaf: Leaf, job: Job) -> str:
        """Return a text on a leaf's usage and share, for an admitted job that waits; empty for other jobs."""

    @abstractmethod
    def _facts(self, leaf: Leaf) -> QueueFacts:
        """Return a leaf's share, for status and metrics."""

    def _user_of(self, job: Job) -> str:
        return user_of(job, self.args.user)

    def _is_master(self, task: Task) -> bool:
        return is_master(task, self.args.master)

    # -- order ---------------------------------------------------------------------------------------------------------

    def queue_order(self, queue: Queue) -> tuple[Any, ...]:
        """Level by level from the root, by the policy of each parent; queues that are no leaves come last."""
        leaf = self._tree.leaf(queue)
        return (0, self._tree.position_of(leaf)) if leaf is not None else (1,)

    def job_order(self, job: Job) -> tuple[Any, ...]:
        """By the policy of the job's queue; jobs that are no applications come last."""
        position = self._tree.position_of_job(job)
        return (0, position) if position is not None else (1,)

    # -- nodes ---------------------------------------------------------------------------------------------------------

    def facet(self, task: Task) -> Hashable:
        """The nodes that a task may use by now, while it waits for preferred ones."""
        return self._locality.facet(task) if self._locality is not None else None

    def filter_facet(self, task: Task, nodes: NodeTable, rows: Rows) -> Verdicts | None:
        """Only nodes that the task prefers, for a while."""
        return self._locality.verdicts(task, rows) if self._locality is not None else None

    def watches_pods(self, task: Task) -> bool:
        """Whether reservations restrict the task's nodes; first reserve for jobs tried just before."""
        for key in list(islice(reversed(self._ssn.notes), 2)):
            self._reserve_for(key)
        return self._reservations.concern(task)

    def filter_task(self, task: Task, nodes: NodeTable, rows: Rows) -> Verdicts | None:
        """No nodes that are reserved for others."""
        return self._reservations.verdicts(task, rows)

    def _reserve_for(self, key: str) -> None:
        """Reserve nodes for the tasks of a job that were tried in this cycle and fitted nowhere."""
        job, notes = self._ssn.world.jobs.get(key), self._ssn.notes[key]
        if key in self._tried or job is None or not notes.errors or not job.pending:
            return
        self._tried.add(key)
        if job.min_available > 1 and not job.is_ready:
            return  # one reserved node does not help a gang; the plugin easy reserves for gangs
        has = {one.task.key for one in self._reservations.of(job)}
        for task in job.pending.values():
            failed = task.cls.number in notes.errors and not task.gated and not task.cls.best_effort
            if failed and task.key not in has and not self._reserve(job, task):
                return

    def _settle_reservations(self) -> None:
        """Drop used reservations, reserve for tasks that fitted nowhere, and record verdicts about reserved nodes."""
        self._reservations.drop_used()
        for key in list(self._ssn.notes):
            self._reserve_for(key)
        for one in self._reservations:
            if one.task.job is not None:
                self._say(one.task.job, RESERVED, self._reserved_text(one))

    def _reserved_text(self, one: Held) -> str:
        lacking = self._units.asked(self._reservations.lacking(one).tolist())
        parts = [part for part in self._units.text(lacking).split(", ") if not part.startswith("0 ")]
        lacks = f"lacks {', '.join(parts)}" if parts else "has the room"
        seconds = max(0.0, self._ssn.now - one.since)
        return f"reserved on {one.node} for {one.task.key} for {seconds:.0f} s; the node {lacks} and takes no others"

    # -- preemption ----------------------------------------------------------------------------------------------------

    @property
    def _making_room(self) -> RoomT | None:
        """Preemption of the cycle, computed at first use, which comes after tasks that fit have been placed."""
        if self._room is None:
            self._room = self._make_room()
        return self._room

    def job_starving(self, job: Job) -> bool:
        """Whether other jobs' pods are to be preempted for a job."""
        room = self._making_room
        return room is not None and bool(job.pending) and room.starves(job)

    def preemptive(self, queue: Queue, tasks: Sequence[Task]) -> bool:
        """Whether other jobs' pods are to be preempted for these tasks."""
        return any(task.job is not None and self.job_starving(task.job) for task in tasks)

    def preemptable(self, preemptor: Task, candidates: Sequence[Task]) -> tuple[Sequence[Task], int]:
        """Marked tasks of the queue whose wait is over."""
        return self._victims(preemptor, candidates, within=True)

    def reclaimable(self, reclaimer: Task, candidates: Sequence[Task]) -> tuple[Sequence[Task], int]:
        """Marked tasks of other queues whose wait is over."""
        return self._victims(reclaimer, candidates, within=False)

    def _victims(self, owed: Task, candidates: Sequence[Task], *, within: bool) -> tuple[Sequence[Task], int]:
        room = self._making_room
        if room is None or owed.job is None:
            return (), REJECT
        return room.victims(owed.job, candidates, within=within), PERMIT

    # -- updates, and the end of a cycle -------------------------------------------------------------------------------

    def on_place(self, job: Job | None, tasks: Sequence[Task]) -> None:
        """Count a job's pods again."""
        self._tree.refresh(job)

    def on_remove(self, job: Job | None, tasks: Sequence[Task]) -> None:
        """Count a job's pods again."""
        self._tree.refresh(job)

    def close(self, ssn: CycleContext) -> None:
        """Settle reservations, record verdicts on waiting jobs, report queues' shares, and persist state."""
        room = self._making_room
        self._settle_reservations()
        for key in list(ssn.notes):
            job = ssn.world.jobs.get(key)
            leaf = self._tree.leaf(job.queue) if job is not None and job.pending and job.queue is not None else None
            if job is None or leaf is None:
                continue
            standing = self._standing(leaf, job)
            if standing:
                self._say(job, self.standing_code, standing)
            if room is not None and room.starves(job):
                for text in room.announced(job)[:_MOST_MARKS]:
                    self._say(job, self.marked_code, text)
        for queue in ssn.world.queues.values():
            leaf = self._tree.leaf(queue) if queue.view is not None and queue.jobs else None
            if leaf is not None:
                ssn.queue_facts[queue.name] = self._facts(leaf)
        self._remember()

    def _remember(self) -> None:
        """Plan annotations of queues with the state that must survive a restart of the scheduler."""
        kept, world, room = self._kept, self._ssn.world, self._making_room
        kept.is_restarted = False
        if len(kept.first_seen) > 2 * len(world.tasks) + 1000:
            known = {task.uid for task in world.tasks.values()}
            kept.first_seen = {uid: since for uid, since in kept.first_seen.items() if uid in known}
        for name, queue in world.queues.items():
            if queue.view is None:
                continue
            found = QueueMemory()
            for one in self._reservations:
                if one.task.job is not None and one.task.job.queue is queue:
                    found.reserved[one.node] = (one.task.key, one.task.job.key, int(one.since * 1000))
            if room is not None:
                room.write(queue, found)
            text = text_of(found)
            if text or queue.view.metadata.annotation(REMEMBERED):
                self._ssn.plan.queue_annotations[name] = {REMEMBERED: text}

    def _vector(self, amounts: Amounts) -> Vector:
        """Return amounts as a vector of the scheduler's columns."""
        vector = self._ssn.world.dims.zeros()
        for at, amount, per in zip(self._units.columns, amounts, self._units.per_column, strict=False):
            vector[at] = amount * per
        return vector

    def _say(self, job: Job, code: str, text: str) -> None:
        if (job.key, text) not in self._noted:
            self._noted.add((job.key, text))
            self._ssn.record_verdict(job, Verdict(self.name, code, text))


def both(one: Verdicts | None, other: Verdicts | None) -> Verdicts | None:
    """Return the verdicts of two filters together; for rows that both reject, the first one's reasons."""
    if one is None or other is None:
        return one or other
    codes = np.where(one.codes > 0, one.codes, np.where(other.codes > 0, other.codes + len(one.reasons), 0))
    return Verdicts(codes.astype(np.uint16), (*one.reasons, *other.reasons))
