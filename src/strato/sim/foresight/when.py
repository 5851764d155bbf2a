"""`starts`: predicts when waiting jobs start, by running a state forward several times with drawn run times.

In each draw every job runs as long as was drawn from its distribution, and the scheduler's own cycle decides which job
starts when. Jobs that are submitted later are not foreseen, though they may delay the waiting ones. That delay is part
of the error of earlier predictions, by which `strato.history.predictionintervals` calibrates the interval.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Final

from strato.clock import parse_time, work_timer
from strato.history.prediction import RunTimes
from strato.history.predictionintervals import COVERAGE, Interval
from strato.scheduler.cache.world import World
from strato.scheduler.dryrun.trial import Copy
from strato.scheduler.model.jobs import Job, Task
from strato.sim.foresight.forward import run_forward

HORIZON_SECONDS: Final = 30 * 86_400.0
"""How far a draw looks ahead; a job that does not start within this time is not predicted to start."""

Known = Callable[[Job, Task], RunTimes | float]
"""Returns how long a job's pods run: a distribution, or seconds if the run time is certain."""


@dataclass(frozen=True, slots=True)
class Starts:
    """When a job starts in each draw.

    Attributes:
        seconds: Seconds from now, one for each draw, ascending; infinite for a draw in which the job did not start.
        reason: Why it could not be placed in the last draw in which it did not start.
        name: ``namespace/name`` of the job, for the user.
        queue: The name of its queue.
    """

    seconds: tuple[float, ...]
    reason: str
    name: str
    queue: str

    @property
    def interval(self) -> Interval:
        """The median of the draws, and the bounds between which the share `COVERAGE` of them lies."""
        tail = (1.0 - COVERAGE) / 2.0
        return Interval(self._at(0.5), self._at(tail), self._at(1.0 - tail))

    def _at(self, share: float) -> float:
        """Return a quantile of the draws, interpolated linearly."""
        place = share * (len(self.seconds) - 1)
        low, high = self.seconds[math.floor(place)], self.seconds[math.ceil(place)]
        return low if low == high else low + (place - math.floor(place)) * (high - low)


@dataclass(slots=True)
class _Draw:
    """The run times of one draw, as a `RunSeconds`; all pods of a job have the same."""

    known: Known
    now: float
    rng: Random
    mirrored: bool
    seconds: dict[str, float] = field(default_factory=dict)

    def __call__(self, world: World, task: Task) -> float:
        job = task.job
        key = job.key if job is not None else task.key
        found = self.seconds.get(key)
        if found is None:
            found = self.seconds[key] = self._draw(job, task)
        return found

    def _draw(self, job: Job | None, task: Task) -> float:
        share = self.rng.random()
        if job is None:
            return math.inf  # a pod of another scheduler: nothing is known about its run time
        known = self.known(job, task)
        if not isinstance(known, RunTimes):
            return known
        return known.at(1.0 - share if self.mirrored else share, _elapsed_seconds(task, self.now))


def starts(
    copy: Copy,
    known: Known,
    *,
    draws: int = 9,
    only: Collection[str] | None = None,
    horizon_seconds: float = HORIZON_SECONDS,
    budget_seconds: float = math.inf,
    names: Mapping[str, str] | None = None,
) -> dict[str, Starts]:
    """Return when the waiting jobs of a state start, by the key of their pod group.

    Args:
        copy: The state.
        known: Returns how long pods run.
        draws: Number of draws. Each second one mirrors the one before: long run times in one are short in the other,
            which makes the median more exact.
        only: Keys of the jobs to predict; a draw ends when they have started. None is all.
        horizon_seconds: The longest virtual time to run.
        budget_seconds: Time after which no further draw begins; the first always does.
        names: Key of a pod group → name of its job for the user.
    """
    seconds: dict[str, list[float]] = {}
    last: dict[str, tuple[str, str, str]] = {}
    began = work_timer()
    done = 0
    for number in range(draws):
        if number and work_timer() - began > budget_seconds:
            break
        rng = Random(f"{copy.seed}-{number // 2}")
        draw = _Draw(known, copy.now, rng, mirrored=number % 2 == 1)
        found = run_forward(copy, draw, horizon_seconds=horizon_seconds, names=names, only=only)
        for key, job in found.jobs.items():
            if only is not None and key not in only:
                continue
            seconds.setdefault(key, [math.inf] * done).append(math.inf if job.starts_at is None else job.starts_at)
            if job.starts_at is None or key not in last:
                last[key] = job.reason, job.name, job.queue
        done += 1
        for values in seconds.values():
            values += [math.inf] * (done - len(values))
    return {key: Starts(tuple(sorted(values)), *last[key]) for key, values in seconds.items()}


def _elapsed_seconds(task: Task, now: float) -> float:
    started = task.pod.status.start_time
    if not started or task.row < 0:
        return 0.0
    try:
        return max(0.0, now - parse_time(started))
    except ValueError:
        return 0.0
