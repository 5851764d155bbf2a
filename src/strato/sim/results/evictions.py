"""`evictions_of`: how much work evicted pods lost, for which jobs they were evicted, and whether these started then."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from strato.sim.results.columns import DEFAULT_QUEUE, RunColumns
from strato.sim.results.record import Ending


class EvictionPair(msgspec.Struct, frozen=True):
    """Number of pods of one queue that were evicted for jobs of another."""

    victims: str
    """Queue of the evicted pods."""
    beneficiaries: str
    """Queue of the jobs that they were evicted for; empty if not known."""
    pods: int


class EvictionReport(msgspec.Struct, frozen=True):
    """All evictions of a run. An evicted pod loses its work from its beginning to the eviction."""

    pods: int
    jobs: int
    """Jobs that lost at least one pod."""
    cpu_seconds_lost: float
    gpu_seconds_lost: float
    beneficiaries: int
    """Jobs for which pods were evicted."""
    helped: int
    """Beneficiaries of which a pod began after the first eviction for them."""
    never_helped: int
    """Beneficiaries of which no pod began after that."""
    unknown: int
    """Evicted pods without a known beneficiary."""
    median_seconds_until_start: float
    """Median time from the first eviction for a job to the next beginning of a pod of it; 0 if no job was helped."""
    pods_lost_with_nodes: int
    between: list[EvictionPair]


def evictions_of(run: RunColumns) -> EvictionReport:
    """Return the measures of a run's evictions."""
    record = run.record
    evicted = record.interval_ending == Ending.EVICTED
    lasted = (record.interval_end - record.interval_begin)[evicted]
    beneficiary = record.interval_for[evicted]
    delays = _delays(run, evicted)
    known = delays[~np.isnan(delays)]
    gpus = sum(
        (run.interval_amounts(name)[evicted] for name in run.resources if name.rpartition("/")[2] == "gpu"),
        np.zeros(int(evicted.sum())),
    )
    return EvictionReport(
        pods=int(evicted.sum()),
        jobs=len(np.unique(record.interval_job[evicted])),
        cpu_seconds_lost=round(float((lasted * run.interval_amounts("cpu")[evicted]).sum()) / 1000, 6),
        gpu_seconds_lost=round(float((lasted * gpus).sum()), 6),
        beneficiaries=len(delays),
        helped=len(known),
        never_helped=len(delays) - len(known),
        unknown=int((beneficiary < 0).sum()),
        median_seconds_until_start=round(float(np.median(known)), 6) if len(known) else 0.0,
        pods_lost_with_nodes=int((record.interval_ending == Ending.LOST).sum()),
        between=_between(run, evicted),
    )


def _delays(run: RunColumns, evicted: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return for each beneficiary the seconds from the first eviction for it to the next beginning of a pod of it.

    NaN if no pod of it began after that.
    """
    record = run.record
    chosen = evicted & (record.interval_for >= 0)
    jobs, ends = record.interval_for[chosen], record.interval_end[chosen]
    first = np.full(len(record.jobs), np.inf)
    np.minimum.at(first, jobs, ends)
    is_one = np.isfinite(first)
    relevant = is_one[record.interval_job]
    owner, begin = record.interval_job[relevant], record.interval_begin[relevant]
    later = begin >= first[owner]
    start = np.full(len(record.jobs), np.inf)
    np.minimum.at(start, owner[later], begin[later])
    delay = np.where(np.isfinite(start[is_one]), start[is_one] - first[is_one], np.nan)
    return np.asarray(delay)


def _between(run: RunColumns, evicted: NDArray[np.bool_]) -> list[EvictionPair]:
    counts: dict[tuple[str, str], int] = {}
    record = run.record
    pairs: Any = zip(record.interval_job[evicted].tolist(), record.interval_for[evicted].tolist(), strict=True)
    for victim, beneficiary in pairs:
        gainer = (record.jobs[beneficiary].queue or DEFAULT_QUEUE) if beneficiary >= 0 else ""
        key = record.jobs[victim].queue or DEFAULT_QUEUE, gainer
        counts[key] = counts.get(key, 0) + 1
    return [EvictionPair(victims, gainers, pods) for (victims, gainers), pods in sorted(counts.items())]
