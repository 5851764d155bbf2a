"""Models of elastic jobs (speed by number of running members) and of checkpoints (work that an eviction loses)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from strato.sim.models import PodStart, RunningJob
from strato.sim.traces import TraceJob


@dataclass(frozen=True, slots=True, kw_only=True)
class Elastic:
    """Speed of a job by the number of its running members, relative to the speed with all.

    By Amdahl's law: one member alone does a part of the work, so few members are faster than their number suggests. An
    application with a table of measured speeds takes these: linear between the entries, constant beyond the last.
    """

    serial_ratio: float = 0.0
    """Part of the run time, with all members, in which only one member works. Range [0, 1]."""
    speed_of: Mapping[str, Mapping[int, float]] = field(default_factory=dict)
    """Application → number of members → measured speed, in any unit."""

    @property
    def sees_neighbours(self) -> bool:
        """False, as `rate` reads no neighbours."""
        return False

    def rate(self, running: RunningJob) -> float:
        """Return the speed with the running members, relative to that with all replicas."""
        job, members = running.job, len(running.nodes)
        if members == 0:
            return 0.0
        if members >= job.replicas:
            return 1.0
        speeds = self.speed_of.get(job.application)
        if speeds:
            return interpolated(speeds, members) / interpolated(speeds, job.replicas)
        return 1.0 / (self.serial_ratio + (1.0 - self.serial_ratio) * job.replicas / members)

    def start_seconds(self, start: PodStart) -> float:
        """Return 0, as this model delays no start."""
        return 0.0

    def kept_seconds(self, job: TraceJob, done_seconds: float) -> float:
        """Return ``done_seconds``, as this model loses no work."""
        return done_seconds


def interpolated(speeds: Mapping[int, float], members: int) -> float:
    """Return the speed for a number of members, linear between a table's entries and from 0 to its first."""
    known = sorted(speeds)
    if members <= known[0]:
        return speeds[known[0]] * members / known[0]
    for low, high in pairwise(known):
        if members <= high:
            part = (members - low) / (high - low)
            return speeds[low] + part * (speeds[high] - speeds[low])
    return speeds[known[-1]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoints:
    """Jobs save their work at intervals; an eviction loses the work since the last checkpoint, a restart reads it."""

    interval_seconds: float
    """Work between two checkpoints, in seconds; 0 saves never."""
    cost_seconds: float = 0.0
    """Time to save a checkpoint, in which no work is done."""
    restore_seconds: float = 0.0
    """Time to read the checkpoint at each start but the first."""

    @property
    def sees_neighbours(self) -> bool:
        """False, as `rate` reads no neighbours."""
        return False

    def rate(self, running: RunningJob) -> float:
        """Return the part of the time that is not spent on saving."""
        if not self.interval_seconds:
            return 1.0
        return self.interval_seconds / (self.interval_seconds + self.cost_seconds)

    def start_seconds(self, start: PodStart) -> float:
        """Return the time to read the checkpoint back."""
        return self.restore_seconds if start.attempt and self.interval_seconds else 0.0

    def kept_seconds(self, job: TraceJob, done_seconds: float) -> float:
        """Return the work done until the last checkpoint."""
        if not self.interval_seconds:
            return 0.0
        return min(done_seconds, math.floor(done_seconds / self.interval_seconds) * self.interval_seconds)
