"""First come, first served, with and without EASY backfilling, on a machine of equal processors without nodes.

This is the algorithm of the textbooks, for comparison with the plugin ``easy``, which knows nodes. When the first job
of the queue does not fit, it gets a reservation for the instant at which, by their estimates, enough running jobs will
have ended. A later job may start now if it ends before that instant, or if it needs only processors that the first job
will not need.

Source: Lifka (1995); Mu'alem and Feitelson, "Utilization, Predictability, Workloads, and User Runtime Estimates in
Scheduling the IBM SP2 with Backfilling" (2001).
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import NamedTuple


class Submitted(NamedTuple):
    """A job as the algorithm needs it."""

    submit_seconds: float
    run_seconds: float
    estimate_seconds: float
    processors: int


class _Machine:
    """The free processors and the running jobs, with their real and their estimated ends."""

    def __init__(self, processors: int) -> None:
        self.free = processors
        self._ends: list[tuple[float, int]] = []
        self._expected: dict[int, tuple[float, int]] = {}

    @property
    def next_end(self) -> float:
        return self._ends[0][0] if self._ends else float("inf")

    def start(self, number: int, job: Submitted, now: float) -> None:
        self.free -= job.processors
        heapq.heappush(self._ends, (now + job.run_seconds, number))
        self._expected[number] = now + job.estimate_seconds, job.processors

    def end_until(self, now: float) -> None:
        while self._ends and self._ends[0][0] <= now:
            _, number = heapq.heappop(self._ends)
            self.free += self._expected.pop(number)[1]

    def reservation(self, wanted: int, now: float) -> tuple[float, int]:
        """Return when so many processors will be free by estimates, and how many more than these will be free then."""
        free, shadow = self.free, float("inf")
        for end, processors in sorted((max(end, now), count) for end, count in self._expected.values()):
            if end > shadow:
                break
            free += processors
            if free >= wanted:
                shadow = end  # goes on, as processors of further jobs that end at this instant are spare
        return shadow, max(0, free - wanted)


def waits(jobs: Sequence[Submitted], processors: int, *, backfill: bool) -> list[float]:
    """Return how long each job waits.

    Args:
        jobs: The jobs, ordered by submission; each fits on the machine.
        processors: Number of processors of the machine.
        backfill: Whether later jobs may start before the first one if they do not delay it.
    """
    machine, queue, waited = _Machine(processors), list[int](), [0.0] * len(jobs)
    arrived, now = 0, 0.0
    while arrived < len(jobs) or queue:
        next_submit = jobs[arrived].submit_seconds if arrived < len(jobs) else float("inf")
        now = max(now, min(next_submit, machine.next_end))
        machine.end_until(now)
        while arrived < len(jobs) and jobs[arrived].submit_seconds <= now:
            queue.append(arrived)
            arrived += 1
        for number in _started(machine, queue, jobs, now, backfill=backfill):
            waited[number] = now - jobs[number].submit_seconds
    return waited


def _started(
    machine: _Machine, queue: list[int], jobs: Sequence[Submitted], now: float, *, backfill: bool
) -> list[int]:
    """Start the jobs that may start now, and remove them from the queue; return their numbers."""
    started = []
    while queue and jobs[queue[0]].processors <= machine.free:
        number = queue.pop(0)
        machine.start(number, jobs[number], now)
        started.append(number)
    if not backfill or not queue:
        return started
    shadow, spare = machine.reservation(jobs[queue[0]].processors, now)
    for number in queue[1:]:
        job = jobs[number]
        ends_before = now + job.estimate_seconds <= shadow
        if job.processors > machine.free or not (ends_before or job.processors <= spare):
            continue
        if not ends_before:
            spare -= job.processors
        machine.start(number, job, now)
        started.append(number)
    passed = set(started)
    queue[:] = [number for number in queue if number not in passed]
    return started
