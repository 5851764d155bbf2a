"""`Starving`: the jobs of one queue that may take from others, where one of each crowd stands for those like it.

Asking a job may mean to look at every node and whom to evict there; a long queue of equals would look again and again
and find the same. When one of a crowd is refused and nothing moved meanwhile, those like it would be refused as well,
one after the other. As soon as anything moves, the next of each crowd in the order is asked; see `scheduler.backlog`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Any

from strato.scheduler.actions.placing import can_try
from strato.scheduler.model.jobs import Job
from strato.scheduler.ordering.backlog import Crowd, Room

if TYPE_CHECKING:
    from strato.scheduler.session import Session

_Key = tuple[Any, ...]
_Entry = tuple[_Key, Job, Crowd | None]
"""Whose turn it is in an order; a job of a crowd stands with it. No two keys are the same."""


class Starving:
    """Starving jobs of one queue.

    Args:
        ssn: The session.
        room: Where refused jobs are kept between cycles; None when none are.

    Attributes:
        jobs: All of them, in the order in which the world learnt that they wait.
    """

    def __init__(self, ssn: Session, room: Room | None) -> None:
        self._ssn = ssn
        self._room = room
        self._loose: list[Job] = []
        self._crowds: dict[Crowd, None] = {}
        self.jobs: list[Job] = []

    def add(self, job: Job, crowd: Crowd | None) -> None:
        """Take a job in, with the crowd it is in."""
        self.jobs.append(job)
        if crowd is None:
            self._loose.append(job)
        else:
            self._crowds[crowd] = None

    def in_order(self) -> Iterator[Job]:
        """Yield jobs in the plugins' order as it stands at the call; who asks for the next one is done with the last.

        Those of a crowd are passed over while nothing has moved since one of them had its turn.
        """
        ssn = self._ssn
        heap: list[_Entry] = [(ssn.job_key(job), job, None) for job in self._loose]
        keys = {crowd: ssn.job_plugin_key(crowd.waiters[0].job) for crowd in self._crowds}
        for crowd, key in keys.items():
            heap.append(((*key, *crowd.waiters[0].order), crowd.waiters[0].job, crowd))
        heapify(heap)
        return self._turns(heap, keys)

    def _turns(self, heap: list[_Entry], keys: dict[Crowd, _Key]) -> Iterator[Job]:
        refused: list[Crowd] = []
        while heap:
            place, job, crowd = heappop(heap)
            self._call(job, crowd)
            before = self._moves()
            yield job
            if crowd is not None:
                refused.append(crowd)
            if self._moves() == before:
                continue
            for waiting in refused:  # the next after this place, if there is one
                key = keys[waiting]
                at = bisect_right(waiting.waiters, place, key=lambda waiter, key=key: (*key, *waiter.order))  # type: ignore[misc] # mypy cannot infer a lambda with a default
                if at < len(waiting.waiters):
                    waiter = waiting.waiters[at]
                    heappush(heap, ((*key, *waiter.order), waiter.job, waiting))
            refused = []

    def as_known(self) -> Iterator[Job]:
        """Yield jobs like `in_order`, but in the order of ``jobs``."""
        room = self._room
        if room is None:
            yield from self.jobs
            return
        refused: set[Crowd] = set()
        for job in self.jobs:
            waiter = room.waiters.get(job.key)
            # whom this session gave or took something is not like the others any more
            crowd = waiter.crowd if waiter is not None and job.key not in self._ssn.world.stirred else None
            if crowd in refused:
                continue
            self._call(job, crowd)
            before = self._moves()
            yield job
            if self._moves() != before:
                refused = set()
            elif crowd is not None:
                refused.add(crowd)

    def _call(self, job: Job, crowd: Crowd | None) -> None:
        if crowd is not None and self._room is not None:
            self._room.call(self._ssn, job)

    def _moves(self) -> tuple[int, int]:
        return self._ssn.world.version, len(self._ssn.plan.failures)


def starving_jobs(ssn: Session, *, skip_topology: bool) -> dict[str, Starving]:
    """Return the starving jobs by queue; of a crowd one is asked whether it starves."""
    out: dict[str, Starving] = {}
    room = ssn.room("pending")
    starve: dict[Crowd, bool] = {}
    for job in ssn.world.with_pending.values():
        waiter = room.waiters.get(job.key) if room is not None else None
        crowd = waiter.crowd if waiter is not None else None
        if crowd is None or crowd not in starve:
            starves = _starves(ssn, job, skip_topology)
            if crowd is not None:
                starve[crowd] = starves
        else:
            starves = starve[crowd]
        if starves:
            found = out.get(job.queue_name)
            if found is None:
                found = out[job.queue_name] = Starving(ssn, room)
            found.add(job, crowd)
    return out


def _starves(ssn: Session, job: Job, skip_topology: bool) -> bool:
    if job.is_waiting_for_queue or job.queue is None or job.queue.view is None or not can_try(ssn, job):
        return False
    if skip_topology and job.layout is not None and job.layout.topological:
        return False
    return ssn.job_starving(job)
