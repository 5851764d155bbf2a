"""`scale`: makes a larger or smaller workload from another: faster or slower arrivals, longer jobs, more users."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from strato.api import quantity
from strato.errors import UsageError
from strato.sim.workloads.jobs import Trace, TraceJob, from_zero, only_known

_COPY_JITTER_SECONDS: Final = 600.0
"""Copies of a job are submitted within ten minutes after it, not at the same instant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleOptions:
    """How a workload is scaled."""

    rate: float = 1.0
    """Factor by which arrivals are faster: 2 halves the time between submissions."""
    run: float = 1.0
    """Factor of run times, estimates, and the times from submission to deadline."""
    copies: int = 1
    """How often each job is submitted, each time by another user."""
    jobs: int = 0
    """Number of jobs to keep, the first ones; 0 is all."""
    seed: int = 0


def scale(trace: Trace, options: ScaleOptions) -> Trace:
    """Return a scaled trace."""
    rng = np.random.default_rng(options.seed)
    jobs: list[TraceJob] = []
    for number in range(options.copies):
        jitter = rng.uniform(0.0, _COPY_JITTER_SECONDS, len(trace.jobs)) if number else np.zeros(len(trace.jobs))
        jobs += [_copy(job, number, float(late)) for job, late in zip(trace.jobs, jitter, strict=True)]
    timed = from_zero([_timed(job, options.rate, options.run) for job in jobs])
    cut = timed[: options.jobs] if options.jobs else timed
    return replace(trace, jobs=only_known(cut) if options.jobs else cut)


def to_load(trace: Trace, load: float, resource: str, capacity: float) -> Trace:
    """Stretch or compress the arrivals of a trace so that it offers a load.

    Args:
        trace: A trace whose jobs are not all submitted at the same instant.
        load: The offered load: work of all jobs divided by capacity and by the time from first to last submission.
        resource: The resource of the load.
        capacity: Capacity of all machines in that resource, in cores or units.

    Raises:
        UsageError: The load cannot be reached.
    """
    work = sum(_amount(job, resource) * job.replicas * job.run_seconds for job in trace.jobs)
    span = trace.jobs[-1].submit_seconds - trace.jobs[0].submit_seconds if trace.jobs else 0.0
    if span <= 0 or work <= 0 or capacity <= 0:
        raise UsageError(
            f"the workload cannot be scaled to a load of {load:g}: it has no {resource}, or no time passes"
        )
    return scale(trace, ScaleOptions(rate=load * capacity * span / work))


def _amount(job: TraceJob, resource: str) -> float:
    text = job.requests.get(resource, "0")
    return quantity.milli(text) / 1000 if resource == "cpu" else float(quantity.value(text))


def _copy(job: TraceJob, number: int, late_seconds: float) -> TraceJob:
    """Return the ``number``-th copy of a job, with a user of its own and somewhat later; 0 is the job itself."""
    if not number:
        return job
    end = f"-c{number}"
    return replace(
        job,
        name=job.name + end,
        submit_seconds=job.submit_seconds + late_seconds,
        deadline_seconds=None if job.deadline_seconds is None else job.deadline_seconds + late_seconds,
        user=f"{job.user}{end}" if job.user else "",
        after=tuple(name + end for name in job.after),
    )


def _timed(job: TraceJob, rate: float, run: float) -> TraceJob:
    submit = job.submit_seconds / rate
    left = None if job.deadline_seconds is None else (job.deadline_seconds - job.submit_seconds) * run
    return replace(
        job,
        submit_seconds=submit,
        run_seconds=job.run_seconds * run,
        estimate_seconds=None if job.estimate_seconds is None else job.estimate_seconds * run,
        deadline_seconds=None if left is None else submit + left,
    )
