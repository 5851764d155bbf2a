"""easy: keep room for the first job of each queue that is blocked, and let others pass only where they do not delay it.

EASY backfilling: when a gang does not fit, the plugin computes when running pods, by their expected ends, will have
left enough room (the *shadow time*), and on which nodes. Later jobs may still start at once if they end before that, or
in room that is spare even then. A job that could only start by delaying the blocked one waits. Room is kept for the
first blocked job of every queue, in the order in which these jobs are visited, so that room kept for an earlier job is
not kept for a later one.

Estimates come from `strato.scheduler.cache.runtimes`. Pods without an estimate count as never ending: if the room
cannot be foreseen, none is kept, as in Volcano.

Source: Lifka, "The ANL/IBM SP Scheduling System" (1995); Mu'alem and Feitelson (2001). Departure: room is kept by node,
not by processor count, and for one job per queue. Cost: nothing while no gang is blocked; then a pass over every
running pod for each job that room is kept for.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import islice
from operator import itemgetter

import numpy as np

from strato.clock import parse_time
from strato.scheduler.framework.arguments import arg
from strato.scheduler.framework.context import CycleContext
from strato.scheduler.framework.plugin import Plugin
from strato.scheduler.model.answers import Verdicts
from strato.scheduler.model.jobs import Job, Task
from strato.scheduler.model.nodes import NodeTable, Rows
from strato.scheduler.model.reasons import Reason
from strato.scheduler.model.resources import Vector
from strato.scheduler.model.tasks import RELEASING


@dataclass(frozen=True, slots=True, kw_only=True)
class EasyArgs:
    """Arguments, as written under ``arguments:`` of this plugin."""

    default_seconds: float = arg("easy.defaultSeconds", 0.0, minimum=0)
    """How long a pod runs of which nothing is known. Default 0: for ever."""
    most_kept: int = arg("easy.maxReservations", 8, minimum=1)
    """For how many blocked jobs room is kept in a cycle, one per queue. Default 8."""


@dataclass(frozen=True, slots=True)
class Kept:
    """The room of one blocked job.

    Attributes:
        job: The job.
        shadow: When it can start, in seconds since the epoch.
        taken: int64[rows, columns], what it will take.
        spare: int64[rows, columns], what will be free beside it; updated when tasks that run longer are placed.
    """

    job: Job
    shadow: float
    taken: Vector
    spare: Vector


class Easy(Plugin):
    """Let small jobs pass a blocked large one without delaying it."""

    name = "easy"
    args_type = EasyArgs
    job_facts = ("namespace", "stated_seconds")

    def open(self, ssn: CycleContext) -> None:
        """Begin without any kept room."""
        self._ssn = ssn
        self._looked: set[str] = set()
        self._kept: list[Kept] = []
        self._rows: dict[str, int] = {}
        self._hopeless: dict[Hashable, tuple[int, int]] = {}  # by a job's request, the state without room
        ssn.world.runtimes.on = True

    # -- jobs that may pass --------------------------------------------------------------------------------------------

    def watches_pods(self, task: Task) -> bool:
        """Whether the room kept for a blocked job matters for this task."""
        self._look_for_blocked()
        return bool(self._delayed_by(task))

    def filter_task(self, task: Task, nodes: NodeTable, rows: Rows) -> Verdicts | None:
        """Reject rows where the task would still run when a blocked job needs the room."""
        delayed = self._delayed_by(task)
        if not delayed:
            return None
        need = task.cls.request
        columns = np.nonzero(need > 0)[0]
        codes = np.zeros(len(rows), np.uint16)
        for number, kept in enumerate(delayed, 1):
            enough = np.all(kept.spare[rows][:, columns] >= need[columns], axis=1)
            codes[~enough & (codes == 0)] = number
        return Verdicts(codes, tuple([Reason(self.name, f"node(s) kept for {kept.job.key}") for kept in delayed]))

    def _delayed_by(self, task: Task) -> list[Kept]:
        """Return the kept rooms that a task must not use: of jobs before its own whose shadow time it outlasts."""
        if not self._kept or task.cls.best_effort:
            return []
        ends = self._ssn.now + self._seconds(task)
        out = []
        for kept in self._kept:
            if kept.job is task.job:
                break
            if ends > kept.shadow:
                out.append(kept)
        return out

    def on_place(self, job: Job | None, tasks: Sequence[Task]) -> None:
        """Subtract the requests of tasks that run past a shadow time from the spare room."""
        if self._kept:
            self._rows.update((task.key, task.row) for task in tasks)
            self._shift(tasks, [task.row for task in tasks], -1)

    def on_remove(self, job: Job | None, tasks: Sequence[Task]) -> None:
        """Add the requests of removed tasks to the spare room; by kept rows, as undone tasks no longer have one."""
        if self._kept:
            self._shift(tasks, [self._rows.pop(task.key, task.row) for task in tasks], 1)

    def _shift(self, tasks: Sequence[Task], rows: Sequence[int], sign: int) -> None:
        for kept in self._delayed_by(tasks[0]):
            for task, row in zip(tasks, rows, strict=True):
                if 0 <= row < len(kept.spare):
                    kept.spare[row] += sign * task.cls.request

    def _seconds(self, task: Task) -> float:
        known = self._ssn.world.runtimes.expected_seconds(task)
        return known if known is not None else self.args.default_seconds or math.inf

    # -- blocked jobs --------------------------------------------------------------------------------------------------

    def _look_for_blocked(self) -> None:
        """Keep room for a job that was tried last and did not fit; notes are in the order in which jobs were tried."""
        if len(self._kept) >= self.args.most_kept:
            return
        notes = self._ssn.notes
        for key in islice(reversed(notes), 2):
            job = self._ssn.world.jobs.get(key)
            if job is None or key in self._looked or not notes[key].errors or job.is_ready:
                continue
            if any(kept.job.queue_name == job.queue_name for kept in self._kept):
                continue
            self._looked.add(key)
            if self._keep_room(job):
                return

    def _keep_room(self, job: Job) -> bool:
        """Compute when and where a job's gang will fit, and keep that room; return whether it can be foreseen."""
        tasks = [task for task in job.pending.values() if not task.gated and not task.cls.best_effort]
        tasks = self._ssn.sorted_tasks(tasks)[: max(1, job.min_available - job.ready - job.pending_best_effort)]
        asks = tuple([(task.cls.number, self._ssn.facet(task)) for task in tasks])
        as_it_stands = self._ssn.world.version, len(self._kept)
        if self._hopeless.get(asks) == as_it_stands:
            return False  # as for an equal request before, of which a long queue has many
        ends = self._ends()
        nodes = self._ssn.world.nodes
        free = nodes.future_idle[: nodes.size].copy()
        for earlier in self._kept:
            free[: len(earlier.taken)] -= earlier.taken
        low, high = 0, len(ends)
        best: tuple[int, Vector, Vector] | None = None
        rows = np.array([row for _, row, _ in ends], np.int64)
        leaving = np.array([request for _, _, request in ends], np.int64).reshape(len(ends), free.shape[1])
        while low <= high:  # bisect for the fewest ends that make enough room, as further ends only add room
            middle = (low + high) // 2
            then = free.copy()
            np.add.at(then, rows[:middle], leaving[:middle])
            taken = self._take(tasks, then)
            if taken is None:
                low = middle + 1
            else:
                best, high = (middle, then, taken), middle - 1
        if best is None:
            self._hopeless[asks] = as_it_stands
            return False
        count, then, taken = best
        shadow = ends[count - 1][0] if count else self._ssn.now
        together = bisect_right(ends, shadow, key=itemgetter(0))  # further pods may end at the same moment
        np.add.at(then, rows[count:together], leaving[count:together])
        better = self._take(tasks, then, leave=nodes.idle[: nodes.size])
        taken = taken if better is None else better  # with several classes, this order of rows may not fit
        self._kept.append(Kept(job, shadow, taken, then - taken))
        self._ssn.rejudged += 1  # from now on equal jobs after it are filtered by this room, which it was not
        return True

    def _ends(self) -> list[tuple[float, int, Vector]]:
        """Return end, row and request of each running pod with an estimate, by time of end."""
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

    def _take(self, tasks: Sequence[Task], free: Vector, leave: Vector | None = None) -> Vector | None:
        """Return what tasks would take of each row if ``free`` were free; None when they do not all fit.

        Args:
            tasks: The tasks, placed one after the other.
            free: int64[rows, columns].
            leave: What is idle now: rows with the least of it are taken first, which leaves idle rows to other jobs.
        """
        taken = np.zeros_like(free)
        at = 0
        while at < len(tasks):
            cls = tasks[at].cls
            count = 1
            while at + count < len(tasks) and tasks[at + count].cls is cls:
                count += 1
            usable = self._ssn.usable_rows(tasks[at])
            columns = np.nonzero(cls.request > 0)[0]
            room = _room(free - taken, cls.request, columns)
            room = np.where(usable[: len(free)], room, 0)
            order = slice(None) if leave is None else np.argsort(_room(leave, cls.request, columns), kind="stable")
            used = np.zeros_like(room)
            used[order] = np.minimum(room[order], np.maximum(count - (np.cumsum(room[order]) - room[order]), 0))
            if used.sum() < count:
                return None
            taken += used[:, None] * cls.request[None, :]
            at += count
        return taken


def _room(free: Vector, request: Vector, columns: Vector) -> Vector:
    """Return how many equal requests fit each row."""
    fitting: Vector = (free[:, columns] // request[columns]).min(axis=1).clip(min=0)
    return fitting
