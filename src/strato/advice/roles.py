"""Recommend requests for the replicas of a training job's role, from earlier runs of the same job.

The samples of all replicas of a role are combined; memory counts once per replica and run, with its peak. The weight of
a run is halved after 7 newer runs or 14 days, whichever takes longer. Source: spec utilisation 6.2.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from statistics import median
from typing import Final, NamedTuple

from strato.advice import autopilot
from strato.advice.estimators import Amounts, Estimate, Rules, estimate, rounded_up
from strato.advice.histogram import CPU
from strato.advice.use import DAY_SECONDS, Aggregation, UseHistograms, bumped

START_SECONDS: Final = 60.0
"""Time after a container's start whose CPU samples are ignored, as training has not begun."""
_CERTAIN_RUNS: Final = 8
_CERTAIN_SAMPLES: Final = 480
_LOW_RUNS: Final = 3
_HALF_LIFE_RUNS: Final = 7
_HALF_LIFE_SECONDS: Final = 14 * DAY_SECONDS
_THROTTLED_SHARE: Final = 0.1
_THROTTLED_MORE: Final = 1.1
_STRAGGLER: Final = 0.5
_FEWEST_REPLICAS: Final = 3
"""Fewest replicas for which a median is meaningful."""
CPU_MULTIPLE: Final = 100
MEMORY_MULTIPLE: Final = 64 << 20

_RUN_SUFFIX: Final = re.compile(
    r"[-._](?:\d+(?:[-._:t]\d+)*|(?=[a-z]*\d)[a-z0-9]{5,}|[bcdfghjklmnpqrstvwxz2456789]{5})$"
)
"""A date, a number or the suffix of a generated name: five or more characters with a digit, or without vowels."""


class RoleKey(NamedTuple):
    """Identifies the containers whose use is combined."""

    queue: str
    namespace: str
    template: str
    role: str
    container: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaUse:
    """Use of one container of one replica in one run."""

    run: str
    index: str
    """Index of the replica."""
    requests: Amounts
    ended: float
    """Instant of the newest sample."""
    seconds: float
    """How long the container ran, as far as known."""
    cpu_samples: Mapping[int, int]
    """Number of CPU samples, one per minute, by bucket of `histogram.CPU`."""
    cpu_core_seconds: float
    memory_peak_bytes: float
    ooms: int = 0
    throttled_samples: int = 0
    """Number of samples with more than a quarter of the periods throttled."""

    @property
    def samples(self) -> int:
        """Return how many CPU samples there are."""
        return sum(self.cpu_samples.values())

    @property
    def needed_bytes(self) -> float:
        """Return the peak of memory; for a container killed for lack of memory, the estimated need."""
        if not self.ooms:
            return self.memory_peak_bytes
        return bumped(max(self.memory_peak_bytes, self.requests.memory_bytes), Aggregation())

    @property
    def mean_cores(self) -> float:
        """Return the mean CPU use in cores while the container ran."""
        return self.cpu_core_seconds / self.seconds if self.seconds else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleAdvice:
    """Recommended requests of a container of a role."""

    key: RoleKey
    replicas: int
    """Of the newest run."""
    runs: int
    requests: Amounts
    """Of the newest run."""
    cpu_p50_cores: float
    cpu_p90_cores: float
    memory_peak_bytes: float
    advice: Estimate
    confidence: float
    mean_run_seconds: float
    notes: tuple[str, ...] = ()

    @property
    def saved_core_hours(self) -> float:
        """Return the core hours that a run saves if the advice is followed; negative if it needs more."""
        less = (self.requests.cpu_millicores - self.advice.target.cpu_millicores) / 1000
        return less * self.replicas * self.mean_run_seconds / 3600

    @property
    def is_uncertain(self) -> bool:
        """Return whether there are too few runs for reliable advice."""
        return self.runs < _LOW_RUNS


def template_of(name: str) -> str:
    """Return a job's name without the suffix of the run: ``ctr-day-20260801`` is a run of ``ctr-day``."""
    shorter = _RUN_SUFFIX.sub("", name)
    while shorter and shorter != name:
        name, shorter = shorter, _RUN_SUFFIX.sub("", shorter)
    return name


def advise(key: RoleKey, replicas: Iterable[ReplicaUse], policy: str, containers: int, now: float) -> RoleAdvice:
    """Return the recommended requests of a container of a role.

    Args:
        key: Identifies the role and container.
        replicas: Use by replicas; at least one.
        policy: ``vpa`` or ``autopilot``.
        containers: Number of the pod's containers, which share its minimum.
        now: The present instant.
    """
    known = sorted(replicas, key=lambda one: (one.run, one.index))
    runs = {run: list(members) for run, members in groupby(known, key=lambda one: one.run)}
    ended = {run: max(one.ended for one in members) for run, members in runs.items()}
    newest_first = sorted(runs, key=lambda run: ended[run], reverse=True)
    weights = {run: _weight(number, now - ended[run]) for number, run in enumerate(newest_first)}
    use = _together(runs, weights)
    newest = runs[newest_first[0]]
    samples = sum(one.samples for one in known)
    confidence = min(len(runs) / _CERTAIN_RUNS, samples / _CERTAIN_SAMPLES, 1.0)
    throttled = samples and sum(one.throttled_samples for one in known) > _THROTTLED_SHARE * samples
    rules = Rules()
    found = estimate(use, rules, rules.pod_minimum.scaled(1 / containers), confidence)
    if policy == "autopilot":
        found = found._replace(target=autopilot.limits(known, now))
    if throttled:
        target = found.target
        found = found._replace(target=Amounts(int(target.cpu_millicores * _THROTTLED_MORE), target.memory_bytes))
    rounded = Estimate(
        *(Amounts(rounded_up(cpu, CPU_MULTIPLE), rounded_up(memory, MEMORY_MULTIPLE)) for cpu, memory in found)
    )
    if not samples:  # runs that were too short or always suppressed have no usable CPU samples
        rounded = Estimate(*(one._replace(cpu_millicores=newest[-1].requests.cpu_millicores) for one in rounded))
    ooms = sum(one.ooms for one in known)
    notes = [f"OOM x{ooms}"] if ooms else []
    notes += ["throttled"] if throttled else []
    notes += [] if samples else ["cpu unknown"]
    notes += [f"straggler {index}" for index in stragglers(newest)]
    return RoleAdvice(
        key=key,
        replicas=len({one.index for one in newest}),
        runs=len(runs),
        requests=newest[-1].requests,
        cpu_p50_cores=use.cpu.percentile(0.5),
        cpu_p90_cores=use.cpu.percentile(0.9),
        memory_peak_bytes=max(one.memory_peak_bytes for one in known),
        advice=rounded,
        confidence=confidence,
        mean_run_seconds=sum(max(one.seconds for one in members) for members in runs.values()) / len(runs),
        notes=tuple(notes),
    )


def stragglers(replicas: Sequence[ReplicaUse]) -> list[str]:
    """Return the replicas of one run that use less than half of the median."""
    if len(replicas) < _FEWEST_REPLICAS:
        return []
    usual = median(one.mean_cores for one in replicas)
    return [one.index for one in replicas if one.mean_cores < _STRAGGLER * usual]


def _weight(newer_runs: int, age_seconds: float) -> float:
    return max(2 ** (-newer_runs / _HALF_LIFE_RUNS), 2 ** (-max(age_seconds, 0.0) / _HALF_LIFE_SECONDS))


def _together(runs: Mapping[str, Sequence[ReplicaUse]], weights: Mapping[str, float]) -> UseHistograms:
    use = UseHistograms(Aggregation(half_life_seconds=math.inf))
    for run, members in runs.items():
        for one in members:
            for bucket, samples in one.cpu_samples.items():
                use.cpu.add_to_bucket(min(bucket, CPU.count - 1), samples * weights[run])
            use.memory.add(one.needed_bytes, weights[run])
    return use
