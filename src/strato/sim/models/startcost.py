"""Model of the start delay of pods: an image pull, if the node lacks the image, and a random time until they work."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random

from strato.sim.models import PodStart, RunningJob
from strato.sim.traces import TraceJob


@dataclass(frozen=True, slots=True, kw_only=True)
class StartCost:
    """Time between a pod's bind and its work; the same for the same pod, attempt and seed."""

    pull_seconds: float = 0.0
    """Time to pull an image to a node that does not have it."""
    pull_seconds_of: Mapping[str, float] = field(default_factory=dict)
    """Application → its time to pull, in place of `pull_seconds`."""
    median_seconds: float = 0.0
    """Median of the time to start, after the pull."""
    spread: float = 0.0
    """Standard deviation of its logarithm: 0 is always the median, 0.5 has nine in ten within a factor of 2.3."""
    most_seconds: float = math.inf
    seed: int = 0

    @property
    def sees_neighbours(self) -> bool:
        """False, as `rate` reads no neighbours."""
        return False

    def rate(self, running: RunningJob) -> float:
        """Return 1, as this model does not change the speed."""
        return 1.0

    def start_seconds(self, start: PodStart) -> float:
        """Return the sum of the time to pull, if any, and a draw from a log-normal distribution."""
        job = start.job
        pull = self.pull_seconds_of.get(job.application, self.pull_seconds) if start.first_on_node else 0.0
        if not self.median_seconds or not self.spread:
            return pull + min(self.median_seconds, self.most_seconds)
        random = Random(f"{self.seed}/{job.name}/{start.pod}/{start.attempt}")
        drawn = self.median_seconds * math.exp(self.spread * random.gauss(0.0, 1.0))
        return pull + min(drawn, self.most_seconds)

    def kept_seconds(self, job: TraceJob, done_seconds: float) -> float:
        """Return ``done_seconds``, as this model loses no work."""
        return done_seconds
