"""Models of speed by GPU model and beside jobs on the same node, by measured throughputs (Gavel, OSDI 2020)."""

from __future__ import annotations

from dataclasses import dataclass

from strato.scheduler.plugins.throughputs import JobKind, Throughputs
from strato.sim.models import PodStart, RunningJob
from strato.sim.traces import TraceJob


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuSpeed:
    """Speed of a job on the GPUs of its nodes, relative to the GPUs on which the trace was recorded."""

    throughputs: Throughputs
    recorded_on: str
    """GPU model on which the trace was recorded."""
    label: str
    """Label of nodes whose value, in lower case, is their GPU model in ``throughputs``."""

    @property
    def sees_neighbours(self) -> bool:
        """False, as `rate` reads no neighbours."""
        return False

    def rate(self, running: RunningJob) -> float:
        """Return the speed of the slowest member, as training waits for it; 1 for GPUs that were not measured."""
        kind = JobKind(running.job.application, running.job.replicas)
        recorded = self.throughputs.on(self.recorded_on, kind)
        if not recorded:
            return 1.0
        rates = []
        for row in set(running.nodes):
            model = running.labels.get(row, {}).get(self.label, "").lower()
            found = self.throughputs.alone.get(model, {}).get(kind)
            rates.append(1.0 if found is None else found / recorded)
        return min(rates, default=0.0)

    def start_seconds(self, start: PodStart) -> float:
        """Return 0, as this model delays no start."""
        return 0.0

    def kept_seconds(self, job: TraceJob, done_seconds: float) -> float:
        """Return ``done_seconds``, as this model loses no work."""
        return done_seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class CoLocation:
    """Slow-down of jobs that run on the same node."""

    throughputs: Throughputs
    model: str
    """GPU model whose measured throughputs are used."""
    unknown_rate: float = 1.0
    """Rate of a job beside one with which it was not measured. Range (0, 1]."""

    @property
    def sees_neighbours(self) -> bool:
        """True, as `rate` reads the neighbours."""
        return True

    def rate(self, running: RunningJob) -> float:
        """Return the rate beside the worst neighbour of any member, as the other members wait for that one."""
        mine = JobKind(running.job.application, running.job.replicas)
        alone = self.throughputs.on(self.model, mine)
        beside = self.throughputs.beside.get(self.model, {})
        worst = 1.0
        for neighbour in running.neighbours:
            if not neighbour.shared_pods:
                continue
            other = JobKind(neighbour.job.application, neighbour.job.replicas)
            together = beside.get((mine, other), 0.0)
            worst = min(worst, together / alone if together and alone else self.unknown_rate)
        return min(worst, 1.0)

    def start_seconds(self, start: PodStart) -> float:
        """Return 0, as this model delays no start."""
        return 0.0

    def kept_seconds(self, job: TraceJob, done_seconds: float) -> float:
        """Return ``done_seconds``, as this model loses no work."""
        return done_seconds
