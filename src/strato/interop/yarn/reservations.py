"""Reserved nodes, whose freed resources are kept for a container that fits nowhere yet (spec yarn A7, B9).

Until the pod fits, a node that is reserved for it takes only pods of the same job and task class. The plugin decides
which jobs may reserve and how many nodes; this module chooses the nodes and keeps the reservations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from strato.scheduler.framework.context import CycleContext
from strato.scheduler.model.answers import Verdicts
from strato.scheduler.model.jobs import Job, Task
from strato.scheduler.model.nodes import Rows
from strato.scheduler.model.reasons import Reason
from strato.scheduler.model.resources import Vector


class Reserved(NamedTuple):
    """The pod for which a node is reserved."""

    pod: str
    """Key of the pod."""
    job: str
    """Key of its job."""
    since: float
    """Seconds since the epoch."""


class Held(NamedTuple):
    """A reservation that is valid in this cycle."""

    node: str
    row: int
    task: Task
    since: float


class Reservations:
    """The reserved nodes of one cycle.

    Args:
        plugin: Name of the plugin, for reasons.
        ssn: The context of the cycle.
        kept: Reservations across cycles, by node; updated: invalid ones are removed, new ones added.
        is_valid: Returns whether the queue's limits still allow the job another container of the task's size.
        looks_on: Whether a pod with a reservation may also start on another node.
    """

    def __init__(
        self,
        plugin: str,
        ssn: CycleContext,
        kept: dict[str, Reserved],
        is_valid: Callable[[Job, Task], bool],
        *,
        looks_on: bool = True,
    ) -> None:
        self._plugin = plugin
        self._ssn = ssn
        self._kept = kept
        self._looks_on = looks_on
        self._by_row: dict[int, Held] = {}
        for node, one in list(kept.items()):
            row, task = ssn.world.nodes.row_of.get(node, -1), ssn.world.tasks.get(one.pod)
            job = task.job if task is not None else None
            if task is None or job is None or not self._stands(row, task, job, one) or not is_valid(job, task):
                del kept[node]
            else:
                self._by_row[row] = Held(node, row, task, one.since)

    def _stands(self, row: int, task: Task, job: Job, one: Reserved) -> bool:
        nodes = self._ssn.world.nodes
        if row < 0 or not nodes.present[row] or job.key != one.job or task.key not in job.pending:
            return False
        return bool(np.all(nodes.allocatable[row] >= task.cls.request))

    def __iter__(self) -> Iterator[Held]:
        return iter(self._by_row.values())

    def of(self, job: Job) -> list[Held]:
        """Return the reservations of a job."""
        return [one for one in self if one.task.job is job]

    # -- filtering nodes -----------------------------------------------------------------------------------------------

    def concern(self, task: Task) -> bool:
        """Return whether reservations restrict the nodes of a task."""
        return bool(self._by_row) and any(not _is_for(one, task) or not self._looks_on for one in self)

    def verdicts(self, task: Task, rows: Rows) -> Verdicts | None:
        """Reject rows reserved for other pods; unless ``looks_on``, also all but those reserved for the task."""
        codes, reasons = np.zeros(len(rows), np.uint16), []
        own = [one for one in self if _is_for(one, task)]
        if own and not self._looks_on:
            names = ", ".join(one.node for one in own)
            reasons.append(Reason(self._plugin, f"node(s) other than {names}, reserved for it"))
            codes[~np.isin(rows, [one.row for one in own])] = 1
        for one in self:
            if not _is_for(one, task):
                reasons.append(Reason(self._plugin, f"node(s) reserved for {one.task.key}"))
                codes[rows == one.row] = len(reasons)
        return Verdicts(codes, tuple(reasons)) if reasons else None

    # -- reserving nodes
    # --------------------------------------------------------------------------------------------------

    def drop_used(self) -> None:
        """Drop the reservations of pods that this cycle has placed, on the reserved node or elsewhere."""
        started = {(task.row, task.job.key, task.cls.number) for task in self._ssn.temporary if task.job is not None}
        for one in list(self):
            job = one.task.job
            key = one.row, job.key if job is not None else "", one.task.cls.number
            if job is None or one.task.key not in job.pending or key in started:
                self.drop(one.node)

    def drop(self, node: str) -> None:
        """Drop a node's reservation."""
        self._kept.pop(node, None)
        self._by_row.pop(self._ssn.world.nodes.row_of.get(node, -1), None)

    def move(self, node: str, to: str) -> None:
        """Move a node's reservation to another node."""
        one = self._kept.get(node)
        if one is not None and to not in self._kept and to in self._ssn.world.nodes.row_of:
            held = self._by_row[self._ssn.world.nodes.row_of[node]]
            self.drop(node)
            self._put(to, held.task, one.since)

    def reserve(self, task: Task, *, least: Vector | None = None, but: frozenset[str] = frozenset()) -> Held | None:
        """Reserve the node that lacks least for a task; None if the task fits now, or would fit no empty node.

        Args:
            task: The task.
            least: The least that a node must have free.
            but: Names of nodes to exclude.
        """
        nodes = self._ssn.world.nodes
        usable = np.zeros(nodes.size, np.bool_)
        known = self._ssn.usable_rows(task)[: nodes.size]
        usable[: len(known)] = known
        usable &= nodes.present[: nodes.size]
        usable[[one.row for one in self if not _is_for(one, task)]] = False
        need = task.cls.request
        columns = np.nonzero(need > 0)[0]
        idle = nodes.idle[: nodes.size]
        if not len(columns) or np.any(usable & np.all(idle[:, columns] >= need[columns], axis=1)):
            return None
        usable &= np.all(nodes.allocatable[: nodes.size][:, columns] >= need[columns], axis=1)
        if least is not None:
            usable &= np.all(idle >= least, axis=1)
        usable[list(self._by_row)] = False
        usable[[row for name in but if (row := nodes.row_of.get(name, -1)) >= 0]] = False
        rows = np.nonzero(usable)[0]
        if not len(rows):
            return None
        lacking = np.maximum(need[columns] - nodes.future_idle[rows][:, columns], 0)
        parts = (lacking / np.maximum(nodes.allocatable[rows][:, columns], 1)).max(axis=1)
        best = min(zip(parts.tolist(), [nodes.names[row] for row in rows.tolist()], strict=True))
        return self._put(best[1], task, self._ssn.now)

    def _put(self, node: str, task: Task, since: float) -> Held:
        row = self._ssn.world.nodes.row_of[node]
        self._kept[node] = Reserved(task.key, task.job.key if task.job is not None else "", since)
        held = self._by_row[row] = Held(node, row, task, since)
        return held

    def lacking(self, one: Held) -> Vector:
        """Return the amount that a reserved node lacks for its pod, int64[columns]."""
        missing: Vector = np.maximum(one.task.cls.request - self._ssn.world.nodes.idle[one.row], 0)
        return missing


def _is_for(one: Held, task: Task) -> bool:
    """Return whether a reservation is for a task, or for another one of its job and task class."""
    return one.task is task or (one.task.job is task.job and one.task.cls is task.cls)
