"""Elastic jobs and checkpoints: how fast a job is with some of its members, and what of its work an eviction leaves."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from strato.sim.models import PodStart, RunningJob
from strato.sim.traces import TraceJob


@dataclass(frozen=True, slots=True, kw_only=True)
class Elastic:
    """Speed by the number of members that run, relative to all of them.

    A part of the work that only one member does makes few members faster than their share (Amdahl). A table of measured
    speeds by application takes its place; between its entries lines are drawn, beyond them the last is taken.
    """

    serial_ratio: float = 0.0
    """Part of the run time with all members in which only one works. Range [0, 1]."""
    speed_of: Mapping[str, Mapping[int, float]] = field(default_factory=dict)
    """By application: number of members → speed, in any unit."""

    @property
    def sees_neighbours(self) -> bool:
        """It does not."""
        return False

    def rate(self, running: RunningJob) -> float:
        """Return the speed of those that run, relative to that of all replicas."""
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
        """Return 0."""
        return 0.0

    def kept_seconds(self, job: TraceJob, done_seconds: float) -> float:
        """Return all of it."""
        return done_seconds


def interpolated(speeds: Mapping[int, float], members: int) -> float:
    """Return a speed between those of a table; through the origin below its first entry."""
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
    """Work is saved at intervals; an eviction loses what was done since, and the restart reads it back."""

    interval_seconds: float
    """Of work between two checkpoints; 0 never saves."""
    cost_seconds: float = 0.0
    """Of each checkpoint, in which nothing else is done."""
    restore_seconds: float = 0.0
    """Of a start that is not the first."""

    @property
    def sees_neighbours(self) -> bool:
        """It does not."""
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
        """Return what was done at the last checkpoint."""
        if not self.interval_seconds:
            return 0.0
        return min(done_seconds, math.floor(done_seconds / self.interval_seconds) * self.interval_seconds)
