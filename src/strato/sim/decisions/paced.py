"""`PacedJobs`: jobs whose speed, start delay and loss on eviction follow a performance model."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from strato.scheduler.model.jobs import Task
from strato.sim.decisions.activejobs import ActiveJob, Course
from strato.sim.decisions.jobs import BoundPod, Jobs
from strato.sim.models import PerformanceModel
from strato.sim.models.progress import WorkClock


class PacedJobs(Jobs):
    """Jobs under a performance model. A job's pods end together, when its work is done."""

    def follow(self, model: PerformanceModel) -> None:
        """Set the model. Call this once, before the first job is submitted."""
        labels = {
            row: dict(node.metadata.labels or {})
            for row, node in enumerate(self._world.nodes.facts)
            if node is not None
        }
        self._clock = WorkClock(model, self._jobs, labels)
        self._running: dict[int, tuple[ActiveJob, dict[int, BoundPod], int]] = {}
        self._plans: dict[int, int] = {}
        self._done: set[int] = set()

    def _courses(self, active: ActiveJob, tasks: Sequence[Task]) -> list[Course]:
        waits = [self._clock.start_seconds(active.row, task.order[0], task.row) for task in tasks]
        courses = super()._courses(active, tasks)
        return [
            course._replace(start_seconds=course.start_seconds + wait)
            for course, wait in zip(courses, waits, strict=True)
        ]

    def _start(self, active: ActiveJob, runs: Sequence[BoundPod], course: Course) -> None:
        now = self._timeline.now
        there = self._put_on_node(runs, is_running=True)
        if not there:
            return
        for run in there:
            self._recorder.begin(active.row, run.number, run.row, now)
        if active.row in self._done:  # a member that was bound after the others had done the job's work
            self._end(active, there, course.exit_code)
            return
        _, known, _ = self._running.setdefault(active.row, (active, {}, course.exit_code))
        known.update((run.number, run) for run in there)
        self._rearrange(self._clock.begin(active.row, [(run.number, run.row) for run in there], now))

    def _remove_evicted(self, active: ActiveJob, key: str, uid: str, number: int, beneficiary: int) -> None:
        known = self._running.get(active.row)
        if known is not None and number in known[1] and known[1][number].uid == uid:
            del known[1][number]
            self._rearrange(self._clock.leave(active.row, number, self._timeline.now))
        super()._remove_evicted(active, key, uid, number, beneficiary)

    def _rearrange(self, rows: Iterable[int]) -> None:
        """Plan anew when jobs end: when their work will be done at their present speed."""
        for row in sorted(rows):
            plan = self._plans[row] = self._plans.get(row, 0) + 1
            seconds = self._clock.remaining_seconds(row)
            if seconds < math.inf:
                self._timeline.after(seconds, self._finish, row, plan)

    def _finish(self, row: int, plan: int) -> None:
        if self._plans.get(row) != plan:
            return  # `_rearrange` has planned another end since, because the speed changed
        active, known, exit_code = self._running.pop(row)
        self._done.add(row)
        others = self._clock.end(row, self._timeline.now)
        self._end(active, list(known.values()), exit_code)
        self._rearrange(others)
