"""Statistics of runs, roles and hosts over days. Pure.

Runs count on the day they started, their length on the day they ended, their wait on the day they were ready. Sums are
taken over the whole period, never means of daily means. What too little is known of is None.

Source: spec utilisation 8.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from strato.history.rows import COMPLETED, ENDED, Host, Replica, Run

GRID_SECONDS: Final = 300.0
_FEWEST_SAMPLES: Final = 20
"""A percentile of fewer is not shown."""


@dataclass(frozen=True, slots=True)
class Period:
    """From an instant up to before another."""

    since: float
    until: float

    def has(self, instant: float | None) -> bool:
        """Return whether an instant lies in it."""
        return instant is not None and self.since <= instant < self.until


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStatistics:
    """Of the runs of a period; lengths in seconds."""

    runs: int
    """That started."""
    jobs: int
    """Distinct ones among them."""
    mean_run: float | None
    """Of those that completed."""
    mean_failed_run: float | None
    failed: int
    mean_wait: float | None
    """From submission until enough pods were bound: for resources only."""
    mean_queue_wait: float | None
    """The part of it until the job was let into the queue."""
    mean_capacity_wait: float | None
    """The rest of it."""
    mean_startup: float | None
    """From bound to running: images, start of processes."""
    waiting: int
    """That were not ready at the end of the period, and were not ended."""
    oldest_wait: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleStatistics:
    """Of the replicas of a role that ended in a period."""

    replicas: int
    mean_run: float | None
    efficiency: float | None
    """Used core-seconds by requested ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostStatistics:
    """Of the selected hosts in a period: shares of their capacity without overcommitment."""

    samples: int
    mean: float | None
    """Weighted by capacity."""
    p90: float | None
    """Over all samples of all hosts; None for fewer than 20."""
    p90_hosts: float | None
    """Over the hosts' means."""
    p90_time: float | None
    """Over the means of all hosts at each time."""
    coverage: float
    """Samples that are there by samples that there should be."""


def mean(values: Iterable[float]) -> float | None:
    """Return the mean; None of nothing."""
    known = list(values)
    return math.fsum(known) / len(known) if known else None


def nearest_rank(values: Iterable[float], share: float) -> float | None:
    """Return the least value that so large a share of all values is not above; None of nothing."""
    ordered = sorted(values)
    return ordered[max(math.ceil(round(share * len(ordered), 9)) - 1, 0)] if ordered else None


def of_runs(runs: Iterable[Run], period: Period) -> RunStatistics:
    """Return the statistics of runs."""
    known = list(runs)
    started = [run for run in known if period.has(run.started)]
    ready = [run for run in known if period.has(run.ready)]
    ended = [run for run in known if period.has(run.ended)]
    failed = [run for run in ended if run.phase != COMPLETED]
    waiting = [
        run
        for run in known
        if run.submitted < period.until
        and (run.ready is None or run.ready >= period.until)
        and (run.ended is None or run.ended >= period.until)
    ]
    return RunStatistics(
        runs=len(started),
        jobs=len({run.job_uid for run in started}),
        mean_run=mean(
            _between(run.started, run.ended) for run in ended if run.phase == COMPLETED and run.started is not None
        ),
        mean_failed_run=mean(_between(run.started, run.ended) for run in failed if run.started is not None),
        failed=len(failed),
        mean_wait=mean(_between(run.submitted, run.ready) for run in ready),
        mean_queue_wait=mean(_between(run.submitted, run.inqueue) for run in ready if run.inqueue is not None),
        mean_capacity_wait=mean(_between(run.inqueue, run.ready) for run in ready if run.inqueue is not None),
        mean_startup=mean(_between(run.ready, run.started) for run in ready if run.started is not None),
        waiting=len(waiting),
        oldest_wait=max((period.until - run.submitted for run in waiting), default=None),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictionStatistics:
    """How predicted starts fared, of the runs that were ready in a period; errors in seconds."""

    predictions: int
    prediction_error: float | None
    """Mean absolute error of the predicted instants."""
    mean_wait_error: float | None
    """What that error would have been, had the mean of all earlier waits been predicted."""
    within_interval: float | None
    """Share that was ready within its interval."""


def of_predictions(runs: Iterable[Run], period: Period) -> PredictionStatistics:
    """Return how predicted starts fared."""
    known = sorted(((run.ready, run) for run in runs if run.ready is not None), key=lambda item: item[0])
    waits = [(ready, _between(run.submitted, ready)) for ready, run in known]
    errors: list[float] = []
    naive: list[float] = []
    within = 0
    for ready, run in known:
        if run.predicted < 0 or not period.has(ready):
            continue
        earlier = [wait for at, wait in waits if at < run.submitted]
        errors.append(abs(run.predicted - ready))
        naive.append(abs((mean(earlier) or 0.0) - _between(run.submitted, ready)))
        within += run.predicted_low - 1.0 <= ready and (run.predicted_high < 0 or ready <= run.predicted_high + 1.0)
    return PredictionStatistics(
        predictions=len(errors),
        prediction_error=mean(errors),
        mean_wait_error=mean(naive),
        within_interval=within / len(errors) if errors else None,
    )


def _between(begin: float | None, end: float | None) -> float:
    assert begin is not None
    assert end is not None
    return max(end - begin, 0.0)


def of_role(replicas: Iterable[Replica], period: Period) -> RoleStatistics:
    """Return the statistics of the replicas of a role; a pod's containers run at the same time and count once."""
    lengths: dict[str, float] = {}
    used = requested = 0.0
    for one in replicas:
        if one.started is None or one.ended is None or not period.has(one.ended):
            continue
        length = _between(one.started, one.ended)
        lengths[one.pod] = max(length, lengths.get(one.pod, 0.0))
        used += one.cpu_core_s
        requested += one.cpu_req / 1000 * length
    return RoleStatistics(
        replicas=len(lengths), mean_run=mean(lengths.values()), efficiency=used / requested if requested else None
    )


def allocated(replicas: Iterable[Replica], hosts: Sequence[Host], period: Period) -> float | None:
    """Return the share of the CPU time offered to pods that bound replicas had requested, while hosts were measured."""
    seen = [host for host in hosts if host.selected and period.has(host.ts)]
    if not seen:
        return None
    since, until = min(host.ts for host in seen), max(host.ts for host in seen) + GRID_SECONDS
    offered = sum(host.cpu_allocatable or host.cpu_capacity for host in seen) * GRID_SECONDS
    taken = 0.0
    for one in replicas:
        if one.bound is not None:
            end = min(one.ended if one.ended is not None else until, until)
            taken += one.cpu_req / 1000 * max(end - max(one.bound, since), 0.0)
    return taken / offered if offered else None


def of_hosts(hosts: Iterable[Host], period: Period, fewest_samples: int = _FEWEST_SAMPLES) -> HostStatistics:
    """Return how busy the selected hosts were; samples that are missing count nowhere but in the coverage."""
    samples = [host for host in hosts if host.selected and period.has(host.ts) and host.cpu_capacity > 0]
    by_host: dict[str, _Load] = defaultdict(_Load)
    by_time: dict[float, _Load] = defaultdict(_Load)
    whole = _Load()
    for one in samples:
        for load in (by_host[one.node], by_time[one.ts], whole):
            load.add(one)
    shares = [one.cpu_used / one.cpu_capacity for one in samples]
    seen = [one.ts for one in samples]
    steps = round((max(seen) - min(seen)) / GRID_SECONDS) + 1 if seen else 0
    return HostStatistics(
        samples=len(samples),
        mean=whole.ratio if samples else None,
        p90=nearest_rank(shares, 0.9) if len(shares) >= fewest_samples else None,
        p90_hosts=nearest_rank((load.ratio for load in by_host.values()), 0.9),
        p90_time=nearest_rank((load.ratio for load in by_time.values()), 0.9),
        coverage=len(samples) / (steps * len(by_host)) if samples else 1.0,
    )


@dataclass(slots=True)
class _Load:
    used: list[float] = field(default_factory=list)
    capacity: list[float] = field(default_factory=list)

    def add(self, sample: Host) -> None:
        self.used.append(sample.cpu_used)
        self.capacity.append(sample.cpu_capacity)

    @property
    def ratio(self) -> float:
        return math.fsum(self.used) / math.fsum(self.capacity)


def is_ended(run: Run) -> bool:
    """Return whether nothing more is to come of a run."""
    return run.phase in ENDED


def grouped(items: Iterable[Run], key: Callable[[Run], str]) -> dict[str, list[Run]]:
    """Return runs by a key, in its order."""
    groups: dict[str, list[Run]] = defaultdict(list)
    for item in items:
        groups[key(item)].append(item)
    return {name: groups[name] for name in sorted(groups)}
