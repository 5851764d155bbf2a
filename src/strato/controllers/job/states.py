"""The state machine of a job: which procedure an action starts in which phase, and which phase follows.

`operation` is the table of phase × action. After the procedure an ``after_…`` function decides the phase from the new
counters. Everything is pure.

Source: volcano-controllers A4, A5.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache

import msgspec

from strato.controllers.job.terms import TARGET_ACTIONS, JobAction, Phase


class Procedure(Enum):
    """What is done to the pods."""

    SYNC = "sync"
    KILL_ALL = "kill all"
    """Retain nothing."""
    KILL_UNFINISHED = "kill unfinished"
    """Retain succeeded and failed pods."""
    KILL_TARGET = "kill target"
    """Only the task, pod or partition the action names."""


@dataclass(frozen=True, slots=True)
class TaskFacts:
    """What the completion rule reads of a task."""

    name: str
    replicas: int
    min_available: int | None


@dataclass(frozen=True, slots=True)
class JobFacts:
    """What the rules of the state machine read of a job's spec."""

    tasks: tuple[TaskFacts, ...]
    min_available: int
    max_retry: int
    min_success: int | None = None
    replicas: int = field(init=False)
    """Pods of all tasks."""
    task_min_available: int = field(init=False)
    """Sum of the tasks' ``minAvailable``; a task without one counts with all its replicas."""

    def __post_init__(self) -> None:
        minima = [t.replicas if t.min_available is None else t.min_available for t in self.tasks]
        object.__setattr__(self, "replicas", sum([task.replicas for task in self.tasks]))
        object.__setattr__(self, "task_min_available", sum(minima))


class Counts(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The counters of ``status`` as a procedure leaves them."""

    pending: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    terminating: int = 0
    unknown: int = 0
    task_succeeded: Mapping[str, int] | None = None
    """Succeeded pods of each task that has an entry in ``taskStatusCount``."""
    status_min_available: int = 0
    """``status.minAvailable``; the restart rule uses this one, not the spec's."""


class NextPhase(msgspec.Struct, frozen=True, gc=False):
    """The phase after a procedure."""

    phase: str
    retry_count: int
    reason: str = ""
    """Reason in one word for ``status.state``; empty where users get none."""
    message: str = ""


Transition = Callable[[JobFacts, Counts, int], NextPhase | None]
"""(job, counters, retryCount) → the new phase, or None for no change."""


@dataclass(frozen=True, slots=True)
class PlannedProcedure:
    """A procedure and the rule that follows it."""

    procedure: Procedure
    transition: Transition


@lru_cache(256)
def operation(phase: str, action: str) -> PlannedProcedure:
    """Return the operation of an action in a phase. An unknown action is a sync, an unknown phase is Pending."""
    match phase:
        case Phase.RUNNING:
            return _active(action, after_sync_running)
        case Phase.RESTARTING:
            return _restarting(action)
        case Phase.ABORTING:
            if action == JobAction.RESUME_JOB:
                return PlannedProcedure(Procedure.KILL_UNFINISHED, restart)
            return PlannedProcedure(Procedure.KILL_UNFINISHED, _when_still(Phase.ABORTED))
        case Phase.ABORTED:
            if action == JobAction.RESUME_JOB:
                return PlannedProcedure(Procedure.KILL_UNFINISHED, restart)
            return PlannedProcedure(Procedure.KILL_UNFINISHED, stay)
        case Phase.COMPLETING:
            return PlannedProcedure(Procedure.KILL_UNFINISHED, _when_still(Phase.COMPLETED))
        case Phase.TERMINATING:
            return PlannedProcedure(Procedure.KILL_UNFINISHED, _when_still(Phase.TERMINATED))
        case Phase.COMPLETED | Phase.FAILED | Phase.TERMINATED:
            return PlannedProcedure(Procedure.KILL_UNFINISHED, stay)
        case _:
            return _active(action, after_sync_pending)


def _active(action: str, after_sync: Transition) -> PlannedProcedure:
    """Pending and Running differ only in what follows a sync."""
    match action:
        case JobAction.RESTART_JOB:
            return PlannedProcedure(Procedure.KILL_ALL, restart)
        case JobAction.RESTART_TASK | JobAction.RESTART_POD | JobAction.RESTART_PARTITION:
            return PlannedProcedure(Procedure.KILL_TARGET, restart)
        case JobAction.ABORT_JOB:
            return PlannedProcedure(Procedure.KILL_UNFINISHED, _to(Phase.ABORTING))
        case JobAction.COMPLETE_JOB:
            return PlannedProcedure(Procedure.KILL_UNFINISHED, _to(Phase.COMPLETING))
        case JobAction.TERMINATE_JOB:
            return PlannedProcedure(Procedure.KILL_UNFINISHED, _to(Phase.TERMINATING))
        case _:
            return PlannedProcedure(Procedure.SYNC, after_sync)


def _restarting(action: str) -> PlannedProcedure:
    if action == JobAction.SYNC_JOB:
        return PlannedProcedure(Procedure.SYNC, after_restart)
    if action in TARGET_ACTIONS:
        return PlannedProcedure(Procedure.KILL_TARGET, after_restart)
    # AbortJob, TerminateJob, CompleteJob and ResumeJob too: while a job is restarting, every action is a full kill.
    return PlannedProcedure(Procedure.KILL_ALL, after_restart)


def after_sync_pending(job: JobFacts, counts: Counts, retry_count: int) -> NextPhase | None:
    """Pending → Running once enough pods run or have run."""
    if job.min_available <= counts.running + counts.succeeded + counts.failed:
        return NextPhase(Phase.RUNNING, retry_count)
    return None


def after_sync_running(job: JobFacts, counts: Counts, retry_count: int) -> NextPhase | None:
    """The completion rule (A5)."""
    replicas = job.replicas
    if replicas == 0:  # scaled to zero keeps its phase
        return None
    if job.min_success is not None and counts.succeeded >= job.min_success:
        return NextPhase(Phase.COMPLETED, retry_count)
    if counts.succeeded + counts.failed == replicas:
        return NextPhase(_verdict(job, counts), retry_count)
    if counts.pending > replicas - job.min_available:
        return NextPhase(Phase.PENDING, retry_count)
    return None


def _verdict(job: JobFacts, counts: Counts) -> str:
    """Completed or Failed, when every pod has ended."""
    if job.min_available >= job.task_min_available:
        succeeded = counts.task_succeeded or {}
        for task in job.tasks:
            if task.min_available is not None and succeeded.get(task.name, task.min_available) < task.min_available:
                return Phase.FAILED
    if job.min_success is not None and counts.succeeded < job.min_success:
        return Phase.FAILED
    return Phase.COMPLETED if counts.succeeded >= job.min_available else Phase.FAILED


def has_exhausted_retries(job: JobFacts, retry_count: int) -> bool:
    """Whether a job that restarts has used all its retries."""
    return retry_count >= job.max_retry


def after_restart(job: JobFacts, counts: Counts, retry_count: int) -> NextPhase | None:
    """The restart rule: out of retries → Failed; enough pods gone or alive → Pending."""
    if has_exhausted_retries(job, retry_count):
        return NextPhase(Phase.FAILED, retry_count)
    if job.replicas - counts.terminating >= counts.status_min_available:
        return NextPhase(Phase.PENDING, retry_count)
    return None


def restart(job: JobFacts, counts: Counts, retry_count: int) -> NextPhase:
    """Move to Restarting, and count a retry."""
    return NextPhase(Phase.RESTARTING, retry_count + 1)


def stay(job: JobFacts, counts: Counts, retry_count: int) -> None:
    """Never change the phase: the rule of Aborted, which only ResumeJob leaves, and of the final phases."""
    return


def _to(phase: str) -> Transition:
    def transition(job: JobFacts, counts: Counts, retry_count: int) -> NextPhase:
        return NextPhase(phase, retry_count)

    return transition


def _when_still(phase: str) -> Transition:
    """Return the rule that moves to ``phase`` once no pod is terminating, pending or running."""

    def transition(job: JobFacts, counts: Counts, retry_count: int) -> NextPhase | None:
        if counts.terminating or counts.pending or counts.running:
            return None
        return NextPhase(phase, retry_count)

    return transition
