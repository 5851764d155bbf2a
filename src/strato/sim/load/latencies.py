"""`LatencyTracker`: when a client saw each pod of a load due, acknowledged, bound, running and ended. Pure.

All latencies count from when a submission was due, not from when it was sent. Otherwise a cluster that slows down its
clients would show better latencies (coordinated omission).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

ACKNOWLEDGED, BOUND, RUNNING, ENDED = range(4)
STAGES: Final = ("acknowledged", "bound", "running", "ended")
"""The stages of a pod, in this order; acknowledged is the server's answer to the creation of its job."""
PERCENTILES: Final = {"p50": 50.0, "p90": 90.0, "p95": 95.0, "p99": 99.0, "max": 100.0}
_ENDED_PHASES: Final = ("Succeeded", "Failed")
_LATE_SECONDS: Final = 0.05
"""A submission that is sent later than this after it was due counts as late."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """How long pods took to reach a stage, in seconds after they were due."""

    count: int
    mean: float
    percentiles: Mapping[str, float]


class LatencyTracker:
    """Follows the pods of a load."""

    def __init__(self) -> None:
        self._due: dict[str, float] = {}
        self._pods_of: dict[str, int] = {}
        self._stages: dict[tuple[str, str], list[float]] = {}
        self._acknowledged: dict[str, float] = {}
        self._counts = [0] * len(STAGES)
        self.errors: Counter[str] = Counter()
        """Reason of the API → number of creations that failed for it."""
        self.late = 0
        self.latest_seconds = 0.0
        """The longest time between when a submission was due and when it was sent."""
        self.due_pods = 0
        self.failed_pods = 0
        """Number of pods that ended as failed."""

    def begin(self, name: str, pods: int, due: float, now: float) -> None:
        """Record that a submission is sent now."""
        self._due[name] = due
        self._pods_of[name] = pods
        self.due_pods += pods
        behind = now - due
        self.late += behind > _LATE_SECONDS
        self.latest_seconds = max(self.latest_seconds, behind)

    def acknowledge(self, name: str, now: float) -> None:
        """Record that the server has answered a submission's creation."""
        self._acknowledged[name] = now
        self._counts[ACKNOWLEDGED] += self._pods_of.get(name, 0)

    def fail(self, name: str, reason: str) -> None:
        """Record that a submission's creation failed, so that its pods are not due any more."""
        self.errors[reason] += 1
        self.due_pods -= self._pods_of.pop(name, 0)

    def see(self, owner: str, pod: str, node: str, phase: str, now: float) -> None:
        """Record the stages that a pod has reached by now; ``owner`` is the name of its submission."""
        if owner not in self._due:
            return
        stages = self._stages.get((owner, pod))
        if stages is None:
            stages = self._stages[owner, pod] = [np.nan] * len(STAGES)
        ended = phase in _ENDED_PHASES
        reached = ENDED if ended else RUNNING if phase == "Running" else BOUND if node else ACKNOWLEDGED
        if ended and np.isnan(stages[ENDED]) and phase == "Failed":
            self.failed_pods += 1
        for stage in range(BOUND, reached + 1):
            if np.isnan(stages[stage]):
                stages[stage] = now
                self._counts[stage] += 1

    def reached(self, stage: int) -> int:
        """Return how many pods have reached a stage."""
        return self._counts[stage]

    @property
    def outstanding(self) -> int:
        """Number of due pods that have not ended."""
        return self.due_pods - self.reached(ENDED)

    def by_stage(self) -> dict[str, Latency]:
        """Return the latency of each stage that a pod has reached, by name."""
        return {name: _latency(self.after(stage)) for stage, name in enumerate(STAGES) if len(self.after(stage))}

    def after(self, stage: int) -> NDArray[np.float64]:
        """Return how many seconds after they were due pods reached a stage, for those that did."""
        if stage == ACKNOWLEDGED:
            return np.array([at - self._due[name] for name, at in self._acknowledged.items()])
        found = [stages[stage] - self._due[owner] for (owner, _), stages in self._stages.items()]
        return _known(found)

    def instants(self, stage: int) -> NDArray[np.float64]:
        """Return when pods reached a stage, in order."""
        if stage == ACKNOWLEDGED:
            return np.sort(np.array(list(self._acknowledged.values()), float))
        return np.sort(_known([stages[stage] for stages in self._stages.values()]))

    def due_instants(self) -> NDArray[np.float64]:
        """Return when submissions were due, in order."""
        return np.sort(np.array(list(self._due.values()), float))


def _known(given: Sequence[float]) -> NDArray[np.float64]:
    """Return the values that are not NaN."""
    values = np.array(given, np.float64)
    return np.asarray(values[~np.isnan(values)], np.float64)


def _latency(values: NDArray[np.float64]) -> Latency:
    found = np.percentile(values, list(PERCENTILES.values()))
    named = {name: round(float(value), 6) for name, value in zip(PERCENTILES, found, strict=True)}
    return Latency(count=len(values), mean=round(float(values.mean()), 6), percentiles=named)


def rate_of(instants: Sequence[float] | NDArray[np.float64]) -> float:
    """Return the number of instants per second between the first and the last; 0 for fewer than two."""
    if len(instants) < 2 or instants[-1] <= instants[0]:
        return 0.0
    return (len(instants) - 1) / float(instants[-1] - instants[0])
