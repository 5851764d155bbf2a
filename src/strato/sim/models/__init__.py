"""Performance models: how fast a job runs where its pods are, what a start costs, what an eviction loses.

A trace gives one run time per job: what it took on the machine it was recorded on. An experiment may switch on models
that change it. The engine asks them whenever a job's pods, nodes or neighbours change; models keep nothing between
calls, so that the same decisions take the same time.
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
    """Pods of the job in question that run on a node together with it."""


@dataclass(frozen=True, slots=True)
class RunningJob:
    """A job some of whose pods run."""

    job: TraceJob
    nodes: tuple[int, ...]
    """Row of the node of each running pod; its length is the number of running pods."""
    labels: Mapping[int, Mapping[str, str]] = field(default_factory=dict)
    """Row of a node → its labels; a row without any may be absent."""
    neighbours: tuple[Neighbour, ...] = ()
    """Filled in only for a model that `sees_neighbours`."""


@dataclass(frozen=True, slots=True)
class PodStart:
    """A pod that was just bound."""

    job: TraceJob
    pod: int
    """Its number within its job, from 0."""
    attempt: int
    """How often it was started before, from 0."""
    first_on_node: bool
    """Whether no pod of its application was on the node before, so that its image must be pulled."""


class PerformanceModel(Protocol):
    """What the engine asks. Every method is pure: equal arguments, equal answer."""

    @property
    def sees_neighbours(self) -> bool:
        """Whether `rate` reads `RunningJob.neighbours`; the engine then asks again when they change."""

    def rate(self, running: RunningJob) -> float:
        """Return the seconds of the trace's run time that pass in one second; 1 is as recorded, 0 stands still."""

    def start_seconds(self, start: PodStart) -> float:
        """Return the time from a pod's bind to the beginning of its work, at least 0."""

    def kept_seconds(self, job: TraceJob, done_seconds: float) -> float:
        """Return how much of the work done survives when its job is evicted, in [0, ``done_seconds``]."""


class Combined:
    """Several models as one: rates multiply, starts add up, the least that any keeps is kept."""

    def __init__(self, models: Sequence[PerformanceModel]) -> None:
        self._models = tuple(models)

    @property
    def sees_neighbours(self) -> bool:
        """Whether any does."""
        return any(model.sees_neighbours for model in self._models)

    def rate(self, running: RunningJob) -> float:
        """Return the product."""
        product = 1.0
        for model in self._models:
            product *= model.rate(running)
        return product

    def start_seconds(self, start: PodStart) -> float:
        """Return the sum."""
        return sum(model.start_seconds(start) for model in self._models)

    def kept_seconds(self, job: TraceJob, done_seconds: float) -> float:
        """Return the least."""
        return min((model.kept_seconds(job, done_seconds) for model in self._models), default=done_seconds)
