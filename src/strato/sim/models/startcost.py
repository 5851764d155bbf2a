"""What a pod's start costs: pulling its image where it is not yet, and a time until it works, from a distribution."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random

from strato.sim.models import PodStart, RunningJob
from strato.sim.traces import TraceJob


@dataclass(frozen=True, slots=True, kw_only=True)
class StartCost:
    """Seconds between a pod's bind and its work; the same pod of the same seed always takes the same time."""

    pull_seconds: float = 0.0
    """To pull an image to a node that has not had it."""
    pull_seconds_of: Mapping[str, float] = field(default_factory=dict)
    """By application, in place of `pull_seconds`."""
    median_seconds: float = 0.0
    """Median of the time to start."""
    spread: float = 0.0
    """Standard deviation of its logarithm: 0 is always the median, 0.5 has nine in ten within a factor of 2.3."""
    most_seconds: float = math.inf
    seed: int = 0

    @property
    def sees_neighbours(self) -> bool:
        """It does not."""
        return False

    def rate(self, running: RunningJob) -> float:
        """Return 1: what runs, runs as recorded."""
        return 1.0

    def start_seconds(self, start: PodStart) -> float:
        """Return the pull, if any, and a draw from a log-normal distribution."""
        job = start.job
        pull = self.pull_seconds_of.get(job.application, self.pull_seconds) if start.first_on_node else 0.0
        if not self.median_seconds or not self.spread:
            return pull + min(self.median_seconds, self.most_seconds)
        random = Random(f"{self.seed}/{job.name}/{start.pod}/{start.attempt}")
        drawn = self.median_seconds * math.exp(self.spread * random.gauss(0.0, 1.0))
        return pull + min(drawn, self.most_seconds)

    def kept_seconds(self, job: TraceJob, done_seconds: float) -> float:
        """Return all of it."""
        return done_seconds
