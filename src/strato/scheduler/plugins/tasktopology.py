"""task-topology: place tasks of a job near to, or apart from, each other by role (spec volcano-plugins 18)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from strato.scheduler.framework.arguments import arg
from strato.scheduler.framework.context import CycleContext
from strato.scheduler.framework.plugin import Plugin
from strato.scheduler.model.jobs import Job, Task
from strato.scheduler.model.nodes import NodeTable, Rows
from strato.scheduler.model.resources import FloatArray, Vector
from strato.scheduler.plugins.buckets import AFFINITY, ANTI_AFFINITY, TASK_ORDER, Bucket, JobTopology, read_topology


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskTopologyArgs:
    """Arguments, as written under ``arguments:`` of this plugin."""

    weight: int = arg("task-topology.weight", 1)
    """Factor of the score. Default 1."""


class TaskTopology(Plugin):
    """Follow the task topology that jobs declare in annotations."""

    name = "task-topology"
    args_type = TaskTopologyArgs

    def open(self, ssn: CycleContext) -> None:
        """Assign the tasks of waiting jobs that declare a topology to buckets."""
        self._jobs: dict[str, JobTopology] = {}
        for job in ssn.world.with_pending.values():
            notes = job.group.metadata.annotations if job.group is not None else None
            if not notes or not (AFFINITY in notes or ANTI_AFFINITY in notes or TASK_ORDER in notes):
                continue
            topology = read_topology(notes, {task.role for task in job.tasks.values() if task.role})
            if topology is not None:
                self._jobs[job.key] = JobTopology(job, topology, ssn.world.nodes.names)

    def _find(self, task: Task) -> tuple[JobTopology | None, Bucket | None]:
        known = self._jobs.get(task.job.key) if task.job is not None else None
        return known, known.bucket_of.get(task.key) if known is not None else None

    def task_order(self, task: Task) -> tuple[bool, int, int, int, int]:
        """Tasks in buckets first, those of the largest bucket first, its most constrained first."""
        known, bucket = self._find(task)
        if known is None or bucket is None:
            return True, 0, 0, 0, 0
        rules = known.topology
        return False, -len(bucket.waiting), bucket.index, -rules.order.get(task.role, 0), -rules.priority(task.role)

    def watches_pods(self, task: Task) -> bool:
        """Whether the task is in a bucket."""
        return bool(self._jobs) and self._find(task)[1] is not None

    def score_task(self, task: Task, nodes: NodeTable, rows: Rows) -> FloatArray | None:
        """How much of the task's bucket is, or can be, on each node."""
        known, bucket = self._find(task)
        if known is None or bucket is None or not known.largest:
            return None
        free = nodes.idle[rows] + nodes.releasing[rows]
        there = np.array([bucket.bound.get(row, 0) for row in rows.tolist()], np.float64)
        for row, counts in known.placed.items():
            there[rows == row] -= known.topology.avoided(task.role, counts)
        points: FloatArray = there + float(len(bucket.waiting)) - must_wait(task, bucket, free)
        points[(free < task.cls.request).any(axis=1)] = 0.0
        scaled: FloatArray = points * (self.args.weight * 100.0 / known.largest)
        return scaled

    def on_place(self, job: Job | None, tasks: Sequence[Task]) -> None:
        """Note where tasks of buckets are."""
        known = self._jobs.get(job.key) if job is not None else None
        if known is not None:
            for task in tasks:
                known.place(task)


def must_wait(task: Task, bucket: Bucket, free: Vector) -> FloatArray:
    """Return per row of ``free`` how many other waiting tasks of the bucket do not fit beside the task."""
    others = [t.cls.request for key, t in bucket.waiting.items() if key != task.key]
    left = bucket.request - np.cumsum([np.zeros_like(bucket.request), *others], axis=0)
    out = np.zeros(len(free), np.int64)
    for column in np.nonzero(bucket.request > 0)[0]:
        # `left` falls with each task that is left out; searchsorted needs it ascending, hence reversed
        fitting = np.searchsorted(left[::-1, column], free[:, column], side="right")
        out = np.maximum(out, np.minimum(len(left) - fitting, len(left) - 1))
    return out.astype(np.float64)
