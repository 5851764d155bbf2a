"""How objects of the cluster map to YARN: a queue's full name, a job's user, the application master among its pods."""

from __future__ import annotations

from typing import Final

from strato.interop.yarn.fair.placement import full_name
from strato.scheduler.model.jobs import Job, Task
from strato.scheduler.model.queues import Queue

PATH: Final = "yarn.strato.io/path"
"""Annotation of a Queue: its full name in YARN, which may have characters that Kubernetes forbids in names."""


def path_of(queue: Queue) -> str:
    """Return a queue's full name in YARN: by annotation, or its own name below the root."""
    named = queue.view.metadata.annotation(PATH) if queue.view is not None else ""
    return full_name(named or queue.name)


def user_of(job: Job, key: str) -> str:
    """Return a job's user: its namespace, or the value of the label or annotation ``key`` of its PodGroup."""
    if key and job.group is not None:
        meta = job.group.metadata
        return meta.label(key) or meta.annotation(key) or job.namespace
    return job.namespace


def is_master(task: Task, label: str) -> bool:
    """Whether a pod is its application's master: it has the label ``key=value`` or ``key``; none without a label."""
    key, _, value = label.partition("=")
    if not key:
        return False
    found = (task.pod.metadata.labels or {}).get(key)
    return found is not None and (not value or found == value)
