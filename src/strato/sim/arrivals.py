"""When the jobs of a trace are submitted: at their time, but not before the jobs in their ``after`` have succeeded."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence

from strato.sim.rest import instant
from strato.sim.traces import TraceJob


class Arrivals:
    """The jobs of a trace that are still to be submitted.

    Args:
        jobs: The trace's jobs, with distinct names. Methods speak of a job by its row, its index in here.
    """

    def __init__(self, jobs: Sequence[TraceJob]) -> None:
        self._jobs = jobs
        self._due: list[tuple[float, int]] = []
        self._lacks: dict[int, set[str]] = {}
        self._dependants: dict[str, list[int]] = {}
        for row, job in enumerate(jobs):
            if not job.after:
                self._due.append((instant(job.submit_seconds), row))
                continue
            self._lacks[row] = set(job.after)
            for name in self._lacks[row]:
                self._dependants.setdefault(name, []).append(row)
        heapq.heapify(self._due)

    @property
    def next_at(self) -> float | None:
        """When the next job is submitted; None when none is left, or all that are left wait for the end of others."""
        return self._due[0][0] if self._due else None

    def take(self, now: float) -> list[int]:
        """Return the rows of the jobs that are submitted by now, and count them as submitted."""
        rows = []
        while self._due and self._due[0][0] <= now:
            rows.append(heapq.heappop(self._due)[1])
        return rows

    def ended(self, name: str, at: float, *, failed: bool) -> None:
        """Record that a job has ended. Jobs that waited for it alone become due, unless it failed."""
        if failed or not self._dependants:
            return
        for row in self._dependants.pop(name, ()):
            lacks = self._lacks[row]
            lacks.discard(name)
            if not lacks:
                del self._lacks[row]
                heapq.heappush(self._due, (max(at, instant(self._jobs[row].submit_seconds)), row))

    def reasons(self) -> Mapping[int, str]:
        """Return why jobs were never submitted, by row."""
        known = {job.name for job in self._jobs} if self._lacks else set()
        return {row: _reason(lacks, known) for row, lacks in self._lacks.items()}


def _reason(lacks: set[str], known: set[str]) -> str:
    absent = sorted(lacks - known)
    if absent:
        return f"it comes after {', '.join(absent)}, which the trace does not have"
    return f"it comes after {', '.join(sorted(lacks))}, which did not end well"
