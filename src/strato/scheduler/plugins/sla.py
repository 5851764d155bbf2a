"""sla: jobs that have waited long enough go first and are enqueued (spec volcano-plugins 9)."""

from __future__ import annotations

from dataclasses import dataclass

from strato.clock import parse_time
from strato.scheduler.framework.arguments import arg
from strato.scheduler.framework.context import CycleContext
from strato.scheduler.framework.plugin import ABSTAIN, PERMIT, Plugin
from strato.scheduler.model.jobs import Job
from strato.units import duration_seconds

_NEVER = float("inf")


@dataclass(frozen=True, slots=True, kw_only=True)
class SlaArgs:
    """Arguments, as written under ``arguments:`` of this plugin."""

    waiting_time: str = arg("sla-waiting-time", "")
    """How long a job may wait, a Go duration above 0; invalid or empty means for ever. Jobs may set their own."""


class Sla(Plugin):
    """Push jobs that are about to miss, or missed, their waiting time."""

    name = "sla"
    args_type = SlaArgs
    time_based = True

    def open(self, ssn: CycleContext) -> None:
        """Read the waiting time."""
        self._now = ssn.now
        self._default: float | None = None
        if self.args.waiting_time:
            try:
                seconds = duration_seconds(self.args.waiting_time)
            except ValueError:
                return
            self._default = seconds if seconds > 0 else None

    def _deadline(self, job: Job) -> float:
        seconds = job.waiting_seconds if job.waiting_seconds is not None else self._default
        if seconds is None:
            return _NEVER
        return (parse_time(job.created) if job.created else 0.0) + seconds

    def job_order(self, job: Job) -> float:
        """Earlier deadline first."""
        return self._deadline(job)

    def job_enqueueable(self, job: Job) -> int:
        """Permit to enqueue a job whose waiting time is over."""
        return PERMIT if self._deadline(job) <= self._now else ABSTAIN

    def job_pipelined(self, job: Job) -> int:
        """Permit a job whose waiting time is over to keep its pipelined tasks."""
        return PERMIT if self._deadline(job) <= self._now else ABSTAIN
