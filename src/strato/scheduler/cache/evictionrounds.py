"""`EvictionRounds`: a job whose evictions bring it nothing evicts ever more rarely.

Actions choose victims by one order and visit jobs by another. So the victims' successors may be placed before the job
that the pods were evicted for, and be evicted again, without end: two queues that reclaim from each other, or a gang
that is broken and placed anew before the job that broke it. A round is a cycle in which pods are evicted for a job. It
was in vain if the job holds no more tasks at its next round than it did before. The job then has to wait one second
before it evicts again, and four times as long after each further round in vain, until it holds more.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from strato.scheduler.model.jobs import Job
from strato.scheduler.model.tasks import FAILED

_FIRST_SECONDS: Final = 1.0
_FACTOR: Final = 4.0
_LONGEST_SECONDS: Final = 300.0
_LEAST_SECONDS: Final = 1e-3
"""A shorter rest of a wait counts as over: seconds since the epoch as floats are exact to microseconds only."""


class _Round(NamedTuple):
    cycle: int
    held: int
    """The most tasks that held a place, at this round or an earlier one of the same series."""
    in_vain: int
    """Rounds in a row that were in vain."""
    until: float


class EvictionRounds:
    """The last round of each job that pods were evicted for, by job key."""

    __slots__ = ("_cycle", "_rounds")

    def __init__(self) -> None:
        self._cycle = 0
        self._rounds: dict[str, _Round] = {}

    def open(self) -> None:
        """Begin a cycle."""
        self._cycle += 1

    def wait_seconds(self, job: Job, now: float) -> float:
        """Return how long a job still has to wait before it may evict; 0 when it may now."""
        last = self._rounds.get(job.key)
        if last is None or last.cycle == self._cycle or _held(job) > last.held:
            return 0.0
        left = last.until - now
        return left if _LEAST_SECONDS <= left <= _LONGEST_SECONDS else 0.0  # a longer one: the clock was set back

    def note(self, jobs: Iterable[Job], now: float) -> None:
        """Note that pods are evicted for jobs in this cycle."""
        for job in jobs:
            last, held = self._rounds.get(job.key), _held(job)
            if last is not None and last.cycle == self._cycle:
                continue
            is_in_vain = last is not None and held <= last.held and now - last.until <= _LONGEST_SECONDS
            in_vain = last.in_vain + 1 if last is not None and is_in_vain else 0
            wait = min(_FIRST_SECONDS * _FACTOR ** min(in_vain - 1, 30), _LONGEST_SECONDS) if in_vain else 0.0
            most = max(held, last.held) if last is not None and is_in_vain else held
            self._rounds[job.key] = _Round(self._cycle, most, in_vain, now + wait)

    def undo(self, key: str) -> None:
        """Forget the rounds of a job, because its last eviction did not take place or the job is gone."""
        self._rounds.pop(key, None)


def _held(job: Job) -> int:
    return job.ready + job.counts[FAILED]
