"""Connects jobs with `RunTimePredictor`: their submissions, the run times of ended jobs, predicted run times."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from strato.api.core import Pod
from strato.api.queueacls import SUBMITTED_BY
from strato.api.volcano.scheduling import PodGroup
from strato.clock import parse_time
from strato.history.prediction import RunTimePredictor, RunTimes, SubmittedJob
from strato.history.rows import COMPLETED, JobRun
from strato.scheduler.cache.world import World
from strato.scheduler.model.estimates import EXPECTED, seconds_of
from strato.scheduler.model.jobs import Job, Task
from strato.scheduler.model.resources import CPU
from strato.scheduler.model.tasks import SUCCEEDED
from strato.sim.foresight.runseconds import known_seconds

_CORE: float = 1000.0
"""Millicores of a core."""


def submission_of(job: Job, task: Task) -> SubmittedJob:
    """Return a job's submission, by which its run time is predicted; ``task`` is any of its pods."""
    group, pod = job.group, task.pod
    limit = pod.spec.active_deadline_seconds
    return SubmittedJob(
        user=_annotation(SUBMITTED_BY, pod, group) or job.namespace or task.namespace,
        name=_name_of(job, task),
        size=max(1.0, float(sum(one.cls.request[CPU] for one in job.tasks.values())) / _CORE),
        estimate_seconds=seconds_of(_annotation(EXPECTED, pod, group)),
        limit_seconds=float(limit) if limit is not None else None,
    )


def submission_of_run(run: JobRun) -> SubmittedJob:
    """Return the submission of a run in the history, which has no size, estimate and limit."""
    return SubmittedJob(user=run.namespace, name=run.template or run.job)


def take_history(predictor: RunTimePredictor, runs: Iterable[JobRun]) -> None:
    """Give a predictor the completed runs of a history, the oldest first."""
    for submission, seconds in past_of(runs):
        predictor.take(submission, seconds)


def past_of(runs: Iterable[JobRun]) -> list[tuple[SubmittedJob, float]]:
    """Return submission and run time in seconds of a history's completed runs, the oldest first."""
    ended = [run for run in runs if run.phase == COMPLETED and run.started is not None and run.ended is not None]
    ended.sort(key=lambda run: run.ended or 0.0)
    return [(submission_of_run(run), (run.ended or 0.0) - (run.started or 0.0)) for run in ended]


def take_ended(predictor: RunTimePredictor, world: World) -> None:
    """Give a predictor the jobs of a state that have a succeeded pod, the oldest first."""
    for _, submission, seconds in ended_jobs(world):
        predictor.take(submission, seconds)


def ended_jobs(world: World) -> list[tuple[Job, SubmittedJob, float]]:
    """Return the jobs that have a succeeded pod, with submission and longest run time of a pod, the oldest first."""
    found: list[tuple[float, Job, SubmittedJob, float]] = []
    for job in world.jobs.values():
        ended = [task for task in job.tasks.values() if task.status == SUCCEEDED]
        spans = [span for task in ended if (span := _span(task.pod)) is not None]
        if spans:
            last = max(end for _, end in spans)
            found.append((last, job, submission_of(job, ended[0]), max(end - start for start, end in spans)))
    return [(job, submission, seconds) for _, job, submission, seconds in sorted(found, key=lambda item: item[0])]


def run_times(predictor: RunTimePredictor) -> Callable[[Job, Task], RunTimes | float]:
    """Return a function of the run time of a job's pods: that of their annotations, else the predictor's."""

    def seconds(job: Job, task: Task) -> RunTimes | float:
        known = known_seconds(task)
        return known if known is not None else predictor.predict(submission_of(job, task))

    return seconds


def _annotation(name: str, pod: Pod, group: PodGroup | None) -> str:
    return pod.metadata.annotation(name) or (group.metadata.annotation(name) if group is not None else "")


def _name_of(job: Job, task: Task) -> str:
    owner = job.group.metadata.controller if job.group is not None else task.pod.metadata.controller
    return owner.name if owner is not None else job.name or task.name


def _span(pod: Pod) -> tuple[float, float] | None:
    """Return when a pod started and ended, seconds since the epoch; None if its status lacks either."""
    status = pod.status
    ends = [one.state.terminated.finished_at for one in status.container_statuses if one.state.terminated is not None]
    try:
        start, end = parse_time(status.start_time or ""), parse_time(max((end for end in ends if end), default=""))
    except ValueError:
        return None
    return (start, end) if end >= start else None
