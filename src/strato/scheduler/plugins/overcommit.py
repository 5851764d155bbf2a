"""overcommit: let in somewhat more jobs than the cluster has room for (spec volcano-plugins 7)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from strato.scheduler.framework.arguments import arg
from strato.scheduler.framework.context import CycleContext
from strato.scheduler.framework.plugin import PERMIT, REJECT, Plugin
from strato.scheduler.model.jobs import Job
from strato.scheduler.model.reasons import Verdict
from strato.scheduler.model.resources import PODS, FloatArray


@dataclass(frozen=True, slots=True, kw_only=True)
class OvercommitArgs:
    """Arguments, as written under ``arguments:`` of this plugin."""

    factor: float = arg("overcommit-factor", 1.2, minimum=1)
    """What the cluster's allocatable is multiplied with. At least 1; default 1.2."""


class Overcommit(Plugin):
    """Admit jobs while their minima fit into factor × allocatable less what is used."""

    name = "overcommit"
    job_facts = ("minimum",)
    args_type = OvercommitArgs

    def open(self, ssn: CycleContext) -> None:
        """Begin a session; what is idle under overcommitment is summed up when the first job waits."""
        self._ssn = ssn
        self._idle: FloatArray | None = None
        self._inqueue = ssn.world.dims.zeros()

    def _sums(self) -> FloatArray:
        if self._idle is None:
            world = self._ssn.world
            world.settle()
            used = self._ssn.total - world.totals.idle
            self._idle = self._ssn.total * float(self.args.factor) - used
            for job in world.jobs.values():  # what elastic jobs give back counts as idle
                if job.gives_back and job.has_surplus and job.elastic is not None:
                    self._idle = self._idle + job.elastic
            for queue in world.queues.values():
                self._inqueue = self._inqueue + queue.inqueue
        return self._idle

    def job_enqueueable(self, job: Job) -> int:
        """Whether the job's minimum fits beside the jobs that were admitted before."""
        if job.min_resources is None:
            return PERMIT
        idle = self._sums()
        columns = [c for c in job.min_columns if c != PODS]
        want = self._inqueue + job.min_resources
        lacking = [c for c in columns if want[c] > idle[c]]
        if not lacking:
            return PERMIT
        names = [self._ssn.world.dims.names[c] for c in lacking]
        text = "resource in cluster is overused: " + ", ".join(f"overused {name}" for name in names)
        numbers = {f"wanted {n}": float(want[c]) for n, c in zip(names, lacking, strict=True)}
        numbers |= {f"available {n}": float(np.floor(idle[c])) for n, c in zip(names, lacking, strict=True)}
        self._ssn.record_verdict(job, Verdict(self.name, "Overcommit", text, numbers))
        return REJECT

    def job_enqueued(self, job: Job) -> None:
        """Count the job among the admitted."""
        if job.min_resources is not None:
            self._sums()
            self._inqueue = self._inqueue + self._ssn.world.deduct_gated(job, job.min_resources)
