"""`ProgressTally`: sums up the progress of an experiment's runs as a line of text. Pure; time comes as an argument."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from strato.sim.progress import Progress
from strato.units import human_duration

_SETTLED_RATIO = 0.01
"""Share of the jobs that must have ended before the remaining time is estimated."""


class ProgressTally:
    """Sums up the progress of all runs.

    Args:
        labels: Number of a run → its label.
        jobs: Number of a run → how many jobs it has.
        kept: Numbers of the runs that are skipped because an earlier process ended them.
    """

    def __init__(self, labels: Mapping[int, str], jobs: Mapping[int, int], kept: Collection[int] = ()) -> None:
        self._labels = labels
        self._jobs = jobs
        self._seen: dict[int, Progress] = {}
        self._kept_runs = len(kept)
        self._kept_jobs = sum(jobs[number] for number in kept)
        self._last = -1

    def note(self, number: int, progress: Progress) -> None:
        """Take the progress of a run."""
        self._seen[number] = progress
        self._last = number

    @property
    def is_done(self) -> bool:
        """Whether all jobs of all runs have ended."""
        return self._finished() == sum(self._jobs.values())

    def line(self, elapsed_seconds: float) -> str:
        """Return a line with the run that reported last, the jobs ended of all, their rate, and the time left."""
        last = self._seen.get(self._last)
        if last is None:
            return ""
        finished, total = self._finished(), sum(self._jobs.values())
        done = finished - self._kept_jobs
        rate = done / elapsed_seconds if elapsed_seconds > 0 else 0.0
        runs = self._kept_runs + sum(one.finished == one.total for one in self._seen.values())
        parts = [f"{self._labels[self._last]}: {human_duration(last.virtual_seconds)} simulated"]
        if len(self._jobs) > 1:
            parts.append(f"{runs} of {len(self._jobs)} runs ended")
        parts.append(f"{finished:,} of {total:,} jobs ended ({rate:,.0f}/s)")
        if last.running_pods and len(self._jobs) == 1:
            parts.append(f"{last.running_pods:,} pods run")
        if rate and done >= _SETTLED_RATIO * (total - self._kept_jobs) and finished < total:
            parts.append(f"about {human_duration((total - finished) / rate)} left")
        return ", ".join(parts)

    def bar(self, width: int) -> str:
        """Return a progress bar of so many characters."""
        total = sum(self._jobs.values())
        full = width * self._finished() // total if total else width
        return "█" * full + "░" * (width - full)

    def _finished(self) -> int:
        return self._kept_jobs + sum(one.finished for one in self._seen.values())
