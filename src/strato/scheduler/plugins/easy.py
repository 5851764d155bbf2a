"""easy: keep room for the first job that is blocked, and let others pass only where they do not delay it.

EASY backfilling: when a gang does not fit, the moment is worked out at which running pods, by their expected ends, will
have left enough room (the *shadow time*), and on which nodes. Later jobs may still start at once when they end before
that, or in room that is spare even then. A job that could only start by delaying the blocked one waits.

Estimates come from `strato.scheduler.cache.runtimes`. Pods without one never end, as far as this is concerned: when the
room cannot be foreseen, nothing is kept, as in Volcano.

Source: Lifka, "The ANL/IBM SP Scheduling System" (1995); Mu'alem and Feitelson (2001). Departure: room is kept by node,
not by processor count. Cost: nothing while no gang is blocked; then, once a cycle, a look at every running pod.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from strato.clock import parse_time
from strato.scheduler.arguments import arg
from strato.scheduler.cache.jobs import Job
from strato.scheduler.cache.nodes import NodeTable, Rows
from strato.scheduler.cache.resources import Vector
from strato.scheduler.cache.tasks import RELEASING, Task
from strato.scheduler.framework import Plugin, Verdicts
from strato.scheduler.reporting.reasons import Reason

if TYPE_CHECKING:
    from strato.scheduler.session import Session


@dataclass(frozen=True, slots=True, kw_only=True)
class EasyArgs:
    """Arguments, as written under ``arguments:`` of this plugin."""

    default_seconds: float = arg("easy.defaultSeconds", 0.0, minimum=0)
    """How long a pod runs of which nothing is known. Default 0: for ever."""


class Easy(Plugin):
    """Let small jobs pass a blocked large one without delaying it."""

    name = "easy"
    args_type = EasyArgs

    def open(self, ssn: Session) -> None:
        """Nothing is kept yet."""
        self._ssn = ssn
        self._looked: set[str] = set()
        self._head: Job | None = None
        self._shadow = math.inf
        self._spare: Vector = np.zeros((0, 0), np.int64)
        ssn.world.runtimes.on = True

    # -- who passes ----------------------------------------------------------------------------------------------------

    def watches_pods(self, task: Task) -> bool:
        """Whether the room kept for a blocked job matters for this task."""
        self._look_for_blocked()
        return self._would_delay(task)

    def filter_task(self, task: Task, nodes: NodeTable, rows: Rows) -> Verdicts | None:
        """Turn down rows where the task would still be when the blocked job needs the room."""
        if self._head is None or not self._would_delay(task):
            return None
        need = task.cls.request
        columns = np.nonzero(need > 0)[0]
        enough = np.all(self._spare[rows][:, columns] >= need[columns], axis=1)
        return Verdicts.reject_where(~enough, Reason(self.name, f"node(s) kept for {self._head.key}"))

    def _would_delay(self, task: Task) -> bool:
        """Whether a task is another job's and runs past the shadow time."""
        if self._head is None or task.job is self._head or task.cls.best_effort:
            return False
        return self._ssn.now + self._seconds(task) > self._shadow

    def on_place(self, job: Job | None, tasks: Sequence[Task]) -> None:
        """Take the room of tasks that run past the shadow time from what is spare then."""
        self._shift(tasks, -1)

    def on_remove(self, job: Job | None, tasks: Sequence[Task]) -> None:
        """Give it back."""
        self._shift(tasks, 1)

    def _shift(self, tasks: Sequence[Task], sign: int) -> None:
        if self._head is None or not self._would_delay(tasks[0]):
            return
        for task in tasks:
            if 0 <= task.row < len(self._spare):
                self._spare[task.row] += sign * task.cls.request

    def _seconds(self, task: Task) -> float:
        known = self._ssn.world.runtimes.expected_seconds(task)
        return known if known is not None else self.args.default_seconds or math.inf

    # -- who is blocked ------------------------------------------------------------------------------------------------

    def _look_for_blocked(self) -> None:
        """Find the first job that was tried and did not fit; jobs are tried in their order, each noted at the end."""
        if self._head is not None:
            return
        notes = self._ssn.notes
        for key in islice(reversed(notes), 2):
            job = self._ssn.world.jobs.get(key)
            if job is None or key in self._looked or not notes[key].errors or job.is_ready:
                continue
            self._looked.add(key)
            if self._keep_room(job):
                return

    def _keep_room(self, job: Job) -> bool:
        """Work out when and where a job's gang will fit; return whether that can be foreseen."""
        tasks = [task for task in job.pending.values() if not task.gated and not task.cls.best_effort]
        tasks = self._ssn.sorted_tasks(tasks)[: max(1, job.min_available - job.ready - job.pending_best_effort)]
        ends = self._ends()
        nodes = self._ssn.world.nodes
        free = nodes.future_idle[: nodes.size].copy()
        low, high = 0, len(ends)
        best: tuple[int, Vector, Vector] | None = None
        rows = np.array([row for _, row, _ in ends], np.int64)
        leaving = np.array([request for _, _, request in ends], np.int64).reshape(len(ends), free.shape[1])
        while low <= high:  # the fewest ends that make enough room; more of them never make less
            middle = (low + high) // 2
            then = free.copy()
            np.add.at(then, rows[:middle], leaving[:middle])
            taken = self._take(tasks, then)
            if taken is None:
                low = middle + 1
            else:
                best, high = (middle, then, taken), middle - 1
        if best is None:
            return False
        count, then, taken = best
        self._head = job
        self._shadow = ends[count - 1][0] if count else self._ssn.now
        self._spare = then - taken
        return True

    def _ends(self) -> list[tuple[float, int, Vector]]:
        """Return when which running pod of known length will leave what room, the first first."""
        now, out = self._ssn.now, []
        nodes = self._ssn.world.nodes
        for row in np.nonzero(nodes.present[: nodes.size])[0].tolist():
            for task in nodes.tasks[row].values():
                if task.row != row or task.status == RELEASING or task.cls.best_effort:
                    continue
                seconds = self._seconds(task)
                if math.isfinite(seconds):
                    started = task.pod.status.start_time
                    end = (parse_time(started) if started else now) + seconds
                    out.append((max(end, now), row, task.cls.request))
        out.sort(key=lambda item: item[0])
        return out

    def _take(self, tasks: Sequence[Task], free: Vector) -> Vector | None:
        """Return what tasks would take of each row when so much is free; None when they do not all fit."""
        taken = np.zeros_like(free)
        at = 0
        while at < len(tasks):
            cls = tasks[at].cls
            count = 1
            while at + count < len(tasks) and tasks[at + count].cls is cls:
                count += 1
            found = self._ssn.placer.candidates(self._ssn, tasks[at])
            columns = np.nonzero(cls.request > 0)[0]
            room = ((free - taken)[:, columns] // cls.request[columns]).min(axis=1).clip(min=0)
            room = np.where(found.mask[: len(free)], room, 0)
            used = np.minimum(room, np.maximum(count - (np.cumsum(room) - room), 0))
            if used.sum() < count:
                return None
            taken += used[:, None] * cls.request[None, :]
            at += count
        return taken
