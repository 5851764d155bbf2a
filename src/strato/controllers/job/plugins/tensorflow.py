"""tensorflow: gives every container of a distributed TensorFlow job its cluster and its role in it, as ``TF_CONFIG``.

Source: volcano-controllers Part B, tensorflow.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, ClassVar

from strato.api.volcano.batch import Job, TaskSpec
from strato.controllers.job.plugins.arguments import Value
from strato.controllers.job.plugins.base import JobPlugin, add_variables, find_task, host_addresses

VARIABLE = "TF_CONFIG"
ROLES = ("ps", "worker", "chief", "evaluator")


class TensorflowPlugin(JobPlugin):
    """See the module. There is a flag for each role; its value is the task that has the role."""

    name: ClassVar[str] = "tensorflow"
    varies: ClassVar[bool] = True
    defaults: ClassVar[Mapping[str, Value]] = {**{role: role for role in ROLES}, "port": 2222}

    def on_pod_create(self, job: Job, task: TaskSpec, name: str, index: int, pod: dict[str, Any]) -> None:
        """Add the variable to the regular containers; a job of a single pod is not distributed and gets none."""
        tasks = job.spec.tasks
        if len(tasks) == 1 and tasks[0].replicas == 1:
            return
        role = next((role for role in ROLES if self.text(role) == task.name), task.name)
        config = {"cluster": self._cluster(job), "task": {"type": role, "index": index}}
        value = json.dumps(config, separators=(",", ":"))
        add_variables(pod["spec"], ("containers",), [{"name": VARIABLE, "value": value}])

    def _cluster(self, job: Job) -> dict[str, list[str]]:
        port, cluster = self.number("port"), {}
        for role in ROLES:
            task = find_task(job, self.text(role))
            hosts = [] if task is None else [f"{host}:{port}" for host in host_addresses(job, task)]
            if hosts:
                cluster[role] = hosts
        return cluster
