"""What a job plugin is: pure functions that shape pods and name the objects a job needs beside them.

Source: volcano-controllers Part B.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from strato.api.meta import Object
from strato.api.volcano.batch import Job, TaskSpec


@dataclass(frozen=True, slots=True)
class Wanted:
    """An object that must exist."""

    view: type[Object]
    body: dict[str, Any]
    data_member: str = ""
    """Member to bring up to date when the object exists (``data`` of a ConfigMap); empty leaves it alone."""

    @property
    def name(self) -> str:
        """Its name."""
        name: str = self.body["metadata"]["name"]
        return name


class JobPlugin:
    """Base of all plugins; every hook does nothing unless overridden."""

    name: ClassVar[str]
    varies: ClassVar[bool] = False
    """Whether `personalise` does anything; pods of other plugins' jobs are then cheaper."""
    tracked: ClassVar[bool] = True
    """Whether it owns objects, remembered in ``status.controlledResources``."""

    def __init__(self, arguments: Sequence[str]) -> None:
        self.arguments = tuple(arguments)

    def shape(self, job: Job, task: TaskSpec, pod: dict[str, Any]) -> None:
        """Change what all pods of a task share, in place. ``pod`` has labels, annotations and spec."""

    def personalise(self, job: Job, task: TaskSpec, name: str, index: int, pod: dict[str, Any]) -> None:
        """Change one pod. Members below ``spec`` are shared between pods: replace lists, never edit them."""

    def objects(self, job: Job) -> Sequence[Wanted]:
        """Return what must exist before the job's pods."""
        return ()

    def refreshed(self, job: Job) -> Sequence[Wanted]:
        """Return what must be brought up to date when the job's spec changed."""
        return ()

    def removed(self, job: Job) -> Sequence[tuple[type[Object], str]]:
        """Return what goes when pods are killed: views and names."""
        return ()


def every_container(pod: dict[str, Any]) -> list[dict[str, Any]]:
    """Return containers and init containers of a pod's body."""
    spec = pod["spec"]
    return [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]


def host_names(job: Job, task: TaskSpec) -> list[str]:
    """Return the host names of a task's pods; a fixed one in the template stands for all of them."""
    fixed = task.template.spec.hostname
    if fixed:
        return [fixed]
    return [f"{job.metadata.name}-{task.name}-{index}" for index in range(task.replicas)]


def host_addresses(job: Job, task: TaskSpec) -> list[str]:
    """Return ``hostname.subdomain`` of a task's pods, the part of their names in DNS that tells them apart."""
    subdomain = task.template.spec.subdomain or job.metadata.name
    return [f"{host}.{subdomain}" for host in host_names(job, task)]


def find_task(job: Job, name: str) -> TaskSpec | None:
    """Return the task of that name."""
    return next((task for task in job.spec.tasks if task.name == name), None)
