"""Performance models: give the speed of a job by the placement of its pods, its start delay, and its loss on eviction.

A trace gives each job one run time, as on the cluster where it was recorded. An experiment may name models that change
it. `WorkClock` calls them whenever a job's pods, nodes or neighbours change. Models keep no state between calls, so
equal decisions give equal run times.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from strato.sim.traces import TraceJob

__all__ = ["Combined", "Neighbour", "PerformanceModel", "PodStart", "RunningJob"]


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A job with a pod on a node of the job in question."""

    job: TraceJob
    shared_pods: int
    """Number of pods of the job in question that have a pod of this job on their node."""


@dataclass(frozen=True, slots=True)
class RunningJob:
    """A job with at least one running pod."""

    job: TraceJob
    nodes: tuple[int, ...]
    """The node of each running pod, as its row in the World; as long as the number of running pods."""
    labels: Mapping[int, Mapping[str, str]] = field(default_factory=dict)
    """Row of a node → its labels; nodes without labels may be absent."""
    neighbours: tuple[Neighbour, ...] = ()
    """Filled in only for a model that `sees_neighbours`."""


@dataclass(frozen=True, slots=True)
class PodStart:
    """A pod that was just bound."""

    job: TraceJob
    pod: int
    """The pod's index in its job, from 0."""
    attempt: int
    """How often the pod was started before."""
    first_on_node: bool
    """Whether no pod of its application was on the node before, so that its image must be pulled."""


class PerformanceModel(Protocol):
    """Determines run times in place of the trace. Every method is pure: equal arguments give equal answers."""

    @property
    def sees_neighbours(self) -> bool:
        """Whether `rate` reads `RunningJob.neighbours`; if so, `WorkClock` calls it again when they change."""

    def rate(self, running: RunningJob) -> float:
        """Return how many seconds of the trace's run time a job does in a second: 1 as recorded, 0 no progress."""

    def start_seconds(self, start: PodStart) -> float:
        """Return the time from a pod's bind to the beginning of its work, at least 0."""

    def kept_seconds(self, job: TraceJob, done_seconds: float) -> float:
        """Return how much of a job's work is kept when a pod of it is evicted, in [0, ``done_seconds``]."""


class Combined:
    """Several models as one: multiplies rates, adds start delays, and keeps the least work that any model keeps."""

    def __init__(self, models: Sequence[PerformanceModel]) -> None:
        self._models = tuple(models)

    @property
    def sees_neighbours(self) -> bool:
        """Whether any of the models reads neighbours."""
        return any(model.sees_neighbours for model in self._models)

    def rate(self, running: RunningJob) -> float:
        """Return the product of the rates."""
        product = 1.0
        for model in self._models:
            product *= model.rate(running)
        return product

    def start_seconds(self, start: PodStart) -> float:
        """Return the sum of the start delays."""
        return sum(model.start_seconds(start) for model in self._models)

    def kept_seconds(self, job: TraceJob, done_seconds: float) -> float:
        """Return the least work that any model keeps."""
        return min((model.kept_seconds(job, done_seconds) for model in self._models), default=done_seconds)
