"""Whether the pods of an incomplete gang are still being created: until they stall, there is nothing to report of them.

The controller takes a while for a gang of a thousand pods, and meanwhile each look at it finds "not enough pods" with
other numbers. A gang has stalled when no pod came for two seconds, or for twice as long as its pods took before; and
while pods of other gangs come, it may merely have to wait for its turn, so that much longer.
"""

from __future__ import annotations

from strato.scheduler.model.counts import Growth
from strato.scheduler.model.jobs import Job

_STALL_SECONDS = 2.0
"""A busy API server lets a controller wait this long between two pods."""
_LONGEST_SECONDS = 30.0
_GAPS = 2.0
"""Times the longest wait between two looks that found new pods."""


class GrowthTracker:
    """Follows the number of pods of incomplete gangs."""

    def __init__(self) -> None:
        self._last = float("-inf")
        """When any of them grew."""

    def look(self, job: Job, now: float) -> None:
        """Note how many pods a gang has now."""
        known, count = job.growth, len(job.tasks)
        if is_complete(job):
            job.growth = None
        elif known is None or known.uid != job.uid:
            job.growth, self._last = Growth(job.uid, count, now), now
        elif count > known.pods:
            job.growth, self._last = Growth(job.uid, count, now, max(known.longest_gap, now - known.since)), now
        else:
            job.growth = known._replace(pods=count)  # one that went and comes again is news

    def stalled_at(self, job: Job) -> float:
        """Return when the gang counts as stalled if nothing comes; minus infinity when it is complete."""
        known = job.growth
        if known is None or is_complete(job):
            return float("-inf")
        at = max(known.since + max(_STALL_SECONDS, _GAPS * known.longest_gap), self._last + _STALL_SECONDS)
        return min(at, known.since + _LONGEST_SECONDS)


def is_complete(job: Job) -> bool:
    """Whether a job has the pods it needs to begin; a job without a group needs none."""
    return job.group is None or len(job.tasks) >= job.min_available
