"""The worth of running a pod and the cost of evicting one, in node-hours: the unit of the action `flow`'s gains.

One node-hour is an average node kept busy for an hour with work of priority 0:

    size      the largest share of an average node that the pod asks for, over all dimensions
    weight    1 + priority; above a million in thousands; 1 / (1 - priority) below 0
    worth     size · weight: of one more hour of the pod's run
    evicting  worth · (1 + hours run, at most 1): the hour it waits and the work it does again
    moving    worth · (1/60 + hours run, at most 1): it runs on elsewhere after a minute, but from its beginning

At most one hour of lost work counts, because a pod that runs for days saves its state, or is a service that has none.
So evicting a pod costs at most twice its worth, and the priority decides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from strato.clock import parse_time
from strato.scheduler.model.jobs import Task
from strato.scheduler.model.tasks import TaskClass

if TYPE_CHECKING:
    from strato.scheduler.model.nodes import NodeTable

HOUR_SECONDS = 3600.0
RESTART_HOURS = 1 / 60
FINE_PRIORITIES = 1_000_000
"""Above this, priorities count in thousands, because Kubernetes' priorities go up to two thousand million."""


def weight(priority: int) -> float:
    """Return the weight of an hour of work of a priority; 1 at priority 0, more above, less below, never 0."""
    if priority < 0:
        return 1 / (1 - priority)
    return 1 + min(priority, FINE_PRIORITIES) + max(0, priority - FINE_PRIORITIES) / 1000


class Prices:
    """Prices of one session, in node-hours.

    Args:
        nodes: The nodes, whose average is the unit of size.
        now: Seconds since the epoch.
    """

    def __init__(self, nodes: NodeTable, now: float) -> None:
        allocatable = nodes.allocatable[: nodes.size][nodes.present[: nodes.size]].astype(np.float64)
        having = np.maximum((allocatable > 0).sum(axis=0), 1)
        self._average = np.maximum(allocatable.sum(axis=0) / having, 1.0)
        self._now = now
        self._sizes: dict[int, float] = {}

    def size(self, cls: TaskClass) -> float:
        """Return the share of an average node that a task of a class takes."""
        found = self._sizes.get(cls.number)
        if found is None:
            found = self._sizes[cls.number] = float((cls.request / self._average).max())
        return found

    def worth(self, task: Task) -> float:
        """Return what running a task for an hour is worth."""
        return self.size(task.cls) * weight(task.job.priority if task.job is not None else task.priority)

    def eviction(self, task: Task) -> float:
        """Return the cost of evicting a running task so that it waits."""
        return self.worth(task) * (1 + self._hours_run(task))

    def migration(self, task: Task) -> float:
        """Return the cost of evicting a running task so that it starts again on another node."""
        return self.worth(task) * (RESTART_HOURS + self._hours_run(task))

    def _hours_run(self, task: Task) -> float:
        text = task.pod.status.start_time
        try:
            began = parse_time(text) if text else self._now
        except ValueError:
            return 0.0
        return min(1.0, max(0.0, self._now - began) / HOUR_SECONDS)
