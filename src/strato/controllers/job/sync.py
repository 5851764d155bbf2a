"""Which pods a sync creates and which it deletes. Pure.

Source: volcano-controllers A7.6 to A7.8, A11.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from strato.api.volcano.batch import Job, TaskSpec
from strato.controllers.job.plugins.array import element_size
from strato.controllers.job.pods import PodState, TaskPods


@dataclass(slots=True)
class PodPlan:
    """Pods to create and delete; mostly both are empty, and `plan_pods` finds that out quickly."""

    create: list[tuple[TaskSpec, list[int]]] = field(default_factory=list)
    delete: list[PodState] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        """Whether nothing is to be done."""
        return not self.create and not self.delete


def plan_pods(job: Job, tasks: Mapping[str, TaskPods], element_limit: int = 0) -> PodPlan:
    """Decide which pods a job lacks and which are surplus.

    Not created yet are pods of a task whose dependencies are not met, and pods above the limit of a job array. Deleted
    are pods whose index is not below the task's replicas, and pods that a kill has marked but not deleted.
    """
    plan = PodPlan()
    for task in job.spec.tasks:
        pods = tasks.get(task.name)
        if pods is None:
            continue
        if pods.present < pods.replicas and dependencies_met(task, job, tasks):
            missing = (
                _within_limit(job, task, pods, element_limit) if element_limit else pods.missing(job.metadata.name)
            )
            if indexes := list(missing):
                plan.create.append((task, indexes))
        if pods.stale:
            plan.delete.extend(pods.pods[name] for name in sorted(pods.stale))
    for pods in tasks.values():
        if pods.surplus:
            plan.delete.extend(pods.pods[name] for name in sorted(pods.surplus) if not pods.pods[name].terminating)
    return plan


def _within_limit(job: Job, task: TaskSpec, pods: TaskPods, limit: int) -> Iterator[int]:
    """Yield the missing indexes that may be created: no more than ``limit`` elements have pods that have not ended."""
    size = element_size(task)
    ended = pods.phases["Succeeded"] + pods.phases["Failed"]
    if size == 1 and pods.present - ended >= limit:
        return
    active = {pod.index // size for pod in pods.pods.values() if pod.terminating or pod.phase not in _ENDED}
    for index in pods.missing(job.metadata.name):
        element = index // size
        if element not in active:
            if len(active) >= limit:
                return
            active.add(element)
        yield index


_ENDED = frozenset({"Succeeded", "Failed"})


def dependencies_met(task: TaskSpec, job: Job, tasks: Mapping[str, TaskPods]) -> bool:
    """Return whether a task may start: ``any`` of several names suffices, otherwise all must be ready."""
    depends = task.depends_on
    if depends is None or not depends.name:
        return True
    minima = {t.name: t.min_available for t in job.spec.tasks}
    ready = (_is_ready(tasks.get(name), minima.get(name)) for name in depends.name)
    if len(depends.name) > 1 and depends.iteration == "any":
        return any(ready)
    return all(ready)


def _is_ready(pods: TaskPods | None, min_available: int | None) -> bool:
    if min_available is None:
        return True
    return (pods.ready if pods is not None else 0) >= min_available
