"""`GrowthTracker`: tells whether an incomplete gang's pods are still being created, so that reports on it wait.

The controller needs a while for a gang of a thousand pods, and meanwhile each cycle finds "not enough pods" with other
numbers. A gang has stalled when no pod has arrived for two seconds, or for twice the longest gap between its pods
before. While pods of other gangs arrive, the controller may create those first, so a gang stalls two seconds after them
at the earliest, but at most 30 seconds after its own last pod.
"""

from __future__ import annotations

from strato.scheduler.model.counts import Growth
from strato.scheduler.model.jobs import Job

_STALL_SECONDS = 2.0
"""The least time; a controller may wait this long for a busy API server between two pods."""
_LONGEST_SECONDS = 30.0
_GAPS = 2.0
"""Factor on the longest gap between two cycles that found new pods."""


class GrowthTracker:
    """Follows the number of pods of incomplete gangs."""

    def __init__(self) -> None:
        self._last = float("-inf")
        """When any of these gangs last got a pod."""

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
            job.growth = known._replace(pods=count)  # fewer pods: one that is created again counts as growth

    def stalled_at(self, job: Job) -> float:
        """Return when the gang counts as stalled if no pod arrives before; minus infinity when it is complete."""
        known = job.growth
        if known is None or is_complete(job):
            return float("-inf")
        at = max(known.since + max(_STALL_SECONDS, _GAPS * known.longest_gap), self._last + _STALL_SECONDS)
        return min(at, known.since + _LONGEST_SECONDS)


def is_complete(job: Job) -> bool:
    """Whether a job has the pods it needs to begin; a job without a group needs none."""
    return job.group is None or len(job.tasks) >= job.min_available
