"""Tasks of elastic jobs beyond their minimum: every action that evicts takes these before other pods.

An action first looks for victims among these tasks alone, on all nodes, and then among all pods. It skips the first
pass if no PodGroup is marked as elastic.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property

from strato.scheduler.model.jobs import Job, Task
from strato.scheduler.session import Session


class Surplus:
    """The surplus tasks at any time during an action.

    Args:
        ssn: The session; its elastic jobs are looked up once.
    """

    def __init__(self, ssn: Session) -> None:
        self._world = ssn.world

    @cached_property
    def _elastic(self) -> Sequence[Job]:
        return [job for job in self._world.jobs.values() if job.gives_back]

    @property
    def is_there(self) -> bool:
        """Whether any elastic job has more tasks than its minimum."""
        return any(job.has_surplus for job in self._elastic)

    def rows(self) -> set[int]:
        """Return the rows of preemptable tasks of such jobs."""
        tasks = (task for job in self._elastic if job.has_surplus for task in job.tasks.values())
        return {task.row for task in tasks if task.row >= 0 and task.preemptable}


def is_given_back(task: Task) -> bool:
    """Whether a task is of an elastic job with more tasks than its minimum."""
    return task.job is not None and task.job.has_surplus


def given_back(candidates: Iterable[Task]) -> list[Task]:
    """Return the candidates of which `is_given_back` holds."""
    return [task for task in candidates if is_given_back(task)]
