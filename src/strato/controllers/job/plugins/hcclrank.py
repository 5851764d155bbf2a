"""hcclrank: gives the driver of Ascend devices the rank of each pod, as the annotation ``hccl/rankIndex``.

Source: volcano-controllers Part B, hcclrank.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from strato.api.volcano.batch import Job, TaskSpec
from strato.controllers.job.plugins.arguments import Value
from strato.controllers.job.plugins.base import JobPlugin, find_task

ANNOTATION = "hccl/rankIndex"
_RANK = "RANK"


class HcclRankPlugin(JobPlugin):
    """See the module. Owns no objects, so nothing of it is remembered in the job's status."""

    name: ClassVar[str] = "hcclrank"
    varies: ClassVar[bool] = True
    tracked: ClassVar[bool] = False
    defaults: ClassVar[Mapping[str, Value]] = {"master": "master", "worker": "worker"}

    def on_pod_create(self, job: Job, task: TaskSpec, name: str, index: int, pod: dict[str, Any]) -> None:
        """Annotate the pod unless its template did."""
        annotations = pod["metadata"]["annotations"]
        if annotations.get(ANNOTATION):
            return
        rank = _declared_rank(pod) or self._rank_of(job, task, index)
        if rank:
            annotations[ANNOTATION] = rank

    def _rank_of(self, job: Job, task: TaskSpec, index: int) -> str:
        if task.name == self.text("master"):
            return str(index)
        if task.name == self.text("worker"):
            master = find_task(job, self.text("master"))
            return str(index + (master.replicas if master is not None else 0))
        return ""


def _declared_rank(pod: dict[str, Any]) -> str:
    """Return the value of the first variable ``RANK`` of the regular containers."""
    for container in pod["spec"].get("containers") or ():
        for variable in container.get("env") or ():
            if variable.get("name") == _RANK:
                return variable.get("value") or ""
    return ""
