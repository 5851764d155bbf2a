"""Whether the pods of an incomplete gang are still coming: then there is nothing to tell its pods yet.

A gang of a thousand pods takes its controller a while, and in that time each look at it says "not enough pods" with
other numbers. What users want to hear is that it stalled. It did when nothing came for two seconds, or for twice as
long as its pods took before; and while pods of other gangs come, it may merely have to wait for its turn, so that much
longer.
"""

from __future__ import annotations

from dataclasses import dataclass

from strato.scheduler.cache.jobs import Job

_STALL_SECONDS = 2.0
"""A busy API server lets a controller wait this long between two pods."""
_LONGEST_SECONDS = 30.0
_GAPS = 2.0
"""Times the longest wait between two looks that found new pods."""
_REMEMBERED = 10_000


@dataclass(slots=True)
class _Growth:
    """How a gang's pods came."""

    uid: str
    count: int
    since: float
    longest: float = 0.0


class Arrivals:
    """Follows the number of pods of incomplete gangs; instants are monotonic seconds."""

    def __init__(self) -> None:
        self._growth: dict[str, _Growth] = {}
        self._last = float("-inf")
        """When any of them grew."""

    def look(self, job: Job, now: float) -> None:
        """Note how many pods a gang has now."""
        if is_complete(job):
            self._growth.pop(job.key, None)
            return
        known = self._growth.get(job.key)
        count = len(job.tasks)
        if known is None or known.uid != job.uid:
            self._growth[job.key] = _Growth(job.uid, count, now)
            self._last = now
        elif count > known.count:
            known.longest = max(known.longest, now - known.since)
            known.count, known.since, self._last = count, now, now
        else:
            known.count = count  # one that went and comes again is news

    def settled_at(self, job: Job) -> float:
        """Return when the gang counts as stalled if nothing comes; minus infinity when it is complete."""
        known = self._growth.get(job.key)
        if known is None or is_complete(job):
            return float("-inf")
        at = max(known.since + max(_STALL_SECONDS, _GAPS * known.longest), self._last + _STALL_SECONDS)
        return min(at, known.since + _LONGEST_SECONDS)

    def forget(self, known: dict[str, Job]) -> None:
        """Drop what is not among the known jobs, once there is much."""
        if len(self._growth) > 2 * len(known) + _REMEMBERED:
            self._growth = {key: growth for key, growth in self._growth.items() if key in known}


def is_complete(job: Job) -> bool:
    """Whether a job has the pods it needs to begin; a job without a group needs none."""
    return job.group is None or len(job.tasks) >= job.min_available
