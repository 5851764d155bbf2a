"""Statistics of runs, roles and hosts over days. Pure.

A run counts in the period in which it started, its run time in that in which it ended, its wait in that in which it was
ready. Means are taken over the whole period, not over means of days. A statistic of too few values is None.

Source: spec utilisation 8.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from strato.history.rows import COMPLETED, ENDED, Host, JobRun, PodContainer

GRID_SECONDS: Final = 300.0
_FEWEST_SAMPLES: Final = 20
"""Fewest samples of which a percentile is computed."""


@dataclass(frozen=True, slots=True)
class Period:
    """The time from ``since`` to before ``until``, seconds since the epoch."""

    since: float
    until: float

    def has(self, instant: float | None) -> bool:
        """Return whether an instant lies in the period."""
        return instant is not None and self.since <= instant < self.until


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStatistics:
    """Statistics of the runs of a period; times in seconds."""

    runs: int
    """Number of runs that started."""
    jobs: int
    """Number of different jobs among them."""
    mean_run: float | None
    """Mean run time of the completed runs."""
    mean_failed_run: float | None
    failed: int
    mean_wait: float | None
    """Mean time from submission until the minimum number of pods was bound."""
    mean_queue_wait: float | None
    """Mean part of the wait until the job was admitted to its queue."""
    mean_capacity_wait: float | None
    """Mean rest of the wait."""
    mean_startup: float | None
    """Mean time from bound to running: image pulls, start of processes."""
    waiting: int
    """Number of runs that were neither ready nor ended at the end of the period."""
    oldest_wait: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleStatistics:
    """Statistics of the replicas of a role that ended in a period."""

    replicas: int
    mean_run: float | None
    efficiency: float | None
    """Ratio of used to requested core-seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostStatistics:
    """CPU utilisation of the selected hosts in a period, as shares of their capacity without overcommitment."""

    samples: int
    mean: float | None
    """Mean, weighted by capacity."""
    p90: float | None
    """90th percentile of all samples of all hosts; None for fewer than 20."""
    p90_hosts: float | None
    """90th percentile of the hosts' means."""
    p90_time: float | None
    """90th percentile of the means over all hosts at each time."""
    coverage: float
    """Ratio of existing samples to those that there should be."""


def mean(values: Iterable[float]) -> float | None:
    """Return the mean; None without values."""
    known = list(values)
    return math.fsum(known) / len(known) if known else None


def nearest_rank(values: Iterable[float], share: float) -> float | None:
    """Return a quantile by nearest rank: the least value that is at least as large as this share of all values.

    None without values.
    """
    ordered = sorted(values)
    return ordered[max(math.ceil(round(share * len(ordered), 9)) - 1, 0)] if ordered else None


def of_runs(runs: Iterable[JobRun], period: Period) -> RunStatistics:
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
    """Accuracy of predicted starts, of the runs that became ready in a period; errors in seconds."""

    predictions: int
    prediction_error: float | None
    """Mean absolute error of the predicted instants."""
    mean_wait_error: float | None
    """Mean absolute error of a naive prediction, the mean of all earlier waits."""
    within_interval: float | None
    """Share of the runs that became ready within their interval."""


def of_predictions(runs: Iterable[JobRun], period: Period) -> PredictionStatistics:
    """Return the accuracy of predicted starts."""
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


def of_role(replicas: Iterable[PodContainer], period: Period) -> RoleStatistics:
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


def allocated(replicas: Iterable[PodContainer], hosts: Sequence[Host], period: Period) -> float | None:
    """Return the share of the hosts' offered CPU time that bound replicas requested, while hosts were measured."""
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
    """Return the utilisation of the selected hosts; missing samples lower only the coverage."""
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


def is_ended(run: JobRun) -> bool:
    """Return whether a run has completed, failed or been aborted."""
    return run.phase in ENDED


def grouped(items: Iterable[JobRun], key: Callable[[JobRun], str]) -> dict[str, list[JobRun]]:
    """Return runs grouped by a key, in the order of the keys."""
    groups: dict[str, list[JobRun]] = defaultdict(list)
    for item in items:
        groups[key(item)].append(item)
    return {name: groups[name] for name in sorted(groups)}
