"""ray: start a Ray cluster in the pods of a job, and give its head a Service.

Source: volcano-controllers Part B, ray.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from strato.api.core import Service
from strato.api.meta import Object
from strato.api.volcano.batch import Job, TaskSpec
from strato.controllers.job import terms
from strato.controllers.job.plugins.arguments import Value
from strato.controllers.job.plugins.base import (
    JobPlugin,
    PluginRefusal,
    RequiredObject,
    add_port,
    find_task,
    first_address,
    owned_metadata,
    pod_labels,
)

_PORTS = {"gcs": "port", "dashboard": "dashboardPort", "client-server": "clientPort"}
"""Names of the head's ports, and the flags that set them."""


class RayPlugin(JobPlugin):
    """See the module."""

    name: ClassVar[str] = "ray"
    defaults: ClassVar[Mapping[str, Value]] = {
        "head": "head",
        "headContainer": "head",
        "worker": "worker",
        "workerContainer": "worker",
        "port": 6379,
        "dashboardPort": 8265,
        "clientPort": 10001,
    }

    def shape(self, job: Job, task: TaskSpec, pod: dict[str, Any]) -> None:
        """Replace the commands of the head's and the workers' containers; open the head's ports."""
        head = find_task(job, self.text("head"))
        if head is None:
            raise PluginRefusal(
                f"plugin ray: job {job.metadata.key} has no task {self.text('head')!r} for the head of its Ray "
                "cluster; add one, or name the right task with --head"
            )
        if task.name == head.name:
            for container in _named(pod, self.text("headContainer")):
                for name, flag in _PORTS.items():
                    add_port(container, name, self.number(flag))
                container["command"] = ["sh", "-c", self._head_command()]
        elif task.name == self.text("worker"):
            for container in _named(pod, self.text("workerContainer")):
                address = f"{first_address(job, head)}:{self.number('port')}"
                container["command"] = ["sh", "-c", f"ray start --block --address={address}"]

    def objects(self, job: Job) -> Sequence[RequiredObject]:
        """Return the head's Service."""
        ports = [
            {"name": name, "protocol": "TCP", "port": self.number(flag), "targetPort": name}
            for name, flag in _PORTS.items()
        ]
        selector = {**pod_labels(job), terms.TASK_SPEC: self.text("head")}
        body = {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": owned_metadata(job, _service_name(job)),
            "spec": {"type": "ClusterIP", "selector": selector, "ports": ports},
        }
        return (RequiredObject(Service, body),)

    def removed(self, job: Job) -> Sequence[tuple[type[Object], str]]:
        """Return the Service."""
        return ((Service, _service_name(job)),)

    def _head_command(self) -> str:
        return (
            f"ray start --head --block --dashboard-host=0.0.0.0 --port={self.number('port')} "
            f"--dashboard-port={self.number('dashboardPort')} --ray-client-server-port={self.number('clientPort')}"
        )


def _named(pod: dict[str, Any], name: str) -> list[dict[str, Any]]:
    return [container for container in pod["spec"].get("containers") or () if container.get("name") == name]


def _service_name(job: Job) -> str:
    return f"{job.metadata.name}-head-svc"
