"""What elastic jobs run with beyond their minimum: every action that evicts takes it before the pods of others.

One pass over what is given back goes before the pass over everybody, on whichever nodes it is; where no group is
marked as elastic there is no such pass.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property

from strato.scheduler.model.jobs import Job, Task
from strato.scheduler.session import Session


class Surplus:
    """Where it is, at any moment of an action.

    Args:
        ssn: The session; which of its jobs are elastic is found once.
    """

    def __init__(self, ssn: Session) -> None:
        self._world = ssn.world

    @cached_property
    def _elastic(self) -> Sequence[Job]:
        return [job for job in self._world.jobs.values() if job.gives_back]

    @property
    def is_there(self) -> bool:
        """Whether any job runs with more than its minimum, and gives that back."""
        return any(job.has_surplus for job in self._elastic)

    def rows(self) -> set[int]:
        """Return the nodes that pods of such jobs are on."""
        tasks = (task for job in self._elastic if job.has_surplus for task in job.tasks.values())
        return {task.row for task in tasks if task.row >= 0 and task.preemptable}


def is_given_back(task: Task) -> bool:
    """Whether a pod is of a job that gives back."""
    return task.job is not None and task.job.has_surplus


def given_back(candidates: Iterable[Task]) -> list[Task]:
    """Return those of elastic jobs that run with more than their minimum."""
    return [task for task in candidates if is_given_back(task)]
