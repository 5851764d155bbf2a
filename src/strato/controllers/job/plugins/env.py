"""env: gives every container the index of its pod within the task, as ``VC_TASK_INDEX`` (and ``VK_TASK_INDEX``)."""

from __future__ import annotations

from typing import Any, ClassVar

from strato.api.volcano.batch import Job, TaskSpec
from strato.controllers.job.plugins.base import JobPlugin, add_variables

VARIABLES = ("VK_TASK_INDEX", "VC_TASK_INDEX")


class EnvPlugin(JobPlugin):
    """Adds the two variables; takes no arguments."""

    name: ClassVar[str] = "env"
    varies: ClassVar[bool] = True

    def on_pod_create(self, job: Job, task: TaskSpec, name: str, index: int, pod: dict[str, Any]) -> None:
        """Append the variables to every container. The value is the text after the last dash of the pod's name."""
        parts = name.split("-")
        value = parts[-1] if len(parts) >= 3 else ""
        added = [{"name": variable, "value": value} for variable in VARIABLES]
        add_variables(pod["spec"], ("containers", "initContainers"), added)
