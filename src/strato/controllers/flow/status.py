"""The status of a flow: its jobs by phase, their histories, and the phase that follows. Pure.

Source: volcano-controllers Part F. One departure: a job that completed and is gone (its ``ttlSecondsAfterFinished``
has passed) stays completed; Volcano would run it again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from strato.api.volcano.batch import Job
from strato.api.volcano.flow import FlowJobStatus, JobFlow, JobFlowStatus, WaitingStep
from strato.clock import format_time, parse_time
from strato.units import duration_seconds

PENDING, RUNNING, SUCCEED, FAILED, TERMINATING = "Pending", "Running", "Succeed", "Failed", "Terminating"
TERMINAL: Final = frozenset({FAILED, TERMINATING})
"""Phases in which the controller does nothing more for a flow."""

_COMPLETED = "Completed"
_LISTS: Final = {
    "Pending": "pendingJobs",
    "Running": "runningJobs",
    "Failed": "failedJobs",
    "Completed": "completedJobs",
    "Terminated": "terminatedJobs",
}
_UNLISTED: Final = frozenset({"Completing", "Terminating"})
_UNKNOWN_LIST: Final = "unKnowJobs"
_WAITING_LIST: Final = "waitingSteps"


def remembered_completed(status: JobFlowStatus) -> frozenset[str]:
    """Return the names of the jobs that the flow's status lists as completed."""
    return frozenset(entry.name for entry in status.job_status_list if entry.state == _COMPLETED)


def is_completed(job: Job) -> bool:
    """Return whether a job reached its goal."""
    return job.status.state.phase == _COMPLETED


def next_phase(phase: str, *, flows: int, running: int, completed: int, failed: int, terminated: int) -> str:
    """Return the phase after a sync, from the numbers of jobs."""
    broken = failed + terminated > 0
    if phase in ("", PENDING):
        if (running or completed) and not failed:
            return RUNNING
        return FAILED if broken else PENDING
    if phase == RUNNING:
        if completed == flows:
            return SUCCEED
        return FAILED if broken else RUNNING
    return phase


def flow_status(
    flow: JobFlow, jobs: Sequence[Job], names: Sequence[str], now: float, waiting: Sequence[WaitingStep] = ()
) -> dict[str, Any]:
    """Return the flow's status as JSON.

    Args:
        flow: The flow; its status holds the histories so far.
        jobs: Its jobs that exist.
        names: Names of the jobs of all its steps, in order.
        now: The present.
        waiting: Steps that probes hold back.
    """
    order = {name: position for position, name in enumerate(names)}
    present = sorted(jobs, key=lambda job: (order.get(job.metadata.name, len(order)), job.metadata.name))
    alive = {job.metadata.name for job in present}
    lists: dict[str, list[str]] = {}
    for job in present:
        phase = job.status.state.phase
        if phase not in _UNLISTED:
            lists.setdefault(_LISTS.get(phase, _UNKNOWN_LIST), []).append(job.metadata.name)
    gone = [name for name in names if name not in alive and name in remembered_completed(flow.status)]
    if gone:
        lists[_LISTS[_COMPLETED]] = sorted([*lists.get(_LISTS[_COMPLETED], ()), *gone], key=lambda n: order.get(n, -1))
    listed = {_WAITING_LIST: [msgspec.to_builtins(step) for step in waiting]} if waiting else {}
    numbers = {name: len(lists.get(name, ())) for name in _LISTS.values()}
    phase = flow.status.state.phase
    # twice: a job may start and complete between two passes, and then the phase has to pass through Running
    for _ in range(2):
        phase = next_phase(
            phase,
            flows=len(set(names)),
            running=numbers["runningJobs"],
            completed=numbers["completedJobs"],
            failed=numbers["failedJobs"],
            terminated=numbers["terminatedJobs"],
        )
    return {
        **lists,
        **listed,
        "jobStatusList": _histories(flow.status.job_status_list, present, now),
        "conditions": {job.metadata.name: _condition(job) for job in present},
        "state": {"phase": phase},
    }


def _condition(job: Job) -> dict[str, Any]:
    status = job.status
    built = {
        "phase": status.state.phase,
        "createTime": job.metadata.creation_timestamp,
        "runningDuration": status.running_duration,
        "taskStatusCount": msgspec.to_builtins(status.task_status_count) if status.task_status_count else None,
    }
    return {name: value for name, value in built.items() if value}


def _histories(known: Sequence[FlowJobStatus], jobs: Sequence[Job], now: float) -> list[dict[str, Any]]:
    """Return ``jobStatusList``: entries keep their positions, and entries of deleted jobs stay."""
    entries: dict[str, dict[str, Any]] = {entry.name: msgspec.to_builtins(entry) for entry in known}
    for job in jobs:
        name = job.metadata.name
        entries[name] = _history(entries.get(name, {}), job, now)
    return list(entries.values())


def _history(entry: Mapping[str, Any], job: Job, now: float) -> dict[str, Any]:
    phase, created = job.status.state.phase, job.metadata.creation_timestamp
    histories = [dict(one) for one in entry.get("runningHistories", ())]
    if phase and (not histories or histories[-1].get("state") != phase):
        time = format_time(now)
        if histories:
            histories[-1]["endTimestamp"] = time
        histories.append({"startTimestamp": time, "state": phase})
    built: dict[str, Any] = {
        "name": job.metadata.name,
        "state": phase,
        "startTimestamp": created,
        "endTimestamp": _end(job),
        "restartCount": job.status.retry_count,
        "runningHistories": histories,
    }
    return {name: value for name, value in built.items() if value}


def _end(job: Job) -> str | None:
    created, duration = job.metadata.creation_timestamp, job.status.running_duration
    if not created or not duration:
        return None
    try:
        return format_time(parse_time(created) + duration_seconds(duration))
    except ValueError:
        return None


def same_status(old: JobFlowStatus, new: Mapping[str, Any]) -> bool:
    """Return whether a status that was read equals ``new``."""
    return msgspec.convert(new, JobFlowStatus) == old


def as_changes(old: JobFlowStatus, new: Mapping[str, Any]) -> dict[str, Any]:
    """Return a status as a merge patch of the old one; lists and conditions that it lacks are removed."""
    emptied = dict.fromkeys((*_LISTS.values(), _UNKNOWN_LIST, _WAITING_LIST))
    conditions = {**dict.fromkeys(old.conditions), **new["conditions"]}
    return {**emptied, **new, "conditions": conditions}
