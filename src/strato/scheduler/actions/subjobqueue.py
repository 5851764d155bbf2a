"""The queue of a job's sub-jobs with tasks to place, in order (spec volcano-actions 2.1)."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Any

from strato.scheduler.actions.placing import TasksToPlace
from strato.scheduler.model.jobs import Job, SubJob, Task

if TYPE_CHECKING:
    from strato.scheduler.session import Session

_Entry = tuple[bool, Any, SubJob]


class SubJobQueue:
    """The sub-jobs of a job that have tasks to place; those that its policies' minima require come first.

    Args:
        ssn: The session, whose plugins order them.
        job: A job with a layout.
        wanted: Which pending tasks count.
    """

    def __init__(self, ssn: Session, job: Job, wanted: Callable[[Task], bool]) -> None:
        self._ssn = ssn
        self._required = required_parts(ssn, job)
        self._heap: list[_Entry] = []
        self.work: dict[str, TasksToPlace] = {}
        assert job.layout is not None
        for sub in job.layout.subs.values():
            tasks = [task for task in sub.pending() if wanted(task)]
            if tasks:
                self.work[sub.key] = TasksToPlace(ssn.sorted_tasks(tasks))
                self._heap.append(self._entry(sub))
        heapify(self._heap)

    def __bool__(self) -> bool:
        return bool(self._heap)

    def _entry(self, sub: SubJob) -> _Entry:
        return sub.key not in self._required, self._ssn.sub_job_key(sub), sub

    def pop(self) -> SubJob:
        """Remove and return the next sub-job."""
        return heappop(self._heap)[2]

    def push(self, sub: SubJob) -> None:
        """Put a sub-job back that has tasks left."""
        heappush(self._heap, self._entry(sub))

    def copy(self) -> SubJobQueue:
        """Return a copy that is worked off independently."""
        twin = object.__new__(SubJobQueue)
        twin._ssn, twin._required = self._ssn, self._required
        twin._heap = list(self._heap)
        twin.work = {key: work.copy() for key, work in self.work.items()}
        return twin


def required_parts(ssn: Session, job: Job) -> frozenset[str]:
    """Return the sub-jobs that must still become ready for their policies' minima."""
    assert job.layout is not None
    ready: dict[str, int] = {}
    waiting: list[SubJob] = []
    for sub in job.layout.subs.values():
        if ssn.sub_job_ready(sub):
            ready[sub.policy] = ready.get(sub.policy, 0) + 1
        else:
            waiting.append(sub)
    out = set()
    for sub in sorted(waiting, key=ssn.sub_job_key):
        if ready.get(sub.policy, 0) < job.layout.minimum.get(sub.policy, 0):
            out.add(sub.key)
            ready[sub.policy] = ready.get(sub.policy, 0) + 1
    return frozenset(out)
