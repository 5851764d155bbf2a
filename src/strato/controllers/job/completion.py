"""What admission fills into a job, for clusters whose admission does not: the controller reads jobs completed.

Nothing is written back, and a job that admission has been at is returned as it is. Source: volcano-api 16.1.
"""

from __future__ import annotations

import msgspec

from strato.api.volcano.batch import Job, TaskSpec

DEFAULT_SCHEDULER = "volcano"
DEFAULT_QUEUE = "default"
DEFAULT_RETRIES = 3

_NEEDS_SVC = frozenset({"tensorflow", "mpi", "pytorch", "ray"})


def completed(job: Job) -> Job:
    """Return the job with what its spec leaves out."""
    spec = job.spec
    tasks = tuple(_completed_task(task, index) for index, task in enumerate(spec.tasks))
    changes: dict[str, object] = {}
    if any(new is not old for new, old in zip(tasks, spec.tasks, strict=True)):
        changes["tasks"] = tasks
    # Admission sets it for every task: where it has been, a job's own 0 came later and is meant.
    if not spec.min_available and any(task.min_available is None for task in spec.tasks):
        changes["min_available"] = sum(task.min_available or 0 for task in tasks)
    if not spec.scheduler_name:
        changes["scheduler_name"] = DEFAULT_SCHEDULER
    if not spec.queue:
        changes["queue"] = DEFAULT_QUEUE
    if not spec.max_retry:
        changes["max_retry"] = DEFAULT_RETRIES
    if missing := _missing_plugins(job):
        changes["plugins"] = {**spec.plugins, **dict.fromkeys(missing, ())}
    return msgspec.structs.replace(job, spec=msgspec.structs.replace(spec, **changes)) if changes else job


def _completed_task(task: TaskSpec, index: int) -> TaskSpec:
    if task.name and task.min_available is not None and task.max_retry:
        return task
    policy = task.partition_policy
    least = policy.min_partitions * policy.partition_size if policy is not None and policy.min_partitions > 0 else None
    return msgspec.structs.replace(
        task,
        name=task.name or f"default{index}",
        min_available=(task.replicas if least is None else least) if task.min_available is None else task.min_available,
        max_retry=task.max_retry or DEFAULT_RETRIES,
    )


def _missing_plugins(job: Job) -> list[str]:
    plugins = job.spec.plugins
    if not plugins or _NEEDS_SVC.isdisjoint(plugins):
        return []
    wanted = ("svc", "ssh") if "mpi" in plugins else ("svc",)
    return [name for name in wanted if name not in plugins]
