"""Fill in the defaults of a job's spec that admission sets, for clusters where our admission does not run.

The controller reads jobs with these defaults and writes none of them back. A job that admission has defaulted is
returned unchanged. Source: volcano-api 16.1.
"""

from __future__ import annotations

import msgspec

from strato.api.defaults import jobs
from strato.api.volcano.batch import Job, TaskSpec


def completed(job: Job) -> Job:
    """Return the job with the defaults of the members that its spec leaves out."""
    spec = job.spec
    tasks = tuple(_completed_task(task, index) for index, task in enumerate(spec.tasks))
    changes: dict[str, object] = {}
    if any(new is not old for new, old in zip(tasks, spec.tasks, strict=True)):
        changes["tasks"] = tasks
    # Admission sets minAvailable of every task, so a task without one shows that admission has not run. Where it has
    # run, the job's own 0 was set afterwards, on purpose.
    if not spec.min_available and any(task.min_available is None for task in spec.tasks):
        changes["min_available"] = sum(task.min_available or 0 for task in tasks)
    if not spec.scheduler_name:
        changes["scheduler_name"] = jobs.DEFAULT_SCHEDULER
    if not spec.queue:
        changes["queue"] = jobs.DEFAULT_QUEUE
    if not spec.max_retry:
        changes["max_retry"] = jobs.DEFAULT_RETRIES
    if missing := jobs.missing_plugins(spec.plugins):
        changes["plugins"] = {**spec.plugins, **dict.fromkeys(missing, ())}
    return msgspec.structs.replace(job, spec=msgspec.structs.replace(spec, **changes)) if changes else job


def _completed_task(task: TaskSpec, index: int) -> TaskSpec:
    if task.name and task.min_available is not None and task.max_retry:
        return task
    policy = task.partition_policy
    partitions = (policy.min_partitions, policy.partition_size) if policy is not None else (0, 0)
    return msgspec.structs.replace(
        task,
        name=task.name or jobs.task_name(index),
        min_available=jobs.task_minimum(task.replicas, *partitions)
        if task.min_available is None
        else task.min_available,
        max_retry=task.max_retry or jobs.DEFAULT_RETRIES,
    )
