"""array: makes a job a job array; every element has an index of its own, and ``--limit`` bounds how many run at once.

An element is one pod, or a partition where the task has a partition policy. The variables are Slurm's, so that its
scripts need no change, and ``STRATO_ARRAY_INDEX``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from strato.api.arrays import Array, parse_array
from strato.api.volcano.batch import Job, TaskSpec
from strato.controllers.job.plugins.arguments import Value
from strato.controllers.job.plugins.base import JobPlugin, PluginRefusal, add_variables

INDEX = "STRATO_ARRAY_INDEX"
INDEX_LABEL = "strato.dev/array-index"


class ArrayPlugin(JobPlugin):
    """Arguments: ``--indexes=0-99:2`` and ``--limit=10``; 0, the default, is no limit."""

    name: ClassVar[str] = "array"
    varies: ClassVar[bool] = True
    tracked: ClassVar[bool] = False
    defaults: ClassVar[Mapping[str, Value]] = {"indexes": "", "limit": 0}

    def __init__(self, arguments: Sequence[str]) -> None:
        super().__init__(arguments)
        self._array: Array | None = None
        try:
            self._array = parse_array(self.text("indexes"))
        except ValueError as error:
            self.complaint = self.complaint or f"--indexes: {error}"
        self.limit = max(0, self.number("limit"))
        """Most elements of a task that may be active at once; 0 is no limit."""

    def on_pod_create(self, job: Job, task: TaskSpec, name: str, index: int, pod: dict[str, Any]) -> None:
        """Append the variables to every container."""
        size = element_size(task)
        array, element = self._array, index // size
        if array is None or self.complaint:
            raise PluginRefusal(f"plugin array: {self.complaint}")
        if element >= len(array.indexes):
            raise PluginRefusal(
                f"plugin array: {array.text!r} has {len(array.indexes)} elements, "
                f"too few for the {task.replicas} pods of task {task.name}"
            )
        mine, numbers = str(array.indexes[element]), array.indexes
        values = {
            INDEX: mine,
            "SLURM_ARRAY_JOB_ID": job.metadata.name,
            "SLURM_ARRAY_TASK_ID": mine,
            "SLURM_ARRAY_TASK_COUNT": str(len(numbers)),
            "SLURM_ARRAY_TASK_MIN": str(numbers[0]),
            "SLURM_ARRAY_TASK_MAX": str(numbers[-1]),
            "SLURM_ARRAY_TASK_STEP": str(array.step),
        }
        values |= dict.fromkeys(("SLURM_NODEID", "SLURM_PROCID"), str(index % size))
        pod["metadata"]["labels"][INDEX_LABEL] = mine
        added = [{"name": variable, "value": value} for variable, value in values.items()]
        add_variables(pod["spec"], ("containers", "initContainers"), added)


def element_size(task: TaskSpec) -> int:
    """Return how many pods one element of a task has."""
    policy = task.partition_policy
    return max(1, policy.partition_size) if policy is not None else 1
