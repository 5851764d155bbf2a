"""Runs that need no simulation, for other processes to import."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

import numpy as np

from strato.errors import StateError, UsageError
from strato.sim.experiments.plan import ExperimentRun
from strato.sim.progress import Progress
from strato.sim.results.record import Ending, NodeColumns, RunRecord, RunRecorder
from strato.sim.traces import Trace


def one_after_another(run: ExperimentRun, trace: Trace, notify: Callable[[Progress], None] | None = None) -> RunRecord:
    """Each job begins when the one before has ended, and not before the seed's second."""
    capacity = {"cpu": np.array([4000], np.int64), "memory": np.array([16 << 30], np.int64)}
    recorder = RunRecorder(trace.jobs, NodeColumns(names=("node-0",), capacity=capacity))
    at = float(run.seed) + (100.0 if run.policy.name == "slow" else 0.0)
    for row, job in enumerate(trace.jobs):
        at = max(at, job.submit_seconds)
        for pod in range(job.replicas):
            recorder.begin(row, pod, 0, at)
        at += job.run_seconds
        for pod in range(job.replicas):
            recorder.end(row, pod, at, Ending.SUCCEEDED)
        if notify is not None:
            notify(Progress(at, row + 1, row + 1, len(trace.jobs), 0))
    return recorder.record(at)


def failing(run: ExperimentRun, trace: Trace, notify: Callable[[Progress], None] | None = None) -> RunRecord:
    """Fails under one policy."""
    if run.policy.name == "slow":
        raise UsageError("this policy cannot run")
    return one_after_another(run, trace, notify)


def killed(run: ExperimentRun, trace: Trace, notify: Callable[[Progress], None] | None = None) -> RunRecord:
    """Is killed under one policy, as for lack of memory."""
    if run.policy.name == "slow":
        os.kill(os.getpid(), signal.SIGKILL)
    return one_after_another(run, trace, notify)


def full_disk(run: ExperimentRun, trace: Trace, notify: Callable[[Progress], None] | None = None) -> RunRecord:
    """Cannot be kept."""
    raise StateError("x.run cannot be written: No space left on device")
